# mypy: ignore-errors
"""Mutations of objects that existed before the call: done once, in order, on the same objects."""

import collections
import types

import pytest
import torch
from torch import nn

from .harness import Program, Programs, check, module, t

programs = Programs()


@programs(lambda: (t(3), [1, 2]))
def list_append(x, items):
    items.append(x + 1)
    items.append(3)
    return len(items)


@programs(lambda: (t(3), [3, 1, 2]))
def list_methods(x, items):
    items.sort()
    items.reverse()
    items.insert(1, x * 2)
    last = items.pop()
    items.extend(("a", last))
    del items[0]
    return x + last


@programs(lambda: (t(3), [0, 1, 2, 3, 4]))
def list_items_and_slices(x, items):
    items[0] = x + 1
    items[1:3] = ["new"]
    items[-1] += 10
    return items[0] * 2


@programs(lambda: (t(3), [1, 2, 3]))
def list_cleared_and_refilled(x, items):
    copy = list(items)
    items.clear()
    items += [x + n for n in copy]


@programs(lambda: (t(3), [1, 2]))
def list_unchanged_in_the_end(x, items):
    items.append(x)
    items.pop()
    return x + len(items)


@programs(lambda: (t(3), {"a": 1}))
def dict_items(x, d):
    d["new"] = x + 1
    d["a"] += 1
    d.setdefault("list", []).append(2)
    return d["new"] * d["a"]


@programs(lambda: (t(3), {"a": 1, "b": 2, "c": 3}))
def dict_order(x, d):
    d["a"] = d.pop("a")
    del d["b"]
    d.update(z=x + 1, c=9)
    return x * len(d)


@programs(lambda: (t(3), {1, 2}))
def set_members(x, s):
    s.add(5)
    s.discard(1)
    s |= {7, 8}
    return x + len(s)


@programs(lambda: (t(3), collections.deque([1, 2, 3], maxlen=3)), dead=True)
def deque(x, d):
    d.append(x + 1)
    d.appendleft(0)
    d.rotate(1)
    return x * 2


@programs(lambda: (t(3), collections.OrderedDict(a=1, b=2)))
def ordered_dict(x, d):
    d.move_to_end("a")
    d["c"] = x + 1


@programs(lambda: (t(3), collections.defaultdict(list)))
def default_dict(x, d):
    d["k"].append(x + 1)
    return len(d["j"])


@programs(lambda: (t(3), collections.Counter("aab")))
def counter(x, c):
    c.update("abc")
    c["z"] += 1
    return x * c["a"]


class Box:
    shared = 0

    def __init__(self, value=None):
        self.value = value
        self.log = []

    def put(self, value):
        self.log.append(self.value)
        self.value = value
        return self


class Slots:
    __slots__ = ("a", "b")


@programs(lambda: (t(3), Box(1)))
def attributes(x, box):
    box.value = x + 1
    box.extra = box.value * 2
    del box.log
    return box


@programs(lambda: (t(3), Box(1)))
def attribute_through_methods(x, box):
    return box.put(x + 1).put(2).log


@programs(lambda: (t(3), Box(1)))
def counter_attribute(x, box):
    box.value += 1
    box.value += 1
    return x * box.value


def slotted():
    s = Slots()
    s.a = 1
    return t(3), s


@programs(slotted)
def slots(x, s):
    s.b = x + s.a
    del s.a


@programs(lambda: (t(3), types.SimpleNamespace(n=1)))
def namespace(x, ns):
    ns.n, ns.m = 2, x + 1


@programs(lambda: (t(3), Box(1)), reset=lambda: setattr(Box, "shared", 0), world=lambda: Box.shared)
def class_attribute(x, box):
    Box.shared += 2
    type(box).shared += 1
    return x * box.shared


def reset_added():
    if "added" in vars(Box):
        del Box.added


@programs(lambda: (t(3), Box(1)), reset=reset_added, world=lambda: vars(Box).get("added"))
def class_attribute_added(x, box):
    Box.added = [x + 1]
    return box.added


COUNT = 0
LOG = []
TABLE = {"n": 0}


def reset_globals():
    global COUNT
    COUNT = 0
    LOG.clear()
    TABLE.clear()
    TABLE["n"] = 0
    globals().pop("MADE", None)


