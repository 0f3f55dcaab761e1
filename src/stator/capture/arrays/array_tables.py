"""What is known of numpy: which functions are pure, and which have a twin in torch's numpy layer.

In: the numpy module, once a program has loaded it; stator never imports it. Out: `Tables`, by the
identity of numpy's own objects, so that a replaced `numpy.sin` is not taken for numpy's.
"""

import functools
import types
from typing import Any, Final

from stator import objects
from stator._native import _core as core
from stator.objects import TypeSet


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# Functions whose results depend on their arguments alone. Besides these, all ufuncs of numpy are.
PURE: Final = _words(
    "all allclose amax amin angle any append arange argmax argmin argpartition argsort argwhere "
    "around array array_equal array_equiv array_split asarray ascontiguousarray asfortranarray "
    "atleast_1d atleast_2d atleast_3d average bartlett bincount blackman block broadcast_arrays "
    "broadcast_shapes broadcast_to can_cast clip column_stack compress concatenate convolve copy "
    "copyto "
    "corrcoef correlate count_nonzero cov cross cumprod cumsum delete diag diag_indices diagflat "
    "diagonal diff digitize dot dsplit dstack ediff1d einsum empty empty_like expand_dims "
    "extract eye fix flatnonzero flip fliplr flipud full full_like geomspace gradient hamming "
    "hanning histogram hsplit hstack i0 identity imag indices inner insert interp intersect1d "
    "isclose iscomplex iscomplexobj isdtype isin isneginf isposinf isreal isrealobj isscalar "
    "issubdtype iterable kaiser kron linspace logspace max mean median meshgrid min "
    "min_scalar_type moveaxis nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax nanmean "
    "nanmedian nanmin nanpercentile nanprod nanquantile nanstd nansum nanvar ndim nonzero ones "
    "ones_like outer pad partition percentile polyfit polyval prod promote_types ptp quantile "
    "ravel ravel_multi_index real real_if_close repeat reshape resize result_type roll rollaxis "
    "roots rot90 round searchsorted select setdiff1d setxor1d shape sinc size sort split squeeze "
    "stack std sum swapaxes take take_along_axis tensordot tile trace transpose trapezoid tri "
    "tril tril_indices trim_zeros triu triu_indices union1d unique unravel_index unwrap vander "
    "var vdot vsplit vstack where zeros zeros_like linalg.cholesky linalg.cond linalg.det "
    "linalg.eigh linalg.eigvalsh linalg.inv linalg.lstsq linalg.matmul linalg.matrix_power "
    "linalg.matrix_rank linalg.multi_dot linalg.norm linalg.pinv linalg.qr linalg.slogdet "
    "linalg.solve linalg.svd linalg.tensorinv linalg.tensorsolve fft.fft fft.fft2 fft.fftfreq "
    "fft.fftn fft.fftshift fft.hfft fft.ifft fft.ifft2 fft.ifftn fft.ifftshift fft.ihfft fft.irfft "
    "fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftfreq fft.rfftn"
)

# Methods of arrays and scalars: pure, and (arrays only, which are the trace's own) in place.
PURE_METHODS: Final = frozenset(
    _words(
        "all any argmax argmin argpartition argsort as_integer_ratio astype bit_count choose "
        "clip compress conj conjugate copy cumprod cumsum diagonal dot flatten hex is_integer "
        "item max mean min nonzero prod ravel repeat reshape round searchsorted squeeze std sum "
        "swapaxes take tobytes tolist trace transpose var"
    )
)
IN_PLACE_METHODS: Final = frozenset({"fill", "partition", "put", "sort"})

METADATA: Final = frozenset(_words("dtype itemsize nbytes ndim shape size strides"))
PARTS: Final = frozenset({"T", "mT", "real", "imag"})  # views of an array, as attributes

