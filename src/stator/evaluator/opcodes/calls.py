"""Calls."""

from types import CodeType, FunctionType
from typing import Any, Final

from stator._native import _core as core
from stator._native._core import NULL, Frame
from stator.bytecode import TABLES, ArgKind, Decoded, Instruction
from stator.bytecode.arguments import SuperName, keyword_names, super_name
from stator.evaluator.opcodes.operators import LOAD_METHOD, load_attr
from stator.evaluator.registry import Handler, Signal, opcode, select
from stator.evaluator.thunks import special_thunk, thunk
from stator.objects import lookup

# A call finds [NULL, callable, arguments…] or [method, self, arguments…] on the stack; since 3.13
# [callable, NULL or self, arguments…]. The evaluator itself only makes the form with NULL, but a
# generator that CPython suspended in the middle of a call may have either.


def call(f: Frame, argc: int) -> Any:
    return _call(f, argc, None)


def call_keywords(f: Frame, argc_and_names: tuple[int, tuple[str, ...]]) -> Any:
    return _call(f, *argc_and_names)


def _call(f: Frame, argc: int, kwnames: tuple[str, ...] | None) -> Any:
    stack = f.stack
    base = -argc - 2
    below, function = stack[base], stack[base + 1]
    args = stack[-argc:] if argc else []
    del stack[base:]
    if TABLES.null_first:
        if below is not NULL:
            args.insert(0, function)
            function = below
    else:
        if function is not NULL:
            args.insert(0, function)
        function = below
    result = f.ops.call(f, function, args, kwnames)
    if type(result) is Frame:
        return result
    stack.append(result)
    return None


@select("CALL")
def select_call(decoded: Decoded, instruction: Instruction) -> tuple[Handler, Any]:
    names = keyword_names(decoded, instruction)
    if instruction.arg == 0 and names is None and TABLES.iterator_slots == 2:
        return call_with_self, 0
    return (call, instruction.arg) if names is None else (call_keywords, (instruction.arg, names))


def call_with_self(f: Frame, _: int) -> Any:
    """3.15+: the generator of an expression iterates over what it is given while it is made.

    CPython makes it, so that it is given something else to iterate over, and then the iterator.
    """
    stack = f.stack
    function, given = stack[-2], stack[-1]
    if given is NULL or type(function) is not FunctionType or not _iterates(function.__code__):
        return _call(f, 0, None)
    if lookup(type(given), "__iter__") is None and lookup(type(given), "__getitem__") is None:
        return _call(f, 0, None)  # an error, in the frame of the expression
    iterator = f.ops.iter(f, given)
    stack[-1] = ()
    result = _call(f, 0, None)
    core.begin_with(stack[-1], given, iterator)
    return result


def _iterates(code: CodeType) -> bool:
    """Whether its frames ask for an iterator before they become generators."""
    if code.co_varnames[:1] != (".0",):
        return False
    for number in code.co_code[::2]:
        if number in (_GET_ITER, _RETURN_GENERATOR):
            return number == _GET_ITER
    return False


_GET_ITER: Final = TABLES.opmap["GET_ITER"]
_RETURN_GENERATOR: Final = TABLES.opmap["RETURN_GENERATOR"]


@opcode("CALL_KW")
def call_kw(f: Frame, argc: int) -> Any:
    """3.13+: the keywords' names are on the stack."""
    return _call(f, argc, f.stack.pop())


KEYWORDS_OR_NULL: Final = TABLES.kinds["CALL_FUNCTION_EX"] is ArgKind.NONE
"""3.14+: CALL_FUNCTION_EX finds NULL on the stack where there are no keywords."""


@opcode("CALL_FUNCTION_EX")
def call_function_ex(f: Frame, with_keywords: int) -> Any:
    stack = f.stack
    kwargs = stack.pop() if KEYWORDS_OR_NULL or with_keywords else None
    if kwargs is NULL:
        kwargs = None
    args = stack.pop()
    if TABLES.null_first:
        function = stack.pop()
        stack.pop()
    else:
        stack.pop()
        function = stack.pop()
    result = f.ops.call_ex(f, function, args, kwargs)
    if result is NULL:  # args is not iterable: let CPython find the words
        operands = [None, function, args] if TABLES.null_first else [function, None, args]
        operands += [None] * KEYWORDS_OR_NULL
        f.ops.instruction(f, thunk("CALL_FUNCTION_EX", 0, len(operands), 1), *operands)  # own: ours
    if type(result) is Frame:
        return result
    stack.append(result)
    return None


# ---- special methods


@opcode("LOAD_SPECIAL")
def load_special(f: Frame, method: int) -> None:
    """3.14+: `__enter__` and the like, for a call."""
    stack = f.stack
    stack.extend(f.ops.instruction(f, special_thunk(method), stack.pop()))


# ---- super().attribute


def load_super_attr(f: Frame, attribute: SuperName) -> Frame | Signal | None:
    """3.12+: [super, class, self] are on the stack; `super` may be anything."""
    stack = f.stack
    args = [stack[-2], stack[-1]]
    function = stack[-3]
    del stack[-2:]
    if function is not super and not attribute.two_arguments:
        args = []
    stack[-1] = f.ops.call_native(f, function, *args)
    load = LOAD_METHOD if attribute.method else load_attr
    return load(f, attribute.name)


@select("LOAD_SUPER_ATTR")
def select_load_super_attr(decoded: Decoded, instruction: Instruction) -> tuple[Handler, SuperName]:
    return load_super_attr, super_name(decoded, instruction)
