# mypy: ignore-errors
"""Attributes that are stored, deleted or found in unusual ways: what stays is what eager leaves."""

import collections
import dataclasses
import itertools

import pytest
import torch

import stator

from .harness import Program, Programs, check, t

programs = Programs()
LOG = []


def logged(make, **claims):
    return programs(make, reset=LOG.clear, world=lambda: LOG, **claims)


class Plain:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: int


@logged(lambda: (t(3), Frozen(2)), ops=["mul"])
def frozen_field_refuses(x, frozen):
    try:
        frozen.a = 4
    except dataclasses.FrozenInstanceError as error:
        LOG.append(str(error))
    return x * frozen.a


class Silent(Plain):
    def __setattr__(self, name, value):
        LOG.append((name, value))

    def __delattr__(self, name):
        LOG.append(name)


@logged(lambda: (t(3), Silent(a=5)), ops=["add"])
def stores_that_are_swallowed(x, silent):
    silent.a = 3
    del silent.a
    return x + silent.a


class Hidden(Plain):
    @property
    def a(self):
        return 1

    @a.setter
    def a(self, value):
        LOG.append(value)


@logged(lambda: (t(3), Hidden(a=5)), ops=["add"])
def property_over_an_attribute(x, hidden):
    hidden.a = 3
    return x + hidden.a, dict(hidden.__dict__)


@programs(
    lambda: (t(3), Plain(b=1)),
    ops=["add"],
    changes={"attribute": lambda: (t(3), Plain(a=4, b=1))},
)
def set_and_deleted(x, obj):
    obj.a = 3
    del obj.a
    return x + 1


@programs(
    lambda: (t(3), Plain(a=1, b=1)),
    ops=["add"],
    changes={
        "attribute": lambda: (t(3), Plain(b=1)),
        "order": lambda: (t(3), Plain(b=1, a=1)),
    },
)
def deleted_and_set_again(x, obj):
    value = getattr(obj, "a", 3)
    obj.b = 4
    if hasattr(obj, "a"):
        del obj.a
    obj.a = value
    return x + value, list(vars(obj))


@programs(lambda: (t(3), Plain(a=1, b=2)), ops=["add"])
def moved_to_the_end(x, obj):
    space = obj.__dict__
    space["a"] = space.pop("a")
    return x + obj.a


@programs(lambda: (t(3), Plain(a=1, b=2)), ops=["add"])
def namespace_filled_anew(x, obj):
    space = vars(obj)
    space.clear()
    space["b"] = x
    space["a"] = 2
    obj.c = 3
    return x + obj.b, list(space)


@programs(lambda: (t(3), {1, 2}), ops=["add"])
def equal_element_of_another_type(x, numbers):
    numbers.discard(1)
    numbers.add(True)
    return x + len(numbers)


# ---------------------------------------------------------------------- dicts with attributes


class Own(dict):
    """The items are the attributes."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self


@programs(
    lambda: (t(3), Own(a=1, b=2)),
    ops=["mul"],
    changes={
        "value": lambda: (t(3), Own(a=3, b=2)),
        "key": lambda: (t(3), Own(a=3, b=2, c=1)),
    },
)
def dict_that_is_its_own_namespace(x, own):
    y = x * own.a
    own.a = 5
    own["b"] = 7
    own.c = 8
    return y, own["a"], own.b, own["c"], list(own), own.__dict__ is own, vars(own)["c"]


@programs(lambda: (t(3), Own(a=1, inner=Own(parts=[1]))), ops=["mul"])
def nested_dicts_that_are_their_own_namespaces(x, own):
    own.inner.parts.append(2)
    own.inner.z = 3
    own.update(w=4)
    own.pop("a")
    return x * len(own.inner["parts"]), own.w, hasattr(own, "a"), {**own}


class Dotted(dict):
    """Methods of C as hooks."""

    __getattr__ = dict.get
    __setattr__ = dict.__setitem__
    __delattr__ = dict.__delitem__


@programs(
    lambda: (t(3), Dotted(a=1, b=2)),
    ops=["mul"],
    changes={
        "missing key": lambda: (t(3), Dotted(a=2)),
        "key": lambda: (t(3), Dotted(a=1, b=3, z=2)),
    },
)
def items_by_hooks_of_c(x, dotted):
    y = x * dotted.a
    dotted.q = dotted.z
    made = Dotted(k=x)
    made.w = dotted.b
    del made.k
    return y, dotted.b, dotted.z, made, hasattr(dotted, "nope")


class Shared:
    state = {"v": 1}

    def __init__(self):
        self.__dict__ = self.state


def test_a_namespace_that_two_objects_share_breaks() -> None:
    def fn(x, a, b):
        a.v += 4
        return x * b.v, Shared.state["v"]

    compiled = stator.compile(fn, backend="eager")
    for calls in (1, 2):
        x, v = compiled(torch.ones(2), Shared(), Shared())
        assert (x[0].item(), v) == (1 + 4 * calls, 1 + 4 * calls)
    with pytest.raises(stator.CaptureError, match="in a dict that is used elsewhere, too"):
        stator.compile(fn, backend="eager", fullgraph=True)(torch.ones(2), Shared(), Shared())
    Shared.state["v"] = 1


def test_the_namespace_of_an_object_as_an_argument_breaks() -> None:
    def fn(x, obj, space):
        obj.v = 5
        space["w"] = 3
        return x * space["v"], obj.w

    def call(run):
        obj = Plain(v=1)
        y, w = run(torch.ones(2), obj, obj.__dict__)
        return y.tolist(), w, vars(obj)

    assert call(fn) == call(stator.compile(fn, backend="eager"))
    with pytest.raises(stator.CaptureError, match="in a dict that is used elsewhere, too"):
        call(stator.compile(fn, backend="eager", fullgraph=True))


# ---------------------------------------------------------------------- defaultdict


@logged(
    lambda: (t(3), collections.defaultdict(list)),
    ops=["add"],
    changes={
        "factory": lambda: (t(3), collections.defaultdict(int)),
        "no factory": lambda: (t(3), collections.defaultdict(None, q=1)),
        "function": lambda: (t(3), collections.defaultdict(lambda: LOG.append(1))),
    },
)
def factory_is_guarded(x, table):
    try:
        found = table["new"]
    except KeyError:
        found = "missing"
    return x + 1, found


def _maker(n):
    return lambda: [n]


@programs(
    lambda: (t(3), collections.defaultdict(_maker(3))),
    ops=["add"],
    changes={"cell": lambda: (t(3), collections.defaultdict(_maker(4)))},
)
def factory_with_a_cell(x, table):
    return x + table["a"][0], table


@programs(lambda: (t(3), collections.defaultdict(list)), ops=["add"])
def factory_is_replaced(x, table):
    table.default_factory = None
    try:
        table["a"]
    except KeyError:
        return x + 1, table.default_factory


def test_a_factory_of_c_is_not_called_in_a_trace() -> None:
    def fn(x, table):
        return x + table["a"] + table["b"], table["a"]

    def call(run):
        counter = itertools.count(5)
        y, a = run(torch.zeros(2), collections.defaultdict(counter.__next__))
        return y.tolist(), a, next(counter)

    compiled = stator.compile(fn, backend="eager")
    assert call(compiled) == call(compiled) == call(fn)


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)
