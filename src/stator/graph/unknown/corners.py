"""Whether what a fake kernel was told matters: its result at numbers where it would be otherwise.

In: an operation that has run on fake tensors with unknown sizes, its result, what was asked
meanwhile (`unknown`). Out: which of the answers have to be checked. The operation is carried out
again, on fake tensors whose sizes are numbers: 0 and 1 for each unknown size, and numbers for which
an answer would have been the other one. If it makes there what the expressions of the first result
say, the answer does not matter. If it raises, or makes something else, it does.

Kernels choose their way by what they ask, so a corner stands for all numbers of its side.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from stator.graph.fakes.inputs import tensors_in
from stator.graph.fakes.memory import expression, storage_of
from stator.graph.recording.interrupts import is_interrupt
from stator.graph.recording.replay import NotReplayableError, Twins, eager_error
from stator.graph.unknown.forms import Form
from stator.graph.unknown.questions import Question
from stator.torchlib.fakes import FakeTensor, FakeTensorMode, in_kernel_invocation_manager
from stator.torchlib.modes import disable_current_modes
from stator.torchlib.tensors import DisableTorchFunction

_TRIED: Final = 256  # numbers, in search of one
_LARGEST: Final = 1 << 16
_MANY: Final = 3  # unknown sizes, for each to be looked at by itself
_GENERIC: Final = (5, 7, 11, 13, 17, 19)
Run = Callable[[tuple[Any, ...], dict[str, Any]], Any]
Point = Mapping[Any, Any]


@dataclass(frozen=True)
class Operation:
    """One that has run on fake tensors, and what it wanted to know meanwhile."""

    target: Any
    run: Run
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    asked: Sequence[Question]
    form: Form | None = None


class Corners:
    """What operations make of numbers, in the place of unknown sizes."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._settled: set[Any] = set()  # forms of operations for which nothing has to be checked

    @functools.cached_property
    def _mode(self) -> FakeTensorMode:
        """With symbols only for what operations find themselves."""
        return FakeTensorMode(shape_env=ShapeEnv())

    def doubtful(self, ran: Operation) -> Iterator[Any]:
        """Conditions that have to be checked, for the result to be right."""
        form = None if ran.form is None else ran.form.with_result(ran.result, ran.asked)
        if form is not None and form in self._settled:
            return
        sure = True
        for condition in self._doubtful(ran, self._unknown((ran.args, ran.kwargs))):
            sure = False
            yield condition
        if sure and form is not None:
            self._settled.add(form)

    def _doubtful(self, ran: Operation, symbols: set[Any]) -> Iterator[Any]:
        agreed: list[Point] = []
        for number in (0, 1):
            for part in _parts(symbols):
                point = self._point(symbols, dict.fromkeys(part, number))
                if point is None:
                    continue
                if self._agrees(ran, point):
                    agreed.append(point)
                else:
                    yield from (sympy.Ne(symbol, number) for symbol in sorted(part, key=str))
        many = agreed if len(symbols) > _MANY else ()
        for question in ran.asked:
            mentioned = question.condition.free_symbols
            if not mentioned <= symbols | self._env.backed_var_to_val.keys():
                continue  # about what the operation has just made: no argument is otherwise
            # Of many, each is asked about: what is otherwise at a point that agrees is settled.
            if any(_is_otherwise(question.condition, question, point) for point in many):
                continue
            point = self._otherwise(symbols, question)
            if point is None or not self._agrees(ran, point):
                yield question.told()

    # ------------------------------------------------------------------ points

    def _unknown(self, given: Any) -> set[Any]:
        """The symbols without a value in the arguments of an operation."""
        found = _free(_numbers(given))
        for tensor in tensors_in(given):
            found |= _free((*tensor.shape, *tensor.stride(), tensor.storage_offset()))
        return {each for each in found if each not in self._env.backed_var_to_val}

    def _point(self, symbols: set[Any], fixed: dict[Any, int]) -> Point | None:
        """Numbers for all symbols, some of them given; None if they can't be these."""
        point: dict[Any, Any] = dict(self._env.backed_var_to_val)
        others = sorted(symbols - fixed.keys(), key=str)
        for symbol, number in zip(others, itertools.cycle(_GENERIC), strict=False):
            point[symbol] = sympy.Integer(self._within(symbol, number))
        for symbol, given in fixed.items():
            if self._within(symbol, given) != given:
                return None
            point[symbol] = sympy.Integer(given)
        return point if self._possible(symbols, point) else None

    def _within(self, symbol: Any, number: int) -> int:
        known = self._env.var_to_range.get(symbol)
        if known is None:
            return number
        if known.lower.is_Integer:
            number = max(number, int(known.lower))
        if known.upper.is_Integer:
            number = min(number, int(known.upper))
        return number

    def _possible(self, symbols: set[Any], point: Point) -> bool:
        """Whether what is checked already does not rule these numbers out."""
        asserts = self._env.deferred_runtime_asserts
        return not any(
            each.expr.free_symbols <= point.keys() and each.expr.xreplace(point) == sympy.false
            for symbol in symbols
            for each in asserts.get(symbol, ())
        )

    def _otherwise(self, symbols: set[Any], question: Question) -> Point | None:
        """Numbers for which the answer is the other one."""
        mentioned = sorted(question.condition.free_symbols & symbols, key=str)
        known = self._env.backed_var_to_val
        # All but the symbols of the operation, which there may be many of, is the same each time.
        condition = question.condition.xreplace(
            {s: known[s] for s in question.condition.free_symbols if s in known}
        )
        for numbers in self._tried(question.condition, mentioned):
            exact = {symbol: sympy.Integer(number) for symbol, number in numbers.items()}
            if _is_otherwise(condition, question, exact):
                point = self._point(symbols, numbers)
                if point is not None:
                    return point
        return None

    def _tried(self, condition: Any, mentioned: list[Any]) -> Iterator[dict[Any, int]]:
        """Numbers for the symbols of a condition: all the same, as far as they can be, then each
        with each. Where the answer changes lies near the numbers in the condition; 0 and 1 come
        last, since kernels have ways of their own for them, which are looked at anyway.
        """
        known = self._env.backed_var_to_val
        constants = {abs(int(n)) for n in condition.atoms(sympy.Integer)}
        values = (known[s] for s in condition.free_symbols if s in known)
        constants |= {int(n) for n in values if n.is_Integer}
        near = {n + d for n in constants if n <= _LARGEST for d in (-1, 0, 1)}
        tried = sorted(near | {-1, 0, 1, 2, 3, 4}, key=lambda n: (n < 2, abs(n)))
        if len(mentioned) > 1:
            for number in tried:
                yield {symbol: self._within(symbol, number) for symbol in mentioned}
        if len(mentioned) > _MANY:
            return
        for numbers in itertools.islice(itertools.product(tried, repeat=len(mentioned)), _TRIED):
            yield dict(zip(mentioned, numbers, strict=True))

    # ------------------------------------------------------------------ what happens there

    def _agrees(self, ran: Operation, point: Point) -> bool:
        """Whether the operation makes at these numbers what the expressions say."""
        with disable_current_modes(), DisableTorchFunction():
            twins = _AtPoint(point, self._mode)
            try:
                with self._mode:
                    args, kwargs = twins.of(ran.args), twins.of(ran.kwargs)
                    made = ran.run(args, kwargs)
            except Exception as error:  # also if these numbers can't be
                if is_interrupt(error):
                    raise
                return False
            tensors = twins.tensors()
            nothing = tensors and all(each.numel() == 0 for each in tensors)
            if nothing and eager_error(ran.run, args, kwargs) is not None:
                return False
        ours, theirs = list(tensors_in(ran.result)), list(tensors_in(made))
        if len(ours) != len(theirs):
            return False
        return all(
            self._alike(one, other, twins, point) for one, other in zip(ours, theirs, strict=True)
        )

    def _alike(
        self, general: torch.Tensor, made: torch.Tensor, twins: "_AtPoint", point: Point
    ) -> bool:
        if general.dim() != made.dim() or general.dtype is not made.dtype:
            return False
        if twins.memory(storage_of(general)) != twins.memory_made(storage_of(made)):
            return False
        for size, number in zip(general.shape, made.shape, strict=True):
            if type(number) is not int:
                continue
            expr = sympy.sympify(expression(size)).xreplace(point)
            # A size that the operation has found itself is whatever it is.
            if expr.is_number and int(expr) != number:
                return False
        return True


