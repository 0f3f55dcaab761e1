"""Fake kernels of our own, for the operators that programs use most.

In: an operator of aten, and arguments whose sizes are numbers. Out: its result, or
`NotImplemented`: then torch's machinery is asked. That takes each operator through a cache, tables
of decompositions and Python kernels, which would be most of what a trace costs; here it is a few
lines per kind of operator.

These kernels know the usual case only: plain tensors on one device, of one dtype, without values
that are known; whatever is unusual, or wrong, is for torch. Results are laid out as the real
kernels do it (`layouts.py`), views are made by torch's own code for them.
`tests/graph/test_layouts.py` compares all of it with the kernels, `test_direct.py` with torch's
fakes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch

from stator.graph.fakes.layouts import is_new, iterated
from stator.torchlib.autograd import suggest_memory_format
from stator.torchlib.fakes import FakeTensor, in_kernel_invocation_manager
from stator.torchlib.operators import OpOverload

Kernel = Callable[[Any, Any, Sequence[Any], Mapping[str, Any]], Any]
_FLOATS: Final = frozenset({torch.float32, torch.float64, torch.bfloat16, torch.float16})
_WIDE: Final = frozenset({torch.float32, torch.float64})
_INTS: Final = frozenset({torch.int64, torch.int32})
_NUMBERS: Final = frozenset({int, float})
_PLACES: Final = frozenset({int, type(None), bool})


def direct(mode: Any, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What an operator makes of fake tensors of this mode; `NotImplemented` if torch knows."""
    kernel = KERNELS.get(operator)
    return NotImplemented if kernel is None else kernel(mode, operator, args, kwargs)


# ---------------------------------------------------------------------------- operands and results


def _is_plain(mode: Any, value: Any) -> bool:
    """Whether it is a tensor of this mode with sizes that are numbers, and values nobody knows."""
    return (
        type(value) is FakeTensor
        and value.fake_mode is mode
        and value.constant is None
        and value.layout is torch.strided
        and not value._has_symbolic_sizes_strides
    )


def _agree(mode: Any, tensors: Sequence[Any], dtypes: frozenset[torch.dtype]) -> bool:
    """Whether all are plain tensors of one of these dtypes, and of one device."""
    first = tensors[0]
    if not _is_plain(mode, first) or first.dtype not in dtypes:
        return False
    for other in tensors[1:]:
        if not _is_plain(mode, other) or other.dtype is not first.dtype:
            return False
        if other.fake_device != first.fake_device:
            return False
    return True


def _on_cpu(tensor: Any) -> bool:
    return bool(tensor.fake_device.type == "cpu")


def _new(
    mode: Any,
    like: Any,
    shape: Sequence[int],
    strides: Sequence[int] | None = None,
    dtype: torch.dtype | None = None,
) -> Any:
    """A new tensor on the device of another; contiguous, if nothing else is said."""
    kind = like.dtype if dtype is None else dtype
    with in_kernel_invocation_manager(mode):
        if strides is None:
            made = torch.empty(shape, dtype=kind, device="meta")
        else:
            made = torch.empty_strided(shape, strides, dtype=kind, device="meta")
        return FakeTensor(mode, made, like.fake_device)


# ---------------------------------------------------------------------------- kinds of operators


