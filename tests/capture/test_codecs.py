# mypy: ignore-errors
"""Codecs that a call is the first to use: C code looks for them, and keeps what it finds.

Each encoding is used in one test, the compiled program being the first.
"""

import encodings
import sys

import pytest
import torch

import stator

TEXT = "abc é"


def encodes(x, name):
    return x + 1, "abc".encode(name)


def decodes(x, name):
    return x + 1, b"abc".decode(name)


def makes_text(x, name):
    return x + 1, str(b"abc", name)


def makes_bytes(x, name):
    return x + 1, bytes("abc", name), bytearray("abc", name)


def handles(x, name):
    try:
        return x + 1, TEXT.encode(name)
    except UnicodeEncodeError as error:
        return x + 1, str(error), error.encoding


def breaks(x, name):
    y = x + 1
    stator.graph_break()
    return y, TEXT.encode(name, "replace"), b"abc".decode(name)


PROGRAMS = [encodes, decodes, makes_text, makes_bytes, handles, breaks]
NAMES = [
    *("iso8859-3", "iso8859-4", "iso8859-5", "iso8859-6", "iso8859-8", "iso8859-9"),
    *("cp037", "cp273", "cp424", "cp720", "cp737", "cp775"),
    *("no-such-codec-1", "no-such-codec-2", "no-such-codec-3", "no-such-codec-4"),
    *("no-such-codec-5", "no-such-codec-6"),
]


def outcome(function, name):
    try:
        return str(function(torch.ones(1), name))
    except LookupError as error:
        return type(error), str(error)


@pytest.mark.parametrize(("program", "name"), list(zip(PROGRAMS * 3, NAMES, strict=True)))
def test_the_first_use(program, name):
    compiled = stator.compile(program, backend="eager")
    found = [outcome(compiled, name) for _ in range(2)]
    expected = outcome(program, name)
    assert found == [expected, expected]
    assert name.startswith("no") or expected[0] != LookupError


def test_parts_of_a_list_from_before():
    parts = ["iso8859_13"]

    def program(x, level):
        module = __import__("encodings.iso8859_13", fromlist=parts, level=level)
        other = __import__("encodings.iso8859_13", None, None, parts[1:])
        return x + 1, module.__name__, other.__name__

    __import__("encodings.iso8859_13")
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        assert compiled(torch.ones(1), 0)[1:] == ("encodings.iso8859_13", "encodings")
    parts.clear()
    assert compiled(torch.ones(1), 0)[1:] == ("encodings", "encodings")
    assert encodings.__name__ in sys.modules
