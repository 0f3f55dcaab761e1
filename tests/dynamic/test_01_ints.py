# mypy: ignore-errors
"""Ints that change: arguments, attributes, loop variables behind breaks."""

import random

import numpy
import pytest
import torch
from torch import nn

import stator

from .harness import Counting, compare, tensor

BACKENDS = ["eager", "aot_eager"]


def break_in_a_for_loop(x, n):
    for i in range(n):
        x = x + i
        stator.graph_break()
        x = x * 0.5
    return x, i


def break_in_a_while_loop(x, n):
    i = 0
    while i < n:
        x = x * 0.5 + i
        stator.graph_break()
        i += 1
    return x, i


def break_between_two_counters(x, n):
    up, down = 0, n
    while up < down:
        x = (x + up) * 0.5 - down
        stator.graph_break()
        up, down = up + 1, down - 1
    return x, up, down


def break_in_nested_loops(x, n):
    for i in range(n // 10):
        for j in range(10):
            x = x * 0.5 + i * j
            stator.graph_break()
    return x


def break_with_a_list(x, n):
    seen = []
    for i in range(n):
        x = x * 0.5 + i
        stator.graph_break()
        if len(seen) < 2:
            seen.append(i)
    return x, seen


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("program", "graphs"),
    [
        (break_in_a_for_loop, 6),
        (break_in_a_while_loop, 6),
        (break_between_two_counters, 6),
        (break_in_nested_loops, 10),
        (break_with_a_list, 8),
    ],
)
def test_loops_are_compiled_a_constant_number_of_times(program, graphs, backend):
    found = compare(program, [lambda: (tensor(3), 1000)], backend, limit=4)
    assert not found.warned
    assert 2 <= len(found.graphs) <= graphs


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.step = 0

    def forward(self, x):
        self.step += 1
        return self.linear(x) * self.step


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_step_counter(backend):
    counting = Counting(backend)
    model, eager = Counter(), Counter()
    eager.load_state_dict(model.state_dict())
    compiled = stator.compile(model, backend=counting)
    for _ in range(100):
        assert torch.equal(compiled(tensor(2, 3)), eager(tensor(2, 3)))
    assert model.step == 100
    assert type(model.step) is int
    assert len(counting.graphs) == 2


class Plain:
    def __init__(self, n):
        self.n = n


def attribute(x, obj):
    obj.n += 2
    return x * obj.n


def in_containers(x, items, table):
    items[0] += 1
    table["b"] = items[0] + table["a"]
    return x * table["b"], items, table


def in_a_closure():
    n = 0

    def bump(x):
        nonlocal n
        n += 1
        return x * n

    return bump


@pytest.mark.parametrize(
    ("program", "make"),
    [
        (attribute, lambda n: (tensor(3), Plain(n))),
        (in_containers, lambda n: (tensor(3), [n, 4], {"a": 2 * n})),
        (lambda x, n=3, *more, k=1: x * n + sum(more) + k, lambda n: (tensor(3), n, n + 1)),
        (lambda x, pair: (pair, x * pair[0]), lambda n: (tensor(3), (n, n * n))),
        (lambda x, n: torch.arange(abs(n)) * x.sum(), lambda n: (tensor(3), n)),
    ],
)
def test_ints_of_the_world(program, make):
    found = compare(program, [lambda n=n: make(n) for n in range(2, 22)])
    assert not found.warned
    assert found.compiles == 2


def test_a_cell():
    counting = Counting()
    eager, compiled = in_a_closure(), stator.compile(in_a_closure(), backend=counting)
    for _ in range(20):
        assert torch.equal(compiled(tensor(3)), eager(tensor(3)))
    assert len(counting.graphs) == 2


def test_what_is_never_open():
    """Large ints, bools, and values that only look like ints."""

    def program(x, n):
        return x.shape[0] + n if isinstance(n, bool) else x * float(n)

    values = [2**40, 2**70, -(2**63), True, False, 3, 4, 5.5, 6]
    compare(program, [lambda n=n: (tensor(3), n) for n in values])


