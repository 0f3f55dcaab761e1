"""`asyncio.run` and `loop.run_until_complete` in a trace: of coroutines that never have to wait.

Stage: capture. In: a coroutine that the program hands to an event loop of asyncio's own, which has
nothing else to do. Out: its result. A coroutine that awaits nothing but other coroutines, or only
lets others go first (`asyncio.sleep(0)`), runs to its end at once, in a copy of the running
context; no loop is needed for that.

What asks for the loop, a task, a future or a clock is a `Break`: C code of asyncio, of which
nothing is known. So is an asynchronous generator that is left in the middle, which the loop would
close. The traceback of an exception that leaves the coroutine does not show asyncio's frames.
"""

import asyncio
import sys
import types
from asyncio import events
from asyncio.base_events import BaseEventLoop
from typing import TYPE_CHECKING, Any, Final

from stator import objects
from stator._native._core import Frame
from stator.capture.calls.builtin_calls import Handler
from stator.capture.calls.python_calls import evaluated, stand_in
from stator.capture.texts.printing import perform
from stator.diagnostics.catalogue import HiddenState
from stator.guards import Callback, Fixed, Is, State

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_FRAME: Final[Any] = types.AsyncGeneratorType.__dict__["ag_frame"]
_RUNNING: Final[Any] = events._get_running_loop
_LOOP: Final = asyncio.SelectorEventLoop
_IDLE: Final = {"_closed": False, "_thread_id": None, "_debug": False, "_task_factory": None}


class Coroutines:
    """The coroutines of one trace that asyncio would run."""

    def __init__(self) -> None:
        self._hooks: Any = None  # those of asynchronous generators, before ours
        self._begun: list[Any] = []  # asynchronous generators

    def begin(self) -> None:
        """A coroutine begins: asynchronous generators are noted from now on, by C code."""
        self._hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(firstiter=self._begun.append, finalizer=None)

    def end(self) -> None:
        """It has ended, or the trace has."""
        if self._hooks is not None:
            sys.set_asyncgen_hooks(*self._hooks)
            self._hooks = None

    def check(self) -> None:
        """The loop would close asynchronous generators that are not at their end."""
        for generator in self._begun:
            if _FRAME.__get__(generator) is not None:
                raise HiddenState("an event loop has to close an asynchronous generator")

    @property
    def running(self) -> bool:
        return self._hooks is not None


def _is_free(calls: "Calls", coroutine: Any) -> bool:
    """Whether it is a coroutine of the program's own, and no event loop is running."""
    if type(coroutine) is not types.CoroutineType or calls.world.is_world(coroutine):
        return False
    if calls.coroutines.running or _RUNNING() is not None:
        return False
    calls.world.guard(State(_RUNNING, (), "the running event loop"), Is(None))
    return True


def _has_own_policy(_: object = None) -> bool:
    """Whether the loops that asyncio makes are its own."""
    policy = vars(events)["_event_loop_policy"]
    return policy is None or type(policy) is asyncio.DefaultEventLoopPolicy


def _is_idle(loop: Any) -> bool:
    """Whether an event loop is asyncio's own and has nothing to do."""
    own = objects.instance_dict(loop) if type(loop) is _LOOP else None
    if own is None or any(own.get(name, _IDLE) is not each for name, each in _IDLE.items()):
        return False
    return not own["_ready"] and not own["_scheduled"]


def _run(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`asyncio.run`: in the end, the thread has no event loop any more."""
    if kwargs or len(args) != 1 or not _has_own_policy() or not _is_free(calls, args[0]):
        return evaluated(calls, frame, function, args, kwargs)
    calls.world.guard(Fixed(events), Callback(_has_own_policy, "asyncio's own policy"))
    perform(calls, frame, asyncio.set_event_loop, "set_event_loop", (None,))
    return stand_in(calls, frame, _driven, [args[0]], None)


def _run_until(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`run_until_complete` of a loop of the world."""
    source = calls.world.origins.get(id(args[0])) if args else None
    fits = source is not None and not kwargs and len(args) == 2 and _is_idle(args[0])
    if not fits or not _is_free(calls, args[1]):
        return evaluated(calls, frame, function, args, kwargs)
    assert source is not None
    calls.world.guard(source, Callback(_is_idle, "an event loop with nothing to do"))
    return stand_in(calls, frame, _driven, [args[1]], None)


def _driven(coroutine: Any) -> Any:
    """Evaluated: what is left of an event loop that has one thing to do."""
    _begin()
    try:
        while True:
            waits_for = coroutine.send(None)
            if waits_for is not None:
                _refuse("a coroutine waits for something")
    except StopIteration as end:
        return end.value
    except Exception:
        raise
    except BaseException:  # of which asyncio makes others, at times
        _refuse("an exception leaves a coroutine that asyncio runs")
    finally:
        _end()


def _begin() -> None:
    """Evaluated: a coroutine begins."""


def _end() -> None:
    """And has ended."""


def _refuse(reason: str) -> None:
    """It can't be captured."""


def _begun(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    calls.contexts.enter_copy()
    calls.coroutines.begin()


def _ended(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    calls.coroutines.end()
    calls.coroutines.check()
    calls.contexts.entered.pop()


def _refused(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    raise HiddenState(args[0])


COROUTINES: Final[dict[int, Handler]] = {
    id(asyncio.run): _run,
    id(BaseEventLoop.run_until_complete): _run_until,
    id(_begin): _begun,
    id(_end): _ended,
    id(_refuse): _refused,
}