# Functions that torch's numpy layer has, whose results have a shape and a dtype that follow from
# those of the arguments. Elementwise ones first; the rest takes numbers as further arguments. Left
# out are those that compute something else for zeros, infinities or NaN
# (`heaviside`, `cbrt`), and factors whose signs are a matter of taste (`svd`).
SYMBOLIC: Final = _words(
    "absolute add arccos arcsin arctan arctan2 bitwise_and bitwise_or bitwise_xor ceil conjugate "
    "cos cosh deg2rad divide equal exp exp2 expm1 floor floor_divide fmax fmin fmod greater "
    "greater_equal hypot invert isfinite isinf isnan left_shift less less_equal log log10 log1p "
    "log2 logaddexp logical_and logical_not logical_or logical_xor matmul maximum minimum "
    "multiply negative not_equal positive power rad2deg right_shift rint signbit sin sinh sqrt "
    "square subtract tan tanh trunc all amax amin any argmax argmin broadcast_to clip "
    "concatenate cumprod cumsum diagonal dot expand_dims flip hstack inner max mean min moveaxis "
    "outer prod ravel repeat reshape roll sort squeeze stack std sum swapaxes take tile trace "
    "transpose tril triu var vstack where "
    "arccosh arcsinh arctanh copysign degrees radians fabs float_power isneginf isposinf "
    "isreal logaddexp2 nextafter reciprocal append array_split atleast_1d atleast_2d atleast_3d "
    "average column_stack convolve correlate corrcoef cov cross diag diagflat diff dsplit dstack "
    "einsum full_like gradient hsplit isclose kron median meshgrid nan_to_num ones_like pad "
    "percentile ptp quantile rollaxis round searchsorted sinc split "
    "take_along_axis tensordot unwrap vander vdot vsplit zeros_like around "
    "linalg.cholesky linalg.det linalg.inv linalg.matmul linalg.matrix_power linalg.multi_dot "
    "linalg.norm linalg.slogdet linalg.solve linalg.eigvalsh "
    "linalg.cond linalg.tensorinv linalg.tensorsolve "
    "angle imag real remainder sign "
    "fft.fft fft.fft2 fft.fftn fft.fftshift fft.hfft fft.ifft fft.ifft2 fft.ifftn fft.ifftshift "
    "fft.ihfft fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn"
)
# Of these, also the results on complex numbers are numpy's.
COMPLEX: Final = frozenset(
    _words(
        "absolute add angle append atleast_1d atleast_2d atleast_3d broadcast_to column_stack "
        "concatenate conjugate diag diagonal dstack equal expand_dims flip "
        "full_like hstack imag isfinite isinf isnan mean moveaxis multiply negative not_equal "
        "ones_like positive ravel real repeat reshape roll rollaxis square squeeze stack "
        "subtract sum swapaxes take tile transpose vstack where zeros_like "
        "fft.fft fft.fft2 fft.fftn fft.fftshift fft.hfft fft.ifft fft.ifft2 fft.ifftn "
        "fft.ifftshift fft.ihfft fft.irfft fft.irfft2 fft.irfftn fft.rfft fft.rfft2 fft.rfftn"
    )
)
# These make an array of an array, or of a tensor.
CONVERTED: Final = frozenset({"array", "asarray", "ascontiguousarray", "asfortranarray", "copy"})
# These compute nothing: all values are those of the arguments.
MOVES: Final = frozenset(
    _words(
        "amax amin append argmax argmin array_split atleast_1d atleast_2d atleast_3d broadcast_to "
        "clip column_stack concatenate diag diagflat diagonal dsplit dstack expand_dims flip "
        "full_like hsplit hstack max meshgrid min moveaxis ones_like pad ravel repeat reshape "
        "roll rollaxis sort split squeeze stack swapaxes take take_along_axis tile transpose tril "
        "triu vsplit vstack where zeros_like"
    )
)
# These are known to work on bools.
LOGIC: Final = frozenset(
    _words(
        "add all any bitwise_and bitwise_or bitwise_xor equal greater greater_equal invert isnan "
        "less less_equal logical_and logical_not logical_or logical_xor mean multiply not_equal "
        "sum prod cumsum std var"
    )
)
# What these tell follows from shapes and dtypes.
ABOUT: Final = _words(
    "shape size ndim iscomplexobj isrealobj isscalar result_type can_cast common_type "
    "min_scalar_type issubdtype"
)
# Ufuncs whose `reduce` and `accumulate` are functions, along the first axis if none is named.
REDUCED: Final = {
    ("add", "reduce"): "sum",
    ("multiply", "reduce"): "prod",
    ("maximum", "reduce"): "max",
    ("minimum", "reduce"): "min",
    ("logical_and", "reduce"): "all",
    ("logical_or", "reduce"): "any",
    ("add", "accumulate"): "cumsum",
    ("multiply", "accumulate"): "cumprod",
}
# Methods that are functions with the array in front.
SYMBOLIC_METHODS: Final = {
    name: name
    for name in _words(
        "all any argmax argmin clip cumprod cumsum diagonal dot max mean min prod ravel repeat "
        "reshape round squeeze std sum swapaxes take trace transpose var"
    )
} | {"conj": "conjugate", "conjugate": "conjugate"}

