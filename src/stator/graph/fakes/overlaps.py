"""Operators that write to memory which they also read.

In: the tensors of a call, before it runs on fakes, and which of them it has written to. Out:
whether eager refuses it. Real kernels refuse many a partial overlap; fake ones don't look, and
backends that make the graph functional compute something. So eager is asked, with real tensors of
zeros that lie in memory as the fakes do. Where it does not refuse, what it computes depends on the
order in which a kernel goes through its elements: that is for eager alone. Operators that make
each element of those at its own place (`x.mul_(x)`) may read what they write; one that reads other
places (`x.masked_scatter_(mask, x)`, `x.addmm_(x, x)`) reads what it has written already.

Where a tensor begins and how far it reaches may be open. What is decided with the numbers of this
call is guarded: that two tensors are apart, or else each of the numbers. Of numbers that depend on
values, only what is proven counts: two tensors are apart, or they are the same elements.
"""

import enum
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from stator.graph.fakes.memory import expression, extent, storage_of
from stator.graph.recording.errors import OperatorError
from stator.graph.recording.replay import LARGEST, NotReplayableError, eager_error, hint_of, sample
from stator.torchlib.tensors import DisableTorchFunction

_REFUSED: Final = "single memory location"  # any other error may be about the zeros

# Those that torch does not say it of.
_ELEMENTWISE: Final[frozenset[str]] = frozenset(
    [
        "arctan2",
        "copy",
        "copysign",
        "divide",
        "eq",
        "floor_divide",
        "gcd",
        "ge",
        "greater",
        "greater_equal",
        "gt",
        "heaviside",
        "lcm",
        "le",
        "less",
        "less_equal",
        "lt",
        "masked_fill",
        "multiply",
        "ne",
        "not_equal",
        "subtract",
        "true_divide",
        "iadd",
        "iand",
        "ifloordiv",
        "ilshift",
        "imod",
        "imul",
        "ior",
        "ipow",
        "irshift",
        "isub",
        "itruediv",
        "ixor",
    ]
)

Run = Callable[[tuple[Any, ...], dict[str, Any]], object]


class Answer(enum.Enum):
    """What is known about a call that writes to memory which it also reads, if eager runs it."""

    FINE = enum.auto()
    """No element that is written is read as another one."""
    MIXED = enum.auto()
    """What comes out depends on the kernel, or on numbers that nobody knows."""


class _Place(NamedTuple):
    """How a tensor lies in memory, in numbers or symbols."""

    tensor: torch.Tensor
    storage: int
    size: Sequence[Any]
    stride: Sequence[Any]
    offset: Any

    @property
    def layout(self) -> list[Any]:
        return [expression(number) for number in (*self.size, *self.stride)]

    def is_at(self, other: "_Place") -> bool:
        """Whether both are the same elements, in the same order."""
        at = expression(self.offset) == expression(other.offset)
        return at and self.layout == other.layout and self.tensor.dtype is other.tensor.dtype

    @property
    def repeats(self) -> bool:
        return _repeats(self.stride)

    @property
    def begins(self) -> Any:
        return self.offset * self.tensor.itemsize

    @property
    def ends(self) -> Any:
        """Behind the last element; if there is none, not behind that."""
        steps = zip(self.size, self.stride, strict=True)
        last: Any = sum((size - 1) * step for size, step in steps)
        return (self.offset + last + 1) * self.tensor.itemsize


