# mypy: ignore-errors
"""Small models on batches and lengths that change: one graph, or a static one before it.

The models of the zoo are measured so by `benchmarks.dynamic`.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import stator
from tests.versions import fake_encoder

from .harness import Counting

SHAPES = ((2, 16), (3, 12), (4, 20), (6, 9), (5, 24), (2, 11))


class Encoder(nn.Module):
    """Attention with a mask that is made of the lengths, on words."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(32, 16)
        self.positions = nn.Embedding(64, 16)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(16, 2, 32, batch_first=True) for _ in range(2)
        )
        self.head = nn.Linear(16, 32)

    def forward(self, words, lengths):
        batch, length = words.shape
        places = torch.arange(length)
        x = self.embedding(words) + self.positions(places)
        padding = places[None] >= lengths[:, None]
        for layer in self.layers:
            x = layer(x, src_key_padding_mask=padding)
        logits = self.head(x).view(batch * length, -1)
        return F.cross_entropy(logits, words.reshape(-1)), x.masked_fill(padding[..., None], 0)


class Pyramid(nn.Module):
    """Convolutions that halve the sides of a picture, and an enlargement to where it was."""

    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList(nn.Conv2d(3 << i, 6 << i, 3, 2, 1) for i in range(3))
        self.norm = nn.GroupNorm(2, 24)
        self.up = nn.Conv2d(24, 3, 1)

    def forward(self, x):
        sides = x.shape[-2:]
        for layer in self.down:
            x = F.gelu(layer(x))
        pooled = F.adaptive_avg_pool2d(x, 2).flatten(1)
        return F.interpolate(self.up(self.norm(x)), size=sides, mode="nearest"), pooled


class Windows(nn.Module):
    """Attention in windows, for which the length is filled up to a multiple of eight."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(12, 36)

    def forward(self, x):
        batch, length, width = x.shape
        padded = F.pad(x, (0, 0, 0, -length % 8))
        q, k, v = self.project(padded).reshape(batch, -1, 8, 3, width).unbind(3)
        mixed = F.scaled_dot_product_attention(q, k, v)
        return mixed.reshape(batch, -1, width)[:, :length]


def words(batch, length):
    return torch.arange(batch * length).reshape(batch, length) % 32, torch.arange(batch) + 4


def picture(batch, length):
    return (torch.randn(batch, 3, 3 * length, 2 * length + 1),)


def sequence(batch, length):
    return (torch.randn(batch, length, 12),)


MODELS = {
    "encoder": (Encoder, words, "eager"),
    "pyramid": (Pyramid, picture, "aot_eager"),
    "windows": (Windows, sequence, "eager"),
    "lstm": (lambda: nn.LSTM(12, 8, 2, batch_first=True), sequence, "eager"),
}


@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=fake_encoder if name == "encoder" else ()) for name in MODELS],
)
def test_shapes_that_change(name, dynamic):
    torch.manual_seed(0)
    make, inputs, backend = MODELS[name]
    model = make().eval()
    counting = Counting(backend)
    compiled = stator.compile(model, backend=counting, fullgraph=True, dynamic=dynamic)
    for shape in SHAPES:
        given = inputs(*shape)
        with torch.no_grad():
            torch.testing.assert_close(compiled(*given), model(*given))
    assert len(counting.graphs) == (1 if dynamic else 2)


def test_in_training():
    torch.manual_seed(0)
    model = Encoder().eval()  # without dropout
    counting = Counting("aot_eager")
    compiled = stator.compile(model, backend=counting, fullgraph=True, dynamic=True)

    def gradients(run, shape):
        model.zero_grad()
        loss, _ = run(*words(*shape))
        loss.backward()
        return [each.grad.clone() for each in model.parameters()]

    for shape in SHAPES[:3]:
        torch.testing.assert_close(gradients(compiled, shape), gradients(model, shape))
    assert len(counting.graphs) == 1
