"""Where the real kernels put their results in memory, if the fake ones say otherwise.

In: an operator of aten, its arguments and the result that torch's fake kernel gives. Out: the
result, laid out as the kernel of the CPU does it. A program can branch on strides, and whether
`view` raises depends on them. Many a fake kernel is a decomposition, which orders dimensions in a
way of its own, most of all for tensors that are transposed, expanded, or have sizes 0 and 1.

`iterated` says what torch's TensorIterator does, which most elementwise kernels are made of: it is
the rule for operators that torch tags as pointwise. The tables name those with rules of their own.
`tests/graph/test_layouts.py` compares all of that with the kernels, over torch's own database of
operators. With sizes that are open, fakes are right (`test_open_layouts.py`) unless one of them is
0 or 1 in this call: only then the rules ask, which makes guards of the answers. Results on other
devices stay what the fakes say.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import torch

from stator.graph.fakes import spectra
from stator.graph.fakes.memory import expression
from stator.torchlib.autograd import suggest_memory_format
from stator.torchlib.modes import disable_current_modes, no_python_dispatcher
from stator.torchlib.operators import OpOverload
from stator.torchlib.transforms import pytree

Strides: TypeAlias = tuple[int, ...]
Rule: TypeAlias = Callable[[Sequence[Any], Mapping[str, Any], torch.Tensor], Any]
"""The strides of a result, or None if the fake kernel's are right."""


# ---------------------------------------------------------------------------- facts about layouts


def contiguous(sizes: Sequence[int]) -> Strides:
    """The strides of a new tensor."""
    return _ordered(sizes, range(len(sizes) - 1, -1, -1), least=1)


def _ordered(sizes: Sequence[int], inner_first: Sequence[int], *, least: int) -> Strides:
    """Strides without gaps, for dimensions in that order."""
    strides, step = [0] * len(sizes), 1
    for dim in inner_first:
        strides[dim] = step
        # Of a size that depends on values, strides are told only if it is more than 1.
        step *= max(sizes[dim], least) if _has_value(sizes[dim]) else sizes[dim]
    return tuple(strides)


def _has_value(number: Any) -> bool:
    return not isinstance(number, torch.SymInt) or bool(number.node.has_hint())


def channels_last(sizes: Sequence[int]) -> Strides:
    """The strides of a tensor of images or volumes whose channels lie side by side."""
    return _ordered(sizes, (1, *range(len(sizes) - 1, 1, -1), 0), least=1)


def _is_channels_last(tensor: torch.Tensor) -> bool:
    """As kernels ask for it: not of tensors that are contiguous as well."""
    if tensor.dim() not in (4, 5) or tensor.is_contiguous():
        return False
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.is_contiguous(memory_format=formats[tensor.dim()])


def is_dense(tensor: torch.Tensor) -> bool:
    """torch's `is_non_overlapping_and_dense`."""
    if tensor.is_contiguous() or _is_channels_last(tensor):
        return True
    pairs = zip(tensor.stride(), tensor.shape, strict=True)
    step = 1
    for stride, size in sorted(pair for pair in pairs if pair[1] > 1):
        if stride != step:
            return False
        step *= size
    return True


# ---------------------------------------------------------------------------- elementwise kernels


def iterated(operands: Sequence[torch.Tensor]) -> Strides:
    """Where TensorIterator puts the result of these operands.

    Operands of one shape that all lie in the same way pass that on. Else dimensions are sorted, by
    an insertion sort, so that the first operand that tells two of them apart has its way: one
    whose elements are the same along a dimension does not.
    """
    shape: torch.Size = torch.broadcast_shapes(  # type: ignore[no-untyped-call]
        *(each.shape for each in operands)
    )
    if all(each.shape == shape for each in operands):
        first = operands[0]
        if all(each.is_contiguous() for each in operands):
            return contiguous(shape)
        if all(map(_is_channels_last, operands)):
            return channels_last(shape)
        same = all(each.stride() == first.stride() for each in operands)
        if same and all(map(is_dense, operands)):
            return tuple(first.stride())
    return _sorted(operands, shape)


