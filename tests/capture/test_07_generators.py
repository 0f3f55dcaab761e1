# mypy: ignore-errors
"""Generators and comprehension frames: made inside, consumed by Python and by C code."""

import contextlib
import itertools

import pytest

from .harness import Program, Programs, check, t

programs = Programs()


def one():
    return (t(3),)


def scaled(x, n):
    for i in range(n):
        yield x * i


@programs(one, ops=["mul", "add"] * 3)
def consumed_by_a_loop(x):
    total = 0
    for y in scaled(x, 3):
        total = total + y
    return total


@programs(one)
def consumed_by_list_and_sum(x):
    return list(scaled(x, 3)), sum(scaled(x, 2)), tuple(scaled(x, 1)), [*scaled(x, 2)]


@programs(one, dead=True)
def consumed_by_next(x):
    g = scaled(x, 3)
    next(g)
    return next(g) + next(g), next(g, None)


@programs(one)
def generator_expression(x):
    return sum(x + n for n in range(3) if n != 1), max(n * n for n in (1, -4, 2))


@programs(one)
def nested_generator_expressions(x):
    rows = ((x * i + j for j in range(2)) for i in range(2))
    return [list(row) for row in rows]


@programs(one)
def yield_from(x):
    def both():
        n = yield from inner()
        yield x * n

    def inner():
        yield x + 1
        yield x + 2
        return 5

    return list(both())


@programs(one)
def send(x):
    def running():
        total = x
        while True:
            n = yield total
            if n is None:
                return
            total = total + n

    g = running()
    next(g)
    g.send(1)
    return g.send(10)


@programs(one)
def throw_into(x):
    def guarded():
        try:
            yield x + 1
        except ValueError as error:
            yield str(error)
        finally:
            log.append("closed")

    log = []
    g = guarded()
    first = next(g)
    return first, g.throw(ValueError("thrown")), next(g, "end"), log


@programs(one)
def close_runs_finally(x):
    log = []

    def g():
        try:
            yield x + 1
            yield x + 2
        finally:
            log.append("finally")

    it = g()
    first = next(it)
    it.close()
    return first, log


@programs(one)
def return_value(x):
    def g():
        yield x
        return x + 1

    it = g()
    next(it)
    try:
        next(it)
    except StopIteration as stop:
        return stop.value


@programs(one)
def infinite(x):
    def numbers():
        n = 0
        while True:
            yield n
            n += 1

    return [x + n for n in itertools.islice(numbers(), 2, 5)]


@programs(one)
def pipeline(x):
    def source():
        yield from (x, x + 1, x + 2)

    def doubled(items):
        for item in items:
            yield item * 2

    def pairs(items):
        items = iter(items)
        return zip(items, itertools.chain(items, [None]))

    return [(a, b) for a, b in pairs(doubled(source()))]


@programs(one)
def recursive_generator(x):
    def walk(tree):
        if isinstance(tree, list):
            for child in tree:
                yield from walk(child)
        else:
            yield tree

    return sum(walk([x, [x + 1, [x + 2]]]))


@programs(one, dead=True)
def generator_with_effects(x):
    log = []

    def g():
        for i in range(3):
            log.append(i)
            yield x + i

    return [y for y, _ in zip(g(), "ab")], log


@programs(one)
def partly_consumed_by_a_loop(x):
    for y in scaled(x, 10):
        x = x + y
        if y.shape == (3,):
            break
    return x


@programs(one)
def generator_method(x):
    class Tree:
        def __init__(self, *items):
            self.items = items

        def __iter__(self):
            for item in self.items:
                yield item + 1

    return list(Tree(x, x * 2)), sum(Tree(x))


@programs(one, raises=ValueError)
def error_inside_leaves(x):
    def g():
        yield x + 1
        raise ValueError("in a generator")

    return list(g())


@programs(one)
def error_inside_is_caught(x):
    def g():
        yield x + 1
        raise ValueError("in a generator")

    out = []
    try:
        for y in g():
            out.append(y)
    except ValueError as error:
        out.append(str(error))
    return out


@programs(one, raises=RuntimeError)
def stop_iteration_inside(x):
    def g():
        yield x
        raise StopIteration

    return list(g())


@contextlib.contextmanager
def adding(x, log):
    log.append("in")
    try:
        yield x + 1
    finally:
        log.append("out")


@programs(one)
def context_manager(x):
    log = []
    with adding(x, log) as y, adding(y, log) as z:
        log.append("body")
    return y * z, log


@programs(one)
def sorted_and_dict_of_generators(x):
    pairs = ((n % 3, n) for n in range(5))
    return x + 1, sorted(pairs), dict((n, x * n) for n in (1, 2)), set(n % 2 for n in range(4))


@programs(one)
def unpacked_generator(x):
    a, b, c = scaled(x, 3)
    first, *rest = scaled(x, 3)
    return a + b + c, first, rest


@programs(one)
def any_stops_early(x):
    log = []

    def g():
        for n in range(5):
            log.append(n)
            yield n > 1

    return x + any(g()), log


@programs(one)
def returned_generator(x):
    return x + 1, scaled, (lambda: scaled(x, 2))


@programs(one)
def interleaved(x):
    a, b = scaled(x, 3), scaled(x + 1, 3)
    return [next(g) for g in (a, b, a, b)]


@programs(one, dead=True)
def generator_state(x):
    g = scaled(x, 1)
    before = g.gi_frame is not None
    list(g)
    return x + 1, before, g.gi_frame is None, g.__name__


@programs(one)
def comprehension_scopes(x):
    n = 10
    ys = [n * x for n in range(2)]
    zs = [[n + m for m in range(2)] for _ in range(2)]
    return ys, zs, n


@programs(one)
def comprehension_with_condition_and_walrus(x):
    return [z for n in range(4) if (z := n * n) % 2 == 0], x * z


@programs(one)
def zip_longest_and_map(x):
    return [a if b is None else a + b for a, b in itertools.zip_longest(scaled(x, 3), [1, 2])]


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)
