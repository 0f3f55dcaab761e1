# mypy: ignore-errors
"""Found by generated programs: stores through metaclasses, equal constants that are two objects,
iterators on their way through what is written back, generators that something keeps, errors that
name types of the trace, a world that does not hold still."""

import contextlib
import functools
import gc
import itertools
import math
import operator
import warnings
from collections import OrderedDict, deque

import pytest
import torch

import stator

from .harness import Recording
from .scenarios import Scenarios, a_break, plain, play_scenario, x

scenario = Scenarios()


@pytest.mark.parametrize(("play", "graphs"), scenario)
def test_scenario(play, graphs) -> None:
    play_scenario(play, graphs)


def outcome(function, *args):
    """What a call returns, or the text of what it raises, with all contexts."""
    try:
        return plain(function(*args))
    except Exception as error:
        said = []
        while error is not None:
            said.append((type(error), str(error), error.__suppress_context__))
            error = error.__context__
        return said


# ---------------------------------------------------------------- stores in classes


class Meta(type):
    @property
    def size(cls):
        return cls._size

    @size.setter
    def size(cls, value):
        if value > 90:
            raise ValueError(value)
        cls._size = value

    @property
    def fixed(cls):
        return 7

    def __getitem__(cls, index):
        return index * cls.size


class Setting(Meta):
    """Passes all stores on."""

    def __setattr__(cls, name, value):
        super().__setattr__(name, value)


@pytest.mark.parametrize("meta", [Meta, Setting])
def test_a_property_of_the_metaclass_is_stored(meta) -> None:
    """What follows reads what the setter has written."""

    def grow(x, cls):
        cls.size = cls.size + 1
        return x * cls[2], cls._size

    def make(x):
        cls = meta("Made", (), {"_size": 1})
        cls.size = 5
        return x * cls[2]

    def refuse(x, cls):
        cls.fixed = 3

    def played(compile):
        cls = meta("Given", (), {"_size": 3})
        for call in (grow, grow, refuse):
            yield outcome(compile(call), x(), cls)
            yield cls._size
        cls._size = 90
        yield outcome(compile(grow), x(), cls)
        yield outcome(compile(make), x())

    found = list(played(lambda fn: stator.compile(fn, backend="eager")))
    assert found == list(played(lambda fn: fn))


# ---------------------------------------------------------------- equal, and not the same


@scenario(graphs=2)
def equal_tuples_of_classes(compile):
    class A:
        pair = (0.0, 1)

    class B:
        pair = (-0.0, 1)

    def read(x):
        return x + 1, str(A.pair), str(B.pair), A.pair, B.pair

    compiled = compile(read)
    *_, a, b = compiled(x())
    yield str(a), str(b), a is A.pair, b is B.pair
    A.pair, B.pair = tuple([1, 2]), tuple([1, 2])
    *_, a, b = compiled(x())
    yield a is A.pair, b is B.pair, a is b


def test_a_chain_of_equal_exceptions() -> None:
    def chained(x, n):
        try:
            try:
                try:
                    try:
                        a_break()
                        raise ValueError(n)
                    except ValueError as first:
                        raise ValueError(n) from first
                except ValueError:
                    a_break()
                    raise
            except ValueError as second:
                raise ValueError(n) from second
        except ValueError as third:
            a_break()
            return x + 1, str(third.__cause__.__cause__)

    compiled = stator.compile(chained, backend="eager")
    for n in (20, 5, 0.0, -0.0):
        assert outcome(compiled, x(), n) == outcome(chained, x(), n)


# ---------------------------------------------------------------- iterators over what is written


def with_a_gap():
    made = dict.fromkeys("abcdef", 1)
    del made["a"], made["c"]
    return made


def loop_over_keys(x, items):
    seen = []
    for key in items:
        stator.graph_break()
        items.update(b=x)
        seen.append(key)
    return seen


def delete_behind(x, items):
    seen = []
    for key in list(items):
        stator.graph_break()
        items.pop("d", None)
        items["e"] = items.pop("e")
        seen.append((key, list(items)))
    return seen


def loop_over_items(x, items):
    seen = []
    for item in items:
        stator.graph_break()
        items[0] = x
        seen.append(len(items))
    return seen


MADE = {
    "dict": (loop_over_keys, with_a_gap),
    "ordered": (loop_over_keys, lambda: OrderedDict(a=1, b=2, c=3)),
    "ordered grows": (loop_over_keys, lambda: OrderedDict(a=1, c=3)),
    "dict grows": (loop_over_keys, lambda: dict(a=1, c=3)),
    "moved": (delete_behind, with_a_gap),
    "moved, ordered": (delete_behind, lambda: OrderedDict(with_a_gap())),
    "bools": (lambda x, d: [d.pop(1), d.update({True: x})], lambda: {0: 1, 1: 2}),
    "deque": (loop_over_items, lambda: deque([1, 2, 3])),
}


@pytest.mark.parametrize(("loop", "make"), MADE.values(), ids=MADE)
def test_what_stays_in_a_container_stays_where_it_is(loop, make) -> None:
    compiled = stator.compile(loop, backend="eager")
    given, expected = make(), make()
    for _ in range(3):
        assert outcome(compiled, x(), given) == outcome(loop, x(), expected)
        assert repr(given) == repr(expected)


