# mypy: ignore-errors
"""What a call asks the operating system: captured, and asked again before later calls."""

import argparse
import io
import os
import pathlib
import time
import warnings

import pytest
import torch

import stator

from .harness import reset_engine


def sizes(x, path):
    try:
        found = os.stat(path)
    except OSError as error:
        return x - 1, type(error), error.errno, error.filename, str(error)
    return x + found.st_size, found.st_mode, found[6], os.path.isdir(path), os.path.islink(path)


def exists(x, path):
    return x + (2 if os.path.exists(path) else 3), os.access(path, os.R_OK)


def by_pathlib(x, path):
    place = pathlib.Path(path)
    return x + place.is_file(), place.parent.is_dir(), sorted(os.listdir(place.parent))


def folder(x, path):
    return x + len(os.getcwd()), os.path.abspath("a"), os.getpid()


def in_bytes(x, path):
    return x + os.path.lexists(os.fsencode(path)), os.listdir(os.fsencode(os.path.dirname(path)))


def read_then(x, path):
    """The first to read a new file or folder sets the time at which it was read."""
    if not os.path.exists(path) or len(os.listdir(os.path.dirname(path))) != 1:
        return x
    return x + len(pathlib.Path(path).read_bytes()), os.path.getatime(path)


PROGRAMS = [sizes, exists, by_pathlib, in_bytes]


def counted(fn):
    reset_engine()
    return stator.compile(fn, backend="eager", fullgraph=True)


@pytest.mark.parametrize("fn", [*PROGRAMS, folder], ids=lambda fn: fn.__name__)
@pytest.mark.parametrize("there", [True, False])
def test_captured(fn, there, tmp_path):
    place = tmp_path / f"{fn.__name__}{there}.txt"
    if there:
        place.write_text("abc")
    compiled = counted(fn)
    for _ in range(3):
        assert repr(compiled(torch.ones(2), str(place))) == repr(fn(torch.ones(2), str(place)))
    assert compiled.statistics()["misses"] <= 2  # a folder that is listed has been read


