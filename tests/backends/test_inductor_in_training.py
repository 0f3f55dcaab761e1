# mypy: ignore-errors
"""What Inductor does when a program asks for gradients: it compiles the backward only then."""

import sys

import torch
from torch import nn

import stator
from stator.backends.inductor import inductor
from stator.torchlib import inductor as torch_inductor


def test_the_recursion_limit_stays_as_it_is(monkeypatch):
    """Inductor raises it, also where it compiles a backward."""
    before = sys.getrecursionlimit()

    def inner(number):
        sys.setrecursionlimit(before + number)
        return lambda: sys.getrecursionlimit() - before

    def compile_fx(module, inputs, inner_compile, config_patches):
        return lambda: inner_compile(7)()  # later, as a backward is

    monkeypatch.setattr("stator.torchlib.inductor.compile_fx", lambda: compile_fx)
    monkeypatch.setattr("stator.torchlib.inductor.compile_fx_inner", lambda: inner)
    module = torch.fx.symbolic_trace(nn.ReLU())
    assert inductor(module, [torch.ones(2)])() == 0
    assert sys.getrecursionlimit() == before


def test_a_backward_that_inductor_can_t_compile_for_open_sizes(monkeypatch):
    """It is compiled for the sizes of the call: the program must not find out in `backward`.

    torch 2.13 fails so for a U-Net with `nn.Upsample(mode="bilinear", align_corners=True)`.
    """
    stator.reset()
    real = torch_inductor.compile_fx_inner()
    failed = []

    def inner(module, inputs, **settings):
        given = [each for each in inputs if isinstance(each, torch.Tensor)]
        sizes = [*inputs, *(size for each in given for size in each.shape)]
        if settings.get("is_backward") and any(isinstance(each, torch.SymInt) for each in sizes):
            failed.append(module)
            raise TypeError("Cannot convert expression to float")
        return real(module, inputs, **settings)

    monkeypatch.setattr("stator.torchlib.inductor.compile_fx_inner", lambda: inner)

    def program(x):
        return torch.sin(x) * x.shape[0]

    compiled = stator.compile(program)
    for size in (6, 7, 8):
        x = torch.randn(size, 3)
        found = []
        for call in (program, compiled):
            given = x.clone().requires_grad_()
            made = call(given)
            made.sum().backward()
            found.append((made.detach(), given.grad))
        torch.testing.assert_close(*found)
    assert len(failed) == 1 and stator.counters()["eager"] == 0
