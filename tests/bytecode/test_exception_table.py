"""The codec of the exception table."""

import random

import pytest

from stator.bytecode import (
    BytecodeError,
    Handler,
    encode_exception_table,
    parse_exception_table,
)


def random_table(rng: random.Random) -> tuple[Handler, ...]:
    position = 0
    handlers = []
    for _ in range(rng.randrange(1, 20)):
        start = position + rng.choice([0, 1, 63, 64, rng.randrange(1 << 20)])
        position = start + rng.choice([1, 63, 64, 65, 4095, 4096, rng.randrange(1, 1 << 26)])
        target = rng.choice([0, 63, 64, rng.randrange(1 << 30)])
        handlers.append(Handler(start, position, target, rng.randrange(200), rng.random() < 0.5))
    return tuple(handlers)


def test_round_trip() -> None:
    rng = random.Random(0)
    for _ in range(2000):
        handlers = random_table(rng)
        table = encode_exception_table(handlers)
        assert parse_exception_table(table) == handlers
        assert sum(byte >> 7 for byte in table) == len(handlers)


def test_known_bytes() -> None:
    # The example in CPython's notes on the format.
    handler = Handler(20, 28, 100, 3, False)
    assert encode_exception_table([handler]) == bytes([0x80 | 20, 8, 0x40 | 1, 36, 6])
    assert parse_exception_table(bytes([0x80 | 20, 8, 0x40 | 1, 36, 6])) == (handler,)


def test_empty() -> None:
    assert parse_exception_table(b"") == ()
    assert encode_exception_table([]) == b""


@pytest.mark.parametrize(
    "handlers",
    [
        [Handler(4, 4, 9, 0, False)],
        [Handler(-1, 4, 9, 0, False)],
        [Handler(0, 4, -9, 0, False)],
        [Handler(0, 4, 9, -1, True)],
        [Handler(0, 4, 9, 0, False), Handler(3, 8, 9, 0, False)],
        [Handler(5, 8, 9, 0, False), Handler(0, 4, 9, 0, False)],
    ],
    ids=["empty", "negative start", "negative target", "negative depth", "overlap", "order"],
)
def test_tables_that_cannot_be(handlers: list[Handler]) -> None:
    with pytest.raises(BytecodeError):
        encode_exception_table(handlers)


@pytest.mark.parametrize("table", [b"\x80\x01", b"\x80\x01\x02\x43"], ids=["entry", "number"])
def test_cut_tables(table: bytes) -> None:
    with pytest.raises(BytecodeError, match="ends within"):
        parse_exception_table(table)
