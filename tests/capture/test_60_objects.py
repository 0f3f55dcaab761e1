# mypy: ignore-errors
"""Found by generated programs: splits in deep copies, generators that functions hold, sets of
objects, exception groups of every call, generators of random numbers made in the call."""

import collections
import collections.abc
import copy
import json
import random
import typing

import pytest
import torch

import stator
from stator._native import _core as core
from stator.capture import capture
from stator.capture.trace import restart
from stator.capture.trace.trace import trace
from stator.objects import layout_base

from .harness import Recording
from .scenarios import Scenarios, a_break, plain, play_scenario, x
from .test_37_abandoned import LOG, items

scenario = Scenarios()


@pytest.mark.parametrize(("play", "graphs"), scenario)
def test_scenario(play, graphs) -> None:
    play_scenario(play, graphs)


# ---------------------------------------------------------------- deep copies

Pair = collections.namedtuple("Pair", "number holder")


def aliases(value, seen=None):
    """What is the same object as what: a text in which each list or tuple has a number."""
    seen = {} if seen is None else seen
    if not isinstance(value, list | tuple):
        return type(value).__name__
    if id(value) in seen:
        return f"#{seen[id(value)]}"
    seen[id(value)] = len(seen)
    parts = ", ".join([aliases(each, seen) for each in value])
    return f"{type(value).__name__}#{seen[id(value)]}({parts})"


@scenario(graphs=4)
def a_split_in_a_deep_copy(compile):
    """The class has to be made natively: the trace ends, at the latest, before it."""

    class Thing:
        pass

    def grow(x, holder, seen, size):
        a_break()
        seen.append(copy.deepcopy([each for each in holder if not isinstance(each, str)]))

        class Sized(Thing):
            length = size

        made = Sized()
        holder.append(Pair(1, holder))
        return lambda: made

    holder, seen = [1, x(), "s", x()], []
    compiled = compile(grow)
    for _ in range(4):
        compiled(x(), holder, seen, 2)
        yield aliases(seen[-1])


class Copied:
    """Copies itself, with a break."""

    def __init__(self, parts):
        self.parts = parts

    def __deepcopy__(self, memo):
        made = Copied(None)
        memo[id(self)] = made
        a_break()
        made.parts = copy.deepcopy(self.parts, memo)
        return made


@scenario(graphs=1)
def a_break_in_a_deep_copy(compile):
    def run(x, thing):
        made = copy.deepcopy([thing, thing.parts, thing])
        return x + len(made), made[0] is made[2], made[0].parts is made[1], made[1][0] is made[0]

    thing = Copied([])
    thing.parts.append(thing)
    compiled = compile(run)
    yield compiled(x(), thing)
    yield compiled(x(), thing)


@scenario(graphs=2)
def a_memo_of_the_program(compile):
    def run(x, parts, memo):
        made = copy.deepcopy(parts, memo)
        return x * 2, made is memo[id(parts)], len(memo)

    def again(x, parts):
        memo = {}
        first = copy.deepcopy(parts, memo)
        return x * 3, copy.deepcopy(parts, memo) is first, id(parts) in memo, memo

    parts, memo = [[1], 2], {}
    yield compile(run)(x(), parts, memo)
    yield id(parts) in memo, id(parts[0]) in memo
    *found, kept = compile(again)(x(), parts)
    yield found, id(parts) in kept


def test_a_class_that_is_made_is_where_the_program_is_split(monkeypatch) -> None:
    """At once: the trace knows in which step the class was made."""

    def fn(x):
        found = [i * i for i in range(50)]

        class Made:
            size = len(found)

        return Made, x.sin() + found[-1], [i + 1 for i in range(50)]

    limits = []

    def counted(task, limit):
        limits.append(limit)
        return trace(task, limit)

    monkeypatch.setattr(restart, "trace", counted)
    backend = Recording()
    compiled = stator.compile(fn, backend=backend)
    made, result, _ = compiled(x())
    assert made.size == 50 and torch.equal(result, x().sin() + 2401)
    assert len(limits) == 2 and backend.graphs == [["sin", "add"]]


# ---------------------------------------------------------------- generators that functions hold


def in_a_default(x):
    found = items(x)
    next(found)
    held = lambda found=found: found  # noqa: E731
    del found
    LOG.append("a")
    held()
    held = None
    LOG.append("b")
    return x + 1


def in_a_closure(x):
    def begun():
        found = items(x)
        next(found)
        return lambda: found

    held = begun()
    LOG.append("a")
    held()
    held = None
    LOG.append("b")
    held = [begun()]
    held.clear()
    LOG.append("c")
    return x + 1


def in_two_functions(x):
    def begun():
        found = items(x)
        next(found)
        inner = lambda: found  # noqa: E731
        return lambda: inner

    held = begun()
    LOG.append("a")
    kept = held()
    held = None
    LOG.append("b")
    kept = kept() and None
    LOG.append("c")
    return x + 1


@pytest.mark.parametrize("fn", [in_a_default, in_a_closure, in_two_functions])
def test_a_generator_that_a_function_holds(fn) -> None:
    compiled = stator.compile(fn, backend="eager", fullgraph=True)
    LOG.clear()
    expected = fn(x()), list(LOG)
    for _ in range(2):
        LOG.clear()
        assert plain((compiled(x()), list(LOG))) == plain(expected)


