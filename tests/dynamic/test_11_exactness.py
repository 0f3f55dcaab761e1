# mypy: ignore-errors
"""Guards reject exactly the shapes for which the graph would be wrong: by brute force.

One entry, made for one shape, is asked about all small ones. What it accepts must be right; and
what it would be right for, it must accept, if no size is 0 or 1 that was not.
"""

import itertools

import pytest
import torch

import stator

from .harness import compare, outcome, small, tensor
from .programs import PROGRAMS

SHAPES = [(4, 3, 5, 2), (3, 3, 3, 3)]
SPECIAL = [(2, 1, 3, 2), (0, 3, 2, 2)]
CASES = [
    pytest.param(program, shape, id=f"{program}-{shape}")
    for index, program in enumerate(PROGRAMS)
    for shape in [*SHAPES, SPECIAL[index % 2]]
]


def tensors(program, sizes):
    left = list(sizes)
    return tuple(tensor(*(left.pop(0) for _ in range(dims))) for dims in program.dims)


def special(sizes):
    return tuple(min(size, 2) for size in sizes)


def anyhow(target, args):
    """What an entry does, guards or not."""
    try:
        return outcome(target, args)
    except BaseException as error:
        return repr(error)  # it has noticed that it does not fit


@pytest.mark.parametrize(("program", "base"), CASES)
def test_all_that_is_right_and_nothing_else(program, base):
    total = sum(program.dims)
    base = base[:total]
    run = program.function
    found = compare(run, [lambda: tensors(program, base)], dynamic=True)
    (entry,) = found.compiled.entries()
    assert entry.guards.callbacks == 0
    accepted, rejected = 0, []
    for sizes in [base, *small(total, {1: 9, 2: 5, 3: 3}.get(total, 2))]:
        fits = entry.guards.check(tensors(program, sizes), run)
        expected = outcome(run, tensors(program, sizes))
        if fits:
            accepted += 1
            assert outcome(found.compiled, tensors(program, sizes)) == expected, sizes
        elif special(sizes) == special(base) and "'raises'" not in expected and not entry.fetch:
            if anyhow(entry.target, tensors(program, sizes)) == expected:
                rejected.append((sizes, str(entry.guards.explain(tensors(program, sizes), run))))
    assert accepted
    if found.graphs and not program.coarse:
        assert not rejected
    assert int(found.compiled.statistics()["misses"]) == 1


def test_relations_of_two_shapes():
    """What is asked of two tensors at once: all pairs of small shapes."""

    def program(x, y):
        if x.shape[0] == y.shape[0]:
            return x + y[:, :1]
        if x.shape[1] < y.shape[1]:
            return x.sum() * y
        return y.sum() * x

    cases = itertools.product(itertools.product((2, 3, 4), repeat=2), repeat=2)
    calls = [lambda case=case: tuple(tensor(*shape) for shape in case) for case in cases]
    assert compare(program, calls, dynamic=True).compiles == 3  # one for each way


def layouts(n, m):
    """Tensors of the same shape that lie otherwise in memory."""
    yield "plain", lambda: (tensor(n, m),)
    yield "transposed", lambda: (tensor(m, n).T,)
    yield "columns", lambda: (tensor(n, m + 3)[:, 1 : m + 1],)
    yield "every other", lambda: (tensor(2 * n, m)[::2],)
    yield "expanded", lambda: (tensor(1, m).expand(n, m),)
    yield "later", lambda: (tensor(n + 3, m)[3:],)


def test_strides_and_offsets():
    """Where a tensor begins matters to nobody; how it lies in memory is told apart."""

    def program(x):
        y = x * 2
        return y, y.stride(), x.is_contiguous(), x.T.contiguous(), x.reshape(-1)

    calls = [make for n, m in itertools.product(range(2, 6), repeat=2) for _, make in layouts(n, m)]
    assert compare(program, calls).compiles <= 12
    stator.reset()
    assert compare(program, calls, dynamic=True).compiles == 4
    stator.reset()
    later = [lambda n=n, k=k: (tensor(n + k, 3)[k:],) for n in range(2, 7) for k in range(4)]
    assert compare(program, later, dynamic=True).compiles == 1


def test_the_program_asks_where_a_tensor_begins():
    def program(x):
        return x * x.storage_offset()

    calls = [lambda n=n, k=k: (tensor(n + k, 3)[k:],) for n in range(2, 5) for k in (0, 1, 2, 5)]
    found = compare(program, calls, dynamic=True)
    assert found.compiles == 4
    assert all(entry.guards.callbacks == 0 for entry in found.compiled.entries())


def test_channels_last():
    def program(x):
        return x.relu() + 1

    def images(n, size, last):
        x = tensor(n, 3, size, size)
        return x.contiguous(memory_format=torch.channels_last) if last else x

    cases = list(itertools.product(range(2, 6), (4, 5, 6), (False, True)))
    calls = [lambda case=case: (images(*case),) for case in cases]
    assert compare(program, calls, dynamic=True).compiles == 2
    stator.reset()
    assert compare(program, calls).compiles <= 6
