"""A decoder with flex_attention, as trainers have it: masks are compiled apart, and so is
attention, inside of blocks that are compiled, too. Documents of several lengths are packed.
"""

import functools
from collections.abc import Callable
from typing import ClassVar

import torch
from torch import nn
from torch.nn.attention.flex_attention import (
    BlockMask,
    and_masks,
    create_block_mask,
    flex_attention,
)

compiled_create_block_mask = torch.compile(create_block_mask, backend="aot_eager")


@functools.lru_cache(4)
def create_mask_once(mask_mod, batch, heads, queries, keys):
    return compiled_create_block_mask(mask_mod, batch, heads, queries, keys, device="cpu")


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def document_mask(tokens: torch.Tensor, end: int):
    ends = tokens == end
    ends[:, -1] = True
    documents = torch.zeros_like(tokens, dtype=torch.int32)
    documents[:, 1:] = ends.int().cumsum(1, dtype=torch.int32)[:, :-1]

    def same_document(b, h, q_idx, kv_idx):
        return documents[b, q_idx] == documents[b, kv_idx]

    return same_document


def window_mask(size: int):
    def in_window(b, h, q_idx, kv_idx):
        return q_idx - kv_idx < size

    in_window.__name__ = f"in_window_{size}"
    return in_window


class FlexAttention(nn.Module):
    compiled: ClassVar[Callable] = torch.compile(flex_attention, backend="aot_eager")

    def forward(self, q, k, v, *, block_mask, scale=None):
        return FlexAttention.compiled(q, k, v, block_mask=block_mask, scale=scale, enable_gqa=True)


class Block(nn.Module):
    def __init__(self, width: int, heads: int, groups: int, kind: str) -> None:
        super().__init__()
        self.kind, self.size = kind, width // heads
        self.q = nn.Linear(width, width, bias=False)
        self.kv = nn.Linear(width, 2 * groups * self.size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.norm = nn.RMSNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        self.attention = FlexAttention()

    def forward(self, x, masks: dict[str, BlockMask]):
        y = self.norm(x)
        q = self.q(y).unflatten(-1, (-1, self.size)).transpose(1, 2)
        k, v = self.kv(y).unflatten(-1, (-1, self.size)).transpose(1, 2).chunk(2, dim=1)
        y = self.attention(q, k, v, block_mask=masks[self.kind])
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(torch.nn.functional.silu(self.up(x)))


class Decoder(nn.Module):
    def __init__(self, vocabulary=64, width=64, heads=4, groups=2, layers=4) -> None:
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        kinds = ["local", "full"] * (layers // 2)
        self.layers = nn.ModuleDict(
            {str(i): Block(width, heads, groups, kind) for i, kind in enumerate(kinds)}
        )
        self.head = nn.Linear(width, vocabulary, bias=False)

    def masks(self, tokens):
        batch, length = tokens.shape
        document = and_masks(causal, document_mask(tokens, end=0))
        return {
            "full": create_mask_once(document, batch, None, length, length),
            "local": create_mask_once(
                and_masks(document, window_mask(48)), batch, None, length, length
            ),
        }

    def forward(self, tokens, masks):
        x = self.embed(tokens)
        for layer in self.layers.values():
            x = layer(x, masks)
        return self.head(x)


def reference(tokens: torch.Tensor, q, k, v, window: int | None = None):
    """The same by scaled_dot_product_attention."""
    ends = (tokens == 0).int()
    documents = ends.cumsum(1) - ends
    places = torch.arange(tokens.shape[1])
    allowed = (documents[:, :, None] == documents[:, None]) & (places[:, None] >= places)
    if window is not None:
        allowed &= places[:, None] - places < window
    return torch.nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=allowed[:, None], enable_gqa=True
    )


@torch.no_grad()
def main():
    torch.manual_seed(0)
    model = Decoder().eval()
    for layer in model.layers.values():
        layer.compile(backend="aot_eager", fullgraph=True)
    for length in (192, 256, 384):
        tokens = torch.randint(0, 64, (2, length))
        masks = model.masks(tokens)
        logits = model(tokens, masks)
        print(length, [tuple(mask.shape) for mask in masks.values()], tuple(logits.shape))
        print([mask.kv_num_blocks.tolist() for mask in masks.values()])
        print(round(logits.float().std().item(), 2))
        q, k, v = (torch.randn(2, heads, length, 16) for heads in (4, 2, 2))
        for name, window in (("full", None), ("local", 48)):
            ours = FlexAttention()(q, k, v, block_mask=masks[name])
            print(name, torch.allclose(ours, reference(tokens, q, k, v, window), atol=1e-5))
    plain = flex_attention(q, k, v, block_mask=masks["full"], enable_gqa=True)
    print("without compile", torch.allclose(plain, reference(tokens, q, k, v), atol=1e-5))


if __name__ == "__main__":
    main()
