# mypy: ignore-errors
"""Iterators over what was changed, and objects that C code hands out."""

import collections
import functools
import itertools
import warnings

import pytest
import torch

import stator

from .harness import Program, Programs, call, check, reset_engine, t

programs = Programs()


def agree(fn, make, reason=None, world=None, reset=None) -> None:
    """Three calls in a row do what eager does; with a reason, it is why there is no full graph."""
    program = Program(fn.__name__, fn, make, reset=reset, world=world)
    reset_engine()
    compiled = stator.compile(fn, backend="eager")
    for seed in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert call(program, compiled, seed).lines == call(program, fn, seed).lines
    if reason is not None:
        program.given(0)
        with pytest.raises(stator.CaptureError, match=reason):
            stator.compile(fn, backend="eager", fullgraph=True)(*make())


# ---------------------------------------------------------------------- iterators


@programs(lambda: (t(3), [1]), ops=["add"])
def iterator_over_a_list_that_grew(x, items):
    items.extend([2, 3, 4])
    found = iter(items)
    next(found), next(found)
    return x + 1, found, enumerate(reversed(items))


@programs(lambda: (t(3), {"a": 1}, collections.deque([1, 2])), ops=["add"])
def iterators_over_what_was_changed(x, table, queue):
    table["b"] = 2
    queue.rotate(1)
    queue.append(5)
    keys, items = iter(table), iter(table.items())
    next(keys)
    return x + 1, keys, items, iter(table.values()), iter(queue)


@programs(lambda: (t(3), [1, 2], {}), ops=["add"])
def iterator_is_kept_in_what_was_changed(x, items, table):
    items.append(3)
    table["first"] = iter(items)
    next(table["first"])
    table["last"] = reversed(items)
    return x + 1


def _loop(x, items):
    found = []
    for each in items:
        found.append(each)
        if len(found) > 2:
            stator.graph_break()
    return x + len(found), found


def _grown(x, items):
    items.append(7)
    items.insert(0, 8)
    return _loop(x, items)


def _table(x, table):
    table["z"] = 9
    table.pop("a")
    table["y"] = 9
    return _loop(x, table)[1], _loop(x, table.items()), _loop(x, reversed(table))


def _elements(x, elements):
    elements.add(3)
    return _loop(x, elements)


def _bytes(x, data):
    data.extend(b"cde")
    return _loop(x, data), _loop(x, reversed(data))


def _all_at_once(x, items):
    items.append(7)
    return _loop(x, zip(items, reversed(items), map(str, items), itertools.count(), strict=False))


@pytest.mark.parametrize(
    ("fn", "make"),
    [
        (_grown, lambda: (t(3), [1, 2])),
        (_grown, lambda: (t(3), collections.deque([1, 2]))),
        (_table, lambda: (t(3), {"a": 1, "b": 2})),
        (_table, lambda: (t(3), collections.OrderedDict(a=1, b=2))),
        (_elements, lambda: (t(3), {1, 2})),
        (_bytes, lambda: (t(3), bytearray(b"ab"))),
        (_all_at_once, lambda: (t(3), [1, 2])),
    ],
)
def test_a_loop_over_what_was_changed_goes_on_behind_a_break(fn, make) -> None:
    agree(fn, make, "asks for a graph break")


def test_an_iterator_over_what_it_is_put_into_breaks() -> None:
    def fn(x, items):
        items.append(iter(items))
        next(items[-1])
        return x + 1

    agree(fn, lambda: (t(3), [1]), "list_iterator in what it iterates over")


def test_c_iterators_hold_what_the_program_gave_them() -> None:
    def fn(x, items):
        key = functools.partial(max, 1)
        return x + 1, map(str, items), filter(bool, items), map(key, items), iter(items.pop, 0)

    _, text, true, largest, popped = stator.compile(fn, backend="eager", fullgraph=True)(
        torch.ones(2), [0, 3]
    )
    assert text.__reduce__()[1][0] is str
    assert true.__reduce__()[1][0] is bool
    assert largest.__reduce__()[1][0].func is max
    assert [list(each) for each in (text, true, largest, popped)] == [["0", "3"], [3], [1, 3], [3]]


# ---------------------------------------------------------------------- what C code hands out


class Base:
    count = 1

    @classmethod
    def more(cls):
        cls.count += 1
        return cls.count

    def method(self):
        return 1


class Derived(Base):
    pass


def _as_it_was():
    Base.count = 1
    Base.method.__dict__.clear()
    if "count" in Derived.__dict__:
        del Derived.count


def _classes():
    return [Base.count, Derived.__dict__.get("count"), Base.method.__dict__]


@programs(lambda: (t(3), Derived()), ops=["mul"], reset=_as_it_was, world=_classes)
def class_that_a_method_is_bound_to(x, obj):
    return x * obj.more(), Base.count, obj.count


@programs(lambda: (t(3), Derived()), ops=["mul"], reset=_as_it_was, world=_classes)
def function_behind_a_method(x, obj):
    obj.method.__func__.note = 3
    return x * obj.method.note, Base.method.note


@programs(lambda: (t(3),), ops=["add"])
def errors_name_the_tensor(x):
    y = x + 1
    found = []
    for ask in (lambda: y.missing, lambda: x.missing, lambda: delattr(y, "missing")):
        try:
            ask()
        except AttributeError as error:
            found.append((str(error), error.name, error.obj is y, error.obj is x))
    return y, found


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)
