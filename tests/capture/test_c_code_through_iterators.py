"""C code that goes through iterators to containers of the world: it finds them filled.

Generated: each kind of iterator that is made in the call × each C function that looks at what the
iterator gives, on lists of lists and of objects, against eager.
"""

# mypy: ignore-errors

import collections
import functools
import heapq
import itertools
import operator

import pytest
import torch

import stator


class Ordered:
    def __init__(self, v):
        self.v = v

    def __lt__(self, other):
        return self.v < other.v

    def __eq__(self, other):
        return isinstance(other, Ordered) and self.v == other.v

    def __hash__(self):
        return 1

    def __add__(self, other):
        return Ordered(self.v + (other.v if isinstance(other, Ordered) else other))

    __radd__ = __add__

    def __repr__(self):
        return f"Ordered({self.v})"


ITERATORS = {
    "itself": lambda items: items,
    "iter": iter,
    "reversed": reversed,
    "map": lambda items: map(lambda v: v, items),
    "enumerate": enumerate,
    "zip": lambda items: zip(items, items, strict=True),
    "chain": lambda items: itertools.chain(items, items),
    "islice": lambda items: itertools.islice(items, 2),
    "filter": lambda items: filter(None, items),
    "generator": lambda items: (v for v in items),
    "tuple": lambda items: iter(tuple(items)),
    "values": lambda items: iter(dict(enumerate(items)).values()),
    "later": lambda items: _later(items),
    "pairwise": itertools.pairwise,
    "tee": lambda items: itertools.tee(items)[1],
    "group": lambda items: next(itertools.groupby(items, lambda v: 1))[1],
    "product": itertools.product,
    "zip_longest": itertools.zip_longest,
}


def _later(items):
    held = []
    made = itertools.chain.from_iterable(held)
    held.append(items)
    return made


CONSUMERS = {
    "sorted": sorted,
    "min": min,
    "max": max,
    "max by length": lambda it: max(it, key=len),
    "list": list,
    "in": lambda it: [9, 1] in it,
    "sum": lambda it: sum(it, []),
    "equal": lambda it: list(it) == [[3], [1]],
    "index": lambda it: list(it).index([1]),
    "nsmallest": lambda it: heapq.nsmallest(2, it),
    "merge": lambda it: list(heapq.merge(it, [[2]])),
    "reduce": lambda it: functools.reduce(operator.add, it),
    "countOf": lambda it: operator.countOf(it, [1]),
    "deque": lambda it: collections.deque(it).count([1]),
    "accumulate": lambda it: list(itertools.accumulate(it)),
    "groupby": lambda it: [key for key, _ in itertools.groupby(it)],
    "dict": lambda it: dict(it),
    "from_iterable": lambda it: list(itertools.chain.from_iterable(it)),
    "starmap": lambda it: list(itertools.starmap(lambda *a: a, it)),
    "any": any,
    "all": all,
    "map len": lambda it: list(map(len, it)),
    "product": lambda it: list(itertools.product(*it)),
    "pairwise": lambda it: list(itertools.pairwise(it)),
    "compress": lambda it: list(itertools.compress([1, 2, 3], it)),
    "zip star": lambda it: list(zip(*it, strict=False)),
    "takewhile": lambda it: list(itertools.takewhile(bool, it)),
    "filterfalse": lambda it: list(itertools.filterfalse(None, it)),
    "filter": lambda it: list(filter(None, it)),
    "tee": lambda it: list(map(list, itertools.tee(it))),
    "zip_longest": lambda it: list(itertools.zip_longest(it, [1])),
    "join": lambda it: ",".join(it),
    "cycle": lambda it: list(itertools.islice(itertools.cycle(it), 5)),
    "text": lambda it: str(tuple(it)),
}


def worlds():
    lists = ([[3], [1]], [[5], [7]], [[9, 1], [2]], [[], [0]])
    return [*lists, [Ordered(3), Ordered(1)], [Ordered(1), Ordered(2)]]


@pytest.mark.parametrize("consumer", CONSUMERS)
def test_as_in_eager(consumer) -> None:
    for kind in ITERATORS:
        consume, make = CONSUMERS[consumer], ITERATORS[kind]

        def program(x, items, consume=consume, make=make):
            try:
                return x + 1, consume(make(items))
            except (TypeError, ValueError, AttributeError) as error:
                return x + 1, str(error)

        stator.reset()
        compiled = stator.compile(program, backend="eager")
        for items in worlds():
            expected = repr(program(torch.ones(1), items))
            assert repr(compiled(torch.ones(1), items)) == expected, (kind, items)


def test_a_filter_that_is_given_back() -> None:
    def program(x, items):
        return x + 1, filter(None, items)

    stator.reset()
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    found = compiled(torch.ones(1), [[1], []])[1]
    assert found.__reduce__()[1][0] is None
    assert list(found) == [[1]]
