# mypy: ignore-errors
"""Functions that draw and do nothing else run before the graph; all others are evaluated."""

import contextlib
import math
import random
import types

import numpy as np
import pytest
import torch

import stator
from stator.capture.randomness import drawing_functions

SIDES = [0]
LIMIT = 3


def states() -> tuple[str, str]:
    return str(np.random.get_state()), str(random.getstate())


def seed(value: int) -> None:
    np.random.seed(value)
    random.seed(value)


def spans(shape, share, length, mask=None):
    """As speech models do it: the number of spans is drawn, and where they are."""
    rows, columns = shape
    if length > columns:
        raise ValueError(f"a span of {length} in {columns}")
    epsilon = np.random.rand(1).item()

    def number(width):
        return max(int(share * width / length + epsilon), 1)

    widths = mask.detach().sum(-1).tolist() if mask is not None else [columns for _ in range(rows)]
    made = np.zeros((rows, columns), dtype=bool)
    for row, width in enumerate(widths):
        starts = np.random.choice(np.arange(width - length + 1), number(width), replace=False)
        for start in starts:
            made[row, start : start + length] = True
    return made


def one_of_two(limit):
    """A branch on a draw, and a number."""
    drawn = np.random.rand()
    if drawn < 0.5:
        return math.sqrt(drawn)
    return float(limit * LIMIT)


def several(count):
    return np.array([random.random() for _ in range(count)])


def masked(x):
    mask = torch.tensor(spans((2, 8), 0.4, 2))
    return torch.where(mask, 0.0, x)


def masked_by_a_mask(x):
    inside = (x.abs() < 100).long()
    return torch.where(torch.tensor(spans((2, 8), 0.4, 2, mask=inside)), 0.0, x)


def scaled(x):
    return x * one_of_two(2) + torch.from_numpy(several(8))


@pytest.fixture(autouse=True)
def _leave_no_trace():
    before = np.random.get_state(), random.getstate(), torch.get_rng_state()
    stator.reset()
    yield
    np.random.set_state(before[0])
    random.setstate(before[1])
    torch.set_rng_state(before[2])


def assert_same_draws(program, compiled, x, start) -> None:
    """From the same seed: the same result, and the same states after it."""
    seed(start)
    expected, after = program(x), states()
    seed(start)
    assert torch.equal(compiled(x), expected)
    assert states() == after


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [masked, masked_by_a_mask, scaled], ids=lambda f: f.__name__)
def test_drawn_before_the_graph(program, backend) -> None:
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    x = torch.randn(2, 8)
    for start in range(6):
        assert_same_draws(program, compiled, x, start)
    assert compiled.statistics()["misses"] == 1


def refuse(graph, inputs):
    raise RuntimeError("nothing is to happen")


def test_nothing_is_drawn_while_tracing() -> None:
    seed(1)
    before = states()
    with pytest.raises(stator.BackendError):
        stator.compile(masked, backend=refuse, fullgraph=True)(torch.randn(2, 8))
    assert states() == before


def test_another_mask() -> None:
    """The values of a mask were taken for granted."""
    compiled = stator.compile(masked_by_a_mask, backend="eager")
    for start in range(8):
        x = torch.randn(2, 8)
        if start % 2:
            x[:, 5:] = 1000.0
        assert_same_draws(masked_by_a_mask, compiled, x, start)


def of_any_length(limit):
    return np.arange(np.random.randint(1, limit))


def test_a_result_of_another_shape() -> None:
    graphs = []

    def backend(module, inputs):
        graphs.append([node.name for node in module.graph.nodes])
        return module

    def program(x):
        x = x.cos()
        print("here")
        return x + torch.from_numpy(of_any_length(9)).sum()

    compiled = stator.compile(program, backend=backend)
    x = torch.randn(3)
    for start in range(12):
        assert_same_draws(program, compiled, x, start)
    # Where it is not taken for granted, the program is split: `cos` stays in a graph.
    assert len(graphs) > 1 and "cos" in graphs[1]


