# mypy: ignore-errors
"""A break in the middle of what is put off, `print`, `logging` or `warnings`: it is shown once."""

import logging
import sys
import warnings

import pytest

import stator

from .scenarios import plain, x

LOGGER = logging.getLogger("stator_test_47")


@stator.disable
def a_break():
    pass


class Shown:
    """Its texts are made with a break in the middle."""

    def __str__(self):
        a_break()
        return "shown"

    __repr__ = __str__

    def __format__(self, spec):
        a_break()
        return f"shown {spec}"


def raised():
    try:
        raise KeyError(1)
    except KeyError as error:
        return error


def an_exception_after_a_break(x):
    try:
        int("a")
    except ValueError:
        a_break()
        LOGGER.exception("failed %s", 3)
    return x + 1


def an_exception_of_the_world(x):
    LOGGER.error("failed", exc_info=EARLIER)
    return x + 1


def a_traceback_of_the_world(x):
    made = ValueError("new").with_traceback(EARLIER.__traceback__)
    LOGGER.error("failed", exc_info=made)
    return x + 1


def an_object_in_a_message(x):
    LOGGER.error("%s %s", Shown(), x.shape)
    return x + 1


def a_message_that_does_not_fit(x):
    LOGGER.error("%d", "text")
    return x + 1


def an_object_that_is_printed(x):
    print(Shown(), [Shown()], x.shape)
    return x + 1


def an_object_that_is_written(x):
    sys.stdout.write(str(Shown()))
    return x + 1


def an_object_in_a_text(x):
    shown = Shown()
    return "%s %r" % (shown, shown), "{} {!r} {:>4}".format(shown, shown, shown), x + 1


def an_object_in_a_warning(x):
    warnings.warn(UserWarning(Shown()))
    return x + 1


EARLIER = raised()


@pytest.mark.parametrize(
    "function",
    [
        an_exception_after_a_break,
        an_exception_of_the_world,
        a_traceback_of_the_world,
        an_object_in_a_message,
        a_message_that_does_not_fit,
        an_object_that_is_printed,
        an_object_that_is_written,
        an_object_in_a_text,
        an_object_in_a_warning,
    ],
)
def test_shown_once(function, caplog, capsys, monkeypatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)

    def told(run):
        caplog.clear()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            result = plain(run(x()))
        logged = [(each.msg, each.lineno, _lines(each)) for each in caplog.records]
        return result, logged, capsys.readouterr(), [str(each.message) for each in warned]

    with caplog.at_level(logging.ERROR, LOGGER.name):
        expected = told(function)
        compiled = stator.compile(function, backend="eager")
        for _ in range(2):
            assert told(compiled) == expected


def _lines(record):
    """Of the traceback; frames of the trace are stubs, which know their line, not the column."""
    text = record.exc_text or ""
    return [line for line in text.splitlines() if line.strip(" ^")]
