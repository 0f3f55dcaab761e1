# mypy: ignore-errors
"""Under `no_grad`, whether an input requires grad is guarded only where something depends on it."""

import contextlib
import copy
import dataclasses

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import stator

from .harness import Change, Programs, check, module, t
from .mutation import Survey, mutations
from .test_mutation import CHOSEN, WANTED
from .test_mutation import programs as curriculum

programs = Programs()


def x_and_w(grad=True):
    return t(2, 3, 4), t(4, 4, grad=grad), t(4, grad=grad)


def frozen():
    return x_and_w(False)


def wanting():
    return t(2, 3, 4).requires_grad_(), t(4, 4, grad=True), t(4, grad=True)


def depends(**claims):
    """The result differs, or may, if `w` requires grad or not: it is compiled anew."""
    return programs(x_and_w, under=torch.no_grad, changes={"frozen": frozen}, **claims)


def blind(**claims):
    """Nothing depends on it: one compilation serves both."""
    keeps = {"frozen": frozen, "an input that requires grad": wanting}
    return programs(x_and_w, under=torch.no_grad, keeps=keeps, **claims)


@blind()
def into_linear(x, w, b):
    return F.linear(x, w, b)


@blind()
def into_arithmetic(x, w, b):
    return (x * b + b - x) / 2, torch.add(x, b), x.mul(b)


@blind()
def into_layer_norm(x, w, b):
    return F.layer_norm(x, (4,), b, b)


@blind()
def shape_is_asked(x, w, b):
    return F.linear(x, w, b) * w.shape[0] + w.dim() + w.size(0) + w.numel() + w.stride(0)


@blind()
def never_used(x, w, b):
    return x + 1


@depends()
def asked(x, w, b):
    return F.linear(x, w, b) * (2 if w.requires_grad else 3)


@depends()
def asked_for_leaf(x, w, b):
    return F.linear(x, w, b), w.is_leaf, w.grad_fn is None


@depends()
def asked_by_getattr(x, w, b):
    return F.linear(x, w, b) * getattr(w, "requires_" + "grad")


@depends()
def asked_of_a_sum(x, w, b):
    return F.linear(x, w, b), sum(each.requires_grad for each in (x, w, b))


@depends()
def returned(x, w, b):
    return F.linear(x, w, b), w


@depends()
def view_is_returned(x, w, b):
    return F.linear(x, w, b), w.t(), w[0]


@depends()
def multiplied(x, w, b):
    return x @ w, torch.matmul(x, w)


@depends()
def with_grad_inside(x, w, b):
    y = x * b
    with torch.enable_grad():
        return y, x * b


@depends()
def switched_on_for_good(x, w, b):
    torch._C._set_grad_enabled(True)
    return x * b


@depends()
def changed_in_place(x, w, b):
    y = F.linear(x, w, b)
    w.mul_(2)
    return y


@depends(free=True)
def made_a_parameter(x, w, b):
    return F.linear(x, w, b), nn.Parameter(torch.ones(2), requires_grad=w.requires_grad)


@depends()
def shown(x, w, b):
    return F.linear(x, w, b), f"{w}", repr(b)


@depends()
def switched(x, w, b):
    y = F.linear(x, w, b)
    w.requires_grad_(not w.requires_grad)
    return y


@depends()
def set_to_true(x, w, b):
    w.requires_grad = True
    return F.linear(x, w, b)


@depends(free=True)
def copied(x, w, b):
    return F.linear(x, w, b), copy.copy(w), copy.deepcopy(b)


class Asking(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b):
        return F.linear(x, w, b) * sum(ctx.needs_input_grad)

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None


@depends()
def function_asks(x, w, b):
    return Asking.apply(x, w, b)


@depends()
def autocast_inside(x, w, b):
    with torch.autocast("cpu", torch.bfloat16):
        return F.linear(x, w, b)


@programs(
    lambda: (module(nn.Linear, 4, 4), t(2, 4)),
    changes={
        "without": Change(under=torch.no_grad),
        "inference": Change(under=torch.inference_mode),
    },
)
def grad_mode_is_on(m, x):
    return m(x)


@pytest.mark.parametrize("program", programs, ids=str)
def test_programs(program) -> None:
    check(program)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 4)
        self.conv = nn.Conv1d(4, 4, 1)
        self.norm = nn.LayerNorm(4)
        self.head = nn.Linear(4, 3)

    def forward(self, ids):
        x = self.embedding(ids)
        x = x + self.conv(x.transpose(1, 2)).transpose(1, 2)
        return self.head(self.norm(x))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_model_is_frozen_and_thawed_without_compiling(mode, backend) -> None:
    model, ids = Model(), torch.tensor([[1, 2, 3]])
    compiled = stator.compile(model, backend=backend, fullgraph=True)
    with mode():
        expected = model(ids)
        assert torch.equal(compiled(ids), expected)
        model.requires_grad_(False)
        assert torch.equal(compiled(ids), expected)
        model.head.requires_grad_(True)
        assert torch.equal(compiled(ids), expected)
    assert stator.testing.function_of(compiled).statistics()["misses"] == 1


def test_with_grad_it_is_compiled_again() -> None:
    model, ids = Model(), torch.tensor([[1, 2, 3]])
    compiled = stator.compile(model, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        assert not compiled(ids).requires_grad
    compiled(ids).sum().backward()
    assert model.head.weight.grad is not None
    model.requires_grad_(False)
    assert not compiled(ids).requires_grad
    model.requires_grad_(True)
    with torch.no_grad():
        assert not compiled(ids).requires_grad
    assert stator.testing.function_of(compiled).statistics()["misses"] == 3


def test_an_array_is_made_of_what_requires_no_grad() -> None:
    def fn(x, w, b):
        y = F.linear(x, w, b)
        try:
            return y, w.numpy().max()
        except RuntimeError:
            return y, None

    compiled = stator.compile(fn, backend="eager")
    with torch.no_grad():
        for make in (frozen, x_and_w, frozen):
            given = make()
            assert compiled(*given)[1] == fn(*given)[1]


# -- every program of the curriculum, under no_grad --

KINDS = ("other requires_grad", "frozen")
# Its result is a view of which torch refuses to tell anything afterwards.
UNTOLD = "inplace_on_a_view"


def cases():
    found = curriculum()
    if WANTED != "all":
        some = {program.name for program, _ in CHOSEN}
        found = [program for program in found if program.name in some][:60]
    for program in found:
        if program.name == UNTOLD:
            continue
        tried = [each for each in mutations(program) if each.name in KINDS]
        if tried:
            yield pytest.param(program, tried, id=f"{program.name}-{len(tried)}")


@pytest.mark.parametrize("program, tried", list(cases()))
def test_curriculum_without_grad(program, tried) -> None:
    def under():
        stack = contextlib.ExitStack()
        stack.enter_context(program.under())
        stack.enter_context(torch.no_grad())
        return stack

    unseen = Survey(dataclasses.replace(program, under=under)).unseen(tried)
    assert not unseen, "\n".join(unseen[:5])
