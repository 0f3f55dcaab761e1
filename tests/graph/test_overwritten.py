"""Gradients of what is computed from inputs that the same graph changes, with Inductor."""

# mypy: ignore-errors

import copy

import pytest
import torch
from torch import nn

import stator
from tests.unknown.inductor import without_kernels


class Running(nn.Module):
    """Running statistics that are used, and then updated."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(5.0))
        self.register_buffer("mean", torch.ones(5))


class Centred(Running):
    def forward(self, x):
        y = (x - self.mean) * self.weight
        self.mean.lerp_(x.mean(0), 0.1)
        return y


class ThroughAView(Running):
    def forward(self, x):
        y = (x - self.mean[None]).relu() * self.weight
        self.mean.copy_(x.mean(0))
        return y


class ReadAfterwards(Running):
    def forward(self, x):
        self.mean.mul_(2)
        return (x * self.mean).relu() * self.weight


class Assigned(Running):
    def forward(self, x):
        y = (x * self.mean) * self.weight
        self.mean[1:] = 7.0
        return y


class Folded(nn.Module):
    """As in quantization-aware training: the statistics scale a weight."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        scale = self.norm.weight / torch.sqrt(self.norm.running_var + 1e-5)
        y = nn.functional.linear(x, self.linear.weight * scale[:, None]) / scale
        return self.norm(y)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("kind", [Centred, ThroughAView, ReadAfterwards, Assigned, Folded])
def test_gradients(kind, backend):
    torch.manual_seed(0)
    plain = kind()
    other = copy.deepcopy(plain)
    compiled = stator.compile(other, backend=backend, fullgraph=True)
    with without_kernels():
        for k in range(3):
            x = torch.randn(6, 5) + k
            for module, run in ((plain, plain), (other, compiled)):
                module.zero_grad()
                run(x).pow(3).sum().backward()
            for one, two in zip(plain.parameters(), other.parameters(), strict=True):
                torch.testing.assert_close(two.grad, one.grad, rtol=1e-3, atol=1e-4)
            for one, two in zip(plain.buffers(), other.buffers(), strict=True):
                torch.testing.assert_close(two, one, rtol=1e-3, atol=1e-4)


def test_a_view_of_what_an_operator_may_refuse_to_change() -> None:
    """The operator is computed for its errors, too; its result must not stand for the view."""

    def program(x: torch.Tensor, w: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        (rows,) = torch.where(mask)
        out = torch.zeros_like(x)
        out.index_add_(0, rows, x[rows] @ w)
        return out.view(2, 2, 3)

    x, mask = torch.arange(12.0).view(4, 3), torch.tensor([1, 0, 1, 1])
    one, two = (torch.ones(3, 3, requires_grad=True) for _ in range(2))
    program(x, one, mask).sum().backward()
    with without_kernels():
        stator.compile(program, backend="inductor")(x, two, mask).sum().backward()
    assert two.grad is not None
    assert torch.equal(two.grad, one.grad)


COPIES = {
    "clone": lambda queue: queue.clone().detach(),
    "sum": lambda queue: queue + 0,
    "product": lambda queue: queue * 1,
    "power": lambda queue: queue**1,
    "conversion": lambda queue: queue.to(torch.float32, copy=True),
    "cat": lambda queue: torch.cat([queue]),
    "padding": lambda queue: torch.nn.functional.pad(queue, (0, 0)),
    "repeated": lambda queue: queue.repeat(1, 1),
    "transposed": lambda queue: queue.t().clone().t(),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_of_what_the_graph_changes_are_kept_for_the_backward(name):
    """Inductor takes them for nothing, and would read the input, which has other values then."""

    class Contrast(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(4, 3, bias=False)
            self.register_buffer("queue", torch.randn(3, 8))

        def forward(self, x):
            logits = self.layer(x) @ COPIES[name](self.queue)
            with torch.no_grad():
                self.queue[:, :2] = x[:, :3].t()
            return logits.exp().sum()

    x = torch.arange(8.0).view(2, 4) / 8
    found = []
    for backend in (None, "inductor"):
        module = Contrast()
        call = module if backend is None else stator.compile(module, backend=backend)
        call(x).backward()
        found.append([module.layer.weight.grad, module.queue])
    torch.testing.assert_close(*found)
