"""The bytecode table of the running Python, chosen once.

Stage: below everything. In: the magic number of the running interpreter. Out: `TABLES`, and
`UnsupportedPythonError` at import where there is no table for it.

To support another version, write its table next to the others and add it to `SUPPORTED`.
"""

import sys
from importlib.util import MAGIC_NUMBER
from typing import Final

from stator.bytecode.tables import py311, py312, py313, py314, py315
from stator.bytecode.tables.model import (
    BINARY_OPERATORS,
    COMPARISONS,
    SUBSCRIPTION,
    ArgKind,
    BinaryOperator,
    Jump,
    Tables,
)

__all__ = [
    "BINARY_OPERATORS",
    "COMPARISONS",
    "SUBSCRIPTION",
    "SUPPORTED",
    "TABLES",
    "ArgKind",
    "BinaryOperator",
    "Jump",
    "Tables",
    "UnsupportedPythonError",
    "select",
]

SUPPORTED: Final[tuple[Tables, ...]] = (
    py311.TABLES,
    py312.TABLES,
    py313.TABLES,
    py314.TABLES,
    py315.TABLES,
)


class UnsupportedPythonError(ImportError):
    """The running Python's bytecode is not one that stator knows."""


def select(magic: int) -> Tables:
    """The table for bytecode of this magic number.

    The magic number rather than the version is asked, because it also tells a pre-release and
    another implementation of the same version apart.
    """
    for tables in SUPPORTED:
        if tables.magic == magic:
            return tables
    versions = ", ".join("{}.{}".format(*tables.python) for tables in SUPPORTED)
    raise UnsupportedPythonError(
        f"stator supports the bytecode of CPython {versions}; this is {sys.implementation.name} "
        f"{sys.version.split()[0]} (bytecode magic number {magic})"
    )


TABLES: Final[Tables] = select(int.from_bytes(MAGIC_NUMBER[:2], "little"))
