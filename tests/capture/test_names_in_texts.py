# mypy: ignore-errors
"""Texts of objects say the names of their classes and functions, which a program may change."""

import collections
import functools

import pytest
import torch

from .stories import Stories, attempt, check_story

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
stories = Stories()

TEXTS = {
    "repr": lambda o: repr(o),
    "str": lambda o: str(o),
    "format": lambda o: format(o),
    "f-string": lambda o: f"{o}",
    "percent": lambda o: "%s" % (o,),
    "method": lambda o: type(o).__repr__(o),
    "in a list": lambda o: str([o]),
}


def _renamed(text, make, change):
    def tell(c):
        o = make()
        f = c(lambda x: (x * 2, text(o).split(" at ")[0]))
        seen = [f(torch.ones(1))]
        for name in ("z", "y", "y"):
            change(o, name)
            seen.append(f(torch.ones(1)))
        return seen

    return tell


def _class():
    return type("Made", (), {"__module__": "m"})


def _function():
    def made():
        pass

    return made


KINDS = {
    "a function": (_function, lambda o, name: setattr(o, "__qualname__", name)),
    "a class": (_class, lambda o, name: setattr(o, "__qualname__", name)),
    "a class's module": (_class, lambda o, name: setattr(o, "__module__", name)),
    "an object": (lambda: _class()(), lambda o, name: setattr(type(o), "__qualname__", name)),
    "an object's module": (
        lambda: _class()(),
        lambda o, name: setattr(type(o), "__module__", name),
    ),
}
for _kind, (_make, _change) in KINDS.items():
    for _name, _text in TEXTS.items():
        stories.add(f"{_name} of {_kind}", _renamed(_text, _make, _change))


@stories
def converted_and_padded(c):
    values = collections.UserList([1, 2])
    f = c(lambda x: (x * 2, f"{values!r:>9}", f"{values!s:.3}", f"{values!a:*^12}"))
    seen = [f(torch.ones(1))]
    for number in (8, 9, 123):
        values[0] = number
        seen.append(f(torch.ones(1)))
    return seen


@stories
def called_by_name(c):
    f = c(lambda x, o: (x * 2, o.__call__(1), type(o).__call__(o, 1)))
    return [f(torch.ones(1), each) for each in ({}.get, {1: 2}.get, {1: 3}.get, [5, 6].__getitem__)]


@stories
def called_by_name_wrongly(c):
    f = c(lambda x, o: (x * 2, o.__call__()))
    return [attempt(f, torch.ones(1), each) for each in ([1, 2].__len__, [1].__len__, [].append)]


@stories
def a_function_gets_another_dict(c):
    def of():
        pass

    @functools.singledispatch
    def kind(o):
        pass

    seen = []
    for each in (of, kind):

        def f(x, each=each):
            each.added = x.shape[0]
            return x * 2

        g = c(f)
        for _ in range(3):
            g(torch.ones(2))
            seen.append(dict(each.__dict__).get("added"))
            each.__dict__ = {}
    return seen


@stories
def cells(c):
    a, b = 1, 2
    one, two = (lambda: a).__closure__[0], (lambda: b).__closure__[0]
    f = c(lambda x: (x * 2, one == two, one < two, "int" in repr(one)))
    seen = [f(torch.ones(1))]
    for value in (2, 3, "a"):
        one.cell_contents = value
        seen.append(attempt(f, torch.ones(1)))
    return seen


@pytest.mark.parametrize(("story", "backend"), stories.cases)
def test_as_in_eager(story, backend):
    check_story(story, backend)
