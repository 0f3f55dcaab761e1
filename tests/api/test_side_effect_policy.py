# mypy: ignore-errors
"""`config.side_effect_policy`: what a program changes, in which line, and what is said about it."""

import collections
import logging
import types
import warnings

import pytest
import torch
from torch import nn

import stator
from stator.capture.trace.writes import Write

X = torch.ones(3)
TOTAL = 0
SEEN = []


class Thing:
    kind = "a"

    def __init__(self):
        self.n = 0
        self.items = []

    def count(self):
        self.n += 1  # here


class Slotted:
    __slots__ = ("n",)

    def __init__(self):
        self.n = 0


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1  # here
        return x + 1


def attribute(x, thing):
    thing.n = 1  # here
    return x + 1


def deleted(x, thing):
    del thing.n  # here
    return x + 1


def slot(x, slotted):
    slotted.n = 2  # here
    return x + 1


def append(x, items):
    items.append(1)  # here
    return x + 1


def item(x, items):
    items[0] = 5  # here
    return x + 1


def in_place(x, items):
    items += [1]  # here
    return x + 1


def key(x, table):
    table["k"] = 1  # here
    return x + 1


def updated(x, table):
    table.update(k=2)  # here
    return x + 1


def removed(x, table):
    del table["k"]  # here
    return x + 1


def member(x, members):
    members.add(9)  # here
    return x + 1


def queue(x, values):
    values.appendleft(9)  # here
    return x + 1


def data(x, values):
    values.extend(b"a")  # here
    return x + 1


def of_a_global(x):
    global TOTAL
    TOTAL = TOTAL + 1  # here
    return x + 1


def list_of_a_global(x):
    SEEN.append(1)  # here
    return x + 1


def of_a_class(x):
    Thing.kind = "b"  # here
    return x + 1


def of_a_variable():
    n = 0

    def count(x):
        nonlocal n
        n += 1  # here
        return x + n

    return count


def nested(x, thing):
    thing.count()
    return x + 1


def by_setattr(x, thing):
    setattr(thing, "n", 3)  # here # noqa: B010
    return x + 1


def before_an_error(x, items):
    items.append(1)  # here
    raise ValueError("after it")


def behind_a_break(x, items):
    x = x + 1
    stator.graph_break()
    items.append(1)  # here
    return x + 1


EFFECTS = {
    "attribute": (attribute, lambda: (Thing(),)),
    "deleted": (deleted, lambda: (Thing(),)),
    "slot": (slot, lambda: (Slotted(),)),
    "append": (append, lambda: ([],)),
    "item": (item, lambda: ([1],)),
    "in_place": (in_place, lambda: ([1],)),
    "key": (key, lambda: ({},)),
    "updated": (updated, lambda: ({},)),
    "removed": (removed, lambda: ({"k": 1},)),
    "member": (member, lambda: ({1},)),
    "queue": (queue, lambda: (collections.deque(),)),
    "data": (data, lambda: (bytearray(),)),
    "global": (of_a_global, lambda: ()),
    "list_of_a_global": (list_of_a_global, lambda: ()),
    "class": (of_a_class, lambda: ()),
    "variable": (of_a_variable(), lambda: ()),
    "nested": (nested, lambda: (Thing(),)),
    "by_setattr": (by_setattr, lambda: (Thing(),)),
    "namespace": (attribute, lambda: (types.SimpleNamespace(n=0),)),
    "module": (Layer(), lambda: ()),
    "before_an_error": (before_an_error, lambda: ([],)),
    "behind_a_break": (behind_a_break, lambda: ([],)),
}


def made_in_the_call(x):
    thing = Thing()
    thing.count()
    thing.items.append(1)
    table = {"a": [1]}
    table["a"].append(2)
    return x + len(table["a"])


def changed_back(x, thing):
    before = thing.n
    thing.n = 1
    thing.n = before
    return x + 1


def printed(x):
    print("not an object")
    return x + 1


def on_a_tensor(x):
    x.add_(1)
    return x * 2