def test_an_int_becomes_another_type():
    def program(x, n):
        return x * n

    values = [1, 2, 3, True, 4.5, 5, False, -7, 0]
    found = compare(program, [lambda n=n: (tensor(3), n) for n in values])
    assert found.compiles == 5  # 1, any int, True, 4.5, False


def test_never():
    def program(x, n):
        return x * n

    found = compare(program, [lambda n=n: (tensor(3), n) for n in range(6)], dynamic=False)
    assert found.compiles == 6


def test_from_the_start():
    def program(x, n):
        return x * n

    found = compare(program, [lambda n=n: (tensor(3), n) for n in range(6)], dynamic=True)
    assert found.compiles == 1


def test_named_by_a_setting():
    def program(x, n):
        return x * n

    with stator.config.patch(dynamic_sources="x, n"):
        found = compare(program, [lambda n=n: (tensor(n + 2), n) for n in range(6)])
    assert found.compiles == 1


# What a program does with an int: what it answers must be what an int answers.
EXPRESSIONS = [
    "n + 1, 1 + n, n - 3, 3 - n, n * 2, 2 * n, -n, +n, abs(n), n ** 2",
    "n // 3, n % 3, 7 // (n or 1), 7 % (n or 1), divmod(n, 4), -n // 3, -n % 3",
    "n / 2, 2 / (n or 1), n * 0.5, n ** 0.5 if n >= 0 else 0, n + 1.5, n ** -1 if n else 0",
    "n & 1, n | 2, n ^ 3, n << 1, n >> 1, ~n",
    "n == 3, n != 3, n < 3, n <= 3, n > 3, n >= 3, 3 == n, n == 3.0, n == 'a', n == None",
    "bool(n), not n, n and 1, n or 1, 'yes' if n else 'no'",
    "int(n), float(n), complex(n), str(n), repr(n), f'{n}', f'{n:>4}', '%d' % n, hex(n)",
    "isinstance(n, int), type(n), type(n) is int, isinstance(n, (float, bool)), n is None, n is n",
    "min(n, 3), max(n, 3), min([n, 2]), sum([n, 1]), sorted([3, n]), round(n), round(n, 1)",
    "range(n), list(range(n)), [0] * n, 'ab' * n, (1,) * n, [*range(3)][n % 3]",
    "{n: 1}, {n}, {1: 'a'}.get(n), hash(n), n in (1, 2), n in {3}, {(n, 1): 2}",
    "n.bit_length(), n.real, n.__add__(1), n.conjugate(), int.__mul__(n, 2)",
    "math.sqrt(n * n), math.floor(n), math.gcd(n, 4), math.log2(n * n + 1), operator.index(n)",
    "[n, (n, [n])], {'a': n}, slice(n), [1, 2, 3][:n], [1, 2, 3, 4][n % 4:]",
    "json.dumps({'a': [n, n + 1]}), copy.deepcopy([n]), functools.reduce(operator.add, [n, 1])",
    "torch.tensor(n), torch.tensor([n, 1]), torch.full((2,), n), torch.arange(abs(n))",
    "x[: abs(n)], x * n, x + n, n - x, x.new_zeros(abs(n)), x.repeat(abs(n)), x == n",
    "n.__class__, n.__class__ is int, issubclass(type(n), int), isinstance(n, numbers.Integral)",
    "n.to_bytes(2, 'big', signed=True), copy.copy(n), n.denominator, n.__class__(5), callable(n)",
    "dict(a=n), tuple([n, 1]), set([n]), frozenset([n]), list((n,)), enumerate([n]), [n].index(n)",
    "[n, 1, 2].count(n), (n, 1).index(n), [3, n].sort(), [1, 2, n] == [1, 2, 3], (n,) < (3,)",
    "any([n]), all([n]), list(map(abs, [n])), list(zip([n], [1])), max(range(abs(n) + 1))",
    "'{} {:d}'.format(n, n), ','.join([str(n)]), 'abc'[n % 3], chr(65 + n % 9), bin(n), ascii(n)",
    "bytes([n % 256]), bytearray(abs(n)), complex(n, 1), pow(n, 2), pow(n, 2, 7), int(str(n))",
    "next(itertools.count(n)), list(itertools.repeat(1, abs(n))), list(range(n, n + 3))",
    "collections.Counter([n]), collections.deque([n], 2), string_of(n), matched(n), cached(n)",
    "failing(n)",
    "raising(n)",
    "1 // n",
    "[1, 2][n]",
    "n + 'a'",
    "n.nothing",
    "[*n]",
    "len(n)",
]


