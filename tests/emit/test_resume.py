"""Continuations: every program, split before every instruction, does what it does in one piece."""

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final

import pytest

from stator.bytecode import TABLES, decode
from stator.evaluator.points import is_suspendable
from tests.emit.resume_programs import PRELUDE, PROGRAMS, large
from tests.emit.splitting import Finished, observe_split
from tests.evaluator import oracle
from tests.evaluator.oracle import Program, programs

NOT_IN_FUNCTIONS: Final = frozenset(
    {
        # not instructions, or made by CPython only
        *("CACHE", "EXTENDED_ARG", "INTERPRETER_EXIT", "EXIT_INIT_CHECK", "RESERVED"),
        # generators and coroutines
        *("ASYNC_GEN_WRAP", "BEFORE_ASYNC_WITH", "CLEANUP_THROW", "END_ASYNC_FOR", "END_SEND"),
        *("GET_AITER", "GET_ANEXT", "GET_AWAITABLE", "GET_YIELD_FROM_ITER", "SEND"),
        *("JUMP_BACKWARD_NO_INTERRUPT", "RETURN_GENERATOR", "YIELD_VALUE"),
        # class bodies and modules
        *("DELETE_NAME", "IMPORT_STAR", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"),
        *("LOAD_FROM_DICT_OR_GLOBALS", "LOAD_LOCALS", "LOAD_NAME", "PRINT_EXPR"),
        *("SETUP_ANNOTATIONS", "STORE_NAME"),
    }
)
LARGE: Final = Program("arguments and jumps that need EXTENDED_ARG", large(), prelude=PRELUDE)
ALL: Final = [*programs(PROGRAMS, PRELUDE), LARGE]


@pytest.mark.parametrize("program", ALL, ids=str)
def test_every_split(program: Program) -> None:
    native = oracle.observe(oracle.run_natively, program.prepare)
    count = done = 0
    while (outcome := observe_split(program, count)) is not Finished:
        if isinstance(outcome, dict):
            differences = oracle._differences(native, outcome)
            assert not differences, "\n".join([f"split after {count}", *differences])
            done += 1
        count += 37 if program is LARGE else 1
    assert done >= 3


def test_the_programs_use_all_opcodes() -> None:
    ran: dict[int, CodeType] = {}

    def trace(frame: FrameType, event: str, arg: object) -> None:
        ran[id(frame.f_code)] = frame.f_code

    def traced(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        sys.settrace(trace)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(None)

    for program in ALL:
        oracle.observe(traced, program.prepare)
    used = {
        instruction.name
        for code in ran.values()
        if code.co_filename.startswith("<program") and is_suspendable(code)
        for instruction in decode(code).instructions
    }
    assert set(TABLES.opmap) - NOT_IN_FUNCTIONS - used == set()
