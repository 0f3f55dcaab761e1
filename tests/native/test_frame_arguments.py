# mypy: ignore-errors
"""The arguments of CPython's frames, read without keeping anything alive."""

import sys
import weakref

import pytest

from stator._native._core import frame_arguments


class Thing:
    pass


def test_all_kinds_of_parameters() -> None:
    def function(a, /, b, *rest, c, **named):
        d = 5
        return sys._getframe(), d

    frame, _ = function(1, 2, 3, c=4, e=6)
    assert frame_arguments(frame) == (1, 2, 4, (3,), {"e": 6})


def test_an_argument_that_is_in_a_cell() -> None:
    def function(a, b):
        frame = sys._getframe()
        return frame, lambda: a

    frame, _ = function("x", "y")
    assert frame_arguments(frame) == ("x", "y")


def test_variables_that_are_gone() -> None:
    def function(a, b):
        del a
        return sys._getframe()

    frame = function(1, 2)
    assert frame_arguments(frame) == (None, 2)
    frame.clear()
    assert frame_arguments(frame) == (None, None)


def test_nothing_is_kept() -> None:
    def function(a):
        held = Thing()
        return sys._getframe(), weakref.ref(held)

    frame, seen = function(1)
    assert frame_arguments(frame) == (1,)
    frame.clear()
    assert seen() is None


def test_the_running_frame_and_others() -> None:
    assert frame_arguments(sys._getframe()) == ()
    with pytest.raises(TypeError, match="a frame"):
        frame_arguments(None)
