"""One instruction as Python text, and where the program goes on behind it.

Stage: effects. In: an activation before an instruction that can't be captured. Out: a `Step`: an
expression over values of its stack that CPython evaluates to the same effect, and for each way the
program can go on, the unit and the stack then. There are instructions that have none (they touch
variables or the frame, and can always be captured): `step` answers None.
"""

import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from stator._native._core import NULL
from stator.bytecode import TABLES, Decoded, Instruction, decode
from stator.bytecode.arguments import (
    binary_operator,
    comparison,
    keyword_names,
    loads_method,
    name,
    super_name,
)
from stator.bytecode.tables import SUBSCRIPTION
from stator.evaluator.opcodes.calls import KEYWORDS_OR_NULL
from stator.evaluator.opcodes.exceptions import EXIT_AND_SELF
from stator.evaluator.opcodes.table import EFFECTS, select_native
from stator.evaluator.points import Activation
from stator.evaluator.thunks import special_thunk, thunk


class Result(NamedTuple):
    """In a stack: what the step has resulted in, or one item of it."""

    item: int | None = None


class Way(NamedTuple):
    """How the program goes on."""

    unit: int
    stack: tuple[Any, ...]
    """From the bottom; values of the trace, NULL, and `Result`s."""


@dataclass(frozen=True)
class Step:
    """An instruction as an expression."""

    text: str
    """A format: {0}, {1} … are operands, names in braces `objects`; empty: nothing is to do."""
    operands: tuple[Any, ...]
    way: Way
    """When it has a result; when the result is true, if there is another way."""
    other: Way | None = None
    """When the result is false or, with `iterates`, NULL."""
    iterates: bool = False
    raises: bool = False
    """It has no result: nothing comes behind it, perhaps no instruction at all."""
    later: bool = False
    """Nothing runs: the continuation begins with the instruction itself."""
    objects: dict[str, Any] = field(default_factory=dict)


_Maker = Callable[[Decoded, Instruction, list[Any]], Step | None]
_MAKERS: Final[dict[str, _Maker]] = {}


def step(activation: Activation) -> Step | None:
    """The next instruction of an activation, as an expression."""
    decoded = decode(activation.code)
    instruction = decoded.at(activation.unit)
    stack = list(activation.stack)
    maker = _MAKERS.get(instruction.name)
    if maker is not None:
        made = maker(decoded, instruction, stack)
        if made is not None and "namespace" in made.objects:
            made.objects["namespace"] = activation.globals
        return made
    if instruction.name in EFFECTS:
        return _native(decoded, instruction, stack)
    return None


def _opcode(*names: str) -> Callable[[_Maker], _Maker]:
    def register(maker: _Maker) -> _Maker:
        for each in names:
            _MAKERS[each] = maker
        return maker

    return register


def _made(
    instruction: Instruction,
    stack: list[Any],
    count: int,
    text: str,
    *leaves: Any,
    **objects: Any,
) -> Step:
    """A step that takes the top `count` values and leaves others."""
    below, operands = stack[: len(stack) - count], stack[len(stack) - count :]
    way = Way(instruction.next, (*below, *leaves))
    return Step(text, tuple(operands), way, objects=objects)


# ---- operators

_IN_PLACE: Final = {
    each.symbol: getattr(operator, each.function)
    for each in (binary_operator(Instruction(0, "", arg, 0, 0, 0, None)) for arg in range(26))
    if each.symbol.endswith("=")
}


