# mypy: ignore-errors
"""Loops that take too long to unroll are split, and what one iteration does is compiled once."""

import pytest
import torch

import stator
from stator import config
from tests.capture.harness import Recording

N = 24


def counted(x):
    for step in range(N):
        x = torch.cos(x * step)
    return x


def conditional(x):
    step = 0
    while step < N:
        x = torch.cos(x * step)
        step += 1
    return x


def collected(x):
    rows = []
    for step in range(N):
        rows.append(x * step)
    return torch.cat(rows)


def nested(x):
    rows = []
    for step in range(N):
        for inner in range(3):
            x = x + inner
        rows.append(x * step)
    return torch.stack(rows)


def skipping(x):
    total = 0
    for index, (step, row) in enumerate(zip(range(N), [x] * N, strict=True)):
        if index % 2:
            continue
        if index > 20:
            break
        total = total + row * step
    return total


def comprehended(x):
    return sum([x * step for step in range(N)])


def generated(x):
    return sum(x * step for step in range(N))


def called(x):
    def inner(y):
        for step in range(N):
            y = y.sin() + step
        return y

    return inner(x) * 2


def guarded(x):
    for step in range(N):
        try:
            if step == 5:
                raise ValueError(step)
            x = x + step
        except ValueError as error:
            x = x * error.args[0]
        finally:
            x = x - 1
    return x


def scoped(x):
    for step in range(N):
        with torch.no_grad():
            x = x.sin() + step
    return x


def recursive(x, left=N):
    return x if left == 0 else recursive(x + left, left - 1)


def filtered(x):
    rows = []
    for step in range(N):
        kept = x[x > step / 4]
        values, places = kept.topk(min(2, kept.numel()))
        rows.append(values + places)
    return torch.cat(rows)


def broken(x):
    for step in range(N):
        x = x * step
        stator.graph_break()
        x = x + 1
    return x


def broken_at_times(x):
    rows = []
    for step, row in enumerate([x] * N):
        for inner in range(3):
            x = x + inner
        rows.append(x * step + row)
        if step % 7 == 3:
            stator.graph_break()
    return torch.stack(rows)


PROGRAMS = [
    counted,
    conditional,
    collected,
    nested,
    skipping,
    comprehended,
    generated,
    called,
    guarded,
    scoped,
    recursive,
    filtered,
]
# Behind these breaks, loops go on with iterators that have begun before.
BROKEN = [broken, broken_at_times]


@pytest.mark.parametrize("program", [*PROGRAMS, *BROKEN], ids=lambda each: each.__name__)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.filterwarnings("ignore")
def test_split_and_right(program, backend):
    with config.patch(trace_budget=0):
        compiled = stator.compile(program, backend=backend)
        for start in range(3):
            x = torch.arange(6.0) + start
            assert torch.equal(compiled(x), program(x))


@pytest.mark.parametrize("program", [counted, conditional, comprehended, called, collected])
def test_one_iteration_is_compiled_for_all(program):
    backend = Recording()
    with config.patch(trace_budget=0):
        compiled = stator.compile(program, backend=backend)
        for _ in range(2):
            compiled(torch.ones(3))
    assert 1 < len(backend.graphs) <= 4
    assert all(len(graph) < N for graph in backend.graphs)


@pytest.mark.parametrize("program", BROKEN)
def test_other_breaks_in_the_loop(program):
    """A graph for the first iteration, for the others, and for parts of them."""
    backend = Recording()
    with config.patch(trace_budget=0):
        compiled = stator.compile(program, backend=backend)
        for _ in range(2):
            compiled(torch.ones(3))
    assert len(backend.graphs) <= 8
    assert all(len(graph) < 5 for graph in backend.graphs)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.__name__)
def test_unrolled_if_there_is_time(program):
    backend = Recording()
    expected = program(torch.arange(6.0))
    assert torch.equal(stator.compile(program, backend=backend)(torch.arange(6.0)), expected)
    assert len(backend.graphs) == 1


def test_one_graph_or_an_error():
    with config.patch(trace_budget=0):
        compiled = stator.compile(counted, backend="eager", fullgraph=True)
        with pytest.raises(stator.CaptureError, match="SB0043"):
            compiled(torch.ones(3))


def test_the_loop_is_named():
    with config.patch(trace_budget=0):
        found = stator.explain(called, backend="eager")(torch.ones(3))
    lines = {each.place.line for each in found.breaks}
    assert lines == {called.__code__.co_firstlineno + 2}


def test_what_was_short_is_not_split():
    def twice(x):
        for step in range(2):
            x = x + step
        return x

    backend = Recording()
    with config.patch(trace_budget=60):
        stator.compile(twice, backend=backend)(torch.ones(3))
    assert len(backend.graphs) == 1
