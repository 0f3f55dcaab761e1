# mypy: ignore-errors
"""Graphs that Inductor compiles when they have run for a while.

Loops around a recurrent layer, and what looks at values.
"""

import re
import threading
from importlib import import_module

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

import stator
from stator.backends import patience as waiting
from stator.backends.patience import Patience, patience
from stator.capture import capture
from stator.cli.summary import Summary
from stator.diagnostics import journal
from tests import stand_in

STEPS = 5


@pytest.fixture(autouse=True)
def fresh():
    stator.reset()


@pytest.fixture
def given(monkeypatch):
    return stand_in.install(monkeypatch)


@pytest.fixture
def soon(monkeypatch):
    """After three calls."""
    monkeypatch.setattr(
        "stator.driver.backend.patience", lambda module: patience(module) and Patience(3, "so")
    )


class Decoder(nn.Module):
    """Writes word by word, each after the last one."""

    def __init__(self, kind=nn.GRU, words=20, size=8, dropout=0.0):
        super().__init__()
        self.embed, self.out = nn.Embedding(words, size), nn.Linear(size, words)
        self.query, self.key = nn.Linear(size, size), nn.Linear(size, size)
        self.value, self.drop = nn.Linear(size, 1), nn.Dropout(dropout)
        self.rnn = kind(2 * size, size, batch_first=True)

    def forward(self, read, steps=STEPS):
        word, state, written = torch.zeros(read.size(0), 1, dtype=torch.long), None, []
        context = read[:, :1]
        for _ in range(steps):
            made, state = self.rnn(torch.cat((self.drop(self.embed(word)), context), 2), state)
            scores = self.value(torch.tanh(self.query(made) + self.key(read))).squeeze(2)
            context = torch.bmm(functional.softmax(scores, -1).unsqueeze(1), read)
            made = self.out(made)
            word = made.argmax(-1)
            written.append(made)
        return functional.log_softmax(torch.cat(written, 1), -1)


def read(batch=2, length=4, size=8):
    return torch.randn(batch, length, size)


# ------------------------------------------------------------------ which graphs


def called(function, args):
    return function(*args)


def graph(function, *args):
    trace = capture(called, (function, args))
    assert trace.broken is None
    return trace.recorded.module


@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM, nn.RNN])
def test_a_loop_around_a_recurrent_layer(kind):
    found = patience(graph(Decoder(kind), read()))
    assert 1000 <= found.calls <= 100_000
    assert re.search(r"for about \d+ s, as long as it takes to run it \d+ times", found.why)


def test_the_number_of_calls_depends_on_the_sizes_and_nothing_else():
    small, again, large = (
        patience(graph(Decoder(size=size), read(4, 4, size))) for size in (8, 8, 256)
    )
    assert small == again
    assert large.calls < small.calls


def test_what_takes_long_itself_is_compiled_at_once(monkeypatch):
    model, x = Decoder(size=64), read(512, 256, 64)
    with torch.no_grad():
        found = patience(graph(model, x))
        monkeypatch.setattr(waiting, "_FEWEST", 2 * found.calls)
        assert patience(graph(model, x)) is None


def few_steps(rnn, x):
    for _ in range(2):
        x = torch.tanh(rnn(x)[0]) + 1
    return x


def layers(first, second, third, x):
    """Each with weights of its own."""
    for _ in range(20):
        x = torch.tanh(x * 2 + 1)
    return third(second(first(x)[0])[0])[0]


def cells(cell, x, state):
    for _ in range(40):
        state = cell(torch.tanh(x) * 2, state)
    return state


def shared(linear, x):
    for _ in range(60):
        x = torch.relu(linear(x) + 1)
    return x


GRUS = [nn.GRU(8, 8) for _ in range(3)]
X = torch.randn(1, 3, 8)
AT_ONCE = {
    "few steps": (few_steps, (GRUS[0], X)),
    "layers": (layers, (*GRUS, X)),
    "cells": (cells, (nn.GRUCell(8, 8), X[0], X[0])),
    "a layer that is no recurrent one": (shared, (nn.Linear(8, 8), X)),
}


