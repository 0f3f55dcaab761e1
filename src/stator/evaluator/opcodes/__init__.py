"""The opcode handlers, one small function each, grouped by what they are about.

Each module registers its handlers when it is imported. Opcodes that exist in some Python versions
only stand beside their relatives, with the versions in the docstring.
"""

from stator.bytecode import TABLES
from stator.evaluator.opcodes import (
    calls,
    containers,
    control,
    exceptions,
    functions,
    generators,
    names,
    operators,
    stack,
    table,
)
from stator.evaluator.registry import SELECTORS

__all__ = [
    "calls",
    "check_complete",
    "containers",
    "control",
    "exceptions",
    "functions",
    "generators",
    "names",
    "operators",
    "stack",
    "table",
]

FOLDED = frozenset({"CACHE", "EXTENDED_ARG"})
"""Not instructions: the decoder folds them into their neighbours."""


def check_complete() -> None:
    """Every opcode of the running Python has a handler."""
    missing = sorted(set(TABLES.opmap) - set(SELECTORS) - FOLDED)  # own: opcode names
    if missing:
        raise RuntimeError(f"stator's evaluator has no handler for {', '.join(missing)}")
