# mypy: ignore-errors
"""Weak references with callbacks, and the containers made of them, in programs that are captured.

What dies in the call is told at once; containers of the world that lose what dies are not used
after something was let go that may have died.
"""

import random
import warnings
import weakref

import pytest
import torch

import stator

from .harness import Program, Programs, call, check, reset_engine, t
from .test_40_objects import agree

programs = Programs()
LOG = []


class Thing:
    def __init__(self, number=0):
        self.number = number

    def method(self):
        return self.number


class Named:
    """Hashed and compared by its name."""

    def __init__(self, name):
        self.name = name

    def __eq__(self, other):
        return type(other) is Named and self.name == other.name

    def __hash__(self):
        return hash(self.name)


class Keyed(weakref.ref):
    __slots__ = ("key",)

    def __new__(cls, thing, callback, key):
        made = weakref.ref.__new__(cls, thing, callback)
        made.key = key
        return made

    def __init__(self, thing, callback, key):
        super().__init__(thing, callback)


def one():
    return (t(3),)


def logged(fn):
    return programs(one, world=lambda: LOG, reset=LOG.clear)(fn)


# ---------------------------------------------------------------------- what dies in the call


@logged
def told_at_once(x):
    thing = Thing()
    reference = weakref.ref(thing, lambda _: LOG.append("dead"))
    del thing
    LOG.append("after")
    return x + len(LOG), reference() is None


@logged
def told_at_the_end(x):
    thing = Thing()
    reference = weakref.ref(thing, lambda _: LOG.append("dead"))
    LOG.append("before")
    return x + (reference() is thing)


@logged
def not_told_if_the_reference_is_gone(x):
    thing = Thing()
    reference = weakref.ref(thing, LOG.append)
    del reference, thing
    return x + len(LOG)


@logged
def told_by_c_code(x):
    thing, dead = Thing(), []
    reference = weakref.ref(thing, dead.append)
    del thing
    return x + len(dead), dead[0] is reference


@logged
def in_the_order_of_references(x):
    thing = Thing()
    first = weakref.ref(thing, lambda _: LOG.append("first"))
    second = weakref.ref(thing, lambda _: LOG.append("second"))
    del thing
    return x, first is second, first == second


@logged
def a_callback_lets_another_one_go(x):
    things = [Thing(1), Thing(2)]
    references = [
        weakref.ref(things[0], lambda _: things.clear()),
        weakref.ref(things[1], lambda _: LOG.append("second")),
    ]
    things[0] = None
    return x + len(things), [each() for each in references], list(LOG)


@logged
def in_an_inner_function(x):
    def inner():
        thing = Thing()
        kept.append(weakref.ref(thing, lambda _: LOG.append("dead")))
        LOG.append("inner")

    kept = []
    inner()
    LOG.append("outer")
    return x + len(kept)


@logged
def in_a_handler(x):
    def inner():
        thing = Thing()
        kept.append(weakref.ref(thing, lambda _: LOG.append("dead")))
        raise ValueError

    kept = []
    try:
        inner()
    except ValueError:
        LOG.append("handler")
    LOG.append("after")
    return x, list(LOG)


@logged
def read_by_a_variable(x):
    def gone(_):
        nonlocal count
        count += 1

    count, thing = 0, Thing()
    reference = weakref.ref(thing, gone)
    del thing
    return x + count, reference.__callback__


@logged
def the_callback_itself(x):
    thing, gone = Thing(), LOG.append
    plain, other = weakref.ref(thing), weakref.ref(thing, gone)
    return x, plain.__callback__, other.__callback__ is gone, plain is weakref.ref(thing)


@logged
def a_method(x):
    thing = Thing(3)
    method = weakref.WeakMethod(thing.method)
    found = method()()
    del thing
    return x + found, method()


@logged
def of_a_subclass(x):
    thing = Thing()
    reference = Keyed(thing, lambda each: LOG.append(each.key), "key")
    kept = reference.key, reference() is thing
    del thing
    return x, kept, reference() is None


@logged
def weak_set(x):
    found, first, second = weakref.WeakSet(), Thing(1), Thing(2)
    found.add(first)
    found.update([second])
    counts = [len(found)]
    del first
    counts.append(len(found))
    return x + counts[-1], counts, [each.number for each in found], second in found


@logged
def weak_keys(x):
    table, thing = weakref.WeakKeyDictionary(), Thing()
    table[thing] = x + 1
    found, count = table[thing], len(table)
    del thing
    return found * count, len(table), list(table.items())


@logged
def weak_values(x):
    table = weakref.WeakValueDictionary()
    thing = table["a"] = Thing(4)
    found = table["a"].number + len(table)
    del thing
    return x + found, len(table), "a" in table, table.get("a")


@logged
def weak_table_of_names(x):
    table, first = weakref.WeakKeyDictionary(), Named("a")
    table[first] = 1
    found = table[Named("a")]
    del first
    return x + found, len(table)


# ---------------------------------------------------------------------- what leaves it


@programs(lambda: (t(3), []), changes={"length": lambda: (t(3), [1, 2])})
def things_and_references_that_leave(x, kept):
    thing = Thing()
    kept.append(thing)
    return x + 1, weakref.ref(thing, kept.append), Keyed(thing, None, "key")


@programs(lambda: (t(3), []))
def containers_that_leave(x, kept):
    first, second = Thing(1), Thing(2)
    kept += [first, second]
    found = weakref.WeakValueDictionary({1: first, 2: second})
    return x + len(found), found, weakref.WeakSet(kept)