PRELUDE = """
import collections, copy, functools, itertools, json, math, numbers, operator, torch

def string_of(n):
    return type(n).__name__ + str(n + 1)

def matched(n):
    match n:
        case 3:
            return "three"
        case int():
            return "int"

@functools.lru_cache(None)
def cached(n):
    return n + 1

def failing(n):
    assert n < 3, f"{n} is too large"
    return n

def raising(n):
    if n > 2:
        raise ValueError("bad", n, [n + 1])
    return n
"""


@pytest.mark.parametrize("expression", EXPRESSIONS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_an_int_behaves_as_an_int(expression, backend):
    namespace = {}
    text = PRELUDE
    text += f"def program(x, n):\n    return ({expression}), x * 1\n"
    exec(text, namespace)
    values = [2, 3, 5, 0, -3, 1, 4, -1, 300]
    compare(namespace["program"], [lambda n=n: (tensor(4), n) for n in values], backend)


def seeded(x, n):
    torch.manual_seed(n)
    return x + torch.rand(4)


def seeded_python(x, n):
    random.seed(n)
    return x * random.random(), random.randint(0, n + 1)


def seeded_numpy(x, n):
    numpy.random.seed(n)
    return x * float(numpy.random.rand()), numpy.zeros(n)


def own_generator(x, n):
    generator = torch.Generator().manual_seed(n)
    return torch.rand(4, generator=generator) + x, random.Random(n).random()


def resized(x, n):
    return x.new_zeros(2).resize_(n, n).shape, x * 1


def modes(x, n):
    with torch.set_grad_enabled(n % 2 == 0):
        return torch.is_grad_enabled(), x * n


def with_an_attribute(x, n):
    made = x * 2
    made.n = n
    return made


@pytest.mark.parametrize(
    "program",
    [seeded, seeded_python, seeded_numpy, own_generator, resized, modes, with_an_attribute],
)
@pytest.mark.parametrize("dynamic", [None, True])
def test_what_happens_beside_the_graph(program, dynamic):
    def make(n):
        torch.manual_seed(0)
        random.seed(0)
        numpy.random.seed(0)
        return tensor(4), n

    compare(program, [lambda n=n: make(n) for n in (2, 3, 4, 5, 7, 3)], dynamic=dynamic)


@pytest.mark.parametrize("a", [1, 2, 5])
def test_identity_of_ints(a):
    def program(x, a, b):
        return a is b, a is not b, x * a

    numbers = [(a, b) for b in (1, 2, 5, 7)] + [(3, 3), (7, 3)]
    compare(program, [lambda p=p: (tensor(2), *p) for p in numbers])


def test_conditions_tell_paths_apart():
    def program(x, n, m):
        if n < m:
            return x + n
        if n == 2 * m:
            return x - n
        return x * n

    pairs = [(n, m) for n in range(7) for m in range(7)]
    found = compare(program, [lambda p=p: (tensor(2), *p) for p in pairs])
    assert found.compiles <= 8


def test_it_is_said_which_line_is_the_reason():
    def program(x, n):
        if n > 3:
            return x + 1
        return x

    told = stator.explain(program, backend="eager", dynamic=True)(tensor(2), 5)
    line = program.__code__.co_firstlineno + 1
    shown = "\n".join(map(str, told.guards))
    assert f"(n > 3), because of {__file__}:{line}" in shown
