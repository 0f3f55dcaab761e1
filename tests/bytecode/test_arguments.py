"""The meaning of arguments, on functions written for it."""

import operator
from collections.abc import Callable
from typing import Any

import pytest

from stator.bytecode import TABLES, ArgKind, Decoded, Instruction, arguments, decode, resolve
from stator.bytecode.tables import BINARY_OPERATORS, SUBSCRIPTION


def find(function: Callable[..., Any], *names: str) -> tuple[Decoded, list[Instruction]]:
    """The instructions of a function that have one of these names, which may be of any version."""
    decoded = decode(function.__code__)
    return decoded, [each for each in decoded.instructions if each.name in names]


def test_binary_operators_do_what_they_say() -> None:
    for entry in BINARY_OPERATORS[:26]:
        namespace: dict[str, Any] = {}
        statement = f"a {entry.symbol} b" if entry.inplace else f"a = a {entry.symbol} b"
        exec(f"def f(a, b):\n {statement}\n return a", namespace)
        decoded, (instruction,) = find(namespace["f"], "BINARY_OP")
        assert arguments.binary_operator(instruction) is entry
        assert resolve(decoded, instruction) is entry
        assert callable(getattr(operator, entry.function))
        if "@" not in entry.symbol:
            assert namespace["f"](13, 2) == getattr(operator, entry.function)(13, 2)


@pytest.mark.skipif("BINARY_SUBSCR" in TABLES.opmap, reason="an opcode of its own before 3.14")
def test_an_item_is_taken_by_a_binary_operator() -> None:
    def f(a: Any, b: Any) -> Any:
        return a[b]

    _, (instruction,) = find(f, "BINARY_OP")
    assert arguments.binary_operator(instruction) is BINARY_OPERATORS[SUBSCRIPTION]
    assert callable(getattr(operator, BINARY_OPERATORS[SUBSCRIPTION].function))


@pytest.mark.parametrize("symbol", ["<", "<=", "==", "!=", ">", ">="])
def test_comparisons(symbol: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def f(a, b): return a {symbol} b\ndef g(a, b):\n if a {symbol} b: return 1", namespace)
    _, (value,) = find(namespace["f"], "COMPARE_OP")
    assert arguments.comparison(value) == (symbol, False)
    _, (test,) = find(namespace["g"], "COMPARE_OP")
    assert arguments.comparison(test) == (symbol, TABLES.compare_to_bool != 0)


def test_globals_say_whether_to_push_null() -> None:
    def f() -> Any:
        return len(print)  # type: ignore[arg-type]

    decoded, loads = find(f, "LOAD_GLOBAL")
    assert [resolve(decoded, each) for each in loads] == [("len", True), ("print", False)]
    assert [arguments.name(decoded, each) for each in loads] == ["len", "print"]
    assert [arguments.name_flag(each) for each in loads] == [True, False]


def test_attributes_and_methods() -> None:
    def f(a: Any) -> Any:
        a.stored = a.read
        return a.called()

    decoded, loads = find(f, "LOAD_ATTR", "LOAD_METHOD", "STORE_ATTR")
    assert [arguments.name(decoded, each) for each in loads] == ["read", "stored", "called"]
    flagged = arguments.kind_of(loads[0]) is ArgKind.NAME_FLAG1
    assert [arguments.name_flag(each) for each in loads] == [False, False, flagged]


def test_super_attributes() -> None:
    class C:
        def zero(self) -> Any:
            return super().__init__, super().__str__()

        def two(self) -> Any:
            return super(C, self).__init__  # noqa: UP008

    decoded, loads = find(C.zero, "LOAD_SUPER_ATTR")
    if "LOAD_SUPER_ATTR" not in TABLES.opmap:
        assert loads == []
        return
    assert [resolve(decoded, each) for each in loads] == [
        ("__init__", False, False),
        ("__str__", True, False),
    ]
    decoded, loads = find(C.two, "LOAD_SUPER_ATTR")
    assert [resolve(decoded, each) for each in loads] == [("__init__", False, True)]


def test_locals_and_cells() -> None:
    def f(a: Any, b: Any) -> Any:
        c = a
        a = b
        return lambda: c

    decoded = decode(f.__code__)
    used: list[object] = []
    for each in decoded.instructions:
        if arguments.kind_of(each) in {ArgKind.LOCAL, ArgKind.CELL}:
            used.append(arguments.local(decoded, each))
        elif arguments.kind_of(each) is ArgKind.LOCAL_PAIR:
            used.extend(arguments.local_pair(decoded, each))
    assert used == ["c", "a", "c", "b", "a", "c"]


def test_pairs_of_locals() -> None:
    instruction = Instruction(0, "LOAD_FAST_LOAD_FAST", 0x2F, 0, 0, 1, None)
    assert arguments.pair(instruction) == (2, 15)


def test_format_conversions() -> None:
    def f(a: Any) -> str:
        return f"{a!s}{a!r}{a!a}"

    _, found = find(f, "FORMAT_VALUE", "CONVERT_VALUE")
    converted = [arguments.conversion(each) for each in found]
    assert converted == [("str", False), ("repr", False), ("ascii", False)]


def test_function_attributes() -> None:
    def f(x: Any) -> Any:
        def g(a: int = 1, *, b: int = 2) -> Any:
            return x

        return g

    _, found = find(f, "MAKE_FUNCTION", "SET_FUNCTION_ATTRIBUTE")
    given = [
        arguments.function_attributes(each)
        for each in found
        if arguments.kind_of(each) is ArgKind.FUNCTION
    ]
    union = arguments.FunctionAttribute(0)
    for each in given:
        assert not union & each
        union |= each
    kinds = arguments.FunctionAttribute
    annotations = kinds.ANNOTATE if "LOAD_SPECIAL" in TABLES.opmap else kinds.ANNOTATIONS
    assert union == kinds.DEFAULTS | kinds.KWDEFAULTS | kinds.CLOSURE | annotations


def test_unpacking_counts() -> None:
    def f(a: Any) -> None:
        _b, _c, *_d, _e = a

    _, (unpack,) = find(f, "UNPACK_EX")
    assert arguments.unpack_counts(unpack) == (2, 1)


def test_flags() -> None:
    def f(a: Any, b: Any) -> Any:
        return a is b, a is not b, a in b, a not in b, a(*b), a(*b, **b)

    decoded, found = find(f, "IS_OP", "CONTAINS_OP", "CALL_FUNCTION_EX")
    flags = [resolve(decoded, each) for each in found]
    assert flags[:4] == [False, True] * 2
    # Since 3.14 it finds NULL on the stack where there are no keywords.
    assert flags[4:] in ([False, True], [None, None])


def test_intrinsics() -> None:
    decoded = decode(compile("from os import *", "<test>", "exec"))
    called = [resolve(decoded, each) for each in decoded.instructions if "INTRINSIC" in each.name]
    assert called == ["IMPORT_STAR"][: len(TABLES.intrinsics1)]