# These differ from torch's, or raise, for some integers: the second operand must be known.
PARTIAL: Final = frozenset(
    {"floor_divide", "fmod", "power", "left_shift", "remainder", "right_shift"}
)
# Keywords that mean the same in both.
KEYWORDS: Final = frozenset(
    _words("axis axes dtype keepdims ddof decimals k n norm ord rtol atol equal_nan s")
)

OPERATORS: Final = {
    "__add__": "add",
    "__and__": "bitwise_and",
    "__floordiv__": "floor_divide",
    "__lshift__": "left_shift",
    "__matmul__": "matmul",
    "__mod__": "remainder",
    "__mul__": "multiply",
    "__or__": "bitwise_or",
    "__pow__": "power",
    "__rshift__": "right_shift",
    "__sub__": "subtract",
    "__truediv__": "divide",
    "__xor__": "bitwise_xor",
    "__lt__": "less",
    "__le__": "less_equal",
    "__eq__": "equal",
    "__ne__": "not_equal",
    "__gt__": "greater",
    "__ge__": "greater_equal",
    "__neg__": "negative",
    "__pos__": "positive",
    "__invert__": "invert",
    "__abs__": "absolute",
}

_NUMBER_CODES: Final = "bhilqBHILQefd"  # of numpy's integers and floats that Python's can stand for
_CODES: Final = _NUMBER_CODES + "?FD"
_SCALAR_CODES: Final = _CODES + "gGSUMm"


class Tables:
    """numpy's own objects, by identity."""

    def __init__(self, numpy: Any) -> None:
        self.array: Any = numpy.ndarray
        self.scalar_types = tuple(numpy.dtype(code).type for code in _SCALAR_CODES)
        self.dtype_types = tuple(type(numpy.dtype(code)) for code in _SCALAR_CODES)
        self.function_types = (numpy.ufunc, type(numpy.sum))
        self.numbers = TypeSet(*(numpy.dtype(code).type for code in _NUMBER_CODES))
        self.scalars = TypeSet(*self.scalar_types)
        self.dtypes = TypeSet(*self.dtype_types)
        self.functions = TypeSet(*self.function_types)
        self.types = TypeSet(numpy.ndarray, *self.scalar_types, *self.dtype_types)
        ufuncs = {name: f for name, f in vars(numpy).items() if type(f) is numpy.ufunc}
        found = {name: _find(numpy, name) for name in PURE} | ufuncs
        self.pure = {id(f): name for name, f in found.items() if f is not None}
        self._alive = list(found.values())
        symbolic = {name: _find(numpy, name) for name in SYMBOLIC}
        self.symbolic = {id(f): name for name, f in symbolic.items() if f is not None}
        self.symbolic[id(numpy.fix)] = "trunc"
        about = {name: _find(numpy, name) for name in ABOUT}
        self.about = {id(f) for f in about.values() if f is not None}
        self.constructors = {id(cls) for cls in (numpy.dtype, *self.scalar_types)}
        # numpy's C code asks these Python functions what a dtype is called.
        for function in vars(numpy._core._dtype).values():
            if type(function) is types.FunctionType:
                core.mark_code(function.__code__, core.CODE_NATIVE)


def _find(numpy: Any, path: str) -> Any:
    """numpy's own function of this name; None if this numpy has none, or a program replaced it."""
    found = numpy
    for name in path.split("."):
        found = vars(found).get(name)
        if found is None:
            return None
    cls = type(found)
    if cls is types.FunctionType:
        return found if str(found.__module__).startswith("numpy") else None
    own = (types.BuiltinFunctionType, numpy.ufunc, type(numpy.sum))
    return found if any(cls is kind for kind in own) else None


@functools.cache
def tables(numpy: Any) -> Tables:
    return Tables(numpy)


def is_type(value: Any) -> bool:
    return objects.is_subtype(type(value), type)
