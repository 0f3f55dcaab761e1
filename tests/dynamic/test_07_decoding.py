# mypy: ignore-errors
"""Decoding, 64 tokens: compiled for the prompt, for the first token, and for all others."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import stator
from tests.versions import sizes_of_slices

from .harness import Counting

STEPS = 64


class Decoder(nn.Module):
    """One layer of attention with a cache, by concatenation or in place."""

    def __init__(self, in_place):
        super().__init__()
        self.embedding = nn.Embedding(32, 8)
        self.project = nn.Linear(8, 24)
        self.out = nn.Linear(8, 32)
        self.in_place = in_place
        self.position = 0
        self.keys = self.values = None
        if in_place:
            self.keys, self.values = torch.zeros(1, 2, 80, 4), torch.zeros(1, 2, 80, 4)

    def forward(self, tokens):
        batch, length = tokens.shape
        q, k, v = self.project(self.embedding(tokens)).view(batch, length, 3, 2, 4).unbind(2)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        start, end = self.position, self.position + length
        if self.in_place:
            self.keys[:, :, start:end] = k
            self.values[:, :, start:end] = v
            k, v = self.keys[:, :, :end], self.values[:, :, :end]
        else:
            if self.keys is not None:
                k, v = torch.cat([self.keys, k], 2), torch.cat([self.values, v], 2)
            self.keys, self.values = k, v
        self.position = end
        mask = torch.arange(end) <= torch.arange(start, end)[:, None]
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, 8))


class Positioned(nn.Module):
    """The same with the position in a tensor: written by index, or by slices with bounds in it."""

    def __init__(self, sliced):
        super().__init__()
        self.embedding = nn.Embedding(32, 8)
        self.project = nn.Linear(8, 24)
        self.out = nn.Linear(8, 32)
        self.sliced = sliced
        self.register_buffer("keys", torch.zeros(1, 2, 80, 4))
        self.register_buffer("values", torch.zeros(1, 2, 80, 4))

    def forward(self, tokens, position):
        batch, length = tokens.shape
        q, k, v = self.project(self.embedding(tokens)).view(batch, length, 3, 2, 4).unbind(2)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        places = position + torch.arange(length)
        if self.sliced:
            self.keys[:, :, position : position + length] = k
            self.values[:, :, position : position + length] = v
        else:
            self.keys.index_copy_(2, places, k)
            self.values.index_copy_(2, places, v)
        mask = torch.arange(80) <= places[:, None]
        mixed = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, 8))


def decoded(run, *, position=False):
    """The logits of each token."""
    tokens, found, start = torch.arange(5)[None], [], 0
    for _ in range(STEPS):
        logits = run(tokens, torch.tensor(start)) if position else run(tokens)
        start += tokens.shape[1]
        found.append(logits[:, -1])
        tokens = found[-1].argmax(-1, keepdim=True)
    return torch.cat(found)


def both(make, backend, **options):
    """In eager and compiled, with the same weights; the model that was compiled, and graphs."""
    torch.manual_seed(0)
    model, eager = make(), make()
    eager.load_state_dict(model.state_dict())
    counting = Counting(backend)
    with torch.no_grad():
        expected = decoded(eager, **options)
        actual = decoded(stator.compile(model, backend=counting, fullgraph=True), **options)
    torch.testing.assert_close(actual, expected)
    for name, value in model.named_buffers():
        torch.testing.assert_close(value, eager.get_buffer(name))
    return model, counting.graphs


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("in_place", [True, False])
def test_decoding(in_place, backend):
    model, graphs = both(lambda: Decoder(in_place), backend)
    assert len(graphs) <= 3
    assert model.position == STEPS + 4


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("sliced", [pytest.param(True, marks=sizes_of_slices), False])
def test_positions_in_tensors(sliced, backend):
    """Nothing has to be left open: no size changes."""
    _, graphs = both(lambda: Positioned(sliced), backend, position=True)
    assert len(graphs) == 2


def language_model(name, layers):
    transformers = pytest.importorskip("transformers")
    shared = {"vocab_size": 64, "bos_token_id": 1, "eos_token_id": 63, "pad_token_id": 0}
    if name == "GPT2":
        config = transformers.GPT2Config(n_embd=32, n_layer=layers, n_head=2, **shared)
        return transformers, transformers.GPT2LMHeadModel(config).eval()
    sizes = {"hidden_size": 32, "num_hidden_layers": layers, "num_attention_heads": 2}
    sizes["intermediate_size"] = 64
    if name == "Mistral":  # what it attends to is a window
        config = transformers.MistralConfig(
            num_key_value_heads=2, sliding_window=16, **sizes, **shared
        )
        return transformers, transformers.MistralForCausalLM(config).eval()
    config = transformers.LlamaConfig(**sizes, **shared)
    return transformers, transformers.LlamaForCausalLM(config).eval()


@pytest.mark.parametrize(("cache", "graphs"), [("dynamic", 3), ("static", 2)])
@pytest.mark.parametrize("name", ["GPT2", "Llama"])
def test_transformers(name, cache, graphs):
    torch.manual_seed(0)
    transformers, model = language_model(name, layers=2)
    counting = Counting()

    def run(call):
        if cache == "dynamic":
            kept = transformers.DynamicCache(config=model.config)
        else:
            kept = transformers.StaticCache(config=model.config, max_cache_len=80)
        return decoded(lambda tokens: call(tokens, past_key_values=kept, use_cache=True).logits)

    with torch.no_grad():
        expected = run(model)
        actual = run(stator.compile(model, backend=counting, fullgraph=True))
    # In its first step the model takes another way where it is compiled, which may round otherwise.
    torch.testing.assert_close(actual, expected)
    assert torch.equal(actual.argmax(-1), expected.argmax(-1))
    assert len(counting.graphs) <= graphs


@pytest.mark.parametrize(
    ("name", "cache", "graphs"),
    # With a window there is one more where it is full; a dynamic cache is cut there, too.
    [("GPT2", "dynamic", 3), ("Llama", "static", 2), ("Mistral", "static", 4)],
)
def test_generate(name, cache, graphs):
    """As a whole, with padding, while the forward method of the model is compiled."""
    torch.manual_seed(0)
    _, model = language_model(name, layers=1)
    model.generation_config.eos_token_id = None
    tokens = torch.arange(10).reshape(2, 5) + 2
    mask = torch.ones_like(tokens)
    mask[1, :2] = 0
    options = {"max_new_tokens": STEPS, "do_sample": False, "attention_mask": mask}
    if cache == "static":
        options["cache_implementation"] = cache
    expected = model.generate(tokens, **options)
    counting = Counting()
    model.forward = stator.compile(model.forward, backend=counting, fullgraph=True)
    assert torch.equal(model.generate(tokens, **options), expected)
    assert len(counting.graphs) <= graphs
    # Once more, with another prompt: nothing new but the length of the prompt.
    again = {**options, "attention_mask": mask[:, :4], "max_new_tokens": 4}
    model.generate(tokens[:, :4], **again)
    assert len(counting.graphs) <= graphs + 2
