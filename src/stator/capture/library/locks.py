"""Locks in a trace: not taken.

What a `with lock:` block does to the world happens after the graph, on the calling thread, in one
go (docs/capture.md), so the lock is not needed while tracing; and a trace must not wait for a lock
or keep others waiting. What a program takes it must release, else the trace ends.
"""

import threading
from typing import Any, Final

from stator._native import _core as core
from stator.diagnostics.catalogue import LockHeld
from stator.objects import TypeSet
from stator.world import World

_RLOCK: Final = type(threading.RLock())
_LOCKS: Final = TypeSet(type(threading.Lock()), _RLOCK)
_NOT_HELD: Final = ("release unlocked lock", "cannot release un-acquired lock")


def is_lock(cls: type) -> bool:
    return _LOCKS.holds(cls)


class Locks:
    """How often each lock is held, as far as the program knows."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.held: dict[int, int] = {}

    def balanced(self) -> bool:
        """Whether everything that was taken is released."""
        return not any(self.held.values())

    def call(self, lock: Any, method: str, given: Any = ()) -> Any:
        """Locks are not taken, see above; but what is taken must be released.

        One that is `given` a limit may not be had: whether somebody else holds it is not known,
        unless the program holds it itself, as semaphores, conditions and events make sure.
        """
        held = self.held.get(id(lock), 0)
        if method == "acquire" and given:
            if held > 0 and type(lock) is not _RLOCK:
                return False
            if held <= 0 and self._world.is_world(lock):
                raise LockHeld("it is tried whether a lock can be taken")
        if method in ("locked", "_is_owned") and (held or not self._world.is_world(lock)):
            return held > 0
        if method not in ("acquire", "release", "__enter__", "__exit__"):
            raise LockHeld(f"a lock is asked for {method}")
        change = 1 if method in ("acquire", "__enter__") else -1
        if change == 1 and held and type(lock) is not _RLOCK:
            raise LockHeld("a lock is taken that is held already")
        if change == -1 and not held and not self._world.is_world(lock):
            core.raise_user(RuntimeError(_NOT_HELD[type(lock) is _RLOCK]))
        self.held[id(lock)] = held + change
        self._world.keep(lock)
        return True if change == 1 else None
