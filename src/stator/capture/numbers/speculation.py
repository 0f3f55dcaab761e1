"""Speculation: what a value is in the call that is being traced is taken for granted.

In: a tensor or a symbolic number whose value Python code needs: a branch, a range, the number of
rows to iterate over. Out: its value in this call (`graph.observing`), under the condition that the
graph checks it whenever it runs. If the check fails, nothing has happened yet, and the call goes on
in code that takes nothing for granted (`driver.attempts`), where this is a graph break.

A branch that is met again and again is a loop over values, which is not unrolled for ever. Where a
`for` loop takes the next item, counting begins anew: the branch does not tell how often that is.
"""

from collections import Counter
from collections.abc import Collection
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.fx as fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from stator._native._core import Frame
from stator.capture.numbers.shapes import has_value
from stator.capture.trace.causes import is_drawn
from stator.graph.recording.observing import Observer
from stator.graph.recording.recorded import Taken
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.tensors import DisableTorchFunction

if TYPE_CHECKING:
    from stator.capture.numbers.scalars import Scalars
    from stator.graph.recording.state import State

_MOST_OFTEN: Final = 64  # at one instruction, for one item of each loop that it is in
_MOST_DRAWN: Final = 16


class Speculation:
    """What one trace takes for granted."""

    def __init__(self, scalars: "Scalars") -> None:
        self._scalars = scalars
        self._graph = scalars.tensors.graph
        self._observer: Observer | None = None
        self._graph.kernels.observed = self.observed
        self._places: Counter[object] = Counter()
        self.start: State | None = None  # torch's state when the trace began; None: not allowed
        self.varied: Collection[object] = ()  # places where something turned out to be otherwise
        self.used = False
        self._drawn = 0  # how many of the values were drawn at random

    def truth(self, frame: Frame | None, tensor: torch.Tensor) -> bool | None:
        """Whether a tensor of one element is true; None if that can't be said."""
        real = self._seen(frame, tensor)
        if real is None:
            return None
        with DisableTorchFunction():
            answer = bool(real)
        # A tensor of its own: this one may change before the graph has ended.
        kept = self._scalars.tensors.record(frame, torch.ne, (tensor, 0))
        self._check(kept, answer)
        return answer

    def values(self, frame: Frame | None, tensor: torch.Tensor) -> torch.Tensor | None:
        """All that is in a tensor."""
        real = self._seen(frame, tensor)
        if real is None:
            return None
        with DisableTorchFunction():
            known = real.detach().clone()
            constant = self._graph.constant(known)
        record = self._scalars.tensors.record
        other = record(frame, torch.any, (record(frame, torch.ne, (tensor, constant)),))
        self._check(other, False)
        return known

    def holds(self, frame: Frame | None, condition: Any) -> bool | None:
        """Whether a symbolic condition is true."""
        value = self._number(frame, condition)
        if value is None:
            return None
        self._take(condition if value else negated(condition))
        return bool(value)

    def number(self, frame: Frame | None, symbol: Any) -> int | None:
        """The value of a symbolic int."""
        if has_value(symbol):
            return int(self._scalars.tensors.shapes.number(frame, symbol))
        known = symbol.node.maybe_as_int()
        if known is not None:
            return int(known)
        value = self._number(frame, symbol)
        if type(value) is not int:
            return None
        with DisableTorchFunction():
            self._take(symbol == value)
        return int(value)

    def size(self, frame: Frame | None, symbol: Any) -> int | None:
        """The value of a symbolic int, and of all that it is computed from.

        torch does not conclude from `n // 2 + 1 == 4` what else is computed from `n`.
        """
        for root in _roots(symbol):
            if self.number(frame, root) is None:
                return None
        return self.number(frame, symbol)

    def settled(self, frame: Frame | None, values: Any) -> Any:
        """Arguments of a call with the numbers and sizes in them that depend on values known.

        None if there are none, or if they can't be known.
        """
        settling = _Settling(self, frame)
        made = settling.values(values)
        return made if settling.found and not settling.failed else None

    def item(self, frame: Frame | None, tensor: torch.Tensor) -> Any:
        """The number in a tensor, as a symbol."""
        return self._scalars.item(frame, tensor)

    def at(self, frame: Frame | None) -> None:
        """What is taken for granted from now on is due to this instruction."""
        place = place_of(frame)
        if place is not None:
            self._graph.assumptions.place = place

    def has_varied(self) -> bool:
        """Whether nothing is taken for granted where the program is."""
        return self._graph.assumptions.place in self.varied

    def _seen(self, frame: Frame | None, tensor: torch.Tensor) -> torch.Tensor | None:
        observer = self._observing(frame)
        if observer is None or self._is_drawn(self._graph.node(tensor)):
            return None
        with DisableTorchFunction():
            return observer.value(tensor)

    def _number(self, frame: Frame | None, symbol: Any) -> Any:
        observer = self._observing(frame)
        with DisableTorchFunction():
            number = None if observer is None else observer.number(symbol)
            if number is not None and self._is_drawn(self._graph.symbols.argument(symbol)):
                return None
        return number

    def _is_drawn(self, node: Any) -> bool:
        """Whether a value is drawn at random, and so were many before it.

        Each call draws other ones: that all are what they were in the trace is not to be expected.
        """
        known = self._scalars.tensors.own.draws.known
        if not known.missed or not isinstance(node, fx.Node) or not is_drawn(node):
            return False
        self._drawn += 1
        return self._drawn > _MOST_DRAWN

    def _check(self, tensor: torch.Tensor, answer: bool) -> None:
        self.used = True
        self._graph.checks.append(Taken(tensor, answer, self._graph.assumptions.place))

    def _take(self, condition: Any) -> None:
        self.used = True
        self._scalars.require(condition, "values contradict each other", insisted=False)

    def _observing(self, frame: Frame | None) -> Observer | None:
        """What looks at values; None where that is not allowed, or not any more."""
        self.at(frame)
        if self.start is None or self.has_varied():
            return None
        place = place_of(frame)
        if frame is not None and place is not None:
            key = place, self._scalars.tensors.budget.items(frame)
            self._places[key] += 1
            if self._places[key] > _MOST_OFTEN:
                return None
        return self._looking()

    def _looking(self) -> Observer | None:
        if self._observer is None and self.start is not None:
            self._observer = Observer(self._graph, self.start)
        return self._observer

    def observed(self, condition: Any) -> bool | None:
        """Whether a condition on unknown numbers, as sympy has it, is true in this call."""
        observer = self._looking()
        with DisableTorchFunction():
            return None if observer is None else observer.holds(condition)