# ---------------------------------------------------------------- sets of objects


class Thing:
    def __init__(self, number):
        self.number = number


def twin(given):
    made = set()
    core.set_take_over(made, given)
    return made


def walked(x, found, frozen):
    numbers = [each.number for each in found]
    return x + 1, numbers, [*found], list(found), tuple(frozen), dict.fromkeys(frozen), max(numbers)


@pytest.mark.parametrize("seed", range(6))
def test_a_set_of_objects_is_walked_in_its_order(seed) -> None:
    draw = random.Random(seed)
    things = [Thing(i) for i in range(draw.randrange(2, 20))]
    found, frozen = set(things), frozenset([*things, 3, "text", torch.nn.Linear])
    for each in draw.sample(things, len(things) // 3):
        found.discard(each)
    compiled = stator.compile(walked, backend="eager", fullgraph=True)
    assert compiled(x(), found, frozen)[1:] == walked(x(), found, frozen)[1:]


def test_a_set_of_objects_grows_as_in_eager() -> None:
    def add(x, found, new):
        found.add(new)
        return x + len(found), new in found

    for seed in range(5):
        things = [Thing(i) for i in range(seed + 2)]
        found, new = set(things), Thing(99)
        other = twin(found)
        compiled = stator.compile(add, backend="eager", fullgraph=True)
        assert compiled(x(), found, new)[1:] == add(x(), other, new)[1:]
        assert list(found) == list(other)


# ---------------------------------------------------------------- exception groups


@stator.disable
def refuse(text, *kinds):
    raise ExceptionGroup(text, [kind(text) for kind in kinds])


def test_a_group_of_every_call_is_handled_by_the_same_code() -> None:
    def fn(x, *kinds):
        seen = []
        try:
            refuse("all", *kinds)
        except* ValueError as group:
            seen.append((len(group.exceptions), group.exceptions[0].args, group.message))
            x = x + 1
        except* TypeError as group:
            seen.append(str(group))
            x = x * 2
        return x, seen

    backend = Recording()
    compiled = stator.compile(fn, backend=backend)
    for _ in range(4):
        given = x(), ValueError, TypeError, ValueError
        assert plain(compiled(*given)) == plain(fn(*given))
    assert len(backend.graphs) == 1
    assert plain(compiled(x(), TypeError)) == plain(fn(x(), TypeError))
    assert len(backend.graphs) == 2


@scenario(graphs=2)
def a_group_in_the_chain_of_its_member(compile):
    def look(x, group):
        inner = group.exceptions[0]
        return x + 1, inner.__context__ is group, [str(each) for each in group.exceptions]

    group = ExceptionGroup("g", [ValueError(1), ExceptionGroup("h", [KeyError("k")])])
    group.exceptions[0].__context__ = group
    compiled = compile(look)
    yield compiled(x(), group)
    yield compiled(x(), group)
    yield compiled(x(), ExceptionGroup("g", [ValueError(2)]))


# ---------------------------------------------------------------- the standard library


def test_generators_of_random_numbers_made_in_the_call() -> None:
    def draw(x, seed):
        own = random.Random(seed)
        drawn = [own.randint(0, 9) for _ in range(3)], own.choice("abc"), own.sample([1, 2, 3], 2)
        own.seed(3)
        return x * own.random(), drawn, own.getrandbits(80)

    def kept(x, seed):
        own = random.Random(seed)
        first = own.random()
        a_break()
        return x * own.random(), first, own.getstate()

    def unknown(x):
        return x * (random.Random().random() < 2)

    compiled = stator.compile(draw, backend="eager", fullgraph=True)
    split = stator.compile(kept, backend="eager")
    for seed in (1, 2, "text"):
        assert plain(compiled(x(), seed)) == plain(draw(x(), seed))
        assert plain(split(x(), seed)) == plain(kept(x(), seed))
    assert capture(unknown, (x(),)).broken is not None
    assert layout_base(random.Random).__module__ == "_random"


@typing.runtime_checkable
class Getter(typing.Protocol):
    def get(self): ...


def test_names_that_a_class_has() -> None:
    """Only the names are looked at, whatever C objects the class holds."""

    def fn(x, thing):
        return (
            x + 1,
            "number" in Pair.__dict__,
            "get" in Thing.__dict__,
            isinstance(thing, Getter),
            isinstance(Pair(1, 2), Getter),
            isinstance(thing, collections.abc.Hashable),
        )

    compiled = stator.compile(fn, backend="eager", fullgraph=True)
    assert plain(compiled(x(), Thing(1))) == plain(fn(x(), Thing(1)))


def test_json() -> None:
    def fn(x, text):
        found = json.loads(text)
        found["x"] = x * found["n"]
        try:
            json.loads("{bad")
        except ValueError as error:
            found["error"] = str(error), error.pos
        return sorted(found), found["x"], found["error"], json.dumps(json.loads(b"[1.5, null]"))

    compiled = stator.compile(fn, backend="eager", fullgraph=True)
    for text in ('{"n": 2, "l": [1, {}]}', '{"n": 3}'):
        assert plain(compiled(x(), text)) == plain(fn(x(), text))
    with pytest.raises(json.JSONDecodeError):
        compiled(x(), "[1,")