# ---------------------------------------------------------------------- of the world


def _set():
    things = [Thing(i) for i in range(3)]
    return t(3), things, weakref.WeakSet(things)


def _keys():
    things = [Thing(i) for i in range(3)]
    return t(3), things, weakref.WeakKeyDictionary({each: each.number for each in things})


def _values():
    things = [Thing(i) for i in range(3)]
    return t(3), things, weakref.WeakValueDictionary({each.number: each for each in things})


def _names():
    things = [Named(name) for name in "abc"]
    return t(3), things, weakref.WeakSet(things)


@programs(_set, hits=False)
def of_the_world_set(x, things, found):
    found.discard(things[0])
    return x + len(found), things[1] in found, things[0] in found


@programs(_keys, hits=False)
def of_the_world_keys(x, things, found):
    found[things[0]] = 17
    del found[things[1]]
    return x + found[things[0]], sorted(found.values())


@programs(_values, hits=False)
def of_the_world_values(x, things, found):
    found[7] = things[0]
    return x + found[2].number, len(found), [each.number for each in found.values()]


@programs(_names, hits=False)
def of_the_world_names(x, things, found):
    return x + len(found), Named("b") in found, Named("z") in found, things[2] in found


def _len_behind(x, things, found):
    things.pop()
    return x + len(found)


def _data_behind(x, things, found):
    things.clear()
    return x + len(found.data)


def _in_behind(x, things, found):
    things[:] = things[1:]
    return x + len(list(found))


def _changed_behind(x, things, found):
    things.pop()
    found.clear()
    return x + 1


def _nested_behind(x, things, found):
    held = [things.pop()]
    count = len(found)
    del held[0]
    return x + count, len(found)


@pytest.mark.parametrize("make", [_set, _keys, _values, _names])
@pytest.mark.parametrize(
    "fn", [_len_behind, _data_behind, _in_behind, _changed_behind, _nested_behind]
)
def test_containers_that_lose_what_dies(fn, make):
    agree(fn, make)


def test_an_address_keeps_nothing_alive():
    def program(x):
        thing = Thing()
        reference = weakref.ref(thing)
        hash(thing)
        thing = None
        return x + 1, reference() is None

    agree(program, one)


def test_two_references_to_one_object_are_two():
    thing = Thing()
    plain, other = weakref.ref(thing), weakref.ref(thing, LOG.append)

    def program(x, first, second):
        return x + 1, first is second, first == second, second.__callback__ is not None

    agree(program, lambda: (t(3), plain, other))


def _circle(x):
    thing = Thing()
    thing.own = thing
    reference = weakref.ref(thing, LOG.append)
    del thing
    return x + (reference() is None)


def _raises(x):
    def gone(_):
        raise ValueError

    thing = Thing()
    reference = weakref.ref(thing, gone)
    del thing
    return x, reference


@pytest.mark.parametrize(("fn", "reason"), [(_circle, "is left"), (_raises, "callback .* raises")])
def test_what_is_not_captured(fn, reason):
    LOG.clear()
    with pytest.raises(stator.CaptureError, match=reason):
        stator.compile(fn, backend="eager", fullgraph=True)(torch.ones(3))
    assert not LOG


@pytest.mark.parametrize("program", programs, ids=str)
def test_weak_callbacks(program):
    check(program)


# ---------------------------------------------------------------------- random programs

_STEPS = (
    "a = Thing(1)",
    "b = Thing(2)",
    "c = a",
    "a = None",
    "b = None",
    "c = None",
    "held.append(a)",
    "held[:] = [b]",
    "held.clear()",
    "table['k'] = a",
    "table.pop('k', None)",
    "r = refer(a, 'r')",
    "s = refer(b, 's')",
    "r = None",
    "log(r is not None and r() is None)",
    "log(s is not None and s() is not None)",
    "a is not None and group.add(a)",
    "b is not None and group.add(b)",
    "log(len(group))",
    "log(sorted(each.number for each in group))",
    "a is not None and group.discard(a)",
    "keys.update({} if b is None else {b: 5})",
    "log(len(keys)); log(list(keys.values()))",
    "values.update({} if a is None else {'a': a})",
    "log(len(values)); log('a' in values)",
    "wrapped(a)",
    "failing(b)",
    "c = Thing(a)",
)
_HEAD = """
def program(x):
    found = []
    log = found.append
    def refer(thing, name):
        if thing is None:
            return None
        return weakref.ref(thing, lambda _: log("dead " + name))
    def wrapped(thing):
        inner = [thing, Thing(8)]
        log(len(inner))
    def failing(thing):
        inner = Thing(9)
        group.add(inner)
        try:
            raise ValueError(1)
        except ValueError as error:
            log(str(error))
    held, table = [], {}
    a = b = c = r = s = None
    group, keys = weakref.WeakSet(), weakref.WeakKeyDictionary()
    values = weakref.WeakValueDictionary()
"""


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed):
    chosen = random.Random(seed).choices(_STEPS, k=24)
    lines = [*chosen, "x = x + len(found)", "return x, found"]
    namespace = {"weakref": weakref, "Thing": Thing}
    exec(_HEAD + "".join(f"    {line}\n" for line in lines), namespace)
    function = namespace["program"]
    program = Program(f"random {seed}", function, one)
    reset_engine()
    compiled = stator.compile(function, backend="eager", fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(2):
            expected = call(program, function, number).lines
            assert call(program, compiled, number).lines == expected, "\n".join(chosen)