def _sorted(operands: Sequence["torch.Tensor | _Seen"], shape: Sequence[int]) -> Strides:
    rank = len(shape)
    seen = [_broadcast(each, shape) for each in operands]
    order = list(range(rank - 1, -1, -1))
    for place in range(1, rank):
        moving = place
        for other in range(place - 1, -1, -1):
            verdict = _compared(order[other], order[moving], seen, shape)
            if verdict > 0:
                order[other], order[moving] = order[moving], order[other]
                moving = other
            elif verdict < 0:
                break
    if order == list(range(rank - 1, -1, -1)):
        return contiguous(shape)
    return _ordered(shape, order, least=0)


def _broadcast(tensor: "torch.Tensor | _Seen", shape: Sequence[int]) -> list[int]:
    """Its strides as a tensor of that shape, 0 where it is repeated."""
    missing = len(shape) - tensor.dim()
    pairs = zip(tensor.shape, tensor.stride(), shape[missing:], strict=True)
    return [0] * missing + [0 if size == 1 and wide != 1 else step for size, step, wide in pairs]


def _compared(a: int, b: int, seen: Sequence[Sequence[int]], shape: Sequence[int]) -> int:
    """Whether dimension `a` lies inside of `b` (-1) or outside (1)."""
    for strides in seen:
        if strides[a] == 0 or strides[b] == 0:
            continue
        if strides[a] != strides[b]:
            return -1 if strides[a] < strides[b] else 1
        if shape[a] > shape[b]:
            return 1
    return 0


# ---------------------------------------------------------------------------- rules


def is_new(tensor: torch.Tensor) -> bool:
    """Whether it lies as a new tensor does: `is_contiguous` leaves out sizes of 1."""
    step: Any = 1
    if not tensor._has_symbolic_sizes_strides:
        for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
            if stride != step:
                return False
            step *= size or 1
        return True
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride()), strict=True):
        if expression(stride) != step:
            return False
        if expression(size) != 0:
            step = step * expression(size)
    return True


