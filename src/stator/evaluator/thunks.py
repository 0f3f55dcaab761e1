"""Instructions that CPython itself carries out.

Many instructions only turn some values of the stack into others. For these the evaluator makes a
*thunk*: a function whose bytecode is that one instruction,

    LOAD_FAST 0, LOAD_FAST 1, …, THE_INSTRUCTION arg, [BUILD_TUPLE n,] RETURN_VALUE

and calls it inside a window. So they mean exactly what they mean in the running Python, error
messages included. The code has no RESUME, which is how CPython marks a frame that has not begun:
tracebacks, `sys._getframe` and tracers don't see it.
"""

import builtins
from functools import cache
from types import CodeType, FunctionType
from typing import Any, Final

from stator._native import _core as core
from stator.bytecode import TABLES, decode

_EXTENDED_ARG: Final = TABLES.opmap["EXTENDED_ARG"]
_TEMPLATE: Final = (lambda: None).__code__
_GLOBALS: Final[dict[str, Any]] = {
    "__name__": "stator.instruction",
    "__builtins__": builtins,
}
_FRAME_FLAGS: Final = 0x20 | 0x80 | 0x100 | 0x200
"""Flags of the frame's code that some instructions look at: the kinds of generators."""


def _encode(name: str, arg: int = 0) -> bytes:
    """One instruction with its prefixes and empty inline caches."""
    prefix = b"".join(
        bytes((_EXTENDED_ARG, arg >> shift & 0xFF)) for shift in (24, 16, 8) if arg >> shift
    )
    caches = bytes(2 * TABLES.caches.get(name, 0))
    return prefix + bytes((TABLES.opmap[name], arg & 0xFF)) + caches


@cache
def thunk_code(
    name: str, arg: int, inputs: int, outputs: int, names: tuple[str, ...] = (), flags: int = 0
) -> CodeType:
    """The code of a thunk; `flags` are those of the frame it stands for."""
    loads = b"".join(_encode("LOAD_FAST", index) for index in range(inputs))
    if outputs == 0:
        returns = _encode("LOAD_CONST", 0) + _encode("RETURN_VALUE")
    elif outputs == 1:
        returns = _encode("RETURN_VALUE")
    else:
        returns = _encode("BUILD_TUPLE", outputs) + _encode("RETURN_VALUE")
    steps = loads + _encode(name, arg) + returns
    return _code(name, steps, inputs, inputs + outputs + 2, names=names, flags=flags)


def _code(
    name: str,
    steps: bytes,
    inputs: int,
    stack: int,
    *,
    more: int = 0,
    names: tuple[str, ...] = (),
    flags: int = 0,
    consts: tuple[Any, ...] = (None,),
) -> CodeType:
    """The code of a function with these parameters and some `more` variables."""
    code = _TEMPLATE.replace(
        co_code=steps,
        co_argcount=inputs,
        co_nlocals=inputs + more,
        co_varnames=(*(f"v{index}" for index in range(inputs + more)),),
        co_consts=consts,
        co_names=names,
        co_stacksize=stack,
        co_flags=0x3 | (flags & _FRAME_FLAGS),
        co_name=name,
        co_qualname=name,
        co_filename="<stator instruction>",
        co_linetable=b"",
        co_exceptiontable=b"",
    )
    core.mark_code(code, core.CODE_TRANSPARENT)
    return code


@cache
def thunk(
    name: str, arg: int, inputs: int, outputs: int, names: tuple[str, ...] = (), flags: int = 0
) -> FunctionType:
    """A function of `inputs` arguments that carries out one instruction on them.

    It returns the top value of the stack, or, for more outputs, the tuple of the top ones.
    """
    return FunctionType(thunk_code(name, arg, inputs, outputs, names, flags), _GLOBALS)


@cache
def special_thunk(method: int) -> FunctionType:
    """LOAD_SPECIAL (3.14+): answers the method and its `self`, which may be NULL.

    A tuple can't hold that, so the two are the arguments of a call:

        LOAD_FAST 0, LOAD_SPECIAL, STORE_FAST 1, STORE_FAST 0,
        LOAD_CONST method_and_self, LOAD_FAST_AND_CLEAR 1, LOAD_FAST 0, CALL 1, RETURN_VALUE
    """
    steps = [("LOAD_FAST", 0), ("LOAD_SPECIAL", method), ("STORE_FAST", 1), ("STORE_FAST", 0)]
    steps += [("LOAD_CONST", 0), ("LOAD_FAST_AND_CLEAR", 1), ("LOAD_FAST", 0), ("CALL", 1)]
    encoded = b"".join(_encode(name, arg) for name, arg in [*steps, ("RETURN_VALUE", 0)])
    code = _code("LOAD_SPECIAL", encoded, 1, 4, more=1, consts=(core.method_and_self,))
    return FunctionType(code, _GLOBALS)


def special_name(thunk: FunctionType) -> str:
    """The method that a thunk of LOAD_SPECIAL looks up."""
    return TABLES.special_methods[decode(thunk.__code__).instructions[1].arg]


@cache
def delegation_thunk(kind: int, flags: int) -> FunctionType:
    """GET_ITER for `yield from` (3.15+): answers the iterator, or what needs none for CPython."""
    steps = [("LOAD_FAST", 0), ("GET_ITER", kind), ("POP_TOP", 0), ("RETURN_VALUE", 0)]
    encoded = b"".join(_encode(name, arg) for name, arg in steps)
    return FunctionType(_code("GET_ITER", encoded, 1, 4, flags=flags), _GLOBALS)
