# mypy: ignore-errors
"""Packed sequences: one graph from padded data to padded data, whatever the lengths are."""

import itertools

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import (
    PackedSequence,
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
)

import stator
from stator.graph.fakes.packed import PACK, PAD

LENGTHS = ([9, 4, 2], [7, 7, 3], [5, 1, 1], [9, 9, 9, 2], [4, 3, 2], [6, 6, 6])


@pytest.fixture(autouse=True)
def fresh():
    stator.reset()


class Tagger(nn.Module):
    def __init__(self, kind=nn.LSTM, *, batch_first=True, in_order=False, total=None, **more):
        super().__init__()
        self.embed = nn.Embedding(30, 6, padding_idx=0)
        self.rnn = kind(6, 5, batch_first=batch_first, **more)
        self.head = nn.Linear(5 * (1 + self.rnn.bidirectional), 3)
        self.batch_first, self.in_order, self.total = batch_first, in_order, total

    def forward(self, words, lengths):
        first = self.batch_first
        packed = pack_padded_sequence(
            self.embed(words), lengths, batch_first=first, enforce_sorted=self.in_order
        )
        made, state = self.rnn(packed)
        made, lengths = pad_packed_sequence(made, batch_first=first, total_length=self.total)
        return self.head(made), lengths, state


def sentences(lengths, model):
    if not model.in_order:
        lengths = lengths[::-1]
    words = torch.randint(1, 30, (len(lengths), max(lengths)))
    return words if model.batch_first else words.t(), torch.tensor(lengths)


def tensors(found):
    if isinstance(found, torch.Tensor):
        return [found]
    return [each for item in found for each in tensors(item)] if found is not None else []


def trained(model, call, args):
    """What is returned, and gradients."""
    model.zero_grad()
    found = tensors(call(*args))
    sum(each.square().sum() for each in found if each.requires_grad).backward()
    return [*(each.detach() for each in found), *(each.grad for each in model.parameters())]


def assert_same(model, call, args, *, exact=False):
    expected = [each.clone() for each in trained(model, model, args)]
    found = trained(model, call, args)
    assert len(expected) == len(found)
    for a, b in zip(expected, found, strict=True):
        assert a.shape == b.shape and a.stride() == b.stride() and a.dtype is b.dtype
        assert torch.equal(a, b) if exact else torch.allclose(a, b, atol=1e-6)


KINDS = {
    "lstm": {"kind": nn.LSTM, "bidirectional": True},
    "gru": {"kind": nn.GRU, "num_layers": 2},
    "rnn": {"kind": nn.RNN},
}
WAYS = [
    {"batch_first": first, "in_order": in_order, "total": total}
    for first, in_order, total in itertools.product((True, False), (True, False), (None, 11))
]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("kind", KINDS)
def test_one_graph_for_all_lengths(kind, backend, dynamic):
    for way in WAYS if backend == "eager" and kind == "lstm" else WAYS[1::3]:
        stator.reset()
        model = Tagger(**KINDS[kind], **way)
        call = stator.compile(model, backend=backend, dynamic=dynamic, fullgraph=True)
        for lengths in LENGTHS:
            assert_same(model, call, sentences(lengths, model), exact=backend == "eager")
        counts = stator.counters()
        assert counts["graph_breaks"] == counts["eager"] == counts["failures"] == 0
        assert counts["unique_graphs"] == (1 if dynamic else 3)  # the length opens, then the number


def operators(length):
    graphs = []

    def backend(module, inputs):
        graphs.append([node.name for node in module.graph.nodes if node.op.startswith("call")])
        return module.forward

    model = Tagger()
    args = sentences([length, 3], model)
    found = stator.compile(model, backend=backend, fullgraph=True)(*args)
    assert torch.equal(found[0], model(*args)[0])
    (graph,) = graphs
    return graph


def test_the_graph_does_not_grow_with_the_length():
    few, many = operators(5), operators(200)
    assert few == many
    assert [name for name in few if name in (PACK, "lstm", PAD)] == [PACK, "lstm", PAD]


# ------------------------------------------------------------------ parts of it


def packs(x, lengths):
    return pack_padded_sequence(x * 2, lengths, batch_first=True, enforce_sorted=False)