def test_drawn_before_a_break() -> None:
    def program(x):
        mask = torch.tensor(spans((2, 8), 0.4, 2))
        stator.graph_break()
        return torch.where(mask, several(8)[0], x)

    compiled = stator.compile(program, backend="eager")
    x = torch.randn(2, 8)
    for start in range(4):
        assert_same_draws(program, compiled, x, start)


def raising(limit):
    if np.random.rand() < 0.5:
        raise ValueError("unlucky")
    return np.zeros(limit)


def test_an_exception_comes_where_it_is_raised(capsys) -> None:
    def program(x, kept):
        kept.append(len(kept))
        return x + torch.from_numpy(raising(3))

    compiled = stator.compile(program, backend="eager")
    for start in range(8):
        outcomes = []
        for function in (program, compiled):
            kept: list[int] = []
            seed(start)
            try:
                result = function(torch.zeros(3), kept).tolist()
            except ValueError as error:
                result = str(error)
            outcomes.append((result, kept, states()))
        assert outcomes[0] == outcomes[1]


def with_a_global(limit):
    global LIMIT
    LIMIT = 4
    return np.random.rand(limit)


def with_a_list_of_the_world(limit):
    SIDES.append(1)
    return np.random.rand(limit)


def with_an_attribute(limit):
    np.random.rand.value = 1
    return np.random.rand(limit)


def with_output(limit):
    print(np.random.rand(limit))
    return np.random.rand(limit)


def with_a_file(limit):
    made = np.random.rand(limit)
    made.tofile("x")
    return made


def with_an_import(limit):
    import os

    os.getcwd()
    return np.random.rand(limit)


def with_torch(limit):
    return np.random.rand(limit) + torch.rand(limit).numpy()


def with_torch_generator(limit, mask):
    mask.random_()
    return np.random.rand(limit)


def with_a_helper(limit):
    return several(limit) + np.random.rand(limit)


def with_a_seed(limit):
    np.random.seed(limit)
    return np.random.rand(limit)


def with_a_type(limit):
    ().__class__.__base__.__subclasses__()
    return np.random.rand(limit)


def with_a_module(limit):
    numpy = np
    return numpy.random.rand(limit)


@pytest.mark.parametrize(
    "function",
    [
        with_a_global,
        with_a_list_of_the_world,
        with_an_attribute,
        with_output,
        with_a_file,
        with_an_import,
        with_torch,
        with_torch_generator,
        with_a_helper,
        with_a_seed,
        with_a_type,
        with_a_module,
    ],
    ids=lambda f: f.__name__,
)
def test_functions_that_do_more_are_not_taken(function, monkeypatch) -> None:
    """It never comes to the example, which would run the function while tracing."""
    taken = []
    example = drawing_functions.Drawn._example

    def noted(self, owner, chosen, *given):
        taken.append(chosen)
        return example(self, owner, chosen, *given)

    monkeypatch.setattr(drawing_functions.Drawn, "_example", noted)

    def program(x, mask):
        given = (3, mask) if function is with_torch_generator else (3,)
        return x + torch.as_tensor(several(3)) + torch.as_tensor(function(*given))

    with contextlib.suppress(stator.CaptureError, stator.BackendError, AttributeError):
        compiled = stator.compile(program, backend=refuse, fullgraph=True)
        compiled(torch.zeros(3), torch.zeros(2, dtype=torch.int64))
    assert several in taken and function not in taken
    assert SIDES == [0] and LIMIT == 3


def test_functions_replaced_later() -> None:
    """What the function calls is guarded, as if it had been evaluated."""
    globals_ = {"np": np, "math": math}
    code = "def draw(n):\n    return np.random.rand(n) * math.sqrt(n)\n"
    exec(code, globals_)
    holder = types.SimpleNamespace(draw=globals_["draw"])

    def program(x):
        return x + torch.from_numpy(holder.draw(3))

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    x = torch.zeros(3)

    def check() -> None:
        seed(1)
        expected = program(x)
        seed(1)
        assert torch.equal(compiled(x), expected)

    check()
    globals_["math"] = types.SimpleNamespace(sqrt=lambda n: n)
    check()
    holder.draw = several
    check()
