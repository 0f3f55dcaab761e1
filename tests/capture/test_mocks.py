# mypy: ignore-errors
"""`unittest.mock` in a call: each mock has a class of its own, which gets methods later."""

import string
from unittest import mock

import pytest
import torch

import stator

from .harness import reset_engine


class Owner:
    value = 3

    def method(self, n):
        return n + self.value


def magic(x, n):
    made = mock.MagicMock()
    made.read.return_value = n
    made.__len__.return_value = n + 1
    return x + made.read(1, k=2), len(made), made.read.call_args == mock.call(1, k=2), made.called


def patched(x, n):
    with mock.patch("string.capwords") as found:
        found.return_value = n
        return x + string.capwords("a b"), found.call_count


def patched_object(x, n):
    with mock.patch.object(Owner, "value", n):
        return x + Owner().method(n), Owner.value


def refused(x, n):
    made = mock.Mock(side_effect=ValueError(n))
    try:
        made()
    except ValueError as error:
        return x + n, str(error), made.call_count


@pytest.mark.parametrize("fn", [magic, patched, patched_object, refused], ids=lambda f: f.__name__)
def test_captured(fn):
    reset_engine()
    compiled = stator.compile(fn, backend="eager", fullgraph=True)
    for n in (2, 2, 5):
        assert repr(compiled(torch.ones(2), n)) == repr(fn(torch.ones(2), n))
        assert Owner.value == 3 and string.capwords("a b") == "A B"


def named(x, n):
    """The class of an object that the call has made is one of the call, however it is reached."""
    made = type("Made", (), {"a": n})()
    cls = type(made)
    cls.b = n + 1
    setattr(made.__class__, "__len__", lambda self: n)
    return x + made.a + made.b, len(made), cls.__name__


def test_a_class_of_the_call_by_its_object():
    reset_engine()
    compiled = stator.compile(named, backend="eager", fullgraph=True)
    for n in (2, 2, 5):
        assert repr(compiled(torch.ones(2), n)) == repr(named(torch.ones(2), n))


TABLE = {}


def kept(x):
    made = type("Made", (), {})()
    TABLE[type(made)] = 1
    return x + 1


def test_a_class_of_the_call_that_is_kept_by_its_object():
    """Each call makes another one: what was made in the trace is none of them."""
    reset_engine()
    with pytest.raises(stator.CaptureError, match="class"):
        stator.compile(kept, backend="eager", fullgraph=True)(torch.ones(1))
    assert not TABLE
