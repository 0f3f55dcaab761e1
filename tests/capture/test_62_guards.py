# mypy: ignore-errors
"""One thing changes between two calls: behind C code that shows and compares objects, behind
methods that were bound before, in settings of the interpreter."""

import collections
import copy
import functools
import gc
import itertools
import sys
import types

import pytest

from .scenarios import Scenarios, play_scenario, x

scenario = Scenarios()
Space = types.SimpleNamespace


@pytest.mark.parametrize(("play", "graphs"), scenario)
def test_guards(play, graphs) -> None:
    play_scenario(play, graphs)


# ---------------------------------------------------------------------- what C code comes to


def nested(d=1):
    return Space(b=Space(c=Space(d=d)))


def told(ask, make, change):
    """Asks about an object in a compiled function, changes it, and asks again, three times."""

    def play(compile):
        f = compile(lambda o, x: (x + 1, ask(o)))
        o = make()
        yield f(o, x())
        yield f(o, x())
        change(o)
        yield f(o, x())
        yield f(make(), x())

    return play


def deeper(o):
    o.b.c.d = 2


def wider(o):
    o.b.c.e = 2


ASKED = {
    "repr": repr,
    "str in a list": lambda o: str([o]),
    "f-string": lambda o: f"{o}",
    "percent": lambda o: "%s %r" % (o, o),  # noqa: UP031
    "format": lambda o: "{0}".format(o),  # noqa: UP030, UP032
    "equal": lambda o: o == nested(),
    "not equal": lambda o: o != nested(),
    "equal lists": lambda o: [o] == [nested()],
    "equal dicts": lambda o: {"a": o} == {"a": nested()},
    "equal deques": lambda o: collections.deque([o]) == collections.deque([nested()]),
    "equal proxies": lambda o: types.MappingProxyType({"a": o}) == {"a": nested()},
    "in": lambda o: o in [nested()],
    "index": lambda o: [nested(), o].index(o),
    "count": lambda o: [nested(), o].count(o),
    "method": lambda o: o.__eq__(nested()),
    "attributes": lambda o: vars(o) == {"b": nested().b},
    "partial": lambda o: repr(functools.partial(len, o)),
    "exception": lambda o: (repr(ValueError(o)), str(KeyError(o))),
}


# A number that is only shown in a text is left open.
SHOWN = ("repr", "str in a list", "f-string", "percent", "format", "partial", "exception")


@pytest.mark.parametrize("change", [deeper, wider])
@pytest.mark.parametrize("name", ASKED)
def test_c_code_sees_whole_namespaces(name, change) -> None:
    graphs = 1 if name in SHOWN and change is deeper else 2
    play_scenario(told(ASKED[name], nested, change), graphs)


class Failure(Exception):
    pass


def replaced(error):
    error.args = (1, [3])


def inside(error):
    error.args[1].append(3)


@pytest.mark.parametrize("change", [replaced, inside])
@pytest.mark.parametrize("ask", [repr, str, lambda e: f"{e}", lambda e: str([e])])
def test_c_code_sees_arguments_of_exceptions(ask, change) -> None:
    graphs = 1 if change is replaced else 2
    play_scenario(told(ask, lambda: Failure(1, [2]), change), graphs)


@scenario(graphs=2)
def groups_of_equal_objects(compile):
    f = compile(lambda o, x: (x + 1, len(list(itertools.groupby([o, nested()])))))
    o = nested()
    yield f(o, x())
    deeper(o)
    yield f(o, x())


@scenario(graphs=4)
def whether_the_context_of_an_exception_is_shown(compile):
    f = compile(lambda e, x: (x + 1, e.__suppress_context__, type(e.__cause__)))
    error = Failure()
    yield f(error, x())
    error.__cause__ = KeyError()
    yield f(error, x())
    error.__suppress_context__ = False
    yield f(error, x())
    yield error.__suppress_context__
    error.__cause__ = None
    yield f(error, x())


@scenario(graphs=3)
def a_proxy_of_a_dict_with_lists(compile):
    table = {"a": [1], "b": 2}
    proxy = types.MappingProxyType(table)
    f = compile(lambda x: (x + 1, repr(proxy), proxy == {"a": [1], "b": 2}))
    yield f(x())
    yield f(x())
    table["a"].append(3)
    yield f(x())
    table["c"] = 1
    yield f(x())


@scenario(graphs=1)
def attributes_that_a_text_does_not_show(compile):
    class Shown:
        def __init__(self):
            self.name, self.hidden = "a", 1

        def __repr__(self):
            return self.name

    f = compile(lambda o, x: (x + 1, repr(o), str(o), f"{o}", str([o]), format(o)))
    o = Shown()
    yield f(o, x())
    o.hidden = 2
    o.more = 3
    yield f(o, x())
    o.name = "b"
    yield f(o, x())