def world_of_globals():
    return [COUNT, LOG, TABLE, globals().get("MADE")]


GLOBALS = {"reset": reset_globals, "world": world_of_globals}


@programs(lambda: (t(3),), **GLOBALS)
def global_number(x):
    global COUNT
    COUNT += 1
    y = x + COUNT
    COUNT += 10
    return y


@programs(lambda: (t(3),), **GLOBALS)
def global_made_and_read(x):
    global MADE
    MADE = x + 1
    return MADE * 2


@programs(lambda: (t(3),), **GLOBALS)
def global_containers(x):
    LOG.append(x + 1)
    TABLE["n"] += 1
    TABLE[x.shape] = LOG
    return len(LOG)


def bump():
    global COUNT
    COUNT += 1
    LOG.append(COUNT)
    return COUNT


@programs(lambda: (t(3),), **GLOBALS)
def order_of_effects(x):
    return x * bump() + bump() * bump()


def make_counter():
    n = 0

    def count(x):
        nonlocal n
        n += 1
        return x + n

    def value():
        return n

    return t(3), count, value


@programs(make_counter)
def cell_of_an_argument(x, count, value):
    y = count(count(x))
    return y * value()


@programs(lambda: (t(3), bump), reset=lambda: vars(bump).clear(), world=lambda: vars(bump))
def function_attribute(x, f):
    f.calls = getattr(f, "calls", 0) + 1
    return x * f.calls


@programs(lambda: (t(3), lambda y, n=1: y + n))
def function_defaults_replaced(x, f):
    f.__defaults__ = (5,)
    return f(x)


MODULE = types.ModuleType("made_for_tests")


def reset_module():
    MODULE.__dict__.pop("setting", None)
    MODULE.level = 1


@programs(
    lambda: (t(3),), reset=reset_module, world=lambda: [MODULE.level, vars(MODULE).get("setting")]
)
def module_attribute(x):
    MODULE.level += 1
    MODULE.setting = x + MODULE.level
    return MODULE.setting


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.count = 0
        self.proj = nn.Linear(3, 3)

    def forward(self, x):
        self.count += 1
        self.total += x.detach()
        return self.proj(x) * self.count


@programs(lambda: (module(Net), t(3)))
def buffers_and_numbers_of_a_module(m, x):
    return m(x) + m(x)


@programs(lambda: (module(Net), t(3)))
def buffer_rebound(m, x):
    m.total = m.total + x
    m.register_buffer("other", x * 2)
    return m.total


@programs(lambda: (module(Net), t(3)))
def submodule_replaced(m, x):
    old = m.proj
    m.proj = nn.Identity()
    return m.proj(x) + old(x)


@programs(lambda: (module(Net), t(3)))
def requires_grad_switched(m, x):
    m.proj.requires_grad_(False)
    return m(x)


@programs(lambda: (t(3), t(3)))
def tensors_in_place(x, y):
    x.add_(1)
    y[0] = x.sum()
    x.mul_(y)


@programs(lambda: (t(3), t(3)))
def data_assigned(x, y):
    x.data = y * 2
    return x + 1


@programs(lambda: (t(3, grad=True), t(3)))
def grad_assigned(x, y):
    x.grad = y * 2
    return x.grad + 1


@programs(lambda: (t(3, grad=True), t(3)), backward=False)
def backward_inside(x, y):
    (x * y).sum().backward()
    return x.grad


def aliased_lists():
    a = [1]
    return t(3), a, [a, a], {"a": a}


@programs(aliased_lists, changes={"aliasing": lambda: (t(3), [1], [[1], [1]], {"a": [1]})})
def aliased_containers(x, a, pair, d):
    a.append(x + 1)
    pair[0].append(len(d["a"]))
    return len(pair[1])


def two_boxes():
    a, b = Box(1), Box(2)
    a.other, b.other = b, a
    return t(3), a, b


@programs(two_boxes)
def cyclic_objects(x, a, b):
    a.other.value = x + a.value
    b.other.value = 7
    return a.value, b.value


@programs(lambda: (t(3), Box(1)))
def result_and_effect_are_one_object(x, box):
    y = x + 1
    box.value = y
    box.log.append(y)
    return y, [y]


@programs(lambda: (t(3), [1]))
def returned_argument(x, items):
    items.append(x + 1)
    return items, x


