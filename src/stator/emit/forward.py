"""A function with parameters of its own that hands its arguments on to another.

Stage: emit, around `resume`. In: a function that takes its values by `*`. Out: one with as many
positional parameters, for callers that bind variables to parameters.

It is there for a moment only: each argument is taken out of its slot, so that nothing is kept alive
while the other function runs; and without a RESUME its frame counts as not begun, so tracebacks,
`sys._getframe` and tracers pass over it. (A profiler on 3.11 sees it return.)
"""

from collections.abc import Sequence
from types import CodeType, FunctionType
from typing import Final

from stator.bytecode import TABLES
from stator.emit.assembly import encode

_FLAGS: Final = 0x1 | 0x2
"""CO_OPTIMIZED and CO_NEWLOCALS."""


def forward(
    function: FunctionType, parameters: Sequence[str], like: CodeType, unused: int = 0
) -> FunctionType:
    """A function of these parameters that calls another; `like` gives it its name and file.

    The other one does not get the last ones of them, which are `unused`.
    """
    count = len(parameters) - unused
    steps = [("LOAD_CONST", 0), ("PUSH_NULL", 0)]
    if TABLES.null_first:
        steps.reverse()
    for slot in range(count):
        steps += [("LOAD_FAST", slot), ("DELETE_FAST", slot)]
    steps += [("DELETE_FAST", count + number) for number in range(unused)]
    if "PRECALL" in TABLES.opmap:
        steps.append(("PRECALL", count))
    steps += [("CALL", count), ("RETURN_VALUE", 0)]
    code = like.replace(
        co_code=b"".join(encode(name, arg) for name, arg in steps),
        co_consts=(function,),
        co_names=(),
        co_varnames=tuple(parameters),
        co_cellvars=(),
        co_freevars=(),
        co_nlocals=len(parameters),
        co_argcount=len(parameters),
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=_FLAGS,
        co_stacksize=count + 2,
        co_linetable=b"",
        co_exceptiontable=b"",
    )
    return FunctionType(code, function.__globals__, like.co_name)
