# mypy: ignore-errors
"""Values that a trace takes for granted: where they come from, and what is put back if they differ.

Each program is called with values that change from call to call; all must be eager's.
"""

import copy

import pytest
import torch
import torch.nn.functional as F

import stator


class Counting(torch.nn.Module):
    """A branch behind a change of a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("total", torch.zeros(()))
        self.norm = torch.nn.BatchNorm1d(3)

    def forward(self, x):
        self.calls.add_(1)
        x = self.norm(x)
        self.total.add_(x.detach().abs().sum())
        if self.calls > 3:
            x = x * 2
        if not torch.isfinite(x).all():
            x = torch.nan_to_num(x)
        return x


class Beginning(torch.nn.Module):
    """A buffer that begins to require grad, in a graph with a check."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("zero", torch.zeros(3))

    def forward(self, x):
        loss = self.zero
        loss += (x * self.weight).sum(0)
        if x.sum() > 0:
            return loss * 2
        return loss


def repeated(x):
    count = x.argmax()
    return torch.cat([x] * int(count + 1)), [0] * int(count), (1, 2) * int(count)


def sizes_that_are_tensors(x):
    size = x.abs().argmax() + 2
    return F.interpolate(x[None, None], size=(size,)), F.pad(x, (0, size))


def computed_sizes(x):
    n = x.argmax().item()
    rows = torch.zeros(2 * n + 2, 3)
    return torch.cdist(rows[: n + 1], torch.ones(2, 3)), rows.unfold(0, 2, 1)


def names_of_a_repeated_list(x):
    names = ["a"]
    names *= int(x.argmax()) + 1
    return x + len(names), names


FUNCTIONS = [repeated, sizes_that_are_tensors, computed_sizes, names_of_a_repeated_list]


def same(a, b) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b) and a.requires_grad == b.requires_grad
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    return type(a) is type(b) and a == b


@pytest.fixture(autouse=True)
def _reset():
    stator.reset()


@pytest.mark.parametrize("program", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_functions(program) -> None:
    compiled = stator.compile(program, backend="eager")
    for best in (2, 2, 1, 3, 2, 0):
        x = torch.zeros(4)
        x[best] = 1.0
        assert same(program(x), compiled(x))


@pytest.mark.parametrize("program", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_one_graph(program) -> None:
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module

    x = torch.tensor([0.0, 0.0, 1.0, 0.0])
    assert same(program(x), stator.compile(program, backend=backend, fullgraph=True)(x))
    assert len(graphs) == 1


def test_buffers_that_change_before_a_branch() -> None:
    model = Counting()
    other = copy.deepcopy(model)
    graphs = []

    def backend(module, inputs):
        graphs.append(module)
        return module

    compiled = stator.compile(other, backend=backend)
    for call in range(8):
        x = torch.randn(4, 3)
        if call == 5:
            x[0, 0] = float("inf")
        assert torch.equal(model(x).nan_to_num(), compiled(x).nan_to_num())
        for (name, mine), theirs in zip(model.named_buffers(), other.buffers(), strict=True):
            assert torch.allclose(mine, theirs, equal_nan=True), (call, name)
        if call == 2:
            assert len(graphs) == 1  # so far


def test_a_buffer_that_begins_to_require_grad() -> None:
    model = Beginning()
    other = copy.deepcopy(model)
    compiled = stator.compile(other, backend="eager")
    for sign in (1.0, 1.0, -1.0, 1.0):
        for each in (model, other):
            each.zero = torch.zeros(3)
        x = torch.ones(2, 3) * sign
        results = [model(x), compiled(x)]
        assert torch.equal(*results)
        assert model.zero.requires_grad and other.zero.requires_grad
        assert torch.equal(model.zero, other.zero)
        for each, result in zip((model, other), results, strict=True):
            each.weight.grad = None
            result.sum().backward()
        assert torch.equal(model.weight.grad, other.weight.grad)


def test_nothing_real_is_changed_by_looking() -> None:
    model = Counting()
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    versions = {name: buffer._version for name, buffer in model.named_buffers()}

    def refuse(module, inputs):
        raise RuntimeError("nothing is to happen")

    with pytest.raises(stator.BackendError):
        stator.compile(model, backend=refuse)(torch.randn(4, 3))
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, before[name]) and buffer._version == versions[name]


def test_constants_are_not_changed_by_looking() -> None:
    def program(x):
        x = x + torch.rand(3)
        torch.manual_seed(3)
        drawn = torch.rand(3)
        drawn.add_(1)
        return x * drawn if drawn.sum() * x.numel() > 0 else x

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for start in (1, 1, 2):
        results = []
        for function in (program, compiled):
            torch.manual_seed(start)
            results.append(function(torch.ones(3)))
        assert torch.equal(*results)


def test_inputs_that_share_memory() -> None:
    """One of them is changed before a branch on the other."""

    def program(x, view):
        x.add_(1)
        return view * 2 if view.sum() > 3 else view

    for start in (0.0, 1.0):
        found = []
        for function in (program, stator.compile(program, backend="eager")):
            x = torch.full((4,), start)
            found.append((function(x, x[:2]), x))
        assert same(*found)
