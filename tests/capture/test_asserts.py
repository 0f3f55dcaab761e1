# mypy: ignore-errors
"""`assert` and `torch._assert` about values of tensors: one graph; if they fail, eager's error."""

import pytest
import torch

import stator

pytestmark = pytest.mark.usefixtures("leaves_no_trace")


def statement(x):
    assert x.sum() > 0, "negative"
    return x * 2


def function(x):
    torch._assert(x[0] > 0, f"bad {x.shape[0]}")
    return x * 2


def of_all(x):
    torch._assert((x > 0).all(), "not all")
    torch._assert(bool(x[1] > -5), "second")
    torch._assert(x.shape[0] == 3, "size")
    return x * 2


def of_constants(x):
    torch._assert(isinstance(x, torch.Tensor), "no tensor")
    torch._assert(x.dtype.is_floating_point, "no floats")
    return x * 2


def both_in_a_loop(x):
    for row in x:
        assert row > 0
        torch._assert(row < 100, "large")
    return x * 2


def handled(x):
    try:
        torch._assert(x[0] > 0, "bad")
    except AssertionError as error:
        return x + 1, str(error)
    return x * 2


CAPTURED = [statement, function, of_all, of_constants, both_in_a_loop]


def seen(call, x):
    try:
        return str(call(x))
    except Exception as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [*CAPTURED, handled], ids=lambda each: each.__name__)
def test_as_in_eager(program, backend):
    compiled = stator.compile(program, backend=backend)
    good, bad = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -9.0, 300.0])
    for x in (good, good + 1, bad, good, bad.half(), torch.ones(4), bad, good.long()):
        assert seen(compiled, x) == seen(program, x)
    if program in CAPTURED:
        stator.reset()
        graphs = []
        note = lambda module, inputs: graphs.append(module) or module.forward  # noqa: E731
        stator.compile(program, backend=note, fullgraph=True)(good)
        assert len(graphs) == 1
