"""`contextvars` in a trace: the running context, and those that the program makes.

Stage: capture. In: what a program does with context variables and contexts. Out: the same on a copy
of the running context, so that nothing in the world changes. Variables of the world are read from
the real one where they are asked for, guarded, and put into the copy as stand-ins. Contexts,
variables and tokens that the program makes are CPython's own, and hold what the program put there.

`Context.run` does not run C code: the function is evaluated, and the tracer knows in which context.
Variables that are set for good in the running context are set when the graph has run. A variable of
the call's own that is, is a `Break`, as is any use of a context that existed before the call.
"""

import contextvars
from collections.abc import Callable, Iterator
from contextvars import Context, ContextVar, Token
from typing import TYPE_CHECKING, Any, Final

from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.calls.builtin_calls import Handler, _plain
from stator.capture.calls.python_calls import stand_in
from stator.capture.trace.refusals import unseen
from stator.diagnostics.catalogue import HiddenState
from stator.effects import Effect, Perform
from stator.guards import Callback, Fixed, Is, State

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_GET: Final[Any] = ContextVar.__dict__["get"]
_SET: Final[Any] = ContextVar.__dict__["set"]
_RESET: Final[Any] = ContextVar.__dict__["reset"]
_RUN: Final[Any] = Context.__dict__["run"]
_COPY: Final[Any] = Context.__dict__["copy"]
_UNSET: Final = object()


class Contexts:
    """The contexts of one trace."""

    def __init__(self, calls: "Calls") -> None:
        self._world = calls.world
        self._base: Context | None = None  # what the program sees of the one it was called in
        self._before: dict[int, tuple[Any, Any]] = {}  # variables of the world, and what they held
        self._whole = False
        self._copies: list[Context] = []  # of the running one, which nobody has looked at
        self.entered: list[Context] = []  # those that the program runs in, the innermost last

    @property
    def base(self) -> Context:
        if self._base is None:
            self._base = contextvars.copy_context()
        return self._base

    @property
    def running(self) -> Context:
        return self.entered[-1] if self.entered else self.base

    def know(self, variable: Any) -> None:
        """A variable of the world is used; the real context says what it holds."""
        if id(variable) in self._before or not self._world.is_world(variable):
            return
        held = _GET(variable, _UNSET)
        name = f"the context variable {variable.name}"
        self._world.guard(State(_GET.__get__(variable), (_UNSET,), name), Is(held))
        if held is not _UNSET:
            raw, held = held, self._world.wrap(held, Fixed(held))
            for context in (self.base, *self._copies):
                if context.get(variable, _UNSET) is raw:
                    _RUN(context, _SET, variable, held)
        self._before[id(variable)] = variable, held

    def enter_copy(self) -> None:
        """The program goes on in a copy of the context that it is in, as tasks of asyncio do."""
        made = _COPY(self.running)
        self._copies.append(made)
        self.entered.append(made)

    def know_all(self) -> None:
        """The context itself is looked at, or copied: all its variables, and that there are no
        others, are read.
        """
        if self._whole:
            return
        self._whole = True
        variables = tuple(contextvars.copy_context())
        for variable in variables:
            self._world.know(variable)
            self.know(variable)
        names = ", ".join(variable.name for variable in variables)
        same = Callback(_has_variables(variables), f"the context variables {names}")
        self._world.guard(Fixed(contextvars.copy_context), same)

    def effects(self) -> Iterator[Effect]:
        """Variables of the world that the program has set for good in the running context."""
        for variable, value in () if self._base is None else self._base.items():
            known = self._before.get(id(variable))  # if not, it came with the copy, or is new
            if known is None and _GET(variable, _UNSET) is not value:
                raise HiddenState("a context variable made in the call is set for good")
            if known is not None and value is not known[1]:
                yield Perform(Fixed(_SET, "ContextVar.set"), (variable, value))


def _has_variables(variables: tuple[Any, ...]) -> Callable[[Any], bool]:
    def same(copy: Callable[[], Context]) -> bool:
        found = tuple(copy())
        return len(found) == len(variables) and all(map(_is, found, variables))

    return same


def _is(a: object, b: object) -> bool:
    return a is b


# ---------------------------------------------------------------------- variables


def _get(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`ContextVar.get`: what the running context holds, guarded."""
    contexts = calls.contexts
    variable, *default = args
    if kwargs or len(default) > 1:
        return _plain(calls, frame, _GET, args, kwargs)
    contexts.know(variable)
    value = _RUN(contexts.running, _GET, variable, _UNSET)
    if value is not _UNSET:
        return value
    if default:
        return default[0]
    value = core.call(frame, contexts.running.run, [_GET, variable], None)  # or raises
    return calls.world.wrap(value, Fixed(value)) if calls.world.is_world(variable) else value


def _set(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if kwargs or len(args) != 2:
        return _plain(calls, frame, _SET, args, kwargs)
    calls.contexts.know(args[0])
    return _RUN(calls.contexts.running, _SET, *args)


def _reset(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if not kwargs and len(args) == 2 and type(args[1]) is Token:
        if calls.world.is_world(args[1]):
            raise HiddenState("a context variable is reset by a token from before the call")
        calls.contexts.know(args[0])
        return core.call(frame, calls.contexts.running.run, [_RESET, *args], None)
    return _plain(calls, frame, _RESET, args, kwargs)


# ---------------------------------------------------------------------- contexts


def _copy_context(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if args or kwargs:
        return _plain(calls, frame, function, args, kwargs)
    contexts = calls.contexts
    if not contexts.entered:
        contexts.know_all()
    return _COPY(contexts.running)


def _run(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if calls.world.is_world(args[0]):
        raise unseen(calls.world, args[0], "something is run in {}")
    if len(args) < 2:
        return _plain(calls, frame, _RUN, args, kwargs)
    context, callable, *rest = args
    return stand_in(calls, frame, _within, [context, callable, rest, kwargs], None)


def _within(context: Any, callable: Any, args: Any, kwargs: Any) -> Any:
    _enter(context)
    try:
        return callable(*args, **kwargs)
    finally:
        _leave(context)


def _enter(context: Any) -> None:
    """Evaluated: the program goes on in this context."""


def _leave(context: Any) -> None:
    """And not any more."""


def _entered(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    entered = calls.contexts.entered
    if any(each is args[0] for each in entered):
        core.raise_user(RuntimeError(f"cannot enter context: {args[0]!r} is already entered"))
    entered.append(args[0])


def _left(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    entered = calls.contexts.entered
    while entered.pop() is not args[0]:
        pass


CONTEXTS: Final[dict[int, Handler]] = {
    id(_GET): _get,
    id(_SET): _set,
    id(_RESET): _reset,
    id(_RUN): _run,
    id(contextvars.copy_context): _copy_context,
    id(_enter): _entered,
    id(_leave): _left,
}