def _view(mode: Any, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """By torch's own code for views, which needs no values."""
    if kwargs or not _is_plain(mode, args[0]):
        return NotImplemented
    for given in args[1:]:
        if type(given) is list:
            if any(type(each) is not int for each in given):
                return NotImplemented
        elif type(given) not in _PLACES:
            return NotImplemented
    device = args[0].fake_device
    with in_kernel_invocation_manager(mode):
        made = operator(*args)
        if type(made) is list:
            return [FakeTensor(mode, each, device) for each in made]
        return FakeTensor(mode, made, device)


def _reshaped(mode: Any, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A view that autograd is not told about; torch has no code of C for it."""
    return _view(mode, torch.ops.aten.view.default, args, kwargs)


def _elementwise(
    dtypes: frozenset[torch.dtype],
    result: torch.dtype | None = None,
    options: Sequence[Mapping[str, Any]] = ({},),
) -> Kernel:
    """Operators on tensors of one dtype and on numbers, which are converted to that dtype."""

    def kernel(mode: Any, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if kwargs not in options:
            return NotImplemented
        operands = [each for each in args if type(each) is FakeTensor]
        if not operands or not _agree(mode, operands, dtypes):
            return NotImplemented
        if len(operands) < len(args):
            kinds = {type(each) for each in args} - {FakeTensor}
            if not kinds <= (_NUMBERS if operands[0].dtype in _FLOATS else {int}):
                return NotImplemented
        return _iterated(mode, operands, result)

    return kernel


def _iterated(mode: Any, operands: Sequence[Any], result: torch.dtype | None) -> Any:
    first = operands[0]
    shapes = [each.shape for each in operands]
    shape: Sequence[int] = shapes[0]
    if len(operands) > 1 and shapes.count(shapes[0]) != len(operands):
        broadcast = _broadcast(shapes)
        if broadcast is None:
            return NotImplemented
        shape = broadcast
    if False not in map(is_new, operands) and 0 not in shape:
        return _new(mode, first, shape, dtype=result)
    if not _on_cpu(first):
        return NotImplemented
    return _new(mode, first, shape, iterated(operands), result)


def _broadcast(shapes: Sequence[Sequence[int]]) -> tuple[int, ...] | None:
    rank = max(map(len, shapes))
    found = [1] * rank
    for shape in shapes:
        for place, size in enumerate(shape, rank - len(shape)):
            if size != 1 and found[place] not in (1, size):
                return None
            if size != 1:
                found[place] = size
    return tuple(found)


def _where(mode: Any, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    choice, *sides = args
    if kwargs or not _agree(mode, sides, _FLOATS) or not _agree(mode, [choice], _BOOL):
        return NotImplemented
    if choice.fake_device != sides[0].fake_device or not all(map(is_new, args)):
        return NotImplemented
    shape = _broadcast([each.shape for each in args])
    return NotImplemented if shape is None or 0 in shape else _new(mode, sides[0], shape)


_BOOL: Final = frozenset({torch.bool})


def _mm(mode: Any, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """`mm`, `bmm`, `addmm`: a new matrix, or several."""
    *added, a, b = args
    if kwargs or not _agree(mode, (a, b, *added), _FLOATS):
        return NotImplemented
    rank = 3 if operator is torch.ops.aten.bmm.default else 2
    if a.dim() != rank or b.dim() != rank or a.shape[-1] != b.shape[-2]:
        return NotImplemented
    shape = *a.shape[:-1], b.shape[-1]
    if a.shape[: rank - 2] != b.shape[: rank - 2] or 0 in shape:
        return NotImplemented
    if any(_broadcast([each.shape, shape]) != shape for each in added):
        return NotImplemented
    return _new(mode, a, shape)


def _fresh(mode: Any, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """`_softmax` and the like: new, whatever the argument is like."""
    given, dim, widened = args
    if kwargs or widened or not _agree(mode, [given], _FLOATS) or not _on_cpu(given):
        return NotImplemented
    if type(dim) is not int or not -given.dim() <= dim < given.dim() or 0 in given.shape:
        return NotImplemented
    return _new(mode, given, given.shape)


def _layer_norm(mode: Any, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    given, shape, *scales = args[:4]
    scales = [each for each in scales if each is not None]
    if kwargs or not _agree(mode, (given, *scales), _WIDE) or not _on_cpu(given):
        return NotImplemented
    shape = tuple(shape)
    outer = given.shape[: given.dim() - len(shape)]
    fits = shape and given.shape[len(outer) :] == shape
    if not fits or 0 in given.shape or any(each.shape != shape for each in scales):
        return NotImplemented
    kept = *outer, *(1 for _ in shape)
    return _new(mode, given, given.shape), _new(mode, given, kept), _new(mode, given, kept)


def _batch_norm(mode: Any, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Outside of training: nothing is saved for the derivative."""
    given, *statistics = args[:5]
    if kwargs or args[5] is not False or None in statistics[2:]:
        return NotImplemented
    statistics = [each for each in statistics if each is not None]
    if not _agree(mode, (given, *statistics), _WIDE) or not _on_cpu(given):
        return NotImplemented
    if given.dim() < 2 or 0 in given.shape or not _is_contiguous(given):
        return NotImplemented
    if any(each.shape != given.shape[1:2] for each in statistics):
        return NotImplemented
    return _new(mode, given, given.shape), _new(mode, given, (0,)), _new(mode, given, (0,))


def _is_contiguous(tensor: Any) -> bool:
    """Whether kernels with a way of their own for channels that lie side by side don't take it."""
    return is_new(tensor) and suggest_memory_format(tensor) is torch.contiguous_format


def _convolution(mode: Any, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    given, weight, bias, stride, padding, dilation, transposed, _, groups = args
    operands = [given, weight, *(() if bias is None else (bias,))]
    if kwargs or transposed or not _agree(mode, operands, _WIDE) or not _on_cpu(given):
        return NotImplemented
    rank = given.dim() - 2
    settings = stride, padding, dilation
    if rank not in (1, 2, 3) or weight.dim() != given.dim():
        return NotImplemented
    if any(len(each) != rank or any(type(n) is not int for n in each) for each in settings):
        return NotImplemented
    if not all(map(_is_contiguous, (given, weight))) or type(groups) is not int or groups < 1:
        return NotImplemented
    into, out = weight.shape[1], weight.shape[0]
    if given.shape[1] != into * groups or out % groups or min(*stride, *dilation) < 1:
        return NotImplemented
    if min(padding) < 0 or (bias is not None and bias.shape != (out,)):
        return NotImplemented
    sizes = [
        (size + 2 * pad - step * (kernel - 1) - 1) // stride_ + 1
        for size, kernel, stride_, pad, step in zip(
            given.shape[2:], weight.shape[2:], *settings, strict=True
        )
    ]
    shape = given.shape[0], out, *sizes
    return _new(mode, given, shape) if min(shape) > 0 else NotImplemented


def _embedding(mode: Any, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    weight, index = args[:2]
    if kwargs or not _agree(mode, [weight], _FLOATS) or not _agree(mode, [index], _INTS):
        return NotImplemented
    if weight.dim() != 2 or weight.fake_device != index.fake_device:
        return NotImplemented
    return _new(mode, weight, (*index.shape, weight.shape[1]))


def _cat(mode: Any, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    parts = args[0]
    dim = args[1] if len(args) > 1 else 0
    if kwargs or type(dim) is not int or not parts or not _agree(mode, parts, _ANY):
        return NotImplemented
    first = parts[0]
    rank = first.dim()
    if not -rank <= dim < rank or not all(map(_is_contiguous, parts)):
        return NotImplemented
    dim %= rank
    rests = {(*each.shape[:dim], *each.shape[dim + 1 :]) for each in parts}
    if len(rests) > 1 or any(each.dim() != rank or 0 in each.shape for each in parts):
        return NotImplemented
    along = sum(each.shape[dim] for each in parts)
    return _new(mode, first, (*first.shape[:dim], along, *first.shape[dim + 1 :]))


_ANY: Final = _FLOATS | _INTS | _BOOL


def _reduced(mode: Any, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    given, dims = args[:2]
    keeps = args[2] if len(args) > 2 else False
    if kwargs or not dims or not _agree(mode, [given], _FLOATS) or not is_new(given):
        return NotImplemented
    rank = given.dim()
    if type(dims) is not list or any(not -rank <= each < rank for each in dims):
        return NotImplemented
    gone = {each % rank for each in dims}
    if len(gone) != len(dims) or 0 in given.shape:
        return NotImplemented
    sizes = enumerate(given.shape)
    if keeps:
        return _new(mode, given, [1 if place in gone else size for place, size in sizes])
    return _new(mode, given, [size for place, size in sizes if place not in gone])


def _copied(mode: Any, operator: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """`clone` and conversions to another dtype, of what is contiguous."""
    (given,) = args
    if kwargs and (len(kwargs) > 1 or "dtype" not in kwargs):
        return NotImplemented
    if not _agree(mode, [given], _ANY) or not is_new(given):
        return NotImplemented
    dtype = kwargs.get("dtype", given.dtype)
    if dtype not in _ANY:
        return NotImplemented
    return _new(mode, given, given.shape, dtype=dtype)


# ---------------------------------------------------------------------------- which operators

_UNARY: Final = (
    "abs cos erf exp log neg reciprocal relu rsqrt sigmoid silu sin sqrt tanh pow.Tensor_Scalar"
)
_SHAPES_OF_GELU: Final[Sequence[Mapping[str, Any]]] = (
    {},
    {"approximate": "none"},
    {"approximate": "tanh"},
)
_KINDS: Final[Mapping[Kernel, str]] = {
    _reshaped: "_unsafe_view",
    _view: "view unsqueeze transpose.int t permute expand select.int slice.Tensor "
    "squeeze squeeze.dim split.Tensor unbind.int as_strided",
    _elementwise(_FLOATS): f"{_UNARY} div.Tensor minimum maximum",
    _elementwise(_FLOATS, options=_SHAPES_OF_GELU): "gelu",
    _elementwise(_FLOATS | _INTS): "add.Tensor sub.Tensor mul.Tensor",
    _elementwise(_FLOATS | _INTS, torch.bool): "eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor "
    "ge.Tensor",
    _where: "where.self",
    _mm: "mm bmm addmm",
    _fresh: "_softmax _log_softmax",
    _layer_norm: "native_layer_norm",
    _batch_norm: "native_batch_norm",
    _convolution: "convolution",
    _embedding: "embedding",
    _cat: "cat",
    _reduced: "mean.dim sum.dim_IntList",
    _copied: "clone _to_copy",
}


def _operators() -> Iterator[tuple[OpOverload, Kernel]]:
    for kernel, names in _KINDS.items():
        for name in names.split():
            packet, _, overload = name.partition(".")
            yield getattr(getattr(torch.ops.aten, packet), overload or "default"), kernel


KERNELS: Final[Mapping[Any, Kernel]] = dict(_operators())
