# mypy: ignore-errors
"""Decoding: caches that grow by one position per call."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import stator

from .harness import Counting

STEPS = 24


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
            self.keys, self.values = torch.zeros(1, 2, 64, 4), torch.zeros(1, 2, 64, 4)

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


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("in_place", [True, False])
def test_decoding(in_place, backend):
    def decode(model, run):
        tokens, found = torch.arange(5)[None], []
        for _ in range(STEPS):
            logits = run(tokens)[:, -1]
            found.append(logits)
            tokens = logits.argmax(-1, keepdim=True)
        return torch.cat(found)

    torch.manual_seed(0)
    model, eager = Decoder(in_place), Decoder(in_place)
    eager.load_state_dict(model.state_dict())
    counting = Counting(backend)
    with torch.no_grad():
        expected = decode(eager, eager)
        actual = decode(model, stator.compile(model, backend=counting, fullgraph=True))
    torch.testing.assert_close(actual, expected)
    assert len(counting.graphs) <= 3
    assert model.position == eager.position


@pytest.mark.parametrize("name", ["GPT2", "Llama"])
def test_transformers(name):
    transformers = pytest.importorskip("transformers")
    shared = {"vocab_size": 64, "bos_token_id": 1, "eos_token_id": 1}
    if name == "GPT2":
        config = transformers.GPT2Config(n_embd=32, n_layer=2, n_head=2, **shared)
        model = transformers.GPT2LMHeadModel(config)
    else:
        sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
        config = transformers.LlamaConfig(intermediate_size=64, **sizes, **shared)
        model = transformers.LlamaForCausalLM(config)
    model.eval()
    counting = Counting()

    def decode(run):
        tokens, cache, found = torch.arange(5)[None], transformers.DynamicCache(), []
        for _ in range(STEPS):
            logits = run(tokens, past_key_values=cache, use_cache=True).logits[:, -1]
            found.append(logits)
            tokens = logits.argmax(-1, keepdim=True)
        return torch.cat(found)

    with torch.no_grad():
        expected = decode(model)
        actual = decode(stator.compile(model, backend=counting, fullgraph=True))
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
    assert len(counting.graphs) <= 3
