"""A backward that is asked to keep its graph, through what a backend has compiled."""

# mypy: ignore-errors

import pytest
import torch

import stator


def program(x):
    y = x.sort()[0].sin()
    return (y * y.exp()).sum()


def kept(compiled, x):
    loss = compiled(x)
    loss.backward(retain_graph=True)
    loss.backward()
    return x.grad


def kept_later(compiled, x):
    compiled(x).backward()  # compiles the backward, if that is not done yet
    return kept(compiled, x)


def by_grad(compiled, x):
    loss = compiled(x)
    first = torch.autograd.grad(loss, x, retain_graph=True)
    return first + torch.autograd.grad(loss, x)


def of_a_part(compiled, x):
    @stator.compile(backend="eager")
    def step(x):
        loss = compiled(x)
        stator.graph_break()
        loss.backward(retain_graph=True)
        return loss

    return step(x), x.grad


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("way", [kept, kept_later, by_grad, of_a_part])
def test_retain_graph(way, backend) -> None:
    x = torch.randn(5)
    wanted = way(program, x.clone().requires_grad_())
    found = way(stator.compile(program, backend=backend), x.clone().requires_grad_())
    torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("wanted", [False, True])
def test_what_is_donated_can_be_chosen(wanted) -> None:
    seen = []

    def backend(module, inputs):
        seen.append(torch._functorch.config.donated_buffer)
        return module.forward

    before = torch._functorch.config.donated_buffer
    with stator.config.patch(donated_buffers=wanted):
        stator.compile(program, backend=backend)(torch.randn(5, requires_grad=True))
    assert seen == [wanted and before]
    assert torch._functorch.config.donated_buffer is before
