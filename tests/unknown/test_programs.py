"""Programs that ask about sizes and values which only the graph knows, on changing data."""

# mypy: ignore-errors

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import stator
from tests.dynamic.harness import Counting, outcome

Call = tuple[Any, ...]
PROGRAMS: list[tuple[Callable[..., Any], Sequence[Call]]] = []
X = torch.arange(6.0)
MASKS = [torch.tensor(bits) for bits in itertools.product([False, True], repeat=3)]


def program(*calls: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        given = [call if isinstance(call, tuple) else (call,) for call in calls]
        PROGRAMS.append((function, given))
        return function

    return add


@program(*((X, m) for m in (9, 3, 2, 1, 7)))
def branch_on_what_is_left(x, m):
    y = x[x >= m]
    return x * 10 if len(y) > 0 else x * 2


@program(
    *((torch.tensor(o), m) for o in ([0, 1, 2], [5, 1, 3, 2], [1, 5, 3, 2], [4]) for m in (0, 2))
)
def loop_over_what_is_left(order, m):
    keep = []
    while order.numel() > 0:
        keep.append(order[0].item())
        order = order[1:]
        order = order[order >= m]
    return keep


@program(*((torch.ones(3, 2), mask) for mask in MASKS))
def squeezed(x, mask):
    y = x[mask].squeeze(0)
    return y * 100 if y.dim() == 1 else y


@program(*((torch.arange(float(n)), torch.ones(n, 2), m) for n in (4, 3, 1, 6) for m in (0, 9)))
def masked_by_what_is_left(x, y, m):
    while x.numel() > 1:
        x = x[x > x.min()]
    return y[x > m] if (x > m).any() else x


@program(*((torch.ones(3, 2), mask) for mask in MASKS))
def squeezed_everywhere(x, mask):
    y = x[mask].squeeze()
    return y, y.dim()


@program(*((torch.arange(6.0).view(3, 2), mask) for mask in MASKS))
def layout(x, mask):
    y = x[mask].t()
    if y.is_contiguous():
        return y.stride(), y.view(-1)
    return y.stride(), y.reshape(-1)


@program(*((torch.arange(3.0), a, b) for a in MASKS[:4] for b in MASKS[::2]))
def same_size(x, a, b):
    y, z = x[a], x[b]
    if y.is_same_size(z):
        return y + z
    return torch.cat([y, z])


@program(*((torch.arange(3.0), a, b) for a in MASKS[2:6] for b in MASKS[::3]))
def broadcast(x, a, b):
    return x[a] + x[b]


@program(*((X, torch.tensor(i), n) for i, n in ((3, 2), (3, 3), (5, 4), (5, 5), (0, 0), (1, 0))))
def equal_to_an_expression(x, i, n):
    return x * 10 if i.item() == n + 1 else x * 2


@program(*((X, torch.tensor([i, j])) for i, j in ((1, 1), (1, 2), (2, 2), (3, 1), (0, 0))))
def equal_to_another_value(x, t):
    a, b = t.tolist()
    return (x * 10, a) if a == b else (x * 2, b)


@program(*(torch.ones(1, 1, n) for n in (4, 5, 6, 7, 8)))
def interpolated(x):
    y = F.interpolate(x, scale_factor=1.5)
    return y, y.shape[-1]


@program(*((X, a, b) for a, b in ((0, 3), (0, 4), (1, 1), (2, 1), (2, 3), (-1, 1))))
def a_factor_that_is_zero(x, a, b):
    return x * 2 if a * b == a else x * 3


@program(*((X[:n], a) for n, a in ((6, 0), (3, 2), (1, 2), (6, 3), (4, 0), (4, 1))))
def a_size_times_an_int(x, a):
    return x * 2 if x.shape[0] * a == a else x * 3


@program(*((X, m) for m in (-1, 2, 5, 9, 4)))
def maximum_of_what_is_left(x, m):
    return x[x > m].max()


@program(*((X, torch.tensor([3, n, 9])) for n in (1, 2, 9, 0, 4)))
def an_index_that_nobody_uses(x, i):
    y = x[i[:2]]  # eager refuses 9
    z = y * 2
    return x + 1


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(("function", "calls"), PROGRAMS, ids=lambda v: getattr(v, "__name__", ""))
def test_as_in_eager(function, calls, backend, dynamic):
    counting = Counting(backend)
    compiled = stator.compile(function, backend=counting, dynamic=dynamic)
    for call in (*calls, *reversed(calls)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = outcome(compiled, call)
        assert found == outcome(function, call), call
    assert counting.graphs


class Runs:
    """A backend that counts what is compiled, and what runs."""

    def __init__(self) -> None:
        self.graphs: list[list[str]] = []
        self.runs: list[int] = []

    def __call__(self, module, inputs):
        number = len(self.graphs)
        nodes = [node for node in module.graph.nodes if node.op.startswith("call")]
        self.graphs.append([node.name for node in nodes if "assert" not in node.name])

        def run(*args):
            self.runs.append(number)
            return module.forward(*args)

        return run


def either_way(x):
    if x.sum() > 0:
        return x.sin()
    return x.cos().tan()


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("first", [1, -1])
def test_a_branch_is_compiled_for_both_sides(fullgraph, first):
    backend = Runs()
    compiled = stator.compile(either_way, backend=backend, fullgraph=fullgraph)
    x = torch.ones(3)
    for sign in (first, *[-first] * 100, *[first] * 5):
        assert torch.equal(compiled(sign * x), either_way(sign * x))
    sides = [["sin"], ["cos", "tan"]]
    assert backend.graphs[1:] == [["sum_1", "gt"], *(sides if first < 0 else sides[::-1])]
    assert backend.runs.count(0) == 3  # once right, twice for nothing
    assert len(backend.runs) == 3 + 2 * 105  # the common part and one side, each time


@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_loop_over_data_is_compiled_a_few_times(fullgraph):
    backend = Runs()
    compiled = stator.compile(loop_over_what_is_left, backend=backend, fullgraph=fullgraph)
    generator = torch.Generator().manual_seed(0)
    for length in range(30):
        order = torch.randint(0, 9, (1 + length % 8,), generator=generator)
        assert compiled(order, 2) == loop_over_what_is_left(order, 2)
    assert len(backend.graphs) <= 12


def row_or_rows(x, mask):
    return x[mask].squeeze(0) * 2


def test_what_can_t_be_one_graph_is_an_error_in_the_end():
    compiled = stator.compile(row_or_rows, backend="eager", fullgraph=True)
    x = torch.ones(3, 2)
    one, two = torch.tensor([True, False, False]), torch.tensor([True, True, False])
    compiled(x, two)
    with pytest.warns(UserWarning, match="ran eagerly"):
        assert torch.equal(compiled(x, one), row_or_rows(x, one))
    assert torch.equal(compiled(x, one), row_or_rows(x, one))
    with pytest.raises(stator.CaptureError, match="row_or_rows"):
        compiled(x, one)
    assert torch.equal(compiled(x, two), row_or_rows(x, two))


def insisted(x, n):
    if n.item() > 3:
        raise ValueError("too large")
    return x * 2


def test_what_the_program_refuses_costs_no_graph():
    backend = Runs()
    compiled = stator.compile(insisted, backend=backend, fullgraph=True)
    x = torch.ones(3)
    for n in (1, 9, 9, 9, 9, 2, 9, 3):
        assert outcome(compiled, (x, torch.tensor(n))) == outcome(insisted, (x, torch.tensor(n)))
    assert len(backend.graphs) == 1