class Overlap:
    """Operands of one call that share memory, as they lie before it: `out=` may change shapes."""

    def __init__(self, places: Sequence[_Place]) -> None:
        self._places = places

    def answer(
        self,
        run: Run,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        written: Sequence[torch.Tensor],
        in_turn: Sequence[torch.Tensor] = (),
        *,
        elementwise: bool,
    ) -> Answer | OperatorError:
        """What eager does with such a call, which has written to these tensors.

        Some it writes `in_turn`, one after the other: they must be apart. Elements of tensors that
        are the same are read where they are written, or anywhere.
        """
        targets = [each for each in self._places if any(each.tensor is one for one in written)]
        places = [each for each in self._places if any(each.tensor is one for one in in_turn)]
        if not all(_are_apart(a, b) for a, b in itertools.combinations(places, 2)):
            return Answer.MIXED
        return self._answer(run, args, kwargs, targets, self._places, anywhere=not elementwise)

    def answer_of_items(
        self, run: Run, args: tuple[Any, ...], part: torch.Tensor | None
    ) -> Answer | OperatorError:
        """The same of `args[0][key] = value`, which writes to a part, if that is a view."""
        if part is None:
            return self._answer(run, args, {}, [], self._places, always=True)
        target = _place(part, storage_of(part))
        others = [each for each in self._places if each.tensor is args[2]][:1]
        return self._answer(run, args, {}, [target], [target, *self._places], others)

    def _answer(
        self,
        run: Run,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        targets: Sequence[_Place],
        places: Sequence[_Place],
        others: Sequence[_Place] | None = None,
        always: bool = False,
        anywhere: bool = False,
    ) -> Answer | OperatorError:
        pairs = [
            (target, place)
            for target in targets
            for place in (places if others is None else others)
            if place is not target and place.storage == target.storage
        ]
        close = [pair for pair in pairs if not _are_apart(*pair)]
        repeating = any(target.repeats for target in targets)
        if not close and not repeating and not always:
            return Answer.FINE
        same = not (always or repeating or anywhere) and all(
            _are_same_or_apart(a, b) for a, b in close
        )
        unknown = not all(map(_is_known, (*_numbers_of(places), *_numbers_in((args, kwargs)))))
        if unknown and not same:
            return Answer.MIXED
        if not unknown:
            same = same and all(a.is_at(b) for a, b in close)
            if not same:
                _fix((*_numbers_of(places), *_numbers_in((args, kwargs))))
        try:
            # Two that are the same, or apart: eager is asked whether they may be the same.
            moved = {id(b.tensor): a.offset for a, b in close} if unknown else {}
            twins = _twins(places, moved)
            with DisableTorchFunction(), torch.no_grad():
                error = eager_error(run, args, kwargs, twins, sample)
                if error is not None and _REFUSED in str(error):
                    return Answer.MIXED if unknown else OperatorError(error)
                if unknown and error is not None:
                    return Answer.MIXED
                mixed = not same and any(
                    _reads(a, b, _twins(places, {}), anywhere) for a, b in close
                )
        except NotReplayableError:
            mixed = not same
        return Answer.MIXED if mixed else Answer.FINE


@functools.cache
def is_elementwise(name: str) -> bool:
    """Whether the function makes each element of those at the same place in all of its operands."""
    plain = name.partition(".")[0].strip("_").removeprefix("foreach_")
    if plain in _ELEMENTWISE:
        return True
    for each in (plain, f"{plain}_"):
        packet = getattr(torch.ops.aten, each, None)
        overloads = () if packet is None else (getattr(packet, n) for n in packet.overloads())
        if any(torch.Tag.pointwise in overload.tags for overload in overloads):
            return True
    return False


