# mypy: ignore-errors
"""Files that a call only reads: captured, and compared with what is there in later calls."""

import contextlib
import io
import os
import pathlib
import warnings

import pytest
import torch

import stator

from .harness import reset_engine

TEXT = 'first, "a"\r\nsecond é\nlast'


def lines(x, path):
    with open(path, encoding="utf-8") as file:
        found = file.readlines()
        named = file.name, file.mode, file.encoding, file.errors, type(file)
    return x + len(found), found, named, file.closed


def iterated(x, path):
    total = []
    with open(path, "r", encoding="latin-1") as file:
        for line in file:
            total.append(line.strip())
    return x + len(total), total, file.newlines


def binary(x, path):
    with open(path, "rb") as file:
        head, rest = file.read(4), file.read()
        position = file.tell()
        file.seek(0)
        again = file.readline()
    return x + len(rest), head, rest, position, again, type(file)


def closed_by_hand(x, path):
    file = open(path, encoding="utf-8", newline="")  # noqa: SIM115
    found = file.read(3), file.tell(), file.readable(), file.writable(), file.seekable()
    file.close()
    try:
        file.read()
    except ValueError as error:
        return x + 1, found, str(error)


def unbuffered(x, path):
    with open(path, "rb", buffering=0) as file:
        head, rest = file.read(2), file.readall()
        known = type(file), file.name == path, file.mode, file.tell(), file.seek(1), file.readline()
    return x + len(head), rest, known, file.closed


def by_pathlib(x, path):
    place = pathlib.Path(path)
    return x + 1, place.read_text(encoding="utf-8"), place.read_bytes()


def twice(x, path):
    with open(path, "rb") as first, open(path, "rb") as second:
        return x + len(first.read(2)), second.read(), first.read()


def not_decoded(x, path):
    try:
        with open(path, encoding="ascii") as file:
            return x, file.read()
    except UnicodeDecodeError as error:
        return x + 1, str(error)


def unknown_encoding(x, path):
    try:
        open(path, encoding="no such one")  # noqa: SIM115
    except LookupError as error:
        return x + 1, str(error)


CAPTURED = [lines, iterated, binary, closed_by_hand, unbuffered, by_pathlib, twice, not_decoded]


@pytest.fixture
def path(tmp_path):
    place = tmp_path / "text.txt"
    place.write_bytes(TEXT.encode())
    return str(place)


@pytest.mark.parametrize("fn", [*CAPTURED, unknown_encoding], ids=lambda fn: fn.__name__)
def test_captured(fn, path):
    reset_engine()
    compiled = stator.compile(fn, backend="eager", fullgraph=True)
    for _ in range(3):
        assert repr(compiled(torch.ones(2), path)) == repr(fn(torch.ones(2), path))
    assert compiled.statistics()["misses"] == 1


@pytest.mark.parametrize("fn", CAPTURED, ids=lambda fn: fn.__name__)
def test_other_contents_are_seen(fn, path):
    """Also if neither the size nor the time of the last change has changed."""
    reset_engine()
    compiled = stator.compile(fn, backend="eager")
    times = os.stat(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for text in (TEXT, TEXT.replace("first", "FIRST"), TEXT + "\nmore", TEXT, ""):
            pathlib.Path(path).write_bytes(text.encode())
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
            assert repr(compiled(torch.ones(2), path)) == repr(fn(torch.ones(2), path))
    assert compiled.statistics()["misses"] <= 3, "a file that changes is compiled again and again"


def left_open(x, path):
    return x + 1, open(path, "rb").read()  # noqa: SIM115


def number(x, path):
    with open(path, "rb") as file:
        return x + 1, file.fileno() > 2


def buffer(x, path):
    with open(path, encoding="utf-8") as file:
        return x + 1, type(file.buffer)


def written(x, path):
    with open(path, "a", encoding="utf-8") as file:
        file.write("more")
    return x + 1


def kept(x, path):
    return x + 1, open(path, "rb")  # noqa: SIM115


def missing(x, path):
    try:
        with open(path + ".no", "rb") as file:
            return file.read()
    except FileNotFoundError as error:
        return x + 1, str(error)


def of_the_system(x, path):
    with open("/proc/self/status", "rb") as file:
        return x + len(file.read(4))


@pytest.mark.parametrize(
    "fn",
    [left_open, number, buffer, written, kept, missing, of_the_system],
    ids=lambda fn: fn.__name__,
)
def test_what_is_not_captured(fn, path):
    reset_engine()
    with pytest.raises(stator.CaptureError):
        stator.compile(fn, backend="eager", fullgraph=True)(torch.ones(2), path)
    assert pathlib.Path(path).read_bytes() == TEXT.encode()
    compiled = stator.compile(fn, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            pathlib.Path(path).write_bytes(TEXT.encode())
            expected = fn(torch.ones(2), path)
            contents = pathlib.Path(path).read_bytes()
            pathlib.Path(path).write_bytes(TEXT.encode())
            found = compiled(torch.ones(2), path)
            assert _shown(found) == _shown(expected)
            assert pathlib.Path(path).read_bytes() == contents


def _shown(value):
    for each in value if type(value) is tuple else ():
        if isinstance(each, io.IOBase):
            with contextlib.closing(each):
                return each.read()
    return repr(value)
