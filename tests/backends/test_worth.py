# mypy: ignore-errors
"""Which graphs Inductor gets, and which run by their own operators: as eager does, to the bit."""

from importlib import import_module

import pytest
import torch
from torch import nn
from torch.ao import quantization
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import stator
from stator.backends.worth import NOTHING, own_operators
from stator.capture import capture
from stator.cli.summary import Summary
from tests import stand_in


@pytest.fixture(autouse=True)
def fresh():
    stator.reset()


@pytest.fixture
def given(monkeypatch):
    return stand_in.install(monkeypatch)


class Words(nn.Module):
    """A word language model."""

    def __init__(self, kind=nn.LSTM, words=20, size=8):
        super().__init__()
        self.embed, self.drop = nn.Embedding(words, size), nn.Dropout(0.2)
        self.rnn = kind(size, size, 2, dropout=0.2)
        self.out = nn.Linear(size, words)

    def forward(self, words):
        made, state = self.rnn(self.drop(self.embed(words)))
        return functional.log_softmax(self.out(self.drop(made)), -1), state


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(20, 8), nn.LSTM(8, 8, bidirectional=True)
        self.out = nn.Linear(16, 3)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(self.embed(words), lengths, enforce_sorted=False)
        return self.out(pad_packed_sequence(self.rnn(packed)[0])[0])


class Quantized(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.relu = nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU()

    def forward(self, x):
        return self.relu(self.norm(self.conv(x)))


def quantized():
    model = Quantized().train()
    model.qconfig = quantization.QConfig(
        activation=quantization.default_fused_act_fake_quant,
        weight=quantization.default_fused_per_channel_wt_fake_quant,
    )
    quantization.fuse_modules_qat(model, [["conv", "norm", "relu"]], inplace=True)
    return quantization.prepare_qat(model)


class Looked(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(20, 8), nn.Linear(8, 3)

    def forward(self, words):
        return self.out(self.embed(words)).transpose(0, 1)


def words(*sizes):
    return torch.randint(0, 20, sizes)


def sentences(length):
    return words(length, 3), torch.tensor([length, 2, length - 1])


PROGRAMS = {
    "lstm": (Words, lambda call: (words(9 + call % 3, 4),)),
    "gru": (lambda: Words(nn.GRU), lambda call: (words(9, 4 + call % 2),)),
    "in evaluation": (lambda: Words().eval(), lambda call: (words(9, 4),)),
    "packed": (Tagger, lambda call: sentences(5 + call)),
    "looked up": (Looked, lambda call: (words(5 + call, 2),)),
    "quantized": (quantized, lambda call: (torch.randn(2, 2, 6, 6),)),
}


def trained(model, call, make):
    """Results, gradients and buffers of some calls, and the next random number."""
    found = []
    for number in range(5):
        torch.manual_seed(number)
        model.zero_grad()
        made = call(*make(number))
        first = made[0] if isinstance(made, tuple) else made
        first.square().sum().backward()
        found += [first.detach().clone(), torch.rand(1)]
        found += [each.grad.clone() for each in model.parameters()]
        found += [each.clone() for each in model.buffers()]
    return found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PROGRAMS)
def test_own_operators_are_eager_to_the_bit(name, given):
    build, make = PROGRAMS[name]
    results = []
    for compiles in (False, True):
        torch.manual_seed(0)
        model = build()
        results.append(trained(model, stator.compile(model) if compiles else model, make))
    counts = stator.counters()
    assert given == []
    assert counts["torch_kernels"] == counts["unique_graphs"] > 0
    assert counts["eager"] <= (name == "quantized")  # its first call gives buffers their size
    assert len(results[0]) == len(results[1])
    assert all(map(torch.equal, *results))


@pytest.mark.filterwarnings("ignore")
def test_inductor_is_given_what_the_setting_says(given):
    model, x = Words(), words(9, 4)
    with stator.config.patch(torch_kernels=False):
        stator.compile(model)(x)
    assert list(map(len, given)) == [11]
    stator.reset()
    stator.compile(model, mode="max-autotune-no-cudagraphs")(x)
    stator.compile(model, options={"max_autotune": False})(x)
    assert list(map(len, given)) == [11] * 3
    stator.compile(model)(x)
    assert list(map(len, given)) == [11] * 3


def test_settings_of_inductor_that_ask_for_more(given):
    config = import_module("torch._inductor.config")
    model, x = Looked(), words(9, 4)
    with config.patch(freezing=True):
        stator.compile(model)(x)
    assert len(given) == 1


def pointwise(x):
    return torch.relu(x + 1) * 2


def one(x):
    return torch.relu(x)


def decoder(cell, query, x, state):
    for _ in range(4):
        x, state = cell(torch.tanh(query(x)) * x + 1, state)
    return x


def around(rnn, x):
    """Much more than the layer."""
    for _ in range(40):
        x = torch.tanh(x * 2 + 1)
    return rnn(x)[0]


def twice(x, first, second):
    return x.index_select(0, first).index_select(0, second)


def checkpointed(rnn, x):
    return torch.utils.checkpoint.checkpoint(lambda x: rnn(x)[0], x, use_reentrant=False)


GRU, LINEAR, X = nn.GRU(8, 8), nn.Linear(8, 8), torch.randn(1, 3, 8)
MANY = torch.arange(400)
COMPILED = {
    "pointwise": (pointwise, (X,)),
    "one operator": (one, (X,)),
    "few steps": (decoder, (GRU, LINEAR, X, torch.zeros(1, 3, 8))),
    "much around a layer": (around, (GRU, torch.randn(5, 3, 8))),
    "two lookups in much data": (twice, (torch.randn(400, 400), MANY, MANY)),
    "regions": (checkpointed, (GRU, torch.randn(9, 3, 8))),
}


@pytest.mark.parametrize("name", COMPILED)
def test_inductor_gets_what_it_may_make_faster(name):
    function, args = COMPILED[name]
    trace = capture(function, args)
    assert trace.broken is None
    assert own_operators(trace.recorded.module) is None


def test_two_lookups_in_little_data():
    assert own_operators(capture(twice, (X, MANY[:1], MANY[:1])).recorded.module) == NOTHING


def test_under_autocast():
    with torch.autocast("cpu", torch.bfloat16):
        assert own_operators(capture(lambda x: LINEAR(x), (X,)).recorded.module) is None
    assert own_operators(capture(lambda x: LINEAR(x), (X,)).recorded.module) == NOTHING


def test_where_it_is_told(given):
    told = stator.explain(Looked(), backend="inductor")(words(9, 4))
    (part,) = told.parts
    assert part.own == NOTHING and part.code is not None and part.eager is None
    assert f"runs by torch's own kernels: {NOTHING}" in str(told)
    found = Summary.of(told.events)
    assert (found.graphs, found.own) == (1, 1)
    assert dict(found.rows())["not generated"].startswith("1 graph")
