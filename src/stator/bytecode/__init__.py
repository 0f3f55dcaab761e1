"""Decoding code objects, for CPython 3.11 to 3.15.

Stage: the first, below the evaluator and the emitter. In: code objects of the running Python. Out:
`Decoded` (`decode`), the meaning of arguments (`resolve` and the functions of `arguments`), the
facts about opcodes (`TABLES`), and `co_exceptiontable` bytes (`encode_exception_table`).

Importing the package on a Python without a table raises `UnsupportedPythonError`.
"""

from stator.bytecode.arguments import (
    Comparison,
    Conversion,
    FlaggedName,
    FunctionAttribute,
    ImportedName,
    SuperName,
    kind_of,
    resolve,
)
from stator.bytecode.check import check
from stator.bytecode.decode import Decoded, Instruction, Positions, decode
from stator.bytecode.exception_table import (
    BytecodeError,
    Handler,
    encode_exception_table,
    find_handler,
    parse_exception_table,
)
from stator.bytecode.listing import listing
from stator.bytecode.tables import (
    TABLES,
    ArgKind,
    BinaryOperator,
    Jump,
    Tables,
    UnsupportedPythonError,
)

__all__ = [
    "TABLES",
    "ArgKind",
    "BinaryOperator",
    "BytecodeError",
    "Comparison",
    "Conversion",
    "Decoded",
    "FlaggedName",
    "FunctionAttribute",
    "Handler",
    "ImportedName",
    "Instruction",
    "Jump",
    "Positions",
    "SuperName",
    "Tables",
    "UnsupportedPythonError",
    "check",
    "decode",
    "encode_exception_table",
    "find_handler",
    "kind_of",
    "listing",
    "parse_exception_table",
    "resolve",
]