def is_in_place(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether `out=` is the first operand, and no other, of what torch also does in place."""
    out = kwargs.get("out")
    if not isinstance(out, torch.Tensor) or not args or args[0] is not out:
        return False
    others = [each for each in (*args[1:], *kwargs.values()) if each is not out]
    memory = {storage_of(each) for each in _tensors_in(others)}
    return hasattr(torch.ops.aten, f"{name}_") and storage_of(out) not in memory


def _tensors_in(values: Sequence[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors_in(value)


def overlap_of(operands: Sequence[torch.Tensor]) -> Overlap | None:
    """The operands that share memory with others, or elements with each other; None if none do."""
    try:
        storages = [storage_of(each) for each in operands]
        places = [
            _place(tensor, storage)
            for tensor, storage in zip(operands, storages, strict=True)
            if storages.count(storage) > 1 or _repeats(tensor.stride())
        ]
    except (NotReplayableError, NotImplementedError, RuntimeError):
        return None
    return Overlap(places) if places else None


def _place(tensor: torch.Tensor, storage: int) -> _Place:
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise NotReplayableError
    return _Place(tensor, storage, tensor.shape, tensor.stride(), tensor.storage_offset())


def _repeats(strides: Sequence[Any]) -> bool:
    """Whether elements are one, as after `expand`; a stride that is open is not asked."""
    return any(type(step) is int and step == 0 for step in strides)


# ---------------------------------------------------------------------------- two tensors


def _are_apart(one: _Place, other: _Place) -> bool:
    """Whether they lie in different parts of memory, gaps included; guarded if sizes are open."""
    if any(type(n) is int and n == 0 for n in (*one.size, *other.size)):
        return True
    before, behind = one.ends <= other.begins, other.ends <= one.begins
    if statically_known_true(before) or statically_known_true(behind):
        return True
    return any(_is_known(each) and bool(hint_of(each)) and bool(each) for each in (before, behind))


def _are_same_or_apart(one: _Place, other: _Place) -> bool:
    """Whether they have no element in common if they don't have all, in the same order.

    Rows `x[n]` and `x[m]` lie a multiple of their length from each other.
    """
    if one.is_at(other):
        return True
    if one.layout != other.layout or one.tensor.dtype is not other.tensor.dtype:
        return False
    reach = expression(extent(one.size, one.stride))
    steps = sympy.expand(expression(one.offset) - expression(other.offset))
    if not isinstance(reach, int | sympy.Integer):
        return False
    parts = [term.as_coeff_Mul()[0] for term in sympy.Add.make_args(steps)]
    if not all(isinstance(part, sympy.Integer) for part in parts):
        return False
    return int(reach) <= math.gcd(*map(int, parts))


def _reads(one: _Place, other: _Place, twins: dict[int, torch.Tensor], anywhere: bool) -> bool:
    """Whether the other has elements of this one, but not all, or in another order."""
    if one.is_at(other) and not anywhere:
        return False
    twins[id(one.tensor)].fill_(1)
    return bool(twins[id(other.tensor)].any())


# ---------------------------------------------------------------------------- numbers


def _is_known(number: Any) -> bool:
    """Whether it has a value in the call that is traced, which a guard can ask for."""
    if isinstance(number, torch.SymInt | torch.SymBool | torch.SymFloat):
        try:
            hint_of(number)
        except NotReplayableError:
            return False
    return True


def _numbers_of(places: Sequence[_Place]) -> list[Any]:
    return [n for place in places for n in (*place.size, *place.stride, place.offset)]


def _numbers_in(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple):
        for each in value:
            yield from _numbers_in(each)
    elif isinstance(value, dict):
        yield from _numbers_in(list(value.values()))
    elif isinstance(value, slice):
        yield from _numbers_in((value.start, value.stop, value.step))
    elif isinstance(value, torch.SymInt | torch.SymBool | torch.SymFloat):
        yield value


def _fix(numbers: Sequence[Any]) -> None:
    """Guards that they are what they are in this call."""
    for number in numbers:
        if isinstance(number, torch.SymInt):
            int(number)


def _twins(places: Sequence[_Place], moved: dict[int, Any]) -> dict[int, torch.Tensor]:
    """Real tensors of zeros that share memory as these do; some are `moved` to another place."""
    laid = []
    memory: dict[int, int] = {}
    for place in places:
        size, stride = [sample(n) for n in place.size], [sample(n) for n in place.stride]
        offset = sample(moved.get(id(place.tensor), place.offset))
        if min((*size, *stride, offset)) < 0:
            raise NotReplayableError
        end = (offset + extent(size, stride)) * place.tensor.itemsize
        memory[place.storage] = max(memory.get(place.storage, 0), end)
        laid.append((place, size, stride, offset))
    if sum(memory.values()) > LARGEST:
        raise NotReplayableError
    device = places[0].tensor.device
    real = {
        storage: torch.zeros(size, dtype=torch.uint8, device=device).untyped_storage()
        for storage, size in memory.items()
    }
    return {
        id(place.tensor): torch.empty(0, dtype=place.tensor.dtype, device=device).set_(
            real[place.storage], offset, size, stride
        )
        for place, size, stride, offset in laid
    }
