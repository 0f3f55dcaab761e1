"""`gc.collect()` in a program that is to be one graph.

Stage: capture. In: a call of the collector. Out: the collection is put off until the graph has run
(`Perform`): in a trace it would find the tracer's own garbage. Finalizers of what was left behind
before may change what the program reads afterwards. So there is a collection before the trace, and
before each call: a guard, which fails if it has found something, for other guards may have been
asked by then; a call that has found no entry looks again, when there is no garbage any more. Python
may collect at any time, so that this is nothing that the program could not see without us; if it
has turned that off, `gc.collect()` is a `Break`, as it is where the program can be split.

In the call itself, a collection must not find anything that the program could see: an object with
weak references, or a generator that cleans up, which the frames do not lead to, and objects of the
world that were let go. Where there is such, the call is a `Break`.
"""

import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any, Final

from stator._native._core import Frame
from stator.capture.calls.builtin_calls import Handler
from stator.capture.calls.native_calls import by_contract
from stator.capture.iterators.abandoned_generators import GENERATORS
from stator.capture.objects.reachable import parts, variables
from stator.capture.objects.weak_references import let_go
from stator.capture.texts.printing import Unknown, perform
from stator.diagnostics.catalogue import Finalizer
from stator.guards import Callback, Fixed, Guard
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_MOST_OFTEN: Final = 5
_MOST: Final = 20_000  # objects that are looked at


class _Collector(threading.local):
    """What the traces of one compile, and who starts them, tell each other about garbage."""

    enabled = True
    """Whether Python collects by itself, where a trace has not stopped it."""
    wanted = False
    """A trace was broken off, for it can only begin where there is no garbage."""
    clean = False
    """There was none when the last trace began, and there must be none when the call is made."""

    def begin(self) -> None:
        """A compile begins."""
        self.wanted = self.clean = False

    def provide(self) -> bool:
        """Whether garbage was collected for the sake of a trace, which can begin again."""
        wanted, self.wanted = self.wanted, False
        self.clean = self.clean or wanted
        if wanted:
            self.settle()
        return wanted

    def settle(self) -> None:
        """Collects until nothing is found, if somebody relies on it; finalizers leave garbage."""
        for _ in range(_MOST_OFTEN if self.clean else 0):
            if gc.collect() == 0:
                break


COLLECTOR: Final = _Collector()


def _is_clean(_: object) -> bool:
    """There is no garbage, now."""
    return gc.isenabled() and gc.collect() == 0


_CLEAN: Final = Callback(_is_clean, "there is no garbage left")


def collects(guards: tuple[Guard, ...]) -> bool:
    """Whether guards collect garbage: they fail where there was some, and hold if asked again."""
    return any(guard.check is _CLEAN for guard in guards)


def _collect(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    known = [*args, *kwargs.values()]
    plain = kwargs.keys() <= {"generation"} and len(known) <= 1
    plain = plain and all(type(each) is int and 0 <= each <= 2 for each in known)
    if not plain or not calls.whole or not COLLECTOR.enabled:
        return by_contract(calls, frame, function, args, kwargs)
    if not COLLECTOR.clean:
        COLLECTOR.wanted = True
        return by_contract(calls, frame, function, args, kwargs)
    _check(calls, frame)
    calls.world.guard(Fixed(function), _CLEAN)
    perform(calls, frame, function, "collect", tuple(known))
    unknown = Unknown()
    calls.world.opaque[id(unknown)] = "int (a number of objects)"
    calls.world.keep(unknown)
    return unknown


def _check(calls: "Calls", frame: Frame) -> None:
    """A collection at this point would be seen by nobody."""
    if calls.abandoned.held:
        calls.abandoned.settle(frame)
    if any(not CONSTANTS.holds(type(each)) for each in let_go(calls)):
        raise Finalizer("garbage is collected, and objects from before the call were let go")
    watched = [weakref.ref.__call__(each) for each in calls.references]
    watched += [each for each in calls.abandoned.held if GENERATORS.holds(type(each))]
    watched = [each for each in watched if each is not None]
    lost = {id(each): type(each).__qualname__ for each in watched}
    if lost:
        _find(frame, lost)
    if lost:
        kind = next(iter(lost.values()))
        raise Finalizer(f"garbage is collected, and an object of type {kind} may be part of it")


def _find(frame: Frame, wanted: dict[int, str]) -> None:
    """Takes out what frames lead to."""
    waiting: list[Any] = []
    step: Frame | None = frame
    while step is not None:
        waiting += step.stack
        waiting += (value for _, value in variables(step))
        step = step.caller
    seen: set[int] = set()
    while waiting and wanted and len(seen) < _MOST:
        value = waiting.pop()
        if id(value) in seen or CONSTANTS.holds(type(value)):
            continue
        seen.add(id(value))
        wanted.pop(id(value), None)
        waiting += parts(value)


GARBAGE: Final[dict[int, Handler]] = {id(gc.collect): _collect}
