# mypy: ignore-errors
"""Texts that are not known while tracing, where C code wants a string: it gets the string."""

import dataclasses
import types

import pytest

import stator

from .harness import Recording
from .scenarios import plain, x


def made_class(x, name):
    made = type(name, (), {"__doc__": name})
    return made.__name__, made.__qualname__, made.__doc__, x * 2


def slots(x, name):
    class Made:
        __slots__ = (name,)

    made = Made()
    setattr(made, name, 1)
    return Made.__slots__, getattr(made, name), x * 2


def module(x, name):
    made = types.ModuleType(name, name)
    return made.__name__, made.__doc__, x * 2


def evaluated(x, name):
    found = {}
    exec(f"{name} = 3", found)
    return eval(f"{name} + 1", found), x * 2


def names_of_functions(x, name):
    def made():
        return 1

    made.__name__ = name
    made.__qualname__ = f"outer.{name}"
    made.__module__ = name
    return made.__name__, made.__qualname__, made.__module__, made(), x * 2


def dataclass(x, name):
    made = dataclasses.make_dataclass(name, [(name, int)])
    return repr(made(3)), [each.name for each in dataclasses.fields(made)], x * 2


def joined(x, name):
    try:
        return name.join(3)
    except TypeError as error:
        return str(error), x * 2


def of_a_number(function):
    return lambda x, name: function(x, f"k{name}")


@pytest.mark.parametrize("open_", ["text", "number"])
@pytest.mark.parametrize(
    "function",
    [made_class, slots, module, evaluated, names_of_functions, dataclass, joined],
    ids=lambda function: function.__name__,
)
def test_a_string_is_given(function, open_):
    values = ("k5", "k6", "k7", "k5")
    if open_ == "number":
        function, values = of_a_number(function), (5, 6, 7, 5)
    backend = Recording()
    compiled = stator.compile(function, backend=backend, dynamic=True)
    for value in values:
        assert plain(compiled(x(), value)) == plain(function(x(), value))
    assert any("mul" in graph for graph in backend.graphs)


class Touched:
    """No method of it may be called."""

    def __eq__(self, other):
        raise RuntimeError("touched")

    __hash__ = __bool__ = __eq__


class NoName(type):
    __module__ = property(lambda cls: 1 / 0)


class Nameless(metaclass=NoName):
    def factor(self):
        return 3


class Named:
    __module__ = Touched()

    def factor(self):
        return 4


def doubled(x):
    return x * 2


def tripled(x):
    return x * 3


doubled.__module__ = Touched()
tripled.__module__ = ["unhashable"]


def test_names_of_modules_that_are_no_strings():
    def called(x):
        return doubled(x) + tripled(x) + Nameless().factor() + Named().factor()

    backend = Recording()
    compiled = stator.compile(called, backend=backend, fullgraph=True)
    assert plain(compiled(x())) == plain(called(x()))
    assert backend.graphs == [["mul", "mul", "add", "add", "add"]]
