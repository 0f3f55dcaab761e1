"""The tables against what the running Python says about itself, and against each other."""

import dis
import opcode
import sys
from typing import Any

import pytest

from stator.bytecode.tables import (
    BINARY_OPERATORS,
    COMPARISONS,
    SUPPORTED,
    TABLES,
    ArgKind,
    Tables,
    UnsupportedPythonError,
    select,
)

VERSIONS = pytest.mark.parametrize(
    "tables", SUPPORTED, ids=lambda tables: "{}.{}".format(*tables.python)
)

# Not in `co_code`: inline caches are skipped by their count, the others are never compiled.
ABSENT = {"CACHE", "RESERVED", "ENTER_EXECUTOR", "TRACE_RECORD"}
BASE = {
    name: number
    for name, number in opcode.opmap.items()
    if number < 256 and name not in ABSENT and not name.startswith("INSTRUMENTED_")
}


def numbers(*kinds: ArgKind) -> set[int]:
    return {number for kind in kinds for number in TABLES.opcodes.get(kind, {}).values()}


def test_the_running_version_is_selected() -> None:
    assert TABLES.python == sys.version_info[:2]


def test_an_unknown_version_is_refused() -> None:
    with pytest.raises(UnsupportedPythonError, match=r"3\.11, .*, 3\.15; this is .* number 1\)"):
        select(1)


def test_opcode_numbers() -> None:
    assert TABLES.opmap == BASE
    assert {name: TABLES.opname[number] for name, number in BASE.items()} == {
        name: name for name in BASE
    }


def test_kinds_of_arguments() -> None:
    kinds = ArgKind
    base = set(BASE.values())
    takes = set(getattr(opcode, "hasarg", range(opcode.HAVE_ARGUMENT, 256)))
    assert numbers(kinds.NONE) == base - takes
    assert numbers(kinds.CONST) == set(opcode.hasconst) & base
    names = numbers(kinds.NAME, kinds.NAME_FLAG1, kinds.NAME_FLAG2, kinds.NAME_IMPORT)
    assert names == set(opcode.hasname) & base
    # Since 3.14 LOAD_DEREF is among the first, though it reads a cell.
    slots = set(opcode.haslocal) | set(opcode.hasfree)
    assert numbers(kinds.LOCAL, kinds.LOCAL_PAIR, kinds.CELL) == slots & base
    assert numbers(kinds.CELL) - {opcode.opmap["LOAD_DEREF"]} <= set(opcode.hasfree)
    # END_ASYNC_FOR goes on behind itself: its argument tells monitors where the loop was.
    jumps = set(opcode.hasjrel) - {opcode.opmap["END_ASYNC_FOR"]}
    assert numbers(kinds.JUMP) == jumps & base
    assert numbers(kinds.COMPARE) == set(opcode.hascompare) & base
    assert not set(opcode.hasjabs) & base


def test_inline_caches() -> None:
    entries: Any = opcode._inline_cache_entries  # type: ignore[attr-defined]
    expected = {
        name: entries[number] if isinstance(entries, list) else entries.get(name, 0)
        for name, number in BASE.items()
    }
    assert {name: TABLES.caches.get(name, 0) for name in BASE} == expected


def test_operators() -> None:
    theirs: Any = opcode._nb_ops  # type: ignore[attr-defined]
    ours = [entry.symbol for entry in BINARY_OPERATORS]
    assert [symbol for _, symbol in theirs] == ours[: len(theirs)]
    assert len(theirs) == len(ours) - ("BINARY_SUBSCR" in TABLES.opmap)
    assert opcode.cmp_op == COMPARISONS


def test_intrinsics() -> None:
    for ours, attribute in [
        (TABLES.intrinsics1, "_intrinsic_1_descs"),
        (TABLES.intrinsics2, "_intrinsic_2_descs"),
    ]:
        theirs = getattr(opcode, attribute, [])
        assert list(ours) == [name.removeprefix("INTRINSIC_") for name in theirs]


def test_constants_and_methods() -> None:
    for ours, attribute in [
        (TABLES.common_constants, "_common_constants"),
        (TABLES.special_methods, "_special_method_names"),
    ]:
        assert list(ours) == list(getattr(opcode, attribute, []))


def test_how_many_values_an_iterator_is() -> None:
    effect = dis.stack_effect(TABLES.opmap["GET_ITER"], *[0] * ("GET_ITER" in HAS_ARGUMENT))
    assert TABLES.iterator_slots == 1 + effect


def test_effects_of_jumps() -> None:
    for name, jump in TABLES.jumps.items():
        number = TABLES.opmap[name]
        taken = dis.stack_effect(number, 1, jump=True)
        if name == "FOR_ITER":
            skipped = [TABLES.opmap[each] for each in TABLES.for_iter_exhausted]
            taken += sum(dis.stack_effect(each) for each in skipped)
        assert jump.taken == taken, name
        if jump.fallthrough is not None:
            assert jump.fallthrough == dis.stack_effect(number, 1, jump=False), name
        assert (jump.direction < 0) == ("BACKWARD" in name)


def test_the_order_of_null_and_callable() -> None:
    code = compile("f()", "<test>", "eval")
    names = [each.opname for each in dis.get_instructions(code)]
    assert TABLES.null_first == (names.index("PUSH_NULL") < names.index("LOAD_NAME"))


HAS_ARGUMENT = {name for name, kind in TABLES.kinds.items() if kind is not ArgKind.NONE}


@VERSIONS
def test_consistency(tables: Tables) -> None:
    every = [number for group in tables.opcodes.values() for number in group.values()]
    assert len(every) == len(set(every)) == len(tables.opmap)
    known = tables.opmap.keys()
    assert tables.caches.keys() <= known
    assert tables.never_raise <= known
    assert tables.terminators <= known
    assert set(tables.for_iter_exhausted) <= known
    assert tables.jumps.keys() == tables.opcodes[ArgKind.JUMP].keys()
    assert tables.popping_jumps == {name for name in known if name.startswith("POP_JUMP")}
    assert {"RETURN_VALUE", "RERAISE", "JUMP_BACKWARD", "JUMP_FORWARD"} <= tables.terminators
    assert tables.may_raise | tables.never_raise == known
    assert {"LOAD_ATTR", "CALL", "FOR_ITER", "YIELD_VALUE", "BUILD_MAP"} <= tables.may_raise
    assert tables.for_iter_skip == {(3, 11): 0, (3, 12): 1}.get(tables.python, 2)
