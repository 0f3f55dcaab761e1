"""Settings and inputs that several models of transformers share."""

from typing import Any, Final

from benchmarks.zoo.case import Settings, ids, image, mask

SPECIAL: Final[Settings] = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
LLM: Final[Settings] = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "head_dim": 8,
    **SPECIAL,
}
BERT: Final[Settings] = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
}
VIT: Final[Settings] = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}
SEQ2SEQ: Final[Settings] = {
    "vocab_size": 99,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "decoder_start_token_id": 1,
    "encoder_layerdrop": 0.1,
    "decoder_layerdrop": 0.1,
    **SPECIAL,
}


def text() -> dict[str, Any]:
    return {"input_ids": ids(), "attention_mask": mask()}


def unmasked() -> dict[str, Any]:
    return {"input_ids": ids()}


def labelled() -> dict[str, Any]:
    tokens = ids()
    return {"input_ids": tokens, "attention_mask": mask(), "labels": tokens.clone()}


def pair() -> dict[str, Any]:
    """For an encoder and a decoder."""
    return {"input_ids": ids(), "attention_mask": mask(), "decoder_input_ids": ids(2, 10)}


def picture() -> dict[str, Any]:
    return {"pixel_values": image()}


def large_picture() -> dict[str, Any]:
    return {"pixel_values": image(64)}


def captioned() -> dict[str, Any]:
    return {"input_ids": ids(), "attention_mask": mask(), "pixel_values": image()}
