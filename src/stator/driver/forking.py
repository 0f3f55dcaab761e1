"""A process that forks: what its children need to trace is loaded before.

Stage: driver. In: that something is to be compiled. Out: nothing that anyone sees. torch loads half
of itself with the first fake tensors. Where a program forks between `compile()` and the first call,
as with the workers of a DataLoader, the process and each child that calls would do so again.
"""

import os

from stator.graph.fakes.inputs import Fakes


class _Needs:
    """Whether a trace is to be expected, and whether torch is ready for it."""

    expected = False
    loaded = False


def expect_traces() -> None:
    """Something will be compiled, here or in a child."""
    _Needs.expected = True


def _before_fork() -> None:
    if _Needs.expected and not _Needs.loaded:
        _Needs.loaded = True
        Fakes()


os.register_at_fork(before=_before_fork)
