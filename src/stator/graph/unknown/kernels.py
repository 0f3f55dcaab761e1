"""Operations on fake tensors whose sizes nobody knows.

In: an operation. Out: its result, right under the conditions that were taken for granted meanwhile:
`unknown` has the rule, `corners` finds which of the answers matter.

A condition that matters is checked whenever the graph runs. So it has to be true at least of the
call that is being traced, or the graph would be for nothing: `observed` looks at the values of that
call, and if the condition is wrong there, its opposite is taken for granted, and the operation is
carried out again, knowing that.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
import torch

from stator.graph.fakes.inputs import tensors_in
from stator.graph.recording.errors import DataDependent
from stator.graph.unknown.corners import Corners, Operation, Run
from stator.graph.unknown.forms import form_of
from stator.graph.unknown.questions import Asker
from stator.graph.unknown.recipes import UNKNOWN, Recipes
from stator.graph.unknown.scalars import assuming, forget, take
from stator.torchlib.fakes import FakeTensorMode

_CORRECTIONS: Final = 4  # of what one operation is told

Observed = Callable[[Any], bool | None]
"""Whether a condition on unknown numbers is true in this call; None if nobody can tell."""


def _unobserved(_: Any) -> bool | None:
    return None


class Kernels:
    """Carries out operations that meet symbols."""

    def __init__(self, env: Any, mode: FakeTensorMode) -> None:
        self._env = env
        self._corners = Corners(env)
        self._recipes = Recipes(env, mode)
        self.observed: Observed = _unobserved
        self.assumes = True  # whether anything may be taken for granted that needs a check

    def run(
        self,
        name: str,
        target: Any,
        run: Run,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        unknown: bool,
    ) -> Any:
        """The result of an operation; `unknown` says that there are symbols without a value."""
        operands = list(tensors_in((args, kwargs)))
        if not unknown:
            return self._result(run, args, kwargs, operands)
        form = form_of(self._env, target, (args, kwargs))
        known = UNKNOWN if form is None else self._recipes.result(form, operands)
        if known is not UNKNOWN:
            return known
        before = None if form is None else self._recipes.before(form, operands)
        layouts = _layouts(operands)
        believed = self._env.believed()
        for _ in range(_CORRECTIONS):
            try:
                result = self._result(run, args, kwargs, operands)
            except Exception:
                self._env.believe(believed)
                raise
            asked = list(self._env.questions.asked.values())
            wrong = self._assume(name, Operation(target, run, args, kwargs, result, asked, form))
            if wrong is None:
                if before is not None:
                    self._recipes.note(before, result)
                return result
            if _layouts(operands) != layouts:
                take(self._env, wrong)  # it can't be carried out again: the graph will refuse
                return result
            forget(self._env, operands)
            self._env.believe(believed)
            take(self._env, sympy.Not(wrong))
            believed = self._env.believed()
            form = before = None  # it has been noted by what was not known yet
        raise DataDependent(f"the result of {name} depends on values in many ways")

    def _result(
        self,
        run: Run,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        operands: Sequence[torch.Tensor],
    ) -> Any:
        with self._env.questions.by(Asker.KERNEL):
            return assuming(
                self._env, lambda: run(args, kwargs), operands, self.assumes, self.observed
            )

    def _assume(self, name: str, ran: Operation) -> Any:
        """Takes for granted what the result depends on; what of it is wrong in this call, or None.

        What comes after that is not looked at: it is wrong for a reason of its own.
        """
        for condition in self._corners.doubtful(ran):
            self.may_assume(name)
            if self.observed(condition) is False:
                return condition
            take(self._env, condition)
        return None

    def may_assume(self, name: str) -> None:
        if not self.assumes:
            raise DataDependent(f"the result of {name} depends on values")


def is_symbolic(value: Any) -> bool:
    """Whether there is a symbol in arguments: a number, or a size of a tensor."""
    if isinstance(value, torch.Tensor):
        return value._has_symbolic_sizes_strides
    if isinstance(value, list | tuple):
        return any(map(is_symbolic, value))
    if isinstance(value, dict):
        return any(map(is_symbolic, value.values()))
    if isinstance(value, slice):
        return is_symbolic((value.start, value.stop, value.step))
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)


def _layouts(tensors: Sequence[torch.Tensor]) -> list[Any]:
    """How tensors lie in memory, which some operations change (`squeeze_`).

    As it was written at first: by now, a symbol may be known to be a number.
    """
    return [
        [_written(each) for each in numbers]
        for tensor in tensors
        if tensor.layout is torch.strided
        for numbers in (tensor.shape, tensor.stride())
    ]


def _written(number: Any) -> Any:
    return number.node._expr if isinstance(number, torch.SymInt) else number