@programs(lambda: (t(3), Box([1])))
def returned_inner_object(x, box):
    box.value.append(x * 2)
    return box.value, box.log


@programs(lambda: (t(3), []))
def new_object_stored_and_returned(x, items):
    box = Box(x + 1)
    items.append(box)
    items.append([box])
    return box


@programs(lambda: (t(3), []))
def world_object_inside_new_object(x, items):
    box = Box(items)
    box.value.append(x + 1)
    return box


@programs(lambda: (t(3), []), raises=ValueError)
def effect_before_an_exception(x, items):
    items.append(1)
    raise ValueError("after an effect")


@programs(lambda: (t(3), []), raises=KeyError)
def effects_around_a_failing_lookup(x, items):
    try:
        items.append(x + 1)
        return {}["none"]
    finally:
        items.append("finally")


@programs(lambda: (t(3), t(3)), raises=ValueError)
def tensor_changed_before_an_exception(x, y):
    x.add_(1)
    y.mul_(x)
    raise ValueError("after an in-place operation")


@programs(lambda: (t(3), Box(1)))
def effect_in_a_handled_exception(x, box):
    try:
        box.put(x + 1)
        raise RuntimeError("handled")
    except RuntimeError as error:
        box.log.append(str(error))
    return box.value


@programs(lambda: (t(3), [1, 2, 3]))
def iterate_and_mutate(x, items):
    for item in items:
        if len(items) < 6:
            items.append(item * 10)
        x = x + item
    return x


@programs(lambda: (t(3), {"a": 1}), raises=RuntimeError)
def dict_changed_during_iteration(x, d):
    for key in d:
        d[key + "x"] = 1
    return x


@programs(lambda: (t(3), Box(1)))
def effect_of_a_comprehension(x, box):
    return [box.put(n).value * x for n in range(3)]


@programs(lambda: (t(3), [], []))
def one_tensor_in_two_places(x, a, b):
    y = x + 1
    a.append(y)
    b.append(y)
    y.add_(1)
    return None


@programs(lambda: (t(3), Box()))
def view_stored(x, box):
    y = x + 1
    box.value = y[0]
    box.base = y


@programs(lambda: (t(3), Box()))
def argument_stored(x, box):
    box.value = x
    box.log = [x, x[1:]]


@programs(lambda: (t(3), Box()))
def closure_stored(x, box):
    y = x + 1
    box.value = lambda z: z + y
    return y


@programs(lambda: (t(3), iter([1, 2, 3])))
def iterator_advanced(x, it):
    return x * next(it) + next(it)


class Tracker:
    total = 0

    def __setattr__(self, name, value):
        Tracker.total += 1
        super().__setattr__(name, value)


@programs(
    lambda: (t(3), Tracker()),
    reset=lambda: setattr(Tracker, "total", 0),
    world=lambda: Tracker.total,
)
def setattr_with_an_effect(x, tracker):
    tracker.a = x + 1
    tracker.b = 2
    return tracker.a * Tracker.total


class Log(list):
    def append(self, item):
        super().append(("logged", item))


@programs(lambda: (t(3), Log()))
def subclass_method_with_super(x, log):
    log.append(x + 1)
    list.append(log, 2)


@programs(lambda: (t(3), bytearray(b"abc")))
def byte_array(x, b):
    b[0] = 90
    b.extend(b"de")
    return x + len(b)


@programs(lambda: (t(3), ValueError("kept")))
def exception_object_changed(x, error):
    error.note = x + 1
    error.args = ("changed",)
    return str(error)


@programs(lambda: (t(3), Box(1)))
def dict_of_an_instance_replaced(x, box):
    box.__dict__.update(value=x + 1, more=2)
    return box.value * box.more


@programs(lambda: (t(3), Box(1)))
def class_of_an_instance_replaced(x, box):
    class_before = type(box).__name__
    box.__class__ = Tracker
    return x + 1, class_before, type(box).__name__


@programs(lambda: (t(3), [[1, 2], [3]]))
def nested_mutation(x, nested):
    nested[0].append(x + 1)
    nested.append(nested.pop(0))
    nested[0][0] += 1
    return nested[1][2]


@programs(lambda: (t(3), []))
def the_same_list_twice(x, items):
    items.append(items)
    items.append(x + 1)


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)
