"""Raising and handling exceptions.

The exception being handled is the thread's own (`tstate->exc_info`), which PUSH_EXC_INFO and
POP_EXCEPT set as CPython does. So `sys.exc_info()`, a bare `raise` in a native function and the
implicit `__context__` of exceptions raised in C are right by themselves.
"""

from typing import Any, Final

from stator._native import _core as core
from stator._native._core import NULL, Frame
from stator.bytecode import TABLES
from stator.evaluator.points import Saved, is_suspendable
from stator.evaluator.registry import RERAISE, Signal, opcode
from stator.evaluator.thunks import thunk


@opcode("RAISE_VARARGS")
def raise_varargs(f: Frame, argc: int) -> Signal | None:
    if argc == 0:
        exc = core.get_handled_exception()
        if exc is not None:
            return _again(f, exc)
    stack = f.stack
    operands = stack[-argc:] if argc else []
    f.ops.instruction(f, thunk("RAISE_VARARGS", argc, argc, 0), *operands)
    return None


@opcode("RERAISE")
def reraise(f: Frame, lasti_depth: int) -> Signal:
    """With an argument, the frame keeps the line of the instruction that raised it first."""
    stack = f.stack
    exc = stack.pop()
    f.result = (exc, stack[-lasti_depth] if lasti_depth else f.ip - 1)
    return RERAISE


def _again(f: Frame, exc: BaseException) -> Signal:
    f.result = (exc, f.ip - 1)
    return RERAISE


@opcode("PUSH_EXC_INFO")
def push_exc_info(f: Frame, _: Any) -> None:
    stack = f.stack
    exc = stack[-1]
    previous = core.swap_handled_exception(exc)
    stack[-1] = Saved(previous) if is_suspendable(f.code) else previous
    stack.append(exc)


@opcode("POP_EXCEPT")
def pop_except(f: Frame, _: Any) -> None:
    previous = f.stack.pop()
    core.set_handled_exception(previous.exception if type(previous) is Saved else previous)


EXIT_AND_SELF: Final = "LOAD_SPECIAL" in TABLES.opmap


@opcode("WITH_EXCEPT_START")
def with_except_start(f: Frame, _: Any) -> Any:
    """[exit, lasti, previous exception, exception] are on the stack; call exit.

    3.14+: behind exit, there is its `self` or NULL.
    """
    stack = f.stack
    exc = stack[-1]
    args = [type(exc), exc, core.traceback_of(exc)]
    leave = stack[-4]
    if EXIT_AND_SELF:
        if leave is not NULL:
            args.insert(0, leave)
        leave = stack[-5]
    result = f.ops.call(f, leave, args, None)
    if type(result) is Frame:
        return result
    stack.append(result)
    return None


@opcode("END_ASYNC_FOR")
def end_async_for(f: Frame, _: Any) -> Signal | None:
    stack = f.stack
    exc = stack.pop()
    if core.exception_matches(exc, StopAsyncIteration):
        stack.pop()
        return None
    return _again(f, exc)


_VALUE: Final = StopIteration.__dict__["value"]


@opcode("CLEANUP_THROW")
def cleanup_throw(f: Frame, _: Any) -> Signal | None:
    """3.12+: an exception came out of a sub-iterator that one was thrown into."""
    stack = f.stack
    exc = stack[-1]
    if core.exception_matches(exc, StopIteration):
        nulls = [NULL] * (TABLES.iterator_slots - 1)
        stack[-2 - TABLES.iterator_slots :] = [None, *nulls, _VALUE.__get__(exc)]
        return None
    return _again(f, exc)
