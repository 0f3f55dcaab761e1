"""The decoder and `dis` must say the same about every code object of the corpus."""

import dis
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from stator.bytecode import (
    ArgKind,
    Handler,
    Instruction,
    check,
    decode,
    encode_exception_table,
    kind_of,
    listing,
    resolve,
)

# END_ASYNC_FOR goes on behind itself: its argument tells monitors where the loop was (3.14+).
JUMPS = set(dis.hasjrel) - {dis.opmap["END_ASYNC_FOR"]}


def reference(code: CodeType) -> Iterator[tuple[int, dis.Instruction]]:
    """The instructions that `dis` finds, with the offset of their first EXTENDED_ARG."""
    start = None
    for instruction in dis.get_instructions(code):
        start = instruction.offset if start is None else start
        if instruction.opname != "EXTENDED_ARG":
            yield start, instruction
            start = None


def test_the_corpus_is_large(stdlib: list[CodeType]) -> None:
    assert len(stdlib) > 5000
    assert sum(len(code.co_code) // 2 for code in stdlib) > 300_000


def test_instructions(stdlib: list[CodeType]) -> None:
    for code in stdlib:
        expected = list(reference(code))
        behind = [start // 2 for start, _ in expected[1:]] + [len(code.co_code) // 2]
        assert decode(code).instructions == tuple(
            Instruction(
                opcode=theirs.opcode,
                name=theirs.opname,
                arg=theirs.arg or 0,
                unit=theirs.offset // 2,
                start=start // 2,
                next=following,
                target=theirs.argval // 2 if theirs.opcode in JUMPS else None,
            )
            for (start, theirs), following in zip(expected, behind, strict=True)
        ), code


def test_positions(stdlib: list[CodeType]) -> None:
    for code in stdlib:
        decoded = decode(code)
        positions = list(code.co_positions())
        units = range(len(positions))
        assert [decoded.positions_of(unit) for unit in units] == positions
        assert [decoded.line_of(unit) for unit in units] == [first for first, *_ in positions]


def test_at_covers_every_unit(stdlib: list[CodeType]) -> None:
    for code in stdlib[::5]:
        decoded = decode(code)
        assert decoded.units == len(code.co_code) // 2
        for unit in range(decoded.units):
            instruction = decoded.at(unit)
            assert instruction.start <= unit < instruction.next
            assert decoded.instructions[decoded.index(unit)] is instruction


def test_exception_tables(stdlib: list[CodeType]) -> None:
    for code in stdlib:
        expected = [
            Handler(entry.start // 2, entry.end // 2, entry.target // 2, entry.depth, entry.lasti)
            for entry in dis._parse_exception_table(code)  # type: ignore[attr-defined]
        ]
        decoded = decode(code)
        assert list(decoded.handlers) == expected
        assert encode_exception_table(decoded.handlers) == code.co_exceptiontable
        for unit in range(decoded.units if expected else 0):
            covering = [entry for entry in expected if entry.start <= unit < entry.end]
            assert decoded.handler_for(unit) == (covering[0] if covering else None)


def test_localsplus(stdlib: list[CodeType]) -> None:
    for code in stdlib:
        names = decode(code).localsplus
        varname: Any = code._varname_from_oparg  # type: ignore[attr-defined]
        assert names == tuple(varname(index) for index in range(len(names)))


# What `resolve` answers, in the terms of a `dis.Instruction`.
TRANSLATED: dict[ArgKind, Callable[[Any, dis.Instruction], bool]] = {
    ArgKind.NONE: lambda ours, theirs: ours is None and theirs.arg is None,
    ArgKind.CONST: lambda ours, theirs: (
        # `dis` of 3.11 does not look KW_NAMES up.
        type(ours) is tuple if theirs.opname == "KW_NAMES" else ours is theirs.argval
    ),
    ArgKind.NAME: lambda ours, theirs: ours == theirs.argval,
    ArgKind.NAME_FLAG1: lambda ours, theirs: (
        ours.name == theirs.argval and ours.flag == ("NULL" in flags_shown(theirs))
    ),
    ArgKind.NAME_FLAG2: lambda ours, theirs: (
        ours.name == theirs.argval
        and ours.method == ("NULL" in flags_shown(theirs))
        and ours.two_arguments == bool((theirs.arg or 0) & 2)
    ),
    ArgKind.NAME_IMPORT: lambda ours, theirs: (
        ours.name == theirs.argval
        and ours.lazy == ("+ lazy" in theirs.argrepr)
        # `dis` shows no flags of `from . import`.
        and (not ours.name or ours.eager == ("+ eager" in theirs.argrepr))
    ),
    ArgKind.LOCAL: lambda ours, theirs: ours == theirs.argval,
    ArgKind.LOCAL_PAIR: lambda ours, theirs: ours == theirs.argval,
    ArgKind.CELL: lambda ours, theirs: ours == theirs.argval,
    ArgKind.JUMP: lambda ours, theirs: ours == theirs.argval // 2,
    ArgKind.COMPARE: lambda ours, theirs: (
        (f"bool({ours.symbol})" if ours.to_bool else ours.symbol) == theirs.argrepr
    ),
    ArgKind.BINARY: lambda ours, theirs: (
        ours.symbol == theirs.argrepr and ours.inplace == theirs.argrepr.endswith("=")
    ),
    ArgKind.COMMON: lambda ours, theirs: (
        theirs.argrepr in (repr(ours), getattr(ours, "__name__", None))
    ),
    ArgKind.SPECIAL: lambda ours, theirs: ours == theirs.argrepr,
    ArgKind.INTRINSIC1: lambda ours, theirs: f"INTRINSIC_{ours}" == theirs.argrepr,
    ArgKind.INTRINSIC2: lambda ours, theirs: f"INTRINSIC_{ours}" == theirs.argrepr,
    ArgKind.CONVERSION: lambda ours, theirs: (
        theirs.argrepr == ", ".join([ours.function or ""] + ["with format"] * ours.with_spec)
        or (ours.function is None and theirs.argrepr == "with format")
    ),
    ArgKind.FUNCTION: lambda ours, theirs: (
        ([] if not ours else ours.name.lower().split("|"))
        == [part for part in theirs.argrepr.split(", ") if part]
    ),
    ArgKind.FLAGS: lambda ours, theirs: ours == (theirs.arg == 1),
    ArgKind.COUNT: lambda ours, theirs: ours == theirs.arg,
    ArgKind.STACK: lambda ours, theirs: ours == theirs.arg,
    ArgKind.RAW: lambda ours, theirs: ours == theirs.arg,
}


def flags_shown(theirs: dis.Instruction) -> str:
    """What `dis` shows besides the name: "NULL + " or " + NULL", "NULL|self + "…"""
    return theirs.argrepr.replace(theirs.argval, "", 1)


def test_arguments(stdlib: list[CodeType]) -> None:
    seen = set()
    for code in stdlib:
        decoded = decode(code)
        pairs = zip(decoded.instructions, reference(code), strict=True)
        for instruction, (_, theirs) in pairs:
            kind = kind_of(instruction)
            ours = resolve(decoded, instruction)
            assert TRANSLATED[kind](ours, theirs), (code, instruction, ours, theirs)
            seen.add(kind)
    assert len(seen) >= 13


def test_invariants(stdlib: list[CodeType]) -> None:
    for code in stdlib:
        check(decode(code))


def test_listing_has_a_row_for_everything(stdlib: list[CodeType]) -> None:
    for code in stdlib[::20]:
        decoded = decode(code)
        rows = listing(decoded).splitlines()
        assert len(rows) == len(decoded.instructions) + len(decoded.handlers)
