"""The evaluator: runs Python bytecode on real Python objects, exactly as CPython does.

In: a Python function and its arguments. Out: what the function returns or raises. Every Python
function that it calls, also from C code (sort keys, `__eq__`, properties, generators …), is
evaluated too. See docs/evaluator.md.
"""

from pathlib import Path
from typing import Final, NamedTuple

from stator._native import _core as core
from stator._native._core import run, run_with
from stator.evaluator.errors import Abort, InternalError
from stator.evaluator.operations import PLAIN, Operations, plain
from stator.evaluator.prepare import prepare

__all__ = [
    "PACKAGE",
    "PLAIN",
    "Abort",
    "InternalError",
    "Operations",
    "Statistics",
    "plain",
    "run",
    "run_with",
    "statistics",
]

PACKAGE: Final = str(Path(__file__).parents[1])  # own: this file
"""Where stator lies: frames of code below it are none of the program's."""


class Statistics(NamedTuple):
    """What the evaluator did in this process so far."""

    frames: int
    """How many times a frame was entered or, for a generator, resumed."""


def statistics() -> Statistics:
    """Numbers for tests and reports."""
    return Statistics(core.frames_evaluated())


core.configure(prepare=prepare, ops=PLAIN, own_prefix=PACKAGE)
