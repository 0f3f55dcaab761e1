"""Draws between a state of torch's generator and the return to it.

Programs with `fork_rng`, `get_rng_state` and `set_rng_state` around draws: results, the state that
is left, and that it is one graph; in each call the generator is in another state.
"""

# mypy: ignore-errors

import pytest
import torch
from torch.nn import functional as F

import stator

from .harness import Recording

X = torch.arange(4.0)


def forked(x, g):
    with torch.random.fork_rng():
        y = torch.rand(4)
    return x + y + torch.rand(4)


def forked_and_seeded(x, g):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        y = torch.randn(4)
    return x + y, torch.randint(0, 9, (2,)), torch.randperm(5)


def forked_twice(x, g):
    with torch.random.fork_rng():
        a = torch.rand(2)
        with torch.random.fork_rng(devices=[]):
            b = torch.rand(2)
        c = torch.rand(2)
    return x, a, b, c, torch.rand(2)


def not_forked(x, g):
    with torch.random.fork_rng(enabled=False):
        y = torch.rand(4)
    return x + y + torch.rand(4)


def set_back(x, g):
    state = torch.get_rng_state()
    y = torch.rand(4)
    torch.set_rng_state(state)
    return x + y, torch.rand(4), torch.rand(2, dtype=torch.float64)


def set_back_again(x, g):
    state = torch.random.get_rng_state()
    found = []
    for _ in range(3):
        found.append(torch.rand(3))
        torch.random.set_rng_state(state)
    return x + 1, found


def handed_out(x, g):
    state = torch.get_rng_state()
    return x + torch.rand(4), state


def of_operators(x, g):
    with torch.random.fork_rng():
        y = F.dropout(x, 0.5)
    return x + y


def leaf(x, g):
    state = torch.get_rng_state()
    w = torch.rand(4, requires_grad=True)
    torch.set_rng_state(state)
    (x * w).sum().backward()
    return w.grad, torch.rand(4)


def raising(x, g):
    try:
        with torch.random.fork_rng():
            torch.rand(4)
            raise ValueError("in between")
    except ValueError:
        return x + torch.rand(4)


def with_a_seed(x, g):
    g.manual_seed(5)
    return x + torch.rand(4, generator=g), g.initial_seed(), torch.randperm(5, generator=g)


def seed_asked(x, g):
    return x + torch.rand(4, generator=g), g.initial_seed()


def behind_a_state(x, g):
    state = g.get_state()
    y = x + torch.rand(4, generator=g)
    g.set_state(state)
    return y + torch.rand(4, generator=g), g.initial_seed()


def mixed(x, g):
    y = F.dropout(x, 0.5)
    state = torch.get_rng_state()
    z = torch.rand(4)
    torch.set_rng_state(state)
    return y + z, torch.rand(4)


def operators_between(x, g):
    with torch.random.fork_rng():
        y = F.dropout(x, 0.5) + torch.rand(4)
    return x + y + torch.rand(4)


CAPTURED = [
    *(forked, forked_and_seeded, forked_twice, not_forked, set_back, set_back_again, handed_out),
    *(of_operators, raising, with_a_seed, seed_asked),
]
SPLIT = [leaf, behind_a_state, mixed, operators_between]


def outcome(function, seed, dtype):
    torch.manual_seed(seed)
    torch.set_default_dtype(dtype)
    generator = torch.Generator().manual_seed(seed // 2)
    try:
        found = function(X.clone(), generator)
    finally:
        torch.set_default_dtype(torch.float32)
    return repr(found), torch.get_rng_state().tolist(), generator.get_state().tolist()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [*CAPTURED, *SPLIT])
def test_as_in_eager(program, backend) -> None:
    stator.reset()
    compiled = stator.compile(program, backend=backend)
    for seed in (1, 2, 3, 3, 40):
        for dtype in (torch.float32, torch.float64):
            assert outcome(compiled, seed, dtype) == outcome(program, seed, dtype)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", CAPTURED)
def test_one_graph(program, dynamic) -> None:
    stator.reset()
    backend = Recording()
    compiled = stator.compile(program, backend=backend, fullgraph=True, dynamic=dynamic)
    for seed in (2, 3):
        expected = outcome(program, seed, torch.float32)
        assert outcome(compiled, seed, torch.float32) == expected
    assert len(backend.graphs) == 1


def test_a_graph_that_refuses() -> None:
    """The draws are undone before the program itself runs."""

    def program(x, i):
        with torch.random.fork_rng():
            y = torch.rand(4)
        return x[i] + y[0], torch.rand(2)

    stator.reset()
    compiled = stator.compile(program, backend="eager")
    for index in (1, 3, 9, 2):
        results = []
        for function in (compiled, program):
            torch.manual_seed(index)
            try:
                found = repr(function(X.clone(), torch.tensor(index)))
            except IndexError:
                found = "IndexError"
            results.append((found, torch.get_rng_state().tolist()))
        assert results[0] == results[1]
