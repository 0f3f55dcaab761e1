# mypy: ignore-errors
"""Breaks in comprehensions and generators: split where that can be done, else around them."""

import itertools

import pytest
import torch

from . import kinds  # noqa: F401 - the breaks that are put in refer to it
from .harness import Constructs, check, t
from .kinds import BREAK

constructs = Constructs()


@constructs()
def list_comprehension(x):
    found = [BREAK(x * n) + 1 for n in range(3)]
    return found[0] + found[2]


@constructs()
def list_comprehension_with_conditions(x):
    return [BREAK(x * n) for n in range(4) if n % 2 if len(BREAK(x)) == 3]


@constructs()
def set_comprehension(x):
    return {len(BREAK(x)) + n for n in range(3)}, x + 1


@constructs()
def dict_comprehension(x):
    return {str(n): BREAK(x * n) for n in range(3)}


@constructs()
def dict_comprehension_keys(x):
    return {len(BREAK(x)) + n: n for n in range(3)}, x + 1


@constructs()
def nested_comprehension(x):
    return [[BREAK(x * a) + b for b in (1, 2)] for a in (1, 2)]


@constructs()
def two_loops(x):
    return [BREAK(x * a) + b for a in (1, 2) for b in (1, 2)]


@constructs()
def comprehension_in_an_expression(x):
    return x * 2 + sum([BREAK(x + n) for n in range(2)]) * 3


@constructs()
def comprehension_with_cells(x):
    n = 2
    fs = [lambda: BREAK(x * n) + i for i in range(2)]  # noqa: B023
    n = 3
    return fs[0]() + fs[1]()


@constructs()
def comprehension_with_a_walrus(x):
    found = [y := BREAK(x * n) for n in range(2)]
    return found[0] + y


@constructs(lambda: (t(3), [t(3), t(3)]))
def comprehension_over_an_argument(x, items):
    return torch.stack([BREAK(item) * x for item in items])


@constructs()
def iterable_breaks(x):
    return [x * n for n in range(len(BREAK(x)))]


@constructs(whole=True)
def generator_expression_in_list(x):
    return list(BREAK(x * n) + 1 for n in range(3))


@constructs(whole=True)
def generator_expression_in_sum(x):
    return sum(BREAK(x * n) for n in range(3)) + 1


@constructs(whole=True)
def generator_expression_in_for(x):
    for y in (BREAK(x * n) for n in range(3)):
        x = x + y
    return x


@constructs(whole=True)
def generator_expression_in_any(x):
    found = any(len(BREAK(x)) == n for n in range(5))
    return x + found


@constructs(whole=True)
def generator_expression_unpacked(x):
    a, b = (BREAK(x * n) for n in (1, 2))
    return a + b


@constructs(whole=True)
def generator_function(x):
    def numbers(n):
        for i in range(n):
            yield BREAK(x * i)

    return torch.stack(list(numbers(3))) * 2


@constructs(whole=True)
def break_beside_a_generator(x):
    """The generator has begun when the consumer breaks."""

    def numbers(n):
        for i in range(n):
            yield i * 2

    y = x
    for n in numbers(3):
        y = BREAK(y + n) * 2
    return y


@constructs(whole=True)
def break_before_a_generator_begins(x):
    def numbers(n):
        for i in range(n):
            yield x * i

    made = numbers(3)
    y = BREAK(x)
    return sum(made) + y


@constructs()
def break_behind_a_finished_generator(x):
    def numbers(n):
        for i in range(n):
            yield x * i

    y = sum(numbers(3))
    return BREAK(y) + 1


@constructs(whole=True)
def generator_with_finally(x):
    log = []

    def numbers():
        try:
            yield x * 2
            yield BREAK(x * 3)
        finally:
            log.append("closed")

    y = sum(numbers())
    for z in numbers():
        break
    return y + z, log


@constructs(whole=True)
def generator_sent_to(x):
    def adder():
        total = 0
        while True:
            total = total + (yield total)

    made = adder()
    next(made)
    y = made.send(x)
    y = BREAK(y)
    return made.send(y)


@constructs(whole=True)
def yield_from(x):
    def inner():
        yield BREAK(x)
        return 3

    def outer():
        n = yield from inner()
        yield x * n

    return sum(outer())


@constructs(whole=True)
def itertools_consumer(x):
    for a, b in itertools.pairwise([1, 2, 3]):
        x = BREAK(x * a) + b
    return x, list(itertools.accumulate([1, 2, 3]))


@pytest.mark.parametrize(("construct", "kind", "depth"), constructs.cases())
def test_comprehensions(construct, kind, depth):
    check(construct, kind, depth)