def pads(x, batch_sizes):
    return pad_packed_sequence(PackedSequence(x + 1, batch_sizes), padding_value=-1.0)


def lasts(x, lengths):
    """The last item of each sequence, and the mean of all items."""
    packed = pack_padded_sequence(x.sin(), lengths, batch_first=True)
    padded, count = pad_packed_sequence(packed, batch_first=True)
    last = padded[torch.arange(len(lengths)), count - 1]
    return last, packed.data.mean(0), padded.sum(1) / count[:, None]


def compared(program, calls, backend):
    call = stator.compile(program, backend=backend, fullgraph=True)
    for args in calls:
        results = []
        for run in (program, call):
            given = [
                each.clone().requires_grad_() if each.is_floating_point() else each for each in args
            ]
            found = tensors(run(*given))
            sum(each.sum() for each in found if each.requires_grad).backward()
            results.append([*(each.detach() for each in found), given[0].grad])
        for a, b in zip(*results, strict=True):
            assert a.shape == b.shape and a.stride() == b.stride() and torch.allclose(a, b)
    assert stator.counters()["eager"] == 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_is_packed_is_returned(backend):
    calls = [
        (torch.randn(3, 9, 2), torch.tensor(each)) for each in ([2, 9, 4], [9, 9, 9], [1, 1, 1])
    ]
    compared(packs, calls, backend)
    assert type(stator.compile(packs, backend=backend)(*calls[0])) is PackedSequence


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_was_packed_before_is_padded(backend):
    sizes = ([3, 2, 1], [2, 2, 2], [4, 1, 1])
    compared(pads, [(torch.randn(6, 2), torch.tensor(each)) for each in sizes], backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_packed_data_is_used(backend):
    calls = [
        (torch.randn(3, 6, 2), torch.tensor(each)) for each in ([6, 4, 1], [6, 6, 2], [6, 1, 1])
    ]
    compared(lasts, calls, backend)


def test_lengths_beyond_the_data_are_cut_off():
    x = torch.randn(2, 3, 2)
    call = stator.compile(packs, backend="eager", fullgraph=True)
    for lengths in ([3, 2], [7, 2], [7, 7]):
        lengths = torch.tensor(lengths)
        for a, b in zip(packs(x, lengths), call(x, lengths), strict=True):
            assert torch.equal(a, b)


def test_a_list_of_sequences():
    def packed(*sequences):
        return pad_packed_sequence(pack_sequence([each * 2 for each in sequences]))

    call = stator.compile(packed, backend="eager", fullgraph=True)
    for lengths in ((4, 2, 1), (5, 5, 3)):
        given = [torch.randn(each, 2) for each in lengths]
        for a, b in zip(packed(*given), call(*given), strict=True):
            assert torch.equal(a, b)


# ------------------------------------------------------------------ what torch refuses


def too_short(x, lengths):
    packed = pack_padded_sequence(x, lengths, batch_first=True)
    return pad_packed_sequence(packed, batch_first=True, total_length=4)


X = torch.randn(3, 5, 2)
REFUSED = {
    "an empty sequence": (packs, X, [5, 0, 1]),
    "no order": (too_short, X, [2, 3, 1]),
    "another number": (too_short, X, [4, 1]),
    "too few": (too_short, X, [5, 2, 1]),
    "nothing": (packs, torch.randn(3, 0, 2), [1, 1, 1]),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", REFUSED)
def test_errors_are_eager_s(name, backend):
    program, x, lengths = REFUSED[name]
    lengths = torch.tensor(lengths)
    with pytest.raises((RuntimeError, ValueError)) as expected:
        program(x, lengths)
    call = stator.compile(program, backend=backend)
    for _ in range(2):
        with pytest.raises(type(expected.value)) as found:
            call(x, lengths)
        assert str(found.value) == str(expected.value)
    good = torch.tensor([4, 3, 1])
    for a, b in zip(tensors(program(X, good)), tensors(call(X, good)), strict=True):
        assert torch.equal(a, b)
    with pytest.raises(type(expected.value)) as found:
        call(x, lengths)
    assert str(found.value) == str(expected.value)
