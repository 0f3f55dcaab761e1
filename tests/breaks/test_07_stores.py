# mypy: ignore-errors
"""Effects before and behind a break: each happens once, in order, on the right object."""

import collections
import types

import pytest
import torch

from . import kinds  # noqa: F401 - the breaks that are put in refer to it
from .harness import Constructs, check, t
from .kinds import BREAK

constructs = Constructs()

COUNT = 0
ITEMS = []
TABLE = {}


def reset():
    global COUNT
    COUNT = 0
    ITEMS.clear()
    TABLE.clear()
    globals().pop("LATER", None)


def world():
    return [COUNT, ITEMS, TABLE, globals().get("LATER")]


class Point:
    total = 0

    def __init__(self, x=0):
        self.x = x


class Slotted:
    __slots__ = ("a", "b")


@constructs(reset=reset, world=world)
def global_write(x):
    global COUNT
    COUNT += 1
    y = BREAK(x * COUNT)
    COUNT += 2
    return y * COUNT


@constructs(reset=reset, world=world)
def global_made(x):
    global LATER
    LATER = x * 2
    y = BREAK(x)
    LATER = LATER + y
    return LATER * 2


@constructs(reset=reset, world=world)
def global_deleted(x):
    global LATER
    LATER = 3
    BREAK(x)
    del LATER
    try:
        return LATER
    except NameError as error:
        return str(error), x + 1


@constructs(reset=reset, world=world)
def global_list(x):
    ITEMS.append(1)
    y = BREAK(x)
    ITEMS.append(len(ITEMS))
    ITEMS.extend([len(y), y])
    return y * len(ITEMS)


@constructs(reset=reset, world=world)
def global_dict(x):
    TABLE["a"] = x * 2
    y = BREAK(x)
    TABLE["b"] = TABLE.pop("a") + y
    return TABLE


@constructs(lambda: (t(3), Point(1)))
def attribute_store(x, p):
    p.x = x * 2
    p.y = BREAK(p.x)
    p.x = p.x + p.y
    return p


@constructs(lambda: (t(3), Point(1)))
def attribute_store_of_the_break(x, p):
    p.x = BREAK(x)
    del p.x
    p.z = BREAK(x)
    return hasattr(p, "x"), p.z + 1


@constructs(lambda: (t(3), Point(1)))
def augmented_attribute(x, p):
    p.x += len(BREAK(x))
    p.x *= 2
    p.x -= BREAK(x)
    return p.x


@constructs(lambda: (t(3), Slotted()))
def slots(x, p):
    p.a = x * 2
    p.b = BREAK(p.a)
    del p.a
    return p, p.b + 1


@constructs(reset=lambda: setattr(Point, "total", 0), world=lambda: Point.total)
def class_attribute(x):
    Point.total += 1
    y = BREAK(x * Point.total)
    Point.total += 1
    return y * Point().total


@constructs(lambda: (t(3), [1, 2, 3]))
def subscript_store(x, items):
    items[0] = x * 2
    items[1] = BREAK(x)
    items[-1] = items[0] + items[1]
    return items


@constructs(lambda: (t(3), [1, 2, 3]))
def augmented_subscript(x, items):
    items[0] += len(BREAK(x))
    items[items[0] - 3] *= 2
    items[1] = items[1] + BREAK(x)
    return items


@constructs(lambda: (t(3), [1, 2, 3, 4]))
def slice_store(x, items):
    items[1:3] = [BREAK(x)]
    del items[:1]
    return items, BREAK(x) + 1


@constructs(lambda: (t(3), {"a": 1, "b": 2}))
def dict_store(x, table):
    table["c"] = BREAK(x)
    del table["a"]
    table["b"] += len(BREAK(x))
    table.update(d=x * 2)
    return table


@constructs(lambda: (t(3), {1, 2}))
def set_changes(x, found):
    found.add(3)
    BREAK(x)
    found.discard(1)
    found |= {len(BREAK(x)) + 4}
    return found, x + 1


@constructs(lambda: (t(3), collections.deque([1], maxlen=3), collections.OrderedDict(a=1)))
def other_containers(x, queue, ordered):
    queue.append(x * 2)
    ordered["b"] = BREAK(x)
    queue.appendleft(ordered["b"])
    ordered.move_to_end("a")
    return queue, ordered


@constructs(lambda: (t(3), collections.defaultdict(list), collections.Counter("ab")))
def more_containers(x, lists, counts):
    lists["a"].append(BREAK(x))
    counts["a"] += 1
    BREAK(x)
    lists["a"].append(counts.total())
    return lists, counts


@constructs()
def containers_made_before(x):
    items, table = [x], {"a": [x * 2]}
    alias = table["a"]
    y = BREAK(x)
    items.append(alias)
    alias.append(y)
    return items, table, items[1] is table["a"]


@constructs()
def objects_made_before(x):
    p = Point(x * 2)
    q = Point(p)
    p.back = q
    y = BREAK(x)
    q.y = y
    return p, q.x is p, p.back is q


@constructs()
def cycle(x):
    items = [x * 2]
    items.append(items)
    BREAK(x)
    items.append(1)
    return items[1] is items, len(items), items[0]


@constructs(lambda: (t(3), types.SimpleNamespace(a=1)))
def namespace(x, space):
    space.a += 1
    space.b = BREAK(x) * space.a
    return space


@constructs(lambda: (lambda a: (a, a))(t(3)))
def aliased_arguments(x, y):
    x.add_(1)
    z = BREAK(x)
    y.mul_(2)
    return x is y, z + x


@constructs(lambda: (lambda a: ([a, a], a))([t(3)]))
def aliased_containers(lists, one):
    one.append(2)
    y = BREAK(one[0])
    lists[0].append(3)
    return lists[0] is one, len(lists[1]), y + 1


@constructs()
def in_place_operators(x):
    x.add_(1)
    y = BREAK(x)
    x.mul_(2)
    x += 1
    y = y + x
    return y


@constructs(lambda: (t(4, 4),))
def in_place_on_views(x):
    x[0].add_(1)
    y = BREAK(x)
    y[:, 1] = 3
    x[1:3, 2] *= 2
    return x, y


@constructs()
def tensor_attributes(x):
    x.note = [1]
    y = BREAK(x)
    x.note.append(2)
    return x.note, y


@constructs(lambda: (t(3), [3]))
def effects_and_an_error(x, items):
    items.append(1)
    y = BREAK(x)
    items.append(2)
    raise KeyError(len(items))


@constructs(lambda: (t(3), [3]))
def read_back(x, items):
    items.append(len(items))
    a = items[-1]
    y = BREAK(x)
    items.append(a + items[-1])
    return y * items[-1], sum(items)


@constructs(lambda: (t(3), {}))
def grows_with_each_iteration(x, table):
    for i in range(3):
        table[i] = BREAK(x + i)
    return table


@constructs()
def random_numbers(x):
    y = x + torch.rand(3)
    z = BREAK(y) + torch.rand(3)
    return z * torch.randn(3)


@constructs(lambda: (t(3), [t(3), t(3)]))
def swapped(x, items):
    items[0], items[1] = BREAK(items[1]), items[0]
    return items


@constructs(lambda: (t(3), [[1], [2]]))
def evaluation_order(x, items):
    log = []

    def at(n):
        log.append(n)
        return BREAK(x) if n > 5 else n

    items[at(0)][at(0)] = at(6)
    items[at(1)][at(0)] += len(at(7))
    return items, log


@pytest.mark.parametrize(("construct", "kind", "depth"), constructs.cases())
def test_stores(construct, kind, depth):
    check(construct, kind, depth)
