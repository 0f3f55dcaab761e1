# mypy: ignore-errors
"""Streams over `io.BytesIO`, made in the call: they are memory, unless it matters when they die."""

import contextlib
import gc
import io
import sys
import weakref

import pytest
import torch

import stator

HELD = []
RAW = io.BytesIO(b"abc")


class Shown(io.TextIOWrapper):
    """As a file of the system that can be read back."""

    def __init__(self, text="", newline="\n"):
        super().__init__(io.BufferedWriter(io.BytesIO(text.encode())), "utf-8", newline=newline)

    def getvalue(self):
        self.flush()
        return self.buffer.raw.getvalue().decode("utf-8")


class Plain(io.TextIOWrapper):
    def write(self, text):
        return super().write(text.upper())


class Closing(io.TextIOWrapper):
    def close(self):
        HELD.append("closed")
        super().close()


def written(x):
    io.TextIOWrapper(io.BytesIO()).write("a")
    return x + 1


def read(x):
    with io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"one\r\ntwo\n")), encoding="ascii") as file:
        first, rest = file.readline(), list(file)
    return x + 1, first, rest, file.closed, io.BufferedReader(io.BytesIO(b"abc")).read(2)


def kept_beside(x):
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, "utf-8", write_through=True)
    count = file.write("ä\n")
    found = raw.getvalue(), count, file.encoding, raw.closed, file.buffer is raw
    file.close()
    try:
        raw.getvalue()
    except ValueError as error:
        return x + 1, found, str(error)


def of_a_class(x):
    file = Shown("abc")
    file.write("x")
    upper = Plain(io.BytesIO(), encoding="latin-1")
    return x + 1, file.getvalue(), upper.write("é"), type(file.buffer).__name__


def printed(x):
    before, sys.stdout = sys.stdout, Shown()
    try:
        print("a", 1)
        found = sys.stdout.getvalue()
    finally:
        sys.stdout = before
    with contextlib.redirect_stderr(Shown()) as file:
        sys.stderr.write("b\n")
    return x + 1, found, file.getvalue()


def refused(x):
    found = []
    for change in (lambda file: file.read(), lambda file: file.write(b"x"), lambda file: file.name):
        file = io.TextIOWrapper(io.BufferedWriter(io.BytesIO()), "ascii")
        try:
            change(file)
        except (OSError, TypeError, AttributeError) as error:
            found.append((type(error), str(error)))
    try:
        file.write("ä")
    except UnicodeEncodeError as error:
        found.append(str(error))
    return x + 1, found


@pytest.mark.parametrize("program", [written, read, kept_beside, of_a_class, printed, refused])
def test_captured(program) -> None:
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        assert repr(compiled(torch.ones(1))) == repr(program(torch.ones(1)))
    assert stator.testing.count(compiled) == (1, 1)


def dead(x):
    raw = io.BytesIO()
    io.TextIOWrapper(raw, "utf-8").write("a")
    return x + 1, raw.closed


def dead_under_a_buffer(x):
    raw = io.BytesIO()
    middle = io.BufferedWriter(raw)
    io.TextIOWrapper(middle, "utf-8").write("a")
    try:
        return x + 1, middle.write(b"b")
    except ValueError as error:
        return x + 1, str(error)


def taken_out(x):
    buffer = io.TextIOWrapper(io.BytesIO(), "utf-8").buffer
    try:
        return x + 1, buffer.getvalue()
    except ValueError as error:
        return x + 1, str(error)


def leaves(x):
    HELD.append(Shown("a"))
    return x + 1


def leaves_what_is_under(x):
    raw = io.BytesIO()
    io.TextIOWrapper(raw, "utf-8").write("a")
    HELD.append(raw)
    return x + 1


def over_an_old_one(x):
    file = io.TextIOWrapper(RAW, "utf-8")
    return x + 1, file.read(), file.seek(0), file.detach() is RAW


def tells(x):
    Closing(io.BytesIO(), encoding="utf-8").write("a")
    return x + 1, list(HELD)


def closes_in_its_way(x):
    file = io.TextIOWrapper(io.BytesIO(), "utf-8")
    file.close = lambda: HELD.append("closed")
    del file
    return x + 1, list(HELD)


def closes_by_its_dict(x):
    file = Plain(io.BytesIO(), "utf-8")
    vars(file)["close"] = lambda: HELD.append("closed")
    del file
    return x + 1, list(HELD)


def weakly(x):
    file = Shown("a")
    known = weakref.ref(file)
    before = known() is file
    del file
    return x + 1, before, known() is None


def twice(x):
    raw = io.BytesIO(b"abc")
    first = io.TextIOWrapper(raw, "utf-8")
    return x + 1, io.BufferedReader(raw).read(1), first.closed


PROGRAMS = [dead, dead_under_a_buffer, taken_out, leaves, leaves_what_is_under, over_an_old_one]
PROGRAMS += [tells, closes_in_its_way, closes_by_its_dict, weakly, twice]


def outcome(function):
    HELD.clear()
    found = repr(function(torch.ones(1)))
    gc.collect()
    return found, [getattr(each, "closed", each) for each in HELD]


@pytest.mark.parametrize("program", PROGRAMS)
def test_their_death_matters(program) -> None:
    expected = outcome(program)
    compiled = stator.compile(program, backend="eager")
    for _ in range(3):
        assert outcome(compiled) == expected
    with pytest.raises(stator.CaptureError):
        stator.compile(program, backend="eager", fullgraph=True)(torch.ones(1))


def test_a_class_learns_to_tell() -> None:
    class Learns(io.TextIOWrapper):
        pass

    def program(x):
        Learns(io.BytesIO(), encoding="utf-8").write("a")
        return x + 1

    compiled = stator.compile(program, backend="eager")
    compiled(torch.ones(1))
    heard = []
    Learns.close = lambda self: heard.append(1)
    compiled(torch.ones(1))
    assert heard