def test_read_behind_the_question(tmp_path):
    place = tmp_path / "read.txt"
    place.write_text("abc")
    compiled = counted(read_then)
    for _ in range(4):
        assert repr(compiled(torch.ones(2), str(place))) == repr(
            read_then(torch.ones(2), str(place))
        )


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_another_answer_is_seen(fn, tmp_path):
    place = tmp_path / f"{fn.__name__}.txt"
    reset_engine()
    compiled = stator.compile(fn, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for text in (None, "abc", "abcdef", None, "abc"):
            place.unlink(missing_ok=True)
            if text is not None:
                place.write_text(text)
            assert repr(compiled(torch.ones(2), str(place))) == repr(fn(torch.ones(2), str(place)))
    assert compiled.statistics()["misses"] <= 4, "an answer that changes is asked for ever"


def test_another_folder_is_seen(tmp_path, monkeypatch):
    compiled = counted(folder)
    monkeypatch.chdir(tmp_path)
    assert repr(compiled(torch.ones(2), "")) == repr(folder(torch.ones(2), ""))
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    reset_engine()
    assert repr(compiled(torch.ones(2), "")) == repr(folder(torch.ones(2), ""))


def written_before(x, file, path):
    file.write("more")
    file.flush()
    return x + os.stat(path).st_size


def open_file(x, number):
    return x + os.stat(number).st_size


def test_not_behind_a_write(tmp_path):
    place = tmp_path / "written.txt"
    with open(place, "w") as file, pytest.raises(stator.CaptureError, match="stat"):
        counted(written_before)(torch.ones(1), file, str(place))
    assert place.read_text() == ""


def test_not_of_an_open_file(tmp_path):
    with open(tmp_path / "open.txt", "w") as file, pytest.raises(stator.CaptureError):
        counted(open_file)(torch.ones(1), file.fileno())


# ---------------------------------------------------------------------- times


def local(x, seconds):
    found = time.localtime(seconds)
    text = time.strftime("%Y-%m-%d %H:%M %Z", found)
    return x + found.tm_hour, text, time.mktime(found), found.tm_zone, found.tm_gmtoff


def universal(x, seconds):
    found = time.gmtime(seconds)
    return x + found.tm_min, tuple(found), repr(found), time.asctime(found)


@pytest.fixture
def zone():
    before = os.environ.get("TZ")

    def change(name):
        os.environ["TZ"] = name
        time.tzset()

    yield change
    os.environ.pop("TZ")
    if before is not None:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.parametrize("fn", [local, universal], ids=lambda fn: fn.__name__)
def test_times_of_constants(fn, zone):
    zone("UTC")
    compiled = counted(fn)
    for _ in range(2):
        assert repr(compiled(torch.ones(1), 86_400)) == repr(fn(torch.ones(1), 86_400))
    assert compiled.statistics()["misses"] == 1
    zone("EST+05EDT")
    reset_engine()
    assert repr(compiled(torch.ones(1), 86_400)) == repr(fn(torch.ones(1), 86_400))


def test_another_zone_is_seen(zone):
    reset_engine()
    compiled = stator.compile(local, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("UTC", "EST+05EDT", "UTC", "CET-1"):
            zone(name)
            assert repr(compiled(torch.ones(1), 3600)) == repr(local(torch.ones(1), 3600))


def now(x):
    return x + time.gmtime().tm_year, time.strftime("%Y"), time.localtime(None)


def test_the_clock_is_not_read():
    with pytest.raises(stator.CaptureError, match="clock"):
        counted(now)(torch.ones(1))


# ---------------------------------------------------------------------- environment


def told(x, value):
    os.environ["STATOR_TOLD"] = value
    seen = os.environ["STATOR_TOLD"], os.getenv("STATOR_TOLD")
    if value == "none":
        del os.environ["STATOR_TOLD"]
    if value == "raises":
        raise ValueError(value)
    return x + len(value), seen, os.environ.get("STATOR_TOLD")


def in_c(name):
    """As the C library knows it: children get that."""
    with os.popen(f"echo ${name}") as file:
        return file.read().strip()


@pytest.mark.parametrize("value", ["a", "none", "raises", "two words"])
def test_environment(value):
    compiled = counted(told)
    for given in (value, value, "b", value):
        seen = []
        for fn in (told, compiled):
            os.environ.pop("STATOR_TOLD", None)
            try:
                result = repr(fn(torch.ones(1), given))
            except ValueError as error:
                result = str(error)
            seen.append((result, os.environ.get("STATOR_TOLD"), in_c("STATOR_TOLD")))
        assert seen[0] == seen[1]
    os.environ.pop("STATOR_TOLD", None)
    assert compiled.statistics()["misses"] <= 2


def aborted(x):
    os.environ["STATOR_ABORTED"] = "1"
    time.sleep(0)
    return x


def test_an_aborted_trace_sets_nothing():
    with pytest.raises(stator.CaptureError):
        counted(aborted)(torch.ones(1))
    assert "STATOR_ABORTED" not in os.environ
    assert in_c("STATOR_ABORTED") == ""


def bad_name(x, name):
    try:
        os.putenv(name, "1")
    except (ValueError, OSError) as error:
        return x, str(error)


@pytest.mark.parametrize("name", ["", "a=b", "a\0b"])
def test_names_that_are_none(name):
    reset_engine()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = stator.compile(bad_name, backend="eager")
        assert repr(compiled(torch.ones(1), name)) == repr(bad_name(torch.ones(1), name))


# ---------------------------------------------------------------------- files of the system


def numbered(x, file):
    try:
        return x + file.fileno(), file.isatty()
    except ValueError as error:
        return x - 1, str(error)


def test_a_file_tells_its_number(tmp_path):
    compiled = counted(numbered)
    place = tmp_path / "a.txt"
    first, second = place.open("w"), place.open()
    for file in (first, second, first):
        assert compiled(torch.zeros(1), file) == numbered(torch.zeros(1), file)
    assert stator.testing.count(compiled).compiles == 2
    first.close()
    found = compiled(torch.zeros(1), first)
    assert found[0].item() == -1 and found == numbered(torch.zeros(1), first)
    second.close()


class Raw(io.RawIOBase):
    """A file of the program's own."""

    asked = 0

    def writable(self):
        return True

    def fileno(self):
        self.asked += 1
        return 40 + self.asked


def test_a_file_of_the_program_is_not_asked():
    raw = Raw()
    compiled = stator.compile(numbered, backend="eager")
    file = io.TextIOWrapper(io.BufferedWriter(raw))
    raw.asked = 0
    assert [compiled(torch.zeros(1), file)[0].item() for _ in range(3)] == [41, 42, 43]
    with pytest.raises(TypeError, match=r"TextIOWrapper\.fileno\(\) takes no arguments"):
        stator.compile(lambda x, file: (file.fileno(1), x + 1), backend="eager")(
            torch.ones(1), file
        )


def test_a_parser_shows_its_help():
    def program(x, words):
        parser = argparse.ArgumentParser(prog="scale", description="Scales a tensor.")
        parser.add_argument("--by", type=int, default=2, help="how much")
        return x * parser.parse_args(words).by, parser.format_help()

    compiled = counted(program)
    for words in (["--by", "3"], [], ["--by", "3"]):
        found, text = compiled(torch.ones(1), words)
        assert (found.item(), text) == (3 if words else 2, program(torch.ones(1), words)[1])
