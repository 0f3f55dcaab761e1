"""torch's stacks of modes: what an interrupt leaves there, in the middle of torch's own code.

In: a compile, which enters fake tensor modes all the time. Out: the same, with torch's state as it
was before, wherever Ctrl-C or an alarm has come. torch enters and leaves modes in Python, so an
exception may come in between; a mode that stays would break all that the program does later.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import overrides
from torch.utils import _python_dispatch

from .interrupts import is_interrupt
from .scopes import drop_frames
from .state import State

_FUNCTION_MODES: Final[Any] = overrides  # without annotations


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
            tuple(_python_dispatch._get_current_dispatch_mode_stack()),
            tuple(_FUNCTION_MODES._get_current_function_mode_stack()),
            torch._C._meta_in_tls_dispatch_include(),
            torch._C._only_lift_cpu_tensors(),
            (
                torch._C._dispatch_tls_local_include_set().raw_repr(),
                torch._C._dispatch_tls_local_exclude_set().raw_repr(),
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
        torch._C._set_meta_in_tls_dispatch_include(self.meta)
        torch._C._set_only_lift_cpu_tensors(self.lifting)
        if not _same(now.dispatch, self.dispatch):
            for _ in now.dispatch:
                _python_dispatch._pop_mode()
            for mode in self.dispatch:
                _python_dispatch._push_mode(mode)
        if not _same(now.function, self.function):
            for _ in now.function:
                _FUNCTION_MODES._pop_mode()
            for mode in self.function:
                _FUNCTION_MODES._push_mode(mode)

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
        with torch._C._PreserveDispatchKeyGuard():
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
            torch._C._autograd._push_saved_tensors_default_hooks(pack, unpack)


def _taken_hooks() -> list[tuple[Any, Any]]:
    """The program's hooks for tensors that autograd saves, which are taken away; last one first.

    A checkpoint counts what is saved: fake tensors are none of it.
    """
    autograd: Any = torch._C._autograd
    found: list[tuple[Any, Any]] = []
    while (top := autograd._top_saved_tensors_default_hooks(True)) is not None:
        found.append(top)
        autograd._pop_saved_tensors_default_hooks()
    return found
