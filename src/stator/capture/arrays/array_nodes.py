"""Arrays whose values are in the graph: numpy's operations as nodes.

In: an operation on arrays or numpy scalars of which at least one is symbolic: it comes from the
world or from a tensor. Out: a stand-in for the result, and a node of torch's numpy layer, or a
`Break`.

numpy itself runs on a model of each symbolic array, an array of ones of the same layout. That tells
type, shape, strides and aliasing of the result, and raises numpy's own errors; where torch's layer
differs from it, the trace ends. Stand-ins are opaque to the rest of the tracer: C code never sees
them.
"""

import contextlib
import operator
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.arrays import array_tables
from stator.contracts import Depth
from stator.diagnostics.catalogue import ArrayFunction, ArrayKind
from stator.graph import Unsupported
from stator.graph.fakes.memory import storage_of
from stator.graph.recording.arrays import numpy_function
from stator.guards import Callback
from stator.objects import TypeSet
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.tensors import DisableTorchFunction
from stator.world import World
from stator.world.kinds import CONSTANTS

SEQUENCES: Final = TypeSet(list, tuple, torch.Size)
OPERATORS: Final = {
    getattr(operator, name): function for name, function in array_tables.OPERATORS.items()
}
_TYPES: Final = TypeSet(bool, int, float, complex, str, bytes)
DTYPES: Final[dict[str, torch.dtype]] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.bool,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.float32,
        torch.float64,
        torch.complex64,
        torch.complex128,
    )
}


class Symbolic:
    """An array or numpy scalar whose values are those of a tensor in the graph."""

    __slots__ = ("fake", "model", "stand_in")

    def __init__(self, stand_in: Any, model: Any, fake: torch.Tensor | None) -> None:
        self.stand_in = stand_in
        self.model = model  # None: an array of the world that nobody has looked at
        self.fake = fake  # None: one that no operation has needed yet


