# mypy: ignore-errors
"""Times that programs read from texts, and what they ask of the locale."""

import calendar
import datetime
import importlib
import locale
import time

import pytest
import torch

import stator

THEN = time.gmtime(3)


class Moment(datetime.datetime):
    pass


def raised(call):
    try:
        return call()
    except (ValueError, TypeError) as error:
        return type(error), str(error), error.__cause__, error.__suppress_context__


PROGRAMS = {
    "a moment": lambda: datetime.datetime.strptime("2020-01-02 03:04:05.6", "%Y-%m-%d %H:%M:%S.%f"),
    "a zone": lambda: datetime.datetime.strptime("2020 +0130", "%Y %z"),
    "a subclass": lambda: Moment.strptime("2020", "%Y").year,
    "several": lambda: [datetime.datetime.strptime(year, "%Y").year for year in ("2020", "2021")],
    "a time": lambda: time.strptime("3 Mar 2020", "%d %b %Y"),
    "the usual": lambda: time.strptime("Wed Jan  1 00:00:00 2020"),
    "of the world": lambda: (time.strftime("%Y %H", THEN), THEN.tm_zone, THEN[0], THEN),
    "seconds": lambda: (calendar.timegm(THEN), time.mktime(THEN)),
    "the locale": lambda: (locale.getlocale(locale.LC_TIME), locale.setlocale(locale.LC_TIME)),
    "no time": lambda: raised(lambda: datetime.datetime.strptime("x", "%Y")),
    "no text": lambda: raised(lambda: time.strptime(3, "%Y")),
    "too many": lambda: raised(lambda: time.strptime("a", "b", "c")),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_captured(name) -> None:
    compiled = stator.compile(lambda x: (PROGRAMS[name](), x + 1), backend="eager", fullgraph=True)
    for _ in range(3):
        found = compiled(torch.ones(1))[0]
        assert repr(found) == repr(PROGRAMS[name]()) and type(found) is type(PROGRAMS[name]())
    assert stator.testing.count(compiled) == (1, 2)


def test_wrong_arguments() -> None:
    for given in (("x",), (3, "%Y"), ("x", "%Y", "z")):

        def program(x, given=given):
            return raised(lambda: datetime.datetime.strptime(*given)), x + 1

        compiled = stator.compile(program, backend="eager")
        assert compiled(torch.ones(1))[0] == program(torch.ones(1))[0]


def test_another_text() -> None:
    def program(x, text):
        return x * datetime.datetime.strptime(text, "%d.%m.%Y").timetuple().tm_yday

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for text in ("1.2.2020", "2.2.2020", "1.2.2020"):
        assert compiled(torch.ones(1), text).equal(program(torch.ones(1), text))


def test_another_time_of_the_world() -> None:
    def program(x, then):
        return x + then.tm_hour, time.strftime("%H:%M", then), then.tm_gmtoff

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for seconds in (0, 3700, 0):
        then = time.gmtime(seconds)
        assert compiled(torch.ones(1), then) == program(torch.ones(1), then)
    odd = time.struct_time((2020, 1, 1, 0, 0, 0, 0, [1], 0))
    assert stator.compile(lambda x, then: (then[7], x + 1), backend="eager")(torch.ones(1), odd)[
        0
    ] == [1]


def test_the_zone_of_the_machine(monkeypatch) -> None:
    def program(x):
        return time.strptime("UTC", "%Z").tm_isdst, x + 1

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    try:
        for zone in ("UTC", "EST5EDT", "UTC"):
            monkeypatch.setenv("TZ", zone)
            time.tzset()
            assert compiled(torch.ones(1))[0] == program(torch.ones(1))[0]
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()


def test_what_the_module_keeps_is_used() -> None:
    module = importlib.import_module("_strptime")

    def program(x):
        first = time.strptime("10", "%d").tm_mday
        module._regex_cache.clear()
        module._regex_cache["no format"] = 0
        again = time.strptime("11", "%d").tm_mday
        return first, again, sorted(module._regex_cache), x + 1

    compiled = stator.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(1))[:3] == program(torch.ones(1))[:3]
    module._regex_cache.clear()