@_opcode("BINARY_OP")
def _binary(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step | None:
    if instruction.arg == SUBSCRIPTION:
        return _getitem(decoded, instruction, stack)
    symbol = binary_operator(instruction).symbol
    if symbol in _IN_PLACE:
        function = _IN_PLACE[symbol]
        return _made(instruction, stack, 2, "{in_place}({0}, {1})", Result(), in_place=function)
    return _made(instruction, stack, 2, f"{{0}} {symbol} {{1}}", Result())


@_opcode("COMPARE_OP")
def _compare(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    symbol, to_bool = comparison(instruction)
    if to_bool:
        text = f"{{truth}}({{0}} {symbol} {{1}})"
        return _made(instruction, stack, 2, text, Result(), truth=operator.truth)
    return _made(instruction, stack, 2, f"{{0}} {symbol} {{1}}", Result())


@_opcode("CONTAINS_OP")
def _contains(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    text = "{0} not in {1}" if instruction.arg else "{0} in {1}"
    return _made(instruction, stack, 2, text, Result())


_UNARY: Final = {
    "UNARY_NEGATIVE": "-{0}",
    "UNARY_POSITIVE": "+{0}",
    "UNARY_INVERT": "~{0}",
    "UNARY_NOT": "not {0}",
}


@_opcode(*_UNARY)
def _unary(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    return _made(instruction, stack, 1, _UNARY[instruction.name], Result())


@_opcode("TO_BOOL")
def _to_bool(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    return _made(instruction, stack, 1, "{truth}({0})", Result(), truth=operator.truth)


@_opcode("CALL_INTRINSIC_1")
def _intrinsic(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step | None:
    if TABLES.intrinsics1[instruction.arg] == "UNARY_POSITIVE":
        return _made(instruction, stack, 1, "+{0}", Result())
    return None


# ---- branches


def _branch(instruction: Instruction, stack: list[Any], jumps_if: bool, keeps: bool) -> Step:
    """`keeps`: the value stays on the stack where the jump is taken."""
    assert instruction.target is not None
    below = tuple(stack[:-1])
    jump = Way(instruction.target, (*below, stack[-1]) if keeps else below)
    on = Way(instruction.next, below)
    true, false = (jump, on) if jumps_if else (on, jump)
    return Step("{truth}({0})", (stack[-1],), true, false, objects={"truth": operator.truth})


@_opcode("POP_JUMP_IF_FALSE", "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_FALSE")
def _jump_if_false(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    return _branch(instruction, stack, False, False)


@_opcode("POP_JUMP_IF_TRUE", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_TRUE")
def _jump_if_true(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    return _branch(instruction, stack, True, False)


@_opcode("JUMP_IF_FALSE_OR_POP")
def _jump_if_false_or_pop(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    return _branch(instruction, stack, False, True)


@_opcode("JUMP_IF_TRUE_OR_POP")
def _jump_if_true_or_pop(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    return _branch(instruction, stack, True, True)


# ---- attributes and items


@_opcode("LOAD_ATTR", "LOAD_METHOD")
def _load_attr(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    as_method = loads_method(instruction)
    text = f"{{get}}({{0}}, {name(decoded, instruction)!r})"
    return _made(instruction, stack, 1, text, *_callee(as_method), get=getattr)


def _callee(as_method: bool) -> tuple[Any, ...]:
    """What a load leaves: for a call, with the NULL that a call expects."""
    if not as_method:
        return (Result(),)
    return (NULL, Result()) if TABLES.null_first else (Result(), NULL)


@_opcode("LOAD_SUPER_ATTR")
def _load_super_attr(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step | None:
    attribute = super_name(decoded, instruction)
    if stack[-3] is not super:
        return None
    text = f"{{get}}({{parent}}({{1}}, {{2}}), {attribute.name!r})"
    leaves = _callee(attribute.method)
    return _made(instruction, stack, 3, text, *leaves, get=getattr, parent=super)


@_opcode("STORE_ATTR")
def _store_attr(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    text = f"{{set}}({{1}}, {name(decoded, instruction)!r}, {{0}})"
    return _made(instruction, stack, 2, text, set=setattr)


@_opcode("DELETE_ATTR")
def _delete_attr(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    text = f"{{delete}}({{0}}, {name(decoded, instruction)!r})"
    return _made(instruction, stack, 1, text, delete=delattr)


@_opcode("BINARY_SUBSCR")
def _getitem(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    return _made(instruction, stack, 2, "{0}[{1}]", Result())


@_opcode("BINARY_SLICE")
def _getslice(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    return _made(instruction, stack, 3, "{0}[{1}:{2}]", Result())


@_opcode("STORE_SUBSCR")
def _setitem(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    return _made(instruction, stack, 3, "{set}({1}, {2}, {0})", set=operator.setitem)


@_opcode("STORE_SLICE")
def _setslice(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    text = "{set}({1}, {part}({2}, {3}), {0})"
    return _made(instruction, stack, 4, text, set=operator.setitem, part=slice)


@_opcode("DELETE_SUBSCR")
def _delitem(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    return _made(instruction, stack, 2, "{delete}({0}, {1})", delete=operator.delitem)


# ---- iteration


@_opcode("GET_ITER")
def _iter(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    return _made(instruction, stack, 1, "{iterate}({0})", Result(), *_NULLS, iterate=iter)


_NULLS: Final = (NULL,) * (TABLES.iterator_slots - 1)
"""What is on the stack above an iterator."""


@_opcode("FOR_ITER")
def _next(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    assert instruction.target is not None
    below = tuple(stack)
    iterator = stack[-TABLES.iterator_slots]
    on = Way(instruction.next, (*below, Result()))
    end = Way(instruction.target + TABLES.for_iter_skip, below[: -TABLES.iterator_slots])
    objects = {"following": next, "NULL": NULL}
    return Step("{following}({0}, {NULL})", (iterator,), on, end, iterates=True, objects=objects)


# ---- calls


NOTHING: Final[set[int]] = set()
"""Ids of functions that do nothing and return None, such as `stator.graph_break`."""

FRAME_READERS: Final[dict[int, int]] = {
    id(locals): 1,
    id(vars): 1,
    id(dir): 1,
    id(eval): 2,
    id(exec): 2,
    id(breakpoint): 99,
    id(sys._getframe): 99,
}
"""What looks at the variables of its caller, if it is given fewer arguments than this. The residual
function has others than the program: only a continuation, which has the program's, can call it."""


@_opcode("CALL", "CALL_KW")
def _call(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step | None:
    stack = list(stack)
    if instruction.name == "CALL_KW":
        kwnames: tuple[str, ...] = stack.pop()
    else:
        kwnames = keyword_names(decoded, instruction) or ()
    count = instruction.arg + 2
    operands = stack[len(stack) - count :]
    null = 0 if TABLES.null_first else 1
    alone = operands[null] is NULL  # there is no self besides the callable
    callee = 1 - null if alone else 0
    start = 2 if alone else 1
    if id(operands[callee]) in NOTHING and instruction.arg <= 1 and not kwnames:
        return Step("", (), Way(instruction.next, (*stack[: len(stack) - count], None)))
    given = list(range(start, count))
    if len(given) < FRAME_READERS.get(id(operands[callee]), 0):
        return None if kwnames else _later(decoded, instruction, stack)
    named = given[len(given) - len(kwnames) :] if kwnames else []
    texts = [f"{{{i}}}" for i in given[: len(given) - len(named)]]
    texts += [f"{key}={{{i}}}" for key, i in zip(kwnames, named, strict=True)]
    text = f"{{{callee}}}({', '.join(texts)})"
    way = Way(instruction.next, (*stack[: len(stack) - count], Result()))
    return Step(text, tuple(operands), way)


def _later(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    before = decoded.at(instruction.start - 1)
    begin = before if before.name == "PRECALL" else instruction
    return Step("", (), Way(begin.start, tuple(stack)), later=True)


@_opcode("CALL_FUNCTION_EX")
def _call_ex(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step | None:
    keywords = stack[-1] is not NULL if KEYWORDS_OR_NULL else instruction.arg & 1
    callee = 1 if TABLES.null_first else 0
    count = 4 if KEYWORDS_OR_NULL else 3 + keywords
    if id(stack[callee - count]) in FRAME_READERS:
        return _later(decoded, instruction, stack)
    text = f"{{{callee}}}(*{{2}}, **{{3}})" if keywords else f"{{{callee}}}(*{{2}})"
    return _made(instruction, stack, count, text, Result())


@_opcode("LOAD_SPECIAL")
def _load_special(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    """As a bound method."""
    text = "{bound}(*{special}({0}))"
    objects = {"bound": _bound, "special": special_thunk(instruction.arg)}
    return _made(instruction, stack, 1, text, Result(), NULL, **objects)


def _bound(method: Any, owner: Any) -> Any:
    return method if owner is NULL else method.__get__(owner, type(owner))


@_opcode("WITH_EXCEPT_START")
def _exit(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    operands: tuple[Any, ...] = (stack[-4], stack[-1])
    text = "{0}({kind}({1}), {1}, {traceback}({1}))"
    if EXIT_AND_SELF:
        operands = (stack[-5], stack[-1])
        if stack[-4] is not NULL:
            operands += (stack[-4],)
            text = "{0}({2}, {kind}({1}), {1}, {traceback}({1}))"
    objects = {"kind": type, "traceback": _TRACEBACK}
    return Step(text, operands, Way(instruction.next, (*stack, Result())), objects=objects)


_TRACEBACK: Final = BaseException.__dict__["__traceback__"].__get__


# ---- containers


@_opcode("LIST_EXTEND", "SET_ADD", "SET_UPDATE", "DICT_UPDATE", "MAP_ADD")
def _update(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    count = 2 if instruction.name == "MAP_ADD" else 1
    operands = (stack[-count - instruction.arg], *stack[-count:])
    function = thunk(instruction.name, 1, count + 1, 1)
    texts = ", ".join(f"{{{i}}}" for i in range(count + 1))
    way = Way(instruction.next, tuple(stack[:-count]))
    return Step(f"{{update}}({texts})", operands, way, objects={"update": function})


@_opcode("BUILD_STRING")
def _join(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    count = instruction.arg
    texts = ", ".join(f"{{{i}}}" for i in range(count))
    return _made(instruction, stack, count, f"''.join(({texts},))", Result())


# ---- the rest


@_opcode("IMPORT_NAME")
def _import(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    """`step` puts the frame's globals and `__import__` in."""
    text = f"{{load}}({name(decoded, instruction)!r}, {{namespace}}, None, {{1}}, {{0}})"
    return _made(instruction, stack, 2, text, Result(), load=__import__, namespace=None)


@_opcode("RAISE_VARARGS")
def _raise(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step | None:
    count = instruction.arg
    if not count:
        return None
    function = thunk("RAISE_VARARGS", count, count, 0)
    texts = ", ".join(f"{{{i}}}" for i in range(count))
    made = _made(instruction, stack, count, f"{{throw}}({texts})", throw=function)
    return replace(made, raises=True)


def _native(decoded: Decoded, instruction: Instruction, stack: list[Any]) -> Step:
    """An instruction for which there is a thunk (`evaluator.thunks`)."""
    _, (function, reads, removes, count) = select_native(decoded, instruction)
    texts = ", ".join(f"{{{i}}}" for i in range(reads))
    operands = stack[len(stack) - reads :]
    kept = stack[: len(stack) - removes]
    leaves = [Result()] if count == 1 else [Result(i) for i in range(count)]
    way = Way(instruction.next, (*kept, *leaves))
    return Step(f"{{native}}({texts})", tuple(operands), way, objects={"native": function})