class ArrayNodes:
    """The symbolic arrays and scalars of one trace."""

    def __init__(self, tensors: Any, world: World) -> None:
        self.tensors = tensors
        self.world = world
        self.symbolic: dict[int, Symbolic] = {}  # by id of the stand-in
        self.inputs: set[int] = set()  # ids of graph inputs that are arrays
        self.numpy: Any = sys.modules.get("numpy")  # only a program that loaded it can use it
        self.tables: array_tables.Tables | None = None
        if hasattr(self.numpy, "_core"):
            self.tables = array_tables.tables(self.numpy)

    # ------------------------------------------------------------------ from the world

    def entry(self, value: Any) -> Symbolic | None:
        """The entry of a symbolic value; an array of the world is looked at for the first time."""
        found = self.symbolic.get(id(value))
        if found is not None and found.model is None:
            if not self.is_plain_dtype(value.dtype):
                raise ArrayKind(f"an array of dtype {value.dtype} existed before the call")
            source = self.world.origins[id(value)]
            self.world.guard(source, Callback(_same_layout(value), _layout(value)))
            found.model = self.model(value.shape, value.dtype, value.strides)
        return found

    def fake(self, entry: Symbolic) -> torch.Tensor:
        """The tensor in the graph; an array of the world becomes an input."""
        if entry.fake is None:
            raw = entry.stand_in
            source = self.world.origins[id(raw)]
            self.torch_dtype(raw.dtype)
            if not raw.flags.writeable:
                raise ArrayKind("a read-only array is made into a tensor, of which torch warns")
            with DisableTorchFunction():
                try:
                    tensor = torch.from_numpy(raw)
                    entry.fake = self.tensors.graph.add_input(str(source), tensor)
                except (ValueError, TypeError, Unsupported) as error:
                    raise ArrayKind(f"an array can't be made into a tensor: {error}") from None
            self.tensors.sources[id(tensor)] = source
            self.inputs.add(id(tensor))
            self.world.keep(tensor)
        assert entry.fake is not None
        return entry.fake

    def model(self, shape: Any, dtype: Any, strides: Any) -> Any:
        """An array of ones with this layout."""
        if any(stride < 0 for stride in strides):
            raise ArrayKind("an array has negative strides, which tensors don't have")
        reach = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
        size = (sum(reach) // dtype.itemsize + 1) if 0 not in shape else 1
        memory = self.numpy.ones(size, dtype)
        return self.numpy.ndarray(shape, dtype, memory, 0, strides)

    def is_plain_dtype(self, dtype: Any) -> bool:
        return dtype.isbuiltin == 1 and dtype.isnative and not dtype.hasobject

    def torch_dtype(self, dtype: Any) -> torch.dtype:
        found: torch.dtype | None = DTYPES.get(dtype.name)
        if found is None:
            raise ArrayKind(f"tensors have no dtype like numpy's {dtype.name}")
        return found

    # ------------------------------------------------------------------ what they are

    def holds(self, cls: type) -> bool:
        """Whether operators on objects of this type are for this class to carry out."""
        tables = self.tables
        return tables is not None and (cls is tables.array or tables.scalars.holds(cls))

    def is_symbolic(self, value: Any) -> bool:
        return id(value) in self.symbolic

    def has_symbols(self, value: Any) -> bool:
        """Whether there is a symbolic value in the arguments; refuses what numpy can't be given."""
        tables = self.tables
        assert tables is not None
        cls = type(value)
        if id(value) in self.symbolic:
            return True
        if CONSTANTS.holds(cls) or tables.scalars.holds(cls) or cls is tables.array:
            return False
        if SEQUENCES.holds(cls):
            self.tensors.ready(value, Depth.SHALLOW)
            found = [self.has_symbols(item) for item in value]  # all are looked at
            return any(found)
        if cls is dict:
            self.tensors.ready(value, Depth.SHALLOW)
            found = [self.has_symbols(item) for item in value.values()]
            return any(found)
        if cls is slice:
            return self.has_symbols((value.start, value.stop, value.step))
        if tables.dtypes.holds(cls):
            return False
        if array_tables.is_type(value) and (
            _TYPES.holds(value) or id(value) in tables.constructors
        ):
            return False
        raise ArrayFunction(f"numpy is given an object of type {cls.__qualname__}")

    # ------------------------------------------------------------------ operations

    def record(
        self,
        frame: Frame,
        name: str,
        function: Callable[..., Any],
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> Any:
        """A node of torch's numpy layer, checked against numpy on models."""
        unknown = set(kwargs) - array_tables.KEYWORDS
        if unknown or self.has_symbols(tuple(kwargs.values())):
            raise ArrayFunction(
                f"numpy's {name} is called with {', '.join(sorted(unknown or kwargs))}"
            )
        used: list[Symbolic] = []
        if name == "where" and len(args) == 1:
            raise ArrayFunction("how many items numpy's where finds depends on the values")
        model_of = self._regular if name.startswith("linalg.") else _model_of
        models = self._mapped(args, used, model_of, lambda value: value)
        model = self.modelled(function, models, kwargs)
        several = type(model) in (list, tuple)
        if not several and not self.holds(type(model)):
            raise ArrayFunction(f"numpy's {name} makes more than one array, or none")
        if several:
            return self._several(frame, name, args, kwargs, model, used)
        self._check_complex(name, model, used)
        self._check_total(name, args, model)
        self._check_kernels(name, function, args, used)
        # A ufunc makes floats of integers before it computes.
        floats = type(function) is self.numpy.ufunc or function in OPERATORS
        wanted = model.dtype if floats and model.dtype.kind == "f" else None
        given = self._mapped(args, used, lambda e: self._cast(frame, e, wanted), self._argument)
        options = {key: self._argument(value) for key, value in kwargs.items()}
        made = self.node(frame, numpy_function(name), given, options)
        return self.adopt(name, self._own(frame, made, model, used), model, used)

    def _own(self, frame: Frame, made: Any, model: Any, used: list[Symbolic]) -> Any:
        """A copy, where torch's layer answers with a view, or by columns, and numpy does not."""
        if type(made) is not FakeTensor:
            return made
        if made.shape != model.shape and _without_ones(made) == _without_ones(model):
            made = self.node(frame, ("method", "reshape"), (made, tuple(model.shape)), {})
        with DisableTorchFunction():
            shared = [
                entry
                for entry in used
                if entry.fake is not None and storage_of(entry.fake) == storage_of(made)
            ]
        if any(self.numpy.may_share_memory(model, entry.model) for entry in used):
            return made
        if made.is_conj():
            made = self.node(frame, ("method", "resolve_conj"), (made,), {})
        if made.is_neg():
            made = self.node(frame, ("method", "resolve_neg"), (made,), {})
        if shared:
            return self.node(frame, ("method", "clone"), (made,), {})
        if type(model) is self.numpy.ndarray and model.flags.c_contiguous:
            with DisableTorchFunction():
                same = made.shape == model.shape and same_strides(made, model)
            if not same:
                return self.node(frame, ("method", "contiguous"), (made,), {})
        return made

    def _check_complex(self, name: str, model: Any, used: list[Symbolic]) -> None:
        """Not all that numpy does to complex numbers, torch does in the same way."""
        kinds = {entry.model.dtype.kind for entry in used} | {model.dtype.kind}
        if "c" in kinds and name not in array_tables.COMPLEX:
            raise ArrayFunction(f"numpy's {name} is called on complex numbers")

    def _regular(self, entry: Symbolic) -> Any:
        """A model of the same layout that has an inverse and a Cholesky factor."""
        model = entry.model.copy(order="K")
        if model.ndim > 1 and model.dtype.kind in "fciu":
            model += self.numpy.eye(*model.shape[-2:], dtype=model.dtype)
        return model

    def _several(
        self, frame: Frame, name: str, args: Any, kwargs: Any, models: Any, used: list[Symbolic]
    ) -> Any:
        """A function that makes several arrays."""
        if not all(self.holds(type(model)) for model in models):
            raise ArrayFunction(f"numpy's {name} makes more than arrays")
        for model in models:
            self._check_complex(name, model, used)
        given = self._mapped(args, used, self.fake, self._argument)
        options = {key: self._argument(value) for key, value in kwargs.items()}
        made = self.node(frame, numpy_function(name), given, options)
        if type(made) not in (list, tuple) or len(made) != len(models):
            raise ArrayFunction(f"numpy's {name} makes something else than torch's does")
        pairs = zip(made, models, strict=True)
        return type(models)(self.adopt(name, each, model, used) for each, model in pairs)

    def _cast(self, frame: Frame, entry: Symbolic, wanted: Any) -> torch.Tensor:
        fake = self.fake(entry)
        if wanted is None or entry.model.dtype.kind in "fc":
            return fake
        made: torch.Tensor = self.node(
            frame, ("method", "to"), (fake, self.torch_dtype(wanted)), {}
        )
        return made

    def node(self, frame: Frame | None, target: Any, args: Any, kwargs: Any) -> Any:
        """A node for an operation that numpy carries out: an error would be torch's alone."""
        with self.refusing():
            return self.tensors.record(frame, target, args, kwargs)

    @contextlib.contextmanager
    def refusing(self) -> Iterator[None]:
        """What torch refuses inside, numpy does."""
        try:
            yield
        except Exception as error:
            raise ArrayFunction(f"torch's numpy layer can't do what numpy does: {error}") from None

    def _check_total(self, name: str, args: list[Any], model: Any) -> None:
        """What an integer operation does for some operands differs, or is an error."""
        if name in array_tables.PARTIAL and model.dtype.kind in "iub":
            second = args[1] if len(args) > 1 else 0
            shifts = name in ("left_shift", "right_shift", "power")
            if type(second) is not int or second <= 0 or (shifts and second >= 8):
                raise ArrayFunction(f"{name} of integers that may differ between numpy and torch")

    def _check_kernels(self, name: str, function: Any, args: list[Any], used: Any) -> None:
        """Halves are rounded after each step, or only at the end. Not all kernels know bools."""
        dtypes = {entry.model.dtype.name for entry in used}
        ufunc = type(function) is self.numpy.ufunc or function in OPERATORS
        elementwise = ufunc and name != "matmul"
        if "float16" in dtypes and not (elementwise or name in array_tables.MOVES):
            raise ArrayFunction(f"numpy's {name} rounds halves in its own way")
        if "bool" in dtypes and not (name in array_tables.MOVES or name in array_tables.LOGIC):
            raise ArrayFunction(f"not all of torch's kernels do numpy's {name} on bools")
        if name == "clip" and any(entry.model.dtype.kind in "iu" for entry in used):
            info = self.numpy.iinfo(used[0].model.dtype)
            bounds = [bound for bound in args[1:] if bound is not None]
            if not all(type(b) is int and info.min <= b <= info.max for b in bounds):
                raise ArrayFunction("numpy's clip with bounds that the array's dtype may not hold")

    def _mapped(
        self,
        value: Any,
        used: list[Symbolic],
        symbolic: Callable[[Symbolic], Any],
        other: Callable[[Any], Any],
    ) -> Any:
        """The arguments with each symbolic value, and each other one, replaced."""
        entry = self.entry(value)
        if entry is not None:
            if not any(entry is known for known in used):
                used.append(entry)
            return symbolic(entry)
        if SEQUENCES.holds(type(value)):
            items = [self._mapped(item, used, symbolic, other) for item in value]
            return items if type(value) is list else tuple(items)
        return other(value)

    def _argument(self, value: Any) -> Any:
        """A known value as an argument of torch's numpy layer."""
        tables = self.tables
        assert tables is not None
        cls = type(value)
        if cls is tables.array or tables.scalars.holds(cls):
            self.torch_dtype(value.dtype)
            return self.constant(value)
        if tables.dtypes.holds(cls) or array_tables.is_type(value):
            return self.torch_dtype(self.numpy.dtype(value)) and self.numpy.dtype(value).name
        return value

    def constant(self, value: Any) -> torch.Tensor:
        known = self.numpy.asarray(value)
        if any(stride < 0 for stride in known.strides):
            raise ArrayKind("an array has negative strides, which tensors don't have")
        with DisableTorchFunction():
            fake: torch.Tensor = self.tensors.graph.constant(torch.tensor(known))
            if not same_strides(fake, known):
                raise ArrayKind("an array with gaps in memory is made into a tensor")
        return fake

    def modelled(self, function: Callable[..., Any], args: Any, kwargs: Any = None) -> Any:
        """What numpy makes of models; its warnings are about values, and these are not real."""
        try:
            with warnings.catch_warnings(), self.numpy.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                return function(*args, **(kwargs or {}))
        except Exception as error:
            raise_user(error)

    def adopt(self, name: str, made: Any, model: Any, used: list[Symbolic]) -> Any:
        """The stand-in for a result: a model of it, whose values are those of a fake tensor."""
        tables = self.tables
        assert tables is not None
        if type(made) is not FakeTensor:
            raise ArrayFunction(f"numpy's {name} makes something else than one array")
        for entry in used:
            if model is entry.model:
                return entry.stand_in
        if type(model) is self.numpy.bool_:
            raise ArrayFunction(f"the truth of numpy's {name} depends on the values of an array")
        with DisableTorchFunction():
            same = made.dtype is self.torch_dtype(model.dtype) and made.shape == model.shape
            same = same and not (made.is_conj() or made.is_neg())
            if same and type(model) is tables.array and model.size:
                same = same_strides(made, model)
                same = same and all(
                    self.numpy.may_share_memory(model, entry.model)
                    == (entry.fake is not None and storage_of(entry.fake) == storage_of(made))
                    for entry in used
                )
        if not same:
            raise ArrayFunction(f"numpy's {name} gives an array of another kind than torch's here")
        return self.add(model, made)

    def add(self, model: Any, fake: torch.Tensor) -> Any:
        self.symbolic[id(model)] = Symbolic(model, model, fake)
        self.world.opaque[id(model)] = f"numpy.{type(model).__name__}"
        self.world.keep(model)
        return model


def _without_ones(shaped: Any) -> list[int]:
    return [size for size in shaped.shape if size != 1]


def _model_of(entry: Symbolic) -> Any:
    return entry.model


def raise_user(error: BaseException) -> Any:
    """numpy's own exception, as if the program's operation had raised it."""
    error.__context__ = error.__cause__ = error.__traceback__ = None
    error.__suppress_context__ = False
    core.raise_user(error)


def same_strides(fake: torch.Tensor, array: Any) -> bool:
    """Strides of dimensions in which there is a step to take."""
    steps = zip(array.shape, fake.stride(), array.strides, strict=True)
    return all(n < 2 or ours * array.itemsize == theirs for n, ours, theirs in steps)


def _layout(array: Any) -> str:
    return f"an array of {array.dtype} with shape {array.shape} and strides {array.strides}"


def _same_layout(array: Any) -> Callable[[Any], bool]:
    dtype, shape, strides = array.dtype, array.shape, array.strides
    writeable = array.flags.writeable
    return lambda value: (
        value.shape == shape
        and value.dtype == dtype
        and value.strides == strides
        and value.flags.writeable is writeable
    )