def own_behind_a_break(x):
    items = [1]
    stator.graph_break()
    items.append(2)
    return x + len(items)


NONE = {
    "made_in_the_call": (made_in_the_call, lambda: ()),
    "changed_back": (changed_back, lambda: (Thing(),)),
    "printed": (printed, lambda: ()),
    "on_a_tensor": (on_a_tensor, lambda: ()),
    "own_behind_a_break": (own_behind_a_break, lambda: ()),
    "none": (lambda x: x + 1, lambda: ()),
}


@pytest.fixture(autouse=True)
def as_before():
    stator.reset()
    kind, total, seen = Thing.kind, TOTAL, list(SEEN)
    yield
    Thing.kind = kind
    globals()["TOTAL"] = total
    SEEN[:] = seen
    stator.set_logs()
    stator.reset()


def run(function, arguments, policy):
    """The line of the source that what is told names, or None."""
    compiled = stator.compile(function, backend="eager", isolate_recompiles=True)
    with stator.config.patch(side_effect_policy=policy):
        try:
            return compiled(X.clone(), *arguments())
        except ValueError:
            return None


def is_marked(text):
    return "# here" in text


@pytest.mark.parametrize("name", EFFECTS)
def test_error(name):
    function, arguments = EFFECTS[name]
    with pytest.raises(stator.SideEffectError) as caught:
        run(function, arguments, "error")
    assert is_marked(str(caught.value))
    assert caught.value.place.file == __file__
    assert caught.value.effect


@pytest.mark.parametrize("name", EFFECTS)
def test_warn(name):
    function, arguments = EFFECTS[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run(function, arguments, "warn")
    (found,) = [each for each in caught if "has a side effect" in str(each.message)]
    assert is_marked(str(found.message))


@pytest.mark.parametrize("name", EFFECTS)
def test_silent(name):
    function, arguments = EFFECTS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(function, arguments, "silent")


@pytest.mark.parametrize("policy", ["warn", "error"])
@pytest.mark.parametrize("name", NONE)
def test_what_is_none(name, policy):
    function, arguments = NONE[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(function, arguments, policy)


def test_info(caplog):
    stator.set_logs("side_effects")
    with caplog.at_level(logging.INFO, "stator.side_effects"):
        logging.getLogger("stator.side_effects").addHandler(caplog.handler)
        run(append, lambda: ([],), "info")
        logging.getLogger("stator.side_effects").removeHandler(caplog.handler)
    assert any(is_marked(each.getMessage()) for each in caplog.records)


def test_an_error_changes_nothing():
    items = []
    with pytest.raises(stator.SideEffectError):
        run(append, lambda: (items,), "error")
    assert items == []
    run(append, lambda: (items,), "silent")
    assert items == [1]


def test_the_program_does_the_same():
    for policy in ("silent", "info", "warn"):
        stator.reset()
        thing, items = Thing(), []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run(nested, lambda thing=thing: (thing,), policy)
            run(append, lambda items=items: (items,), policy)
        assert (thing.n, items) == (1, [1])


def test_once_per_line():
    def twice(x, items):
        for n in range(3):
            items.append(n)  # here
        items.append(9)  # here, too
        return x + 1

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for size in (2, 3, 4):
            compiled = stator.compile(twice, backend="eager", dynamic=False)
            with stator.config.patch(side_effect_policy="warn"):
                compiled(torch.ones(size), [])
    assert len([each for each in caught if "has a side effect" in str(each.message)]) == 2


def test_values_are_checked():
    with pytest.raises(ValueError, match="one of silent, info, warn, error, not 'loud'"):
        stator.config.side_effect_policy = "loud"
    with pytest.raises(TypeError):
        stator.config.side_effect_policy = True
    with pytest.raises(ValueError, match="loud"):
        stator.config.patch(side_effect_policy="loud")


def test_nothing_is_noted_when_silent(monkeypatch):
    monkeypatch.setattr("stator.capture.trace.writes.Writes._note", None)
    assert Write is not None
    run(nested, lambda: (Thing(),), "silent")