def place_of(frame: Frame | None) -> tuple[CodeType, int] | None:
    """The instruction that a frame carries out."""
    return None if frame is None or frame.finished else (frame.code, int(frame.ip))


def negated(condition: Any) -> Any:
    """A symbolic condition that holds if the other does not."""
    negate: Any = torch.sym_not
    with DisableTorchFunction():
        return negate(condition)


def _roots(symbol: Any) -> list[Any]:
    """The symbols, of values in tensors, that a number is computed from."""
    node = symbol.node
    free = sorted(free_unbacked_symbols(node.expr), key=str)
    with DisableTorchFunction():
        made = (node.shape_env.create_symintnode(each, hint=None) for each in free)
        return [each for each in made if type(each) is torch.SymInt]


class _Settling:
    """Replaces what depends on values in the arguments of one call."""

    def __init__(self, speculation: Speculation, frame: Frame | None) -> None:
        self._speculation = speculation
        self._frame = frame
        self.found = False
        self.failed = False

    def values(self, value: Any, inside: bool = False) -> Any:
        """`inside` a list, a tensor of one integer is a number too."""
        kind = type(value)
        if kind is torch.SymInt:
            known = value.node.maybe_as_int()
            if known is not None:
                return int(known)
            return value if value.node.has_hint() else self._number(value)
        if kind is FakeTensor:
            if inside and _is_number(value):
                number = self._speculation.item(self._frame, value)
                return number if type(number) is int else self._number(number)
            for size in _place(value):
                self.values(size)
            return value
        if kind is list or kind is tuple:
            return kind(self.values(item, inside=True) for item in value)
        if kind is slice:
            return slice(*(self.values(part) for part in (value.start, value.stop, value.step)))
        if kind is dict:
            return {key: self.values(item) for key, item in value.items()}
        return value

    def _number(self, symbol: Any) -> Any:
        self.found = True
        known = self._speculation.size(self._frame, symbol)
        if known is None:
            self.failed = True
            return symbol
        return known


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    """How large a tensor is, and where it begins."""
    if tensor.layout is not torch.strided:
        return tuple(tensor.shape)
    with DisableTorchFunction():
        return *tensor.shape, tensor.storage_offset()


def _is_number(tensor: torch.Tensor) -> bool:
    kind = tensor.dtype
    return tensor.dim() == 0 and not (
        kind.is_floating_point or kind.is_complex or kind is torch.bool
    )