# ---------------------------------------------------------------------- callables of C


def scaled(x, a=1, b=2):
    return x * a * b


@scenario(graphs=6)
def a_partial_with_attributes(compile):
    p = functools.partial(scaled, a=2)
    p.tag = 1
    f = compile(lambda p, x: (p(x), p.tag, hasattr(p, "more")))
    yield f(p, x())
    yield f(p, x())
    p.keywords["a"] = 3
    yield f(p, x())
    p.keywords["b"] = 5
    yield f(p, x())
    p.tag = "other"
    yield f(p, x())
    p.more = 1
    yield f(p, x())
    p.__setstate__((scaled, (), {}, {"tag": 1}))
    yield f(p, x())


@scenario(graphs=1)
def attributes_of_a_partial_are_set(compile):
    @compile
    def f(p, x):
        p.calls += 1
        p.last = x
        return p(x)

    p = functools.partial(scaled, a=2)
    p.calls = 0
    yield f(p, x())
    yield p.calls, p.last
    assert list(vars(p)) == ["calls", "last"]


@scenario(graphs=3)
def a_special_method_bound_before(compile):
    items = [1, 2]
    f = compile(lambda length, x: x * length())
    yield f(items.__len__, x())
    yield f(items.__len__, x())
    items.append(3)
    yield f(items.__len__, x())
    yield f([1, 2].__len__, x())
    yield f({1: 2}.__len__, x())


@scenario(graphs=2)
def a_special_method_that_changes_what_it_is_bound_to(compile):
    f = compile(lambda put, x: (x + 1, put(0, 7)))
    for items in ([1, 2], [3]):
        yield f(items.__setitem__, x())
        yield items


@scenario(graphs=3)
def methods_of_numbers(compile):
    f = compile(lambda g, h, x: (x + 1, g(2), h()))
    yield f((5).__add__, (5).bit_length, x())
    yield f((6).__add__, (5).bit_length, x())
    yield f((6).__add__, (700).bit_length, x())
    yield f((6).__add__, (700).bit_length, x())


# ---------------------------------------------------------------------- names


def names(value):
    return [name for name in dir(value) if not name.startswith("_")]


@scenario(graphs=3)
def names_of_a_function_and_of_a_method(compile):
    class Holder:
        def method(self):
            pass

    def g():
        pass

    f = compile(lambda x: (x + 1, names(g), names(Holder().method)))
    yield f(x())
    g.tag = 1
    yield f(x())
    Holder.method.tag = 1
    yield f(x())
    yield f(x())


@scenario(graphs=4)
def names_of_a_module(compile):
    m = types.ModuleType("m")
    m.a = 1
    f = compile(lambda x: (x + 1, names(m)))
    yield f(x())
    m.a = 2
    yield f(x())
    m.b = 1
    yield f(x())
    for found in (["q"], ["r"]):
        m.__dir__ = lambda found=found: found
        yield f(x())


# ---------------------------------------------------------------------- copies, dicts


@scenario(graphs=3)
def how_an_object_is_copied(compile):
    class Copied:
        def __init__(self):
            self.a = [1]

    f = compile(lambda o, x: (x + 1, vars(copy.copy(o)), vars(copy.deepcopy(o))))
    o = Copied()
    yield f(o, x())
    Copied.__reduce__ = lambda self: (Space, (), {"z": 2})
    yield f(o, x())
    del Copied.__reduce__
    yield f(o, x())
    Copied.__getstate__ = lambda self: {"a": 5}
    yield f(o, x())


@scenario(graphs=2)
def an_ordered_dict_that_has_lost_its_order(compile):
    table = collections.OrderedDict(a=1)
    f = compile(lambda x: (x + 1, len(table), list(table)))
    yield f(x())
    dict.__setitem__(table, "b", 2)  # of which the order knows nothing
    yield f(x())


# ---------------------------------------------------------------------- the interpreter


@scenario(graphs=3)
def settings_of_the_interpreter(compile):
    f = compile(lambda x: (x + 1, sys.getswitchinterval(), sys.getrecursionlimit()))
    before = sys.getswitchinterval(), sys.getrecursionlimit()
    yield f(x())
    try:
        sys.setswitchinterval(0.25)
        yield f(x())
        sys.setrecursionlimit(before[1] + 50)
        yield f(x())
    finally:
        sys.setswitchinterval(before[0])
        sys.setrecursionlimit(before[1])
    yield f(x())


@scenario(graphs=1)
def whether_the_collector_is_on(compile):
    f = compile(lambda x: (x + 1, gc.isenabled()))
    yield f(x())
    try:
        gc.disable()
        yield f(x())
    finally:
        gc.enable()
    yield f(x())