class _AtPoint(Twins):
    """Fake tensors with numbers for sizes, in the place of those with unknown sizes."""

    def __init__(self, point: Point, mode: FakeTensorMode) -> None:
        super().__init__()
        self._point = point
        self._mode = mode
        self._memory: dict[int, int] = {}
        self._memory_made: dict[int, int] = {}

    def memory(self, storage: int) -> int | None:
        """The number of the operand that looks into a memory."""
        return self._memory.get(storage)

    def memory_made(self, storage: int) -> int | None:
        return self._memory_made.get(storage)

    def size(self, number: Any) -> int:
        expr = sympy.sympify(expression(number)).xreplace(self._point)
        if not expr.is_Integer:
            raise NotReplayableError
        return int(expr)

    def number(self, number: torch.SymFloat | torch.SymBool) -> Any:
        return 1.5 if isinstance(number, torch.SymFloat) else True  # no size depends on it

    def tensor(self, fake: torch.Tensor) -> torch.Tensor:
        if fake.layout is not torch.strided:
            raise NotReplayableError
        sizes = [self.size(n) for n in fake.shape]
        strides = [self.size(n) for n in fake.stride()]
        if any(n < 0 for n in sizes):
            raise NotReplayableError
        with in_kernel_invocation_manager(self._mode):
            empty = torch.empty_strided(sizes, strides, dtype=fake.dtype, device="meta")
        made = FakeTensor(self._mode, empty, fake.device)
        # The first operand of a memory stands for it.
        number = self._memory.setdefault(storage_of(fake), len(self._memory))
        self._memory_made[storage_of(made)] = number
        if fake.requires_grad and (made.is_floating_point() or made.is_complex()):
            # As the result of an operator: it may be written to, other than a leaf or its view.
            with torch.enable_grad():
                made.add_(torch.zeros((), dtype=made.dtype, requires_grad=True))
        return made


def _is_otherwise(condition: Any, question: Question, point: Point) -> bool:
    """Whether a condition has the other answer at a point, if it can be computed there."""
    try:
        return bool(condition.xreplace(point) == (not question.answer))
    except ZeroDivisionError:
        return False


def _parts(symbols: set[Any]) -> Iterator[Sequence[Any]]:
    """Which symbols are 0 or 1 at the same time: each by itself; of many, all, and every other."""
    names = sorted(symbols, key=str)
    if len(names) <= _MANY:
        return iter([[name] for name in names])
    return iter((names, names[::2], names[1::2]))


def _free(numbers: Sequence[Any]) -> set[Any]:
    found: set[Any] = set()
    for number in numbers:
        if isinstance(number, torch.SymInt | torch.SymFloat | torch.SymBool):
            found |= number.node.expr.free_symbols
    return found


def _numbers(value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return [number for item in value for number in _numbers(item)]
    if isinstance(value, dict):
        return _numbers(list(value.values()))
    if isinstance(value, slice):
        return _numbers([value.start, value.stop, value.step])
    return [value] if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) else []
