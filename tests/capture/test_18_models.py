# mypy: ignore-errors
"""Small models of the usual kinds, written as people write them."""

import math
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from . import harness
from .harness import Program, Programs, check, ints, module, t

programs = Programs()


def run(m, *args):
    return m(*args)


@dataclass
class Config:
    width: int = 8
    heads: int = 2
    layers: int = 2
    vocabulary: int = 11
    dropout: float = 0.1


class Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.register_buffer("mask", torch.ones(16, 16, dtype=torch.bool).tril(), persistent=False)

    def forward(self, x):
        b, s, d = x.shape
        q, k, v = (
            y.view(b, s, self.heads, -1).transpose(1, 2) for y in self.qkv(x).split(d, dim=2)
        )
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
        scores = scores.masked_fill(~self.mask[:s, :s], float("-inf"))
        return self.out((F.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(b, s, d))


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(config.width) for _ in range(2))
        self.attention = Attention(config)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 16),
            nn.GELU(),
            nn.Linear(16, config.width),
            nn.Dropout(config.dropout),
        )

    def forward(self, x):
        x = x + self.attention(self.norms[0](x))
        return x + self.mlp(self.norms[1](x))


class Transformer(nn.Module):
    def __init__(self, config=None):
        super().__init__()
        self.config = config = config or Config()
        self.embed = nn.Embedding(config.vocabulary, config.width)
        self.positions = nn.Parameter(torch.zeros(16, config.width))
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens, targets=None):
        x = self.embed(tokens) + self.positions[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(x)
        loss = None if targets is None else F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        return {"logits": logits, "loss": loss}


programs.add(
    "transformer",
    run,
    lambda: (module(Transformer), ints(2, 5), ints(2, 5)),
    changes={
        "mode": lambda: (module(Transformer).eval(), ints(2, 5), ints(2, 5)),
        "no targets": lambda: (module(Transformer), ints(2, 5)),
        "length": lambda: (module(Transformer), ints(2, 7), ints(2, 7)),
    },
)


class Residual(nn.Module):
    def __init__(self, channels, stride=1):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, stride, 1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.down = nn.Conv2d(channels, channels, 1, stride) if stride != 1 else None

    def forward(self, x):
        identity = x if self.down is None else self.down(x)
        return F.relu(self.norm(self.conv(x)) + identity, inplace=True)


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.stages = nn.Sequential(Residual(4), Residual(4, 2))
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        x = self.stages(F.relu(self.stem(x)))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


programs.add(
    "convolutional_network",
    run,
    lambda: (module(ConvNet), t(2, 3, 8, 8)),
    changes={"mode": lambda: (module(ConvNet).eval(), t(2, 3, 8, 8))},
)


class HandmadeRNN(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.width = width
        self.input = nn.Linear(3, width)
        self.hidden = nn.Linear(width, width)

    def forward(self, x, state=None):
        state = x.new_zeros(x.size(1), self.width) if state is None else state
        outputs = []
        for step in x:
            state = torch.tanh(self.input(step) + self.hidden(state))
            outputs.append(state)
        return torch.stack(outputs), state


programs.add("handmade_rnn", run, lambda: (module(HandmadeRNN), t(5, 2, 3)))


@programs(lambda: (module(nn.GRUCell, 3, 4), t(5, 2, 3), t(2, 4)))
def gru_cell_in_a_loop(cell, x, h):
    out = []
    for i in range(x.size(0)):
        h = cell(x[i], h)
        out.append(h)
    return torch.stack(out)


@programs(lambda: (module(nn.LSTMCell, 3, 4), t(4, 2, 3)))
def lstm_cell_in_a_loop(cell, x):
    state = None
    for step in x.unbind(0):
        state = cell(step, state)
    return state


class Experts(nn.Module):
    def __init__(self, count=3, chosen=2):
        super().__init__()
        self.gate = nn.Linear(4, count)
        self.experts = nn.ModuleList(nn.Linear(4, 4) for _ in range(count))
        self.chosen = chosen

    def forward(self, x):
        weights, index = self.gate(x).softmax(-1).topk(self.chosen, dim=-1)
        dense = torch.zeros(x.size(0), len(self.experts)).scatter(1, index, weights)
        return sum(dense[:, i : i + 1] * expert(x) for i, expert in enumerate(self.experts))


programs.add("mixture_of_experts", run, lambda: (module(Experts), t(6, 4)))


class UNet(nn.Module):
    def __init__(self, widths=(2, 4, 8)):
        super().__init__()
        self.down = nn.ModuleList(
            nn.Conv2d(a, b, 3, padding=1) for a, b in zip((1, *widths), widths)
        )
        self.up = nn.ModuleList(
            nn.Conv2d(a + b, b, 3, padding=1) for a, b in zip(widths[::-1], widths[-2::-1])
        )
        self.out = nn.Conv2d(widths[0], 1, 1)

    def forward(self, x):
        skips = []
        for i, conv in enumerate(self.down):
            x = F.relu(conv(x))
            if i < len(self.down) - 1:
                skips.append(x)
                x = F.max_pool2d(x, 2)
        for conv in self.up:
            x = F.interpolate(x, scale_factor=2.0)
            x = F.relu(conv(torch.cat([x, skips.pop()], dim=1)))
        return self.out(x)


programs.add("u_net", run, lambda: (module(UNet), t(1, 1, 8, 8)))


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 4))
        self.decoder = nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 6))

    def forward(self, x):
        mean, log_var = self.encoder(x).chunk(2, dim=-1)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        kl = -0.5 * (1 + log_var - mean.pow(2) - log_var.exp()).sum()
        return self.decoder(z), kl


