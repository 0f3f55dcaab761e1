# mypy: ignore-errors
"""C objects from before the call that never change: read in a trace, and another one is noticed."""

import codecs
import datetime
import decimal
import io
import json
import re
import struct
import unicodedata
import zoneinfo

import pytest
import torch

import stator

UTC = datetime.UTC
EAST = datetime.timezone(datetime.timedelta(hours=1), "east")
NOON = datetime.datetime(2020, 1, 1, 12)
PARIS = zoneinfo.ZoneInfo("UTC")
TABLE = codecs.charmap_build("".join(map(chr, range(256))))
HOUR = datetime.timedelta(hours=1)


def read(value, x):
    """What a program reads of it."""
    if isinstance(value, struct.Struct):
        return x + value.size, value.pack(3), value.format
    if isinstance(value, re.Match):
        named = (
            value.groupdict(),
            value.lastgroup,
            value.re.pattern,
            value.expand(value.re.pattern[:0]),
        )
        return x + value.end(), value[1], value.span(1), value.regs, value.string, named
    if isinstance(value, datetime.timezone):
        return x + 1, value.utcoffset(None), str(value), value == UTC, value.tzname(NOON)
    if isinstance(value, datetime.datetime):
        moved = value + HOUR
        return (
            x + value.hour,
            value.isoformat(),
            moved,
            value.utcoffset(),
            value.tzinfo,
            hash(value),
        )
    if isinstance(value, datetime.time):
        return x + value.hour, value.isoformat(), value.tzinfo is UTC, value.replace(hour=3)
    if isinstance(value, zoneinfo.ZoneInfo):
        return x + 1, value.key, value.utcoffset(NOON), NOON.replace(tzinfo=value).isoformat()
    if isinstance(value, json.JSONDecoder):
        return x + 1, value.decode('{"a": [1.5, 2]}'), value.raw_decode("[3] 4")
    return x + 1, value.name("a"), value.unidata_version


CASES = {
    "struct": (struct.Struct("<i"), struct.Struct("<i"), struct.Struct("<q")),
    "match": (re.match("a(?P<n>b)", "ab"), re.match("a(?P<n>b)", "ab"), re.match("a(b)", "abc")),
    "match in bytes": (re.match(b"a(b)", b"ab"), re.match(b"a(b)", b"ab"), re.match("a(b)", "ab")),
    "zone": (EAST, datetime.timezone(HOUR, "east"), datetime.timezone(HOUR, "west")),
    "utc": (UTC, UTC, EAST),
    "moment": (NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=EAST)),
    "moment, fold": (NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=UTC, fold=1), NOON),
    "moment, zone": (NOON.replace(tzinfo=PARIS), NOON.replace(tzinfo=PARIS), NOON),
    "time": (NOON.timetz().replace(tzinfo=UTC), NOON.timetz().replace(tzinfo=UTC), NOON.time()),
    "place": (PARIS, PARIS, zoneinfo.ZoneInfo.no_cache("UTC")),
    "characters": (unicodedata.ucd_3_2_0, unicodedata.ucd_3_2_0, unicodedata),
}


@pytest.mark.parametrize("name", CASES)
def test_another_one_is_noticed(name) -> None:
    one, same, other = CASES[name]
    compiled = stator.compile(read, backend="eager", fullgraph=True)
    for value in (one, same, other, one):
        found, expected = compiled(value, torch.ones(2)), read(value, torch.ones(2))
        assert found[0].equal(expected[0]) and found[1:] == expected[1:]
    assert stator.testing.count(compiled).compiles <= 3


@pytest.mark.parametrize("name", ["struct", "match", "zone", "utc", "moment", "place"])
def test_the_same_one_is_served(name) -> None:
    one, same, other = CASES[name]
    compiled = stator.compile(read, backend="eager", fullgraph=True)
    for value in (one, same, other, one, same):
        compiled(value, torch.ones(2))
    assert stator.testing.count(compiled) == (2, 3)


def test_a_structure_is_made_anew() -> None:
    def program(value, x):
        value.__init__("<q")
        return x + value.size

    compiled = stator.compile(program, backend="eager")
    for _ in range(2):
        value = struct.Struct("<i")
        assert compiled(value, torch.zeros(1)).item() == 8 and value.size == 8


def test_memory_that_was_searched_may_change() -> None:
    memory = bytearray(b"ab")
    match = re.match(b"a(.)", memory)
    compiled = stator.compile(lambda match, x: (match.group(1), x + 1), backend="eager")
    for letter in b"bcd":
        memory[1] = letter
        assert compiled(match, torch.ones(1))[0] == bytes([letter])


def test_a_zone_of_the_program() -> None:
    class Zone(datetime.tzinfo):
        hours = 1

        def utcoffset(self, moment):
            return datetime.timedelta(hours=self.hours)

    zone = Zone()
    moment = NOON.replace(tzinfo=zone)
    compiled = stator.compile(lambda moment, x: (moment.utcoffset(), x + 1), backend="eager")
    for zone.hours in (1, 2, 3):
        assert compiled(moment, torch.ones(1))[0] == datetime.timedelta(hours=zone.hours)


def test_the_zone_is_the_same_object() -> None:
    def program(moment, x):
        return x + 1 if moment.tzinfo is EAST else x - 1

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for zone in (EAST, datetime.timezone(HOUR, "east"), EAST):
        moment = NOON.replace(tzinfo=zone)
        assert compiled(moment, torch.ones(1)).equal(program(moment, torch.ones(1)))


def test_a_character_map() -> None:
    def program(x):
        return codecs.charmap_encode("abc", "strict", TABLE)[0], x + 1, "é".encode("cp1252")

    found, _, text = stator.compile(program, backend="eager", fullgraph=True)(torch.ones(1))
    assert found == b"abc" and text == b"\xe9"


DECODERS = {
    "plain": json.JSONDecoder(),
    "lax": json.JSONDecoder(strict=False),
    "numbers": json.JSONDecoder(parse_float=decimal.Decimal, parse_int=str),
    "hook": json.JSONDecoder(object_hook=lambda found: sorted(found.items())),
    "pairs": json.JSONDecoder(object_pairs_hook=list),
    "shown": json.JSONDecoder(object_hook=print),
}


@pytest.mark.parametrize("name", DECODERS)
def test_decoders(name, capsys) -> None:
    def program(x):
        return DECODERS[name].decode('{"a": [1.5, 2, "\\u00e9"], "b": {}}'), x + 1

    compiled = stator.compile(program, backend="eager", fullgraph=name != "shown")
    for _ in range(2):
        assert repr(compiled(torch.ones(1))) == repr(program(torch.ones(1)))
        shown = capsys.readouterr().out.splitlines()
        assert shown[: len(shown) // 2] == shown[len(shown) // 2 :]


def test_another_decoder() -> None:
    def program(decoder, x):
        return decoder.decode("[1.5]"), x + 1

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    given = [decoder for name, decoder in DECODERS.items() if name != "shown"]
    for decoder in (*given, json.JSONDecoder(), json.JSONDecoder(strict=False)):
        assert compiled(decoder, torch.ones(1))[0] == decoder.decode("[1.5]")


def test_json_lines() -> None:
    def program(text, x):
        return [json.loads(line, parse_float=str) for line in io.StringIO(text)], x + 1

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    assert compiled("[1.5]\n{}\n", torch.ones(1))[0] == [["1.5"], {}]