@pytest.mark.parametrize("name", AT_ONCE)
def test_other_graphs_are_compiled_at_once(name):
    function, args = AT_ONCE[name]
    assert patience(graph(function, *args)) is None


def test_under_autocast():
    with torch.autocast("cpu", torch.bfloat16):
        assert patience(graph(Decoder(), read())) is None


class Experts(nn.Module):
    """Each for those rows that are sent to it: sizes depend on values."""

    def __init__(self, count=4, size=8):
        super().__init__()
        self.gate = nn.Linear(size, count)
        self.experts = nn.ModuleList(nn.Linear(size, size) for _ in range(count))

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            row, place = torch.where(chosen == number)
            made = torch.relu(expert(x[row])) * weights[row, place, None]
            result = result.index_add(0, row, made)
        return result


def test_sizes_that_depend_on_values():
    assert patience(graph(Experts(8), read(1, 6)[0])).calls > 1000
    with torch.no_grad():
        assert patience(graph(Experts(2), read(1, 6)[0])) is None  # a few seconds


# ------------------------------------------------------------------ when they are compiled


@pytest.mark.usefixtures("soon")
def test_sizes_that_depend_on_values_are_compiled_after_so_many_calls(monkeypatch):
    monkeypatch.setattr(waiting, "_LONG", 1.0)
    model = Experts(2)
    compiled = stator.compile(model, fullgraph=True)
    for number in range(6):
        x = torch.randn(5 + (number == 5), 8)
        found = []
        for call in (model, compiled):
            model.zero_grad()
            made = call(x)
            made.square().sum().backward()
            found.append([made.detach(), *(each.grad for each in model.parameters())])
        torch.testing.assert_close(*found)
        if number in (2, 4):
            assert stator.counters()["torch_kernels"] == (number == 2)


def trained(model, call, count):
    found = []
    for number in range(count):
        torch.manual_seed(number)
        model.zero_grad()
        made = call(read())
        made.square().sum().backward()
        found += [made.detach().clone(), torch.rand(1)]
        found += [each.grad.clone() for each in model.parameters()]
    return found


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("dynamic", [None, True])
def test_it_is_compiled_after_so_many_calls(given, dynamic):
    model = Decoder(dropout=0.3)
    expected = trained(model, model, 6)
    compiled = stator.compile(model, dynamic=dynamic, fullgraph=True)
    found = trained(model, compiled, 3)
    assert given == [] and stator.counters()["torch_kernels"] == 1
    found = trained(model, compiled, 6)
    (operators,) = given
    assert sum(name.startswith("gru") for name in operators) == STEPS
    counts = stator.counters()
    assert counts["torch_kernels"] == 0 and counts["unique_graphs"] == 1
    assert counts["captured"] == counts["calls"] == 9 and counts["recompiles"] == 0
    assert all(map(torch.equal, expected, found))


@pytest.mark.usefixtures("soon")
def test_settings_by_which_it_is_compiled_at_once(given):
    model, x = Decoder(), read()
    with stator.config.patch(torch_kernels=False):
        stator.compile(model)(x)
    assert len(given) == 1
    stator.reset()
    stator.compile(model, mode="max-autotune-no-cudagraphs")(x)
    stator.compile(model, mode="reduce-overhead")(x)
    stator.compile(model, options={"max_autotune": False})(x)
    assert len(given) == 4
    stator.reset()
    with import_module("torch._inductor.config").patch(max_autotune=True):
        stator.compile(model)(x)
    assert len(given) == 5


@pytest.mark.usefixtures("soon")
def test_other_backends_don_t_wait():
    given = []

    def backend(module, inputs):
        given.append(module)
        return module.forward

    stator.compile(Decoder(), backend=backend)(read())
    assert len(given) == 1


@pytest.mark.usefixtures("soon")
def test_another_size_meanwhile(given):
    model = Decoder()
    compiled = stator.compile(model)
    for count in (2, 3, 2, 5, 4, 2, 3, 7):
        x = read(count)
        assert torch.equal(compiled(x), model(x))
    # The graph for 2 rows has run three times; the one for any number of rows twice more.
    assert len(given) == 1
    assert stator.counters()["unique_graphs"] == 2 and stator.counters()["torch_kernels"] == 1