def test_elements_that_stay_keep_their_place_in_a_set() -> None:
    """The order of a set depends on what it has held before."""

    def sparse():
        made = set(range(40))
        made -= set(range(40)) - {3, 9, 20, 33}
        return made

    def change(x, items):
        items.add(50)
        items.discard(9)
        items.discard(True)
        return x + 1

    given, expected = sparse(), sparse()
    stator.compile(change, backend="eager")(x(), given)
    change(x(), expected)
    assert list(given) == list(expected)


# ---------------------------------------------------------------- containers that hold themselves


@scenario(graphs=2)
def open_numbers_in_what_holds_itself(compile):
    items = {"n": 1}
    items["self"] = items

    def copied(x, items):
        items["n"] += 1
        made = dict(items)
        return x + made["n"], made["self"] is items

    compiled = compile(copied)
    for _ in range(4):
        yield compiled(x(), items)


@scenario(graphs=2)
def open_numbers_in_a_list_that_holds_itself(compile):
    items = [(1, 2)]
    items += [items, 5]

    def copied(x, items):
        items[2] += 1
        made = list(items)
        return x + made[2], made[1] is items, made[0]

    compiled = compile(copied)
    for _ in range(4):
        yield compiled(x(), items)


# ---------------------------------------------------------------- generators that nothing keeps

LOG = []


def counting(x):
    try:
        yield x
        yield x + 1
    finally:
        LOG.append("closed")


@contextlib.contextmanager
def managed():
    yield


def beside_a_class(x):
    generator = counting(x)
    next(generator)

    class Local:
        pass

    return x + 1, Local().__doc__


def beside_a_context(x):
    generator = counting(x)
    next(generator)
    with managed():
        a_break()
    return x + 1


def in_locals(x):
    generator = counting(x)
    next(generator)
    LOG.append(locals().get("nothing"))
    return x + 1


def in_a_list(x):
    made = []
    made.append(counting(x))
    next(made[0])
    made.append(1)
    made = None
    LOG.append("behind")
    return x + 1


@pytest.mark.parametrize("function", [beside_a_class, beside_a_context, in_locals, in_a_list])
def test_a_generator_is_closed_when_nothing_refers_to_it(function) -> None:
    """Also where an exception of ours, or a method that was called, would keep it."""
    compiled = stator.compile(function, backend="eager")
    gc.disable()
    try:
        for _ in range(2):
            seen = []
            for call in (function, compiled):
                LOG.clear()
                call(x())
                seen.append(list(LOG))
            assert seen[0] == seen[1]
    finally:
        gc.enable()
        gc.collect()


# ---------------------------------------------------------------- errors that name types

ERRORS = {
    "sum": lambda x, n: sum([x], None),
    "join": lambda x, n: ",".join([x]),
    "reduce": lambda x, n: functools.reduce(operator.add, [None, x]),
    "sorted": lambda x, n: sorted([x, "a"]),
    "call": lambda x, n: x(),
    "keywords": lambda x, n: dict(**x),
    "in": lambda x, n: x in "abc",
    "map": lambda x, n: list(map(x, [1])),
    "ord": lambda x, n: ord(x),
    "accumulate": lambda x, n: list(itertools.accumulate([x, None])),
    "prod": lambda x, n: math.prod([x, None]),
    "number called": lambda x, n: n(),
    "number indexed": lambda x, n: n[0],
    "number searched": lambda x, n: 3 in n,
    "number's item deleted": lambda x, n: operator.delitem(n, 0),
}


@pytest.mark.parametrize("fails", ERRORS.values(), ids=ERRORS)
def test_errors_name_the_types_of_the_program(fails) -> None:
    def uncaught(x, n):
        return fails(x + 1, n)

    def caught(x, n):
        try:
            fails(x, n)
        except TypeError as error:
            return x + 1, str(error)

    for function in (uncaught, caught):
        compiled = stator.compile(function, backend="eager")
        for n in (3, 4, 5):
            assert outcome(compiled, x(), n) == outcome(function, x(), n)
        weight = torch.nn.Parameter(x())  # its type has another name
        assert outcome(compiled, weight, 5) == outcome(function, weight, 5)


# ---------------------------------------------------------------- a world that changes meanwhile


def test_a_world_that_never_holds_still() -> None:
    """As another thread may change it: the call runs as it is, and the next is compiled."""
    state = {"n": 0}
    backend = Recording()
    restless = True

    def compile(module, inputs):
        if restless:
            state["n"] += 1
        return backend(module, inputs)

    def read(x):
        return x * state["n"]

    compiled = stator.compile(read, backend=compile, dynamic=False)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert plain(compiled(x())) == plain(read(x()))
    assert any("runs eagerly" in str(each.message) for each in told)
    restless, before = False, len(backend.graphs)
    for _ in range(2):
        assert plain(compiled(x())) == plain(read(x()))
    assert len(backend.graphs) == before + 1


def scaled(x, factor=1.5):
    return x * factor


def test_more_defaults_than_parameters() -> None:
    def fn(x):
        return scaled(x)

    compiled = stator.compile(fn, backend="eager", fullgraph=True)
    before = scaled.__defaults__
    try:
        for given in (
            (1.5,),
            (9.5, 1.5, 2.5),
            (3.5, 9.5, 9.5, 2.5),
            (torch.ones(2), torch.ones(2) * 4),
        ):
            scaled.__defaults__ = given
            assert torch.equal(compiled(torch.ones(2)), fn(torch.ones(2)))
    finally:
        scaled.__defaults__ = before
