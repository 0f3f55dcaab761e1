# mypy: ignore-errors
"""Breaks far inside, and in loops that run long: the work grows with the depth, and no more."""

import gc
import sys
import warnings

import pytest
import torch

import stator
from stator import evaluator
from tests.capture.harness import Recording


def nested(depth):
    """A function that breaks this many calls inside."""
    text = ["def f0(x):", "    y = x * 2", "    stator.graph_break()", "    return y + 1"]
    for n in range(1, depth + 1):
        text += [f"def f{n}(x):", "    y = x + 1", f"    return f{n - 1}(y) * y"]
    namespace = {"stator": stator}
    exec("\n".join(text), namespace)
    return namespace[f"f{depth}"]


@pytest.mark.parametrize("depth", [1, 3, 10, 30, 100])
def test_a_break_deep_inside_is_one_break(depth):
    fn = nested(depth)
    backend = Recording()
    compiled = stator.compile(fn, backend=backend)
    x = torch.full((2,), 0.01)
    before = evaluator.statistics().frames
    result = compiled(x)
    frames = evaluator.statistics().frames - before
    assert torch.equal(result, fn(x))
    assert len(backend.graphs) == 2
    assert len(compiled.miss.ledger.continuations) == 1
    # All frames are traced up to the break, once more to stop there, and once behind it.
    assert frames <= 3 * (depth + 1) + 10
    for _ in range(3):
        compiled(x)
    assert len(backend.graphs) == 2


@pytest.mark.parametrize("count", [1, 2, 5, 10])
def test_breaks_in_a_row_cost_one_trace_each(count):
    text = ["def f(x):"]
    for n in range(count):
        text += [f"    x = x + {n}", "    stator.graph_break()"]
    text.append("    return x * 2")
    namespace = {"stator": stator}
    exec("\n".join(text), namespace)
    backend = Recording()
    compiled = stator.compile(namespace["f"], backend=backend)
    before = evaluator.statistics().frames
    compiled(torch.ones(2))
    frames = evaluator.statistics().frames - before
    assert len(backend.graphs) == count + 1
    assert len(compiled.miss.ledger.continuations) == count
    assert frames <= 4 * (count + 1)


@stator.disable
def leaf(x):
    return x + 1


def loop_over_a_list(x, items):
    for item in items:
        x = leaf(x * 0.5) + item
    return x


def loop_over_pairs(x, items):
    for n, item in zip(range(len(items)), items):
        x = leaf(x * 0.5) + item
    return x


def while_not_done(x, items):
    while x.sum() < len(items):
        x = x + 1
        stator.graph_break()
    return x


def loop_over_a_range(x, items):
    for n in range(len(items)):
        x = leaf(x * 0.5)
        x = x + 1
    return x


@pytest.mark.parametrize(
    ("fn", "calls", "most"),
    [
        (loop_over_a_list, 1, 4),
        (loop_over_a_range, 1, 4),
        (loop_over_pairs, 1, 4),
        # Its end is a surprise twice; from then on, the loop is split at its condition.
        (while_not_done, 3, 5),
    ],
)
def test_a_thousand_iterations(fn, calls, most):
    """Compiles stay few, and end with some calls; memory stays flat, and so does the stack."""
    items = [torch.full((2,), 0.001) for _ in range(1000)]
    backend = Recording()
    compiled = stator.compile(fn, backend=backend)
    wanted = fn(torch.zeros(2), items)
    for _ in range(calls):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = compiled(torch.zeros(2), items)
        assert torch.equal(result, wanted)
        backend.tape.clear()
    graphs = len(backend.graphs)
    assert graphs <= most
    compiled(torch.zeros(2), items)
    gc.collect()
    objects, blocks = len(gc.get_objects()), sys.getallocatedblocks()
    for _ in range(3):
        assert torch.equal(compiled(torch.zeros(2), items), wanted)
        backend.tape.clear()
    gc.collect()
    assert len(backend.graphs) == graphs
    assert len(gc.get_objects()) - objects < 50
    assert sys.getallocatedblocks() - blocks < 2000


def test_exceptions_from_deep_inside():
    @stator.disable
    def fail(x):
        raise ValueError("deep")

    def go(x, n):
        if n == 0:
            return fail(x)
        return go(x + 1, n - 1) * 2

    def outer(x):
        try:
            return go(x, 20)
        except ValueError as error:
            count, step = 0, error.__traceback__
            while step is not None:
                count, step = count + 1, step.tb_next
            return count, x + 1

    compiled = stator.compile(outer, backend="eager")
    for _ in range(2):
        assert compiled(torch.ones(1))[0] == outer(torch.ones(1))[0] == 23


def test_recursion_that_breaks_at_every_level():
    def go(x, n):
        stator.graph_break()
        return go(x + 1, n - 1) * 2 if n else x

    backend = Recording()
    compiled = stator.compile(go, backend=backend)
    assert torch.equal(compiled(torch.ones(1), 6), go(torch.ones(1), 6))
    graphs = len(backend.graphs)
    assert torch.equal(compiled(torch.ones(1), 6), go(torch.ones(1), 6))
    assert len(backend.graphs) == graphs
