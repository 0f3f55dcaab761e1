# mypy: ignore-errors
"""`regions="auto"`: repeated modules are regions by themselves."""

import pytest
import torch
from torch import nn

import stator

from .test_nested import LEAF, Stack, X, check


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4)

    def forward(self, x):
        return x + torch.relu(self.a(self.norm(x)))


class Noting(Block):
    def forward(self, x):
        self.last = x.shape[0]
        return super().forward(x)


class Normed(Block):
    def __init__(self):
        super().__init__()
        self.stats = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.stats(super().forward(x))


def test_layers_of_a_list():
    check(lambda: Stack(block=Block), LEAF, bodies=[[4]], regions="auto")
    check(lambda: Stack(block=Block), LEAF, bodies=[[]])


def test_inductor():
    check(lambda: Stack(block=Block), LEAF, bodies=[[4]], backends=["inductor"], regions="auto")


def test_sequential():
    check(
        lambda: nn.Sequential(Block(), Block(), nn.Linear(4, 2), nn.Sigmoid()),
        LEAF,
        bodies=[[2]],
        regions="auto",
    )
    check(
        lambda: nn.Sequential(nn.Identity(), Block(), Block(), Block(), nn.Linear(4, 2)),
        LEAF,
        bodies=[[3]],
        regions="auto",
    )


@pytest.mark.parametrize("block", [Noting, Normed])
def test_what_is_not_pure_is_inlined(block):
    check(lambda: Stack(block=block), LEAF, bodies=[[]], regions="auto", fullgraph=True)
    model, other = Stack(block=block), Stack(block=block)
    stator.compile(model, backend="eager", regions="auto")(X)
    other(X)
    torch.testing.assert_close(dict(model.named_buffers()), dict(other.named_buffers()))


def test_an_unknown_word():
    with pytest.raises(ValueError, match="regions must be"):
        stator.compile(Stack(), regions="always")
