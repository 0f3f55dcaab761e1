# mypy: ignore-errors
"""Levels of loggers that a call sets, and handlers that it makes."""

import logging

import pytest

from .harness import Programs, check, t
from .test_40_objects import agree

LOGGER = logging.getLogger("stator.tests.levels")
CHILD = logging.getLogger("stator.tests.levels.child")
programs = Programs()


def reset():
    LOGGER.setLevel(logging.WARNING)
    CHILD.setLevel(logging.NOTSET)
    CHILD.isEnabledFor(logging.INFO)  # which it remembers


def world():
    enabled = [CHILD.isEnabledFor(level) for level in (10, 20, 30)]
    return [LOGGER.level, CHILD.getEffectiveLevel(), *enabled]


def one():
    return (t(3),)


@programs(one, reset=reset, world=world)
def set_for_good(x):
    LOGGER.setLevel(logging.INFO)
    return x + CHILD.isEnabledFor(logging.INFO), CHILD.isEnabledFor(logging.DEBUG)


@programs(one, reset=reset, world=world)
def set_and_put_back(x):
    before = LOGGER.level
    LOGGER.setLevel("DEBUG")
    found = CHILD.isEnabledFor(logging.DEBUG), CHILD.getEffectiveLevel()
    LOGGER.setLevel(before)
    return x + 1, found, CHILD.isEnabledFor(logging.DEBUG)


@pytest.mark.parametrize("program", programs, ids=str)
def test_levels(program):
    check(program)


class Kept(logging.Handler):
    def __init__(self):
        super().__init__()
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


def _with_a_handler(x):
    handler = Kept()
    LOGGER.addHandler(handler)
    try:
        LOGGER.error("hello %d", 3)
    finally:
        LOGGER.removeHandler(handler)
    return x + len(handler.texts), handler.texts


def test_handlers_of_the_call_get_what_is_logged():
    agree(_with_a_handler, one, "with a callback", reset=reset)
