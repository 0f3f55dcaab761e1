"""One compile at a time: tracing changes torch's state for a while, and backends are not made for
several threads.

Stage: driver. In: nothing. Out: the lock that whoever compiles holds.
"""

import os
import threading

_lock = threading.RLock()


def compiling_alone() -> threading.RLock:
    """To be held around a compile; the thread that holds it may compile more meanwhile."""
    return _lock


def _after_fork() -> None:
    """The thread that held the lock does not exist in the child."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)
