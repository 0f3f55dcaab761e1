# mypy: ignore-errors
"""Breaks inside of loops: iterators in flight go on where they were."""

import collections
import itertools
import sys

import pytest
import torch
from torch import nn

from . import kinds  # noqa: F401 - the breaks that are put in refer to it
from .harness import Constructs, check, module, t
from .kinds import BREAK

constructs = Constructs()


@constructs()
def for_range(x):
    for i in range(3):
        x = BREAK(x + i) * 2
    return x


@constructs(lambda: (t(3), [1, 2, 3]))
def for_list(x, items):
    for item in items:
        x = BREAK(x * item) + 1
    return x, items


@constructs(lambda: (t(3), [1, 2]))
def for_list_that_grows(x, items):
    for item in items:
        x = BREAK(x * item) + 1
        if len(items) < 4:
            items.append(item + 2)
    return x


@constructs(lambda: (t(3), [2, 3, 4]))
def for_enumerate(x, items):
    for i, item in enumerate(items, 1):
        x = BREAK(x * item) + i
    return x


@constructs(lambda: (t(3), [2, 3, 4], (5, 6, 7)))
def for_zip(x, items, others):
    for a, b in zip(items, others, strict=True):
        x = BREAK(x * a) + b
    return x


@constructs(lambda: (t(3), {"a": 1, "b": 2}))
def for_dict_items(x, items):
    seen = []
    for name, n in items.items():
        x = BREAK(x * n)
        seen.append(name)
    return x, seen


@constructs(lambda: (t(3), {"a": 1, "b": 2}))
def for_dict_changed_between(x, items):
    for name in items:
        x = BREAK(x) * items[name]
        items[name] += 1
    return x


@constructs(lambda: (t(3), {"a": 1, "b": 2}))
def for_dict_that_grows(x, items):
    for name in items:
        x = BREAK(x)
        items[name + "x"] = 1
    return x


@constructs(lambda: (t(3), [2, 3, 4]))
def for_reversed(x, items):
    for item in reversed(items):
        x = BREAK(x - item) * 2
    return x


@constructs(lambda: (t(3), collections.deque([2, 3])))
def for_deque(x, items):
    for item in items:
        x = BREAK(x - item) * 2
    return x


@constructs(lambda: (t(3), "ab"))
def for_text(x, text):
    found = ""
    for c in text:
        x = BREAK(x) * 2
        found += c * 2
    return x, found


# Since 3.14 nobody can tell what is left in iterators of itertools.
@constructs(whole=sys.version_info >= (3, 14))
def for_itertools(x):
    for a, b in itertools.product((1, 2), (3,)):
        x = BREAK(x * a) + b
    for c in itertools.chain([1], itertools.islice(itertools.count(), 2)):
        x = BREAK(x) + c
    return x


@constructs()
def for_map_and_filter(x):
    for n in map(lambda n: n + 1, filter(None, [0, 1, 2])):
        x = BREAK(x) * n
    return x


@constructs(lambda: (t(2, 3),))
def for_tensor(x):
    total = 0
    for row in x:
        total = total + BREAK(row) * 2
    return total


@constructs(lambda: (t(3), module(nn.ModuleList, [nn.Linear(3, 3) for _ in range(2)])))
def for_module_list(x, layers):
    for layer in layers:
        x = BREAK(layer(x)).relu()
    return x


@constructs()
def while_loop(x):
    n = 0
    while n < 3:
        n += 1
        x = BREAK(x) * n
    return x, n


@constructs()
def while_condition(x):
    n = 3
    while n := n - len(BREAK(x)) + 2:
        x = x * 2
    return x, n


@constructs(lambda: (torch.ones(3),))
def while_value(x):
    while x.sum() < 20:
        x = BREAK(x) * 2 + 3
    return x


@constructs()
def nested_loops(x):
    for i in range(2):
        for j in (1, 2):
            x = BREAK(x * j) + i
        x = x - 1
    return x


@constructs()
def nested_breaks(x):
    for i in range(2):
        y = BREAK(x)
        for j in range(2):
            x = BREAK(y + j) * 2
    return x


@constructs()
def loop_with_break(x):
    for i in range(10):
        x = x + 1
        if i == 2:
            BREAK(x)
            break
        x = BREAK(x) * 2
    else:
        x = x * 100
    return x, i


@constructs()
def loop_with_continue(x):
    for i in range(4):
        if i % 2:
            BREAK(x)
            continue
        x = x * 2 + i
    else:
        x = BREAK(x) - 1
    return x


@constructs()
def loop_with_return(x):
    for i in range(4):
        y = BREAK(x + i)
        if i == 2:
            return y * 2
    return x


@constructs()
def loop_in_else(x):
    for i in range(2):
        x = x + i
    else:
        x = BREAK(x) * 2
    return x


@constructs()
def two_iterators(x):
    numbers = iter(range(6))
    for a in numbers:
        b = next(numbers)
        x = BREAK(x * a) + b
    return x


@constructs()
def iterator_outlives(x):
    numbers = iter([1, 2, 3, 4])
    x = x * next(numbers)
    x = BREAK(x) * next(numbers)
    return x, numbers


@constructs()
def one_in_ten(x):
    for i in range(10):
        x = x + 1
        if i == 5:
            x = BREAK(x)
    return x


@constructs(lambda: (t(3), [t(3), t(3)]))
def collects(x, items):
    found = []
    for item in items:
        found.append(BREAK(item * x))
    return torch.stack(found), found


@constructs(lambda: (t(3), [[1, 2], [3]]))
def unpacks_in_the_loop(x, pairs):
    for first, *rest in pairs:
        x = BREAK(x * first) + len(rest)
    return x


class Countdown:
    """An iterator written in Python."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if not self.n:
            raise StopIteration
        self.n -= 1
        return self.n


@constructs(lambda: (t(3), Countdown(3)))
def python_iterator(x, numbers):
    for n in numbers:
        x = BREAK(x * 2) + n
    return x, numbers


@constructs()
def python_iterator_made_here(x):
    for n in Countdown(3):
        x = BREAK(x * 2) + n
    return x


@pytest.mark.parametrize(("construct", "kind", "depth"), constructs.cases())
def test_loops(construct, kind, depth):
    check(construct, kind, depth)
