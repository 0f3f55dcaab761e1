"""x-transformers, perceiver-pytorch and vector-quantize-pytorch: Python-heavy layers."""

from typing import Any, Final

import torch

from benchmarks.zoo.case import Case, Entry, ids, library


def language_model(**settings: Any) -> Any:
    layers = library("x_transformers", "Decoder")(
        dim=32, depth=2, heads=4, attn_dim_head=8, **settings
    )
    wrapper = library("x_transformers", "TransformerWrapper")
    return wrapper(num_tokens=99, max_seq_len=32, attn_layers=layers)


def decoder() -> Case:
    return Case(language_model(rotary_pos_emb=True), (ids(),))


def autoregressive() -> Case:
    wrapper = library("x_transformers", "AutoregressiveWrapper")
    return Case(wrapper(language_model(attn_flash=True)), (ids(),))


def perceiver() -> Case:
    model = library("perceiver_pytorch", "Perceiver")(
        input_channels=3,
        input_axis=2,
        num_freq_bands=2,
        max_freq=4.0,
        depth=2,
        num_latents=8,
        latent_dim=16,
        cross_heads=1,
        latent_heads=2,
        cross_dim_head=8,
        latent_dim_head=8,
        num_classes=5,
        self_per_cross_attn=1,
    )
    return Case(model, (torch.randn(2, 8, 8, 3),))


def quantizer() -> Case:
    model = library("vector_quantize_pytorch", "VectorQuantize")(
        dim=16, codebook_size=32, decay=0.8, kmeans_init=True, kmeans_iters=3
    )
    return Case(model, (torch.randn(2, 40, 16),))


ENTRIES: Final[tuple[Entry, ...]] = (
    Entry("x_transformers.Decoder", "lucidrains", "local", decoder, train=True),
    Entry("x_transformers.Autoregressive", "lucidrains", "local", autoregressive, train=True),
    Entry("perceiver_pytorch.Perceiver", "lucidrains", "local", perceiver),
    Entry("vector_quantize.VectorQuantize", "lucidrains", "local", quantizer, train=True),
)