@pytest.mark.usefixtures("soon")
def test_what_inductor_takes_for_granted_of_open_sizes_is_not_guarded(monkeypatch):
    def compile_fx(module, inputs, **settings):
        sizes = [each for each in inputs if isinstance(each, torch.SymInt)]
        sizes += [n for each in inputs if isinstance(each, torch.Tensor) for n in each.shape]
        open_ones = [each for each in sizes if isinstance(each, torch.SymInt)]
        assert open_ones[0] < 4  # a guard
        return lambda *args: 1 / 0

    monkeypatch.setattr("stator.torchlib.inductor.compile_fx", lambda: compile_fx)
    model = Decoder()
    compiled = stator.compile(model, dynamic=True)
    for count in (3, 3, 3, 3, 3, 7):
        x = read(count)
        assert torch.equal(compiled(x), model(x))
    assert stator.counters()["torch_kernels"] == stator.counters()["unique_graphs"] == 1


@pytest.mark.usefixtures("soon")
def test_a_failure_of_inductor(monkeypatch):
    def compile_fx(module, inputs, **settings):
        module.graph.nodes.__iter__().__next__().name = "changed"
        raise ValueError("no luck")

    monkeypatch.setattr("stator.torchlib.inductor.compile_fx", lambda: compile_fx)
    model, x = Decoder(), read()
    compiled = stator.compile(model)
    for _ in range(3):
        compiled(x)
    with pytest.warns(UserWarning, match=r"no luck[\s\S]*runs by torch's own kernels"):
        assert torch.equal(compiled(x), model(x))
    assert torch.equal(compiled(x), model(x))  # and it is not tried again
    assert stator.counters()["torch_kernels"] == 1 and stator.counters()["eager"] == 0


@pytest.mark.filterwarnings("ignore:.*a mode of torch is active")
@pytest.mark.usefixtures("soon")
def test_nothing_is_compiled_where_operators_are_watched(given):
    model, x = Decoder(), read()
    compiled = stator.compile(model)
    for _ in range(3):
        compiled(x)
    with FlopCounterMode(display=False):
        compiled(x)
    with stator.set_stance("fail_on_recompile"):
        compiled(x)
    assert given == []
    compiled(x)
    assert len(given) == 1


@pytest.mark.usefixtures("soon")
def test_one_thread_compiles(given):
    model, x = Decoder(), read()
    compiled = stator.compile(model)
    expected = compiled(x)
    barrier, wrong = threading.Barrier(4), []

    def run():
        barrier.wait()
        for _ in range(4):
            if not torch.equal(compiled(x), expected):
                wrong.append(1)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(given) == 1 and not wrong


@pytest.mark.usefixtures("soon")
def test_random_numbers_and_modes_are_the_program_s(given):
    model, x = Decoder(), read()
    compiled = stator.compile(model)
    with torch.no_grad():
        for _ in range(3):
            compiled(x)
        torch.manual_seed(0)
        compiled(x)
        assert len(given) == 1 and not torch.is_grad_enabled()
        assert torch.initial_seed() == 0
        drawn = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(drawn, torch.rand(1))


# ------------------------------------------------------------------ what is told


def test_where_it_is_told(given):
    told = stator.explain(Decoder(), backend="inductor")(read())
    (part,) = told.parts
    assert part.own.startswith("Inductor would compile it for about")
    assert f"runs by torch's own kernels: {part.own}" in str(told)
    assert given == []


@pytest.mark.usefixtures("soon")
def test_the_summary_of_a_run(given):
    events = []
    model, x = Decoder(), read()
    compiled = stator.compile(model)
    stop = journal.listen(events.append)
    for _ in range(3):
        compiled(x)
    assert dict(Summary.of(events).rows())["not generated"] == "1 graph: Inductor would not pay"
    compiled(x)
    stop()
    assert [each["kind"] for each in events][-1] == "generated"
    assert "not generated" not in dict(Summary.of(events).rows())
    assert len(given) == 1
