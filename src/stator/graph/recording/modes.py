"""torch's stacks of modes: what an interrupt leaves there, in the middle of torch's own code.

In: a compile, which enters fake tensor modes all the time. Out: the same, with torch's state as it
was before, wherever Ctrl-C or an alarm has come. torch enters and leaves modes in Python, so an
exception may come in between; a mode that stays would break all that the program does later.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stator.graph.recording.interrupts import is_interrupt
from stator.graph.recording.scopes import drop_frames
from stator.graph.recording.state import State
from stator.torchlib.autograd import pop_saved_hooks, push_saved_hooks, top_saved_hooks
from stator.torchlib.modes import (
    PreserveDispatchKeyGuard,
    dispatch_mode_stack,
    enter_function_mode,
    excluded_keys,
    function_mode_stack,
    include_meta,
    included_keys,
    is_meta_included,
    leave_function_mode,
    only_lift_cpu_tensors,
    pop_dispatch_mode,
    push_dispatch_mode,
    set_only_lift_cpu_tensors,
)


@dataclass(frozen=True)
class Modes:
    """The modes of this thread, and what fake tensor modes switch for themselves."""

    dispatch: tuple[Any, ...]
    function: tuple[Any, ...]
    meta: bool
    lifting: bool
    keys: tuple[int, int]

    @classmethod
    def capture(cls) -> "Modes":
        return cls(
            tuple(dispatch_mode_stack()),
            tuple(function_mode_stack()),
            is_meta_included(),
            only_lift_cpu_tensors(),
            (
                included_keys().raw_repr(),
                excluded_keys().raw_repr(),
            ),
        )

    def restore(self, error: BaseException) -> None:
        """Makes them these; the error is what has come in between."""
        if Modes.capture().is_same(self):
            return
        step: BaseException | None = error
        while step is not None:
            drop_frames(step.__traceback__)  # context managers that were not left hold something
            step = step.__cause__
        now = Modes.capture()
        include_meta(self.meta)
        set_only_lift_cpu_tensors(self.lifting)
        if not _same(now.dispatch, self.dispatch):
            for _ in now.dispatch:
                pop_dispatch_mode()
            for mode in self.dispatch:
                push_dispatch_mode(mode)
        if not _same(now.function, self.function):
            for _ in now.function:
                leave_function_mode()
            for mode in self.function:
                enter_function_mode(mode)

    def is_same(self, other: "Modes") -> bool:
        return (
            _same(self.dispatch, other.dispatch)
            and _same(self.function, other.function)
            and (self.meta, self.lifting, self.keys) == (other.meta, other.lifting, other.keys)
        )


def _same(a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
    return len(a) == len(b) and all(x is y for x, y in zip(a, b, strict=True))


@contextlib.contextmanager
def interruptible(*, outermost: bool = True) -> Iterator[None]:
    """Whatever has come in between inside, torch is the same afterwards.

    What puts things back inside may have been interrupted itself. Interrupts are left to the
    outermost one: until then it must be possible to tell that they are.
    """
    state = State.capture()
    modes = Modes.capture()
    hooks = _taken_hooks()
    try:
        # Dropped frames may hold guards of torch, which put back what they once found.
        with PreserveDispatchKeyGuard():
            try:
                yield
            except BaseException as error:
                if outermost or not is_interrupt(error):
                    modes.restore(error)
                raise
    except BaseException:
        with contextlib.suppress(RuntimeError):  # inference mode has no setter
            state.restore()
        raise
    finally:
        for pack, unpack in reversed(hooks):
            push_saved_hooks(pack, unpack)


def _taken_hooks() -> list[tuple[Any, Any]]:
    """The program's hooks for tensors that autograd saves, which are taken away; last one first.

    A checkpoint counts what is saved: fake tensors are none of it.
    """
    found: list[tuple[Any, Any]] = []
    while (top := top_saved_hooks(True)) is not None:
        found.append(top)
        pop_saved_hooks()
    return found