programs.add("variational_autoencoder", run, lambda: (module(AutoEncoder), t(3, 6)))


class Cache:
    def __init__(self):
        self.keys, self.values = [], []

    def update(self, k, v, layer):
        if len(self.keys) <= layer:
            self.keys.append(k)
            self.values.append(v)
        else:
            self.keys[layer] = torch.cat([self.keys[layer], k], dim=1)
            self.values[layer] = torch.cat([self.values[layer], v], dim=1)
        return self.keys[layer], self.values[layer]


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 12) for _ in range(2))

    def forward(self, x, cache):
        for i, layer in enumerate(self.layers):
            q, k, v = layer(x).chunk(3, -1)
            k, v = cache.update(k, v, i)
            x = x + F.scaled_dot_product_attention(q, k, v)
        return x


def filled():
    cache = Cache()
    for i in range(2):
        cache.update(t(1, 3, 4), t(1, 3, 4), i)
    return cache


programs.add(
    "decoder_with_a_cache",
    run,
    lambda: (module(Decoder), t(1, 1, 4), filled()),
    changes={"empty cache": lambda: (module(Decoder), t(1, 3, 4), Cache())},
)


def rotary(x, base=100.0):
    d = x.shape[-1]
    angle = torch.arange(x.shape[-2])[:, None] / base ** (torch.arange(0, d, 2) / d)
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack(
        (a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()), -1
    ).flatten(-2)


programs.add("rotary_embedding", rotary, lambda: (t(2, 5, 4),))


@programs(
    lambda: (module(nn.Linear, 4, 4), t(3, 4), 3),
    changes={"steps": lambda: (module(nn.Linear, 4, 4), t(3, 4), 2)},
)
def diffusion_steps(m, x, steps):
    for step in reversed(range(steps)):
        beta = 0.1 * (step + 1) / steps
        x = (x - beta * m(x)) / math.sqrt(1 - beta)
        if step > 0:
            x = x + math.sqrt(beta) * torch.randn_like(x)
    return x


@programs(lambda: (t(4, 3), t(4, 3)))
def contrastive_loss(a, b):
    a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
    logits = a @ b.t() / 0.07
    labels = torch.arange(a.size(0))
    return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels)) / 2


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["transformer", "convolutional_network", "u_net"])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_real_backends(name: str, backend: str) -> None:
    """The same models through AOTAutograd and Inductor: equal up to rounding, gradients too."""
    (program,) = (p for p in programs if p.name == name)
    results = []
    harness.reset_engine()
    for fn in (run, harness.compile_with(run, backend=backend, fullgraph=True)):
        m, *args = program.given(1).args
        m.eval()
        out = fn(m, *args)
        tensors = [v for v in out.values()] if isinstance(out, dict) else [out]
        sum(v.sum() for v in tensors).backward()
        results.append([*tensors, *(p.grad for p in m.parameters())])
    torch.testing.assert_close(results[1], results[0])