def _tensors(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    return [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]


def _elementwise(args: Sequence[Any], kwargs: Mapping[str, Any], made: torch.Tensor) -> Any:
    operands = _tensors(args, kwargs)
    wide = [each for each in operands if each.dim()]
    if all(map(is_new, wide)) and 0 not in made.shape:
        return None
    if len({each.dtype for each in wide}) > 1 and not all(map(is_dense, wide)):
        return None  # those of another dtype are copied first
    return iterated(operands)


def _with_number(args: Sequence[Any], kwargs: Mapping[str, Any], made: torch.Tensor) -> Any:
    """An operator of two tensors whose second one is a number: to it, a tensor of one element."""
    if is_new(args[0]) and 0 not in made.shape:
        return None
    return _sorted([args[0]], made.shape)


def _binary(args: Sequence[Any], kwargs: Mapping[str, Any], made: torch.Tensor) -> Any:
    """An operator of two tensors, of which the second may be given as a number."""
    given = args[1] if len(args) > 1 else kwargs.get("other")
    rule = _elementwise if isinstance(given, torch.Tensor) else _with_number
    return rule(args, kwargs, made)


def _fresh(args: Sequence[Any], kwargs: Mapping[str, Any], made: torch.Tensor) -> Strides:
    return contiguous(made.shape)


def _fresh_if_complex(args: Sequence[Any], kwargs: Mapping[str, Any], made: torch.Tensor) -> Any:
    fresh = args[0].dtype.is_complex
    return contiguous(made.shape) if fresh else _elementwise(args, kwargs, made)


def _times_new(args: Sequence[Any], kwargs: Mapping[str, Any], made: torch.Tensor) -> Any:
    """An elementwise operator whose second operand is computed first, into a new tensor."""
    return iterated([args[0], made.new_empty(args[1].shape)])


def _like(place: int) -> Rule:
    """A copy of an argument, without gaps, in the order that it has."""

    def strides(args: Sequence[Any], kwargs: Mapping[str, Any], made: torch.Tensor) -> Any:
        given = args[place]
        if kwargs.get("memory_format") not in (None, torch.preserve_format):
            return None
        same = given.layout is torch.strided and given.shape == made.shape and is_dense(given)
        return tuple(given.stride()) if same else None

    return strides


def _suggested(place: int) -> Rule:
    """Contiguous, or with channels last if an argument is like that, gaps or not."""

    def strides(args: Sequence[Any], kwargs: Mapping[str, Any], made: torch.Tensor) -> Strides:
        plain = suggest_memory_format(args[place]) is torch.contiguous_format
        plain = plain or made.dim() != args[place].dim()
        return contiguous(made.shape) if plain else channels_last(made.shape)

    return strides


class _Seen(NamedTuple):
    """An operand as TensorIterator sees it."""

    shape: tuple[int, ...]
    strides: Strides

    def dim(self) -> int:
        return len(self.shape)

    def stride(self) -> Strides:
        return self.strides


def _indexed(args: Sequence[Any], kwargs: Mapping[str, Any], made: torch.Tensor) -> Any:
    """An elementwise kernel over the tensor, which stands still along the dimension of an index."""
    given, indices = args[:2]
    places = [place for place, index in enumerate(indices) if index is not None]
    if len(places) != 1 or (is_new(given) and 0 not in made.shape):
        return None
    (place,) = places
    index = indices[place]
    if index.dtype in (torch.bool, torch.uint8):
        return None
    behind = given.dim() - place - 1
    shape = *(1,) * place, *index.shape, *(1,) * behind
    if shape == tuple(made.shape):
        return contiguous(shape)
    strides = given.stride()
    still = *strides[:place], *(0,) * index.dim(), *strides[place + 1 :]
    operands = _Seen(tuple(made.shape), still), _Seen(shape, contiguous(shape))
    return _sorted(operands, made.shape)


def _viewed(args: Sequence[Any], kwargs: Mapping[str, Any], made: torch.Tensor) -> Any:
    """torch's own code for views, which is the same for tensors without data."""
    given = args[0]
    if is_new(given) and 0 not in made.shape:
        return None
    known = _hints(given.shape), _hints(given.stride()), _hints(made.shape)
    with no_python_dispatcher(), disable_current_modes():
        strides = torch.empty_strided(*known[:2], device="meta").view(known[2]).stride()
    if 0 not in known[0] and any(isinstance(each, torch.SymInt) for each in made.shape):
        opened = _chunked(given.shape, given.stride(), made.shape)
        if _hints(opened) == [*strides]:
            return opened
    for each in (*given.shape, *given.stride(), *made.shape):
        int(each)  # what is open is fixed
    return strides


def _chunked(sizes: Any, strides: Any, wanted: Any) -> list[Any]:
    """`computeStride_impl` of torch for sizes that are left open; what it compares is guarded."""
    made: list[Any] = [0] * len(wanted)
    at = len(wanted) - 1
    whole = covered = 1
    base = strides[-1] if len(strides) else 1
    for i in range(len(sizes) - 1, -1, -1):
        whole = whole * sizes[i]
        if i and (sizes[i - 1] == 1 or strides[i - 1] == whole * base):
            continue  # the next dimension goes on where this one ends
        while at >= 0 and (covered < whole or wanted[at] == 1):
            made[at] = covered * base
            covered = covered * wanted[at]
            at -= 1
        if i:
            base, whole, covered = strides[i - 1], 1, 1
    return made


def _rolled(args: Sequence[Any], kwargs: Mapping[str, Any], made: torch.Tensor) -> Any:
    """Two parts that are put together, the second of which may be empty: then it is contiguous."""
    given, shifts = args[:2]
    dims = args[2] if len(args) > 2 else kwargs.get("dims", ())
    if len(dims) != 1 or len(shifts) != 1:
        return None
    if 0 in made.shape:
        return tuple(given.stride()) if is_dense(given) else None
    empty = (given.shape[dims[0]] - shifts[0]) % given.shape[dims[0]] == 0
    return contiguous(made.shape) if empty else _of_first(args, kwargs, made)


_of_first, _of_second = _suggested(0), _suggested(1)
_OF_SYMBOLS: Final = frozenset({_fresh, _of_first, _of_second, _rolled, *spectra.RULES})
"""Rules that hold for sizes that are left open: they ask little or nothing."""
_NAMED: Final[Mapping[Rule, Sequence[str]]] = {
    _fresh: (
        "_log_softmax",
        "_log_softmax_backward_data",
        "_softmax",
        "_softmax_backward_data",
        "col2im",
        "huber_loss_backward",
        "log_sigmoid_forward",
        "mse_loss_backward",
        "native_layer_norm",
        "native_layer_norm_backward",
        "normal.Tensor_Tensor",
        "normal.Tensor_float",
        "normal.float_Tensor",
        "pow.Scalar",
        "smooth_l1_loss_backward",
    ),
    _elementwise: ("complex",),
    _fresh_if_complex: ("angle",),
    _times_new: ("ldexp.Tensor",),
    _like(0): (
        "_prelu_kernel",
        "empty_like",
        "fill.Scalar",
        "fill.Tensor",
        "flip",
        "frexp.Tensor",
        "full_like",
        "hardtanh",
        "index_fill.int_Scalar",
        "index_fill.int_Tensor",
        "log_sigmoid_backward",
        "nan_to_num",
        "ones_like",
        "rand_like",
        "sort",
        "sort.stable",
        "randint_like",
        "randint_like.low_dtype",
        "randn_like",
        "zeros_like",
    ),
    _like(1): ("binary_cross_entropy_backward",),
    _of_first: (
        "_batch_norm_with_update",
        "_batch_norm_with_update_functional",
        "_native_batch_norm_legit",
        "_native_batch_norm_legit.no_stats",
        "_native_batch_norm_legit_functional",
        "channel_shuffle",
        "max_unpool2d",
        "native_batch_norm",
        "reflection_pad3d",
        "replication_pad2d",
        "replication_pad3d",
    ),
    _of_second: (
        "batch_norm_backward",
        "native_batch_norm_backward",
        "reflection_pad2d_backward",
        "reflection_pad3d_backward",
        "replication_pad2d_backward",
        "replication_pad3d_backward",
    ),
    _indexed: ("index.Tensor",),
    _rolled: ("roll",),
    _viewed: ("view", "_unsafe_view"),
    **spectra.RULES,
}
# Elementwise by torch's tags, but not by what they do.
_OTHERS: Final = frozenset(
    {"_to_copy", "clone", "copy", "lift_fresh", "lift_fresh_copy", "masked_fill", "mvlgamma"}
)
# What torch remembers of them leaves out where the result begins.
_FORGOTTEN: Final = frozenset(
    {"as_strided_scatter", "diagonal_scatter", "select_scatter", "slice_scatter"}
)


REWRITTEN: Final = frozenset({"one_hot"})
"""Functions that torch writes in another way where there are no values, for backends as well. What
they make of a contiguous tensor lies as eager's result always does."""


def is_identity(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call answers with its argument; torch's code for symbols makes a copy of it."""
    if name != "dropout":
        return False
    given = {**dict(zip(("input", "p", "training"), args, strict=False)), **kwargs}
    share = given.get("p", 0.5)
    off = type(share) in (int, float) and share == 0
    return off or not given.get("training", given.get("train", True))


def _named() -> Iterator[tuple[OpOverload, Rule]]:
    for rule, names in _NAMED.items():
        for name in names:
            packet, _, overload = name.partition(".")
            found = getattr(torch.ops.aten, packet, None)
            operator = getattr(found, overload or "default", None)
            if operator is not None:
                yield operator, rule


_rules: Final[dict[Any, Rule | None]] = dict(_named())
FORGOTTEN: Final[frozenset[Any]] = frozenset(
    getattr(torch.ops.aten, name).default for name in _FORGOTTEN
)
"""Operators that are computed each time."""


def rule_of(operator: Any) -> Rule | None:
    """How the kernel of an operator lays out its results, if its fake one may say otherwise."""
    try:
        return _rules[operator]
    except KeyError:
        found = _rules[operator] = _by_tag(operator)
        return found


def _by_tag(operator: Any) -> Rule | None:
    if not isinstance(operator, OpOverload) or operator.namespace != "aten":
        return None
    schema = operator._schema
    if torch.Tag.pointwise not in operator.tags or schema.is_mutable or operator.is_view:
        return None
    name = schema.name.partition("::")[2]
    if name in _OTHERS:
        return None
    packet = operator.overloadpacket
    if schema.overload_name == "Scalar" and "Tensor" in packet.overloads():
        return _with_number
    given = schema.arguments
    two = len(given) > 1 and all(str(each.type) == "Tensor" for each in given[:2])
    return _binary if two and given[1].name == "other" else _elementwise


def laid_out(
    rule: Rule, mode: Any, args: Sequence[Any], kwargs: Mapping[str, Any], made: Any
) -> Any:
    """The result of an operator, as its kernel lays it out."""
    if isinstance(made, list):
        return [laid_out(rule, mode, args, kwargs, each) for each in made]
    if isinstance(made, tuple):
        parts = (laid_out(rule, mode, args, kwargs, each) for each in made)
        return tuple.__new__(type(made), parts)
    if not isinstance(made, torch.Tensor) or not made.dim() or made.device.type != "cpu":
        return made
    operands = _tensors(args, kwargs)
    if rule is _fresh and made.layout is torch.strided:
        return _placed(rule, mode, args, kwargs, made)
    small = rule not in _OF_SYMBOLS and _is_small((made, *operands))
    fits = _is_known if small or rule in _OF_SYMBOLS else _is_plain
    if not fits(made) or not all(map(fits, operands)):
        return made
    if small and not _is_otherwise(rule, args, kwargs, made):
        return made
    return _placed(rule, mode, args, kwargs, made)


def _is_otherwise(
    rule: Rule, args: Sequence[Any], kwargs: Mapping[str, Any], made: torch.Tensor
) -> bool:
    """Whether a rule says something else with the numbers of this call. To ask it with symbols
    makes guards, and sizes of 1 that are always there are no reason for these."""
    with disable_current_modes(), no_python_dispatcher():
        known = pytree.tree_map(_in_this_call, (args, kwargs, made))
        strides = rule(*known)
        return strides is not None and [*strides] != [*known[2].stride()]


def _in_this_call(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        sizes, strides = map(_hints, (value.shape, value.stride()))
        return torch.empty_strided(sizes, strides, dtype=value.dtype, device="meta")
    return _hints([value])[0]


def _hints(numbers: Any) -> list[Any]:
    return [each.node.hint if isinstance(each, torch.SymInt) else each for each in numbers]


def _placed(
    rule: Rule, mode: Any, args: Sequence[Any], kwargs: Mapping[str, Any], made: torch.Tensor
) -> torch.Tensor:
    strides = rule(args, kwargs, made)
    if strides is None or [*map(expression, strides)] == [*map(expression, made.stride())]:
        return made
    with mode:
        if rule is _viewed:
            return torch.as_strided(args[0], made.shape, strides, made.storage_offset())
        return torch.empty_strided(made.shape, strides, dtype=made.dtype, device=made.device)


def scattered(mode: Any, given: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    """The result of a `…_scatter`, on torch whose fake kernels don't say where it lies.

    It lies as the argument does, from the same offset on, unless elements of that share memory:
    then as a copy of it.
    """
    if not _is_plain(given) or not _is_plain(made) or made.device.type != "cpu":
        return made
    pairs = list(zip(given.stride(), given.shape, strict=True))
    with mode:
        if any(not stride and size > 1 for stride, size in pairs):
            return torch.empty_like(given, dtype=made.dtype)
        extent = sum(stride * (size - 1) for stride, size in pairs) + 1 if given.numel() else 0
        start = int(given.storage_offset())
        whole = torch.empty(start + extent, dtype=made.dtype, device=made.device)
        return whole.as_strided(given.shape, given.stride(), start)


def _is_known(tensor: torch.Tensor) -> bool:
    """Whether its sizes and strides are numbers in this call."""
    if tensor.layout is not torch.strided:
        return False
    return all(map(_has_value, (*tensor.shape, *tensor.stride())))


def _is_small(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether a size is 0 or 1 in this call, where some are open."""
    if not any(each._has_symbolic_sizes_strides for each in tensors):
        return False
    sizes: Any = [size for each in tensors for size in each.shape]
    return any(n in (0, 1) for n in _hints(sizes))


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether it has sizes and strides, all of them numbers."""
    return tensor.layout is torch.strided and not tensor._has_symbolic_sizes_strides
