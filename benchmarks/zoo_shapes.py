"""Inputs of zoo models for any batch and length: what `benchmarks.dynamic` calls them with.

In: a batch and a length. Out: arguments and keyword arguments. A length is that of a text, or the
number of patches along the side of a picture.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import torch

from benchmarks.zoo.case import ids, mask

Given = tuple[tuple[Any, ...], dict[str, Any]]
SHAPES: Final = ((2, 16), (3, 12), (4, 20), (6, 9), (5, 24), (2, 11))


class Model(NamedTuple):
    """A model of the zoo and its inputs."""

    name: str
    inputs: Callable[[int, int], Given]
    backend: str = "eager"


def text(batch: int, length: int) -> Given:
    return (), {"input_ids": ids(batch, length), "attention_mask": mask(batch, length)}


def unmasked(batch: int, length: int) -> Given:
    return (), {"input_ids": ids(batch, length)}


def labelled(batch: int, length: int) -> Given:
    _, kwargs = text(batch, length)
    return (), {**kwargs, "labels": kwargs["input_ids"].clone()}


def pair(batch: int, length: int) -> Given:
    """For an encoder and a decoder, of different lengths."""
    _, kwargs = text(batch, length)
    return (), {**kwargs, "decoder_input_ids": ids(batch, length // 2 + 2)}


def picture(side: int) -> Callable[[int, int], Given]:
    def inputs(batch: int, length: int) -> Given:
        return (), {"pixel_values": torch.randn(batch, 3, side * length, side * (length + 2))}

    return inputs


def wave(batch: int, length: int) -> Given:
    samples = 32 * length
    return (), {
        "input_values": torch.randn(batch, samples),
        "attention_mask": mask(batch, samples),
    }


def features(batch: int, length: int) -> Given:
    return (), {
        "input_features": torch.randn(batch, 2 * length, 16),
        "attention_mask": mask(batch, 2 * length),
    }


def speech(batch: int, length: int) -> Given:
    _, kwargs = features(batch, length)
    return (), {**kwargs, "decoder_input_ids": ids(batch, length)}


def sequence(width: int) -> Callable[[int, int], Given]:
    return lambda batch, length: ((torch.randn(batch, length, width),), {})


def perceiver(batch: int, length: int) -> Given:
    return (), {"inputs": torch.randn(batch, length, 32)}


def transformer(batch: int, length: int) -> Given:
    target = length // 2 + 2
    shapes = torch.randn(batch, length, 32), torch.randn(batch, target, 32)
    causal = torch.nn.Transformer.generate_square_subsequent_mask(target)
    return shapes, {"tgt_mask": causal}


def unet(batch: int, length: int) -> Given:
    side = 2 * length
    latent, steps = torch.randn(batch, 4, side, side + 4), torch.arange(batch) + 3
    return (latent, steps, torch.randn(batch, length, 16)), {"return_dict": False}


def autoencoder(batch: int, length: int) -> Given:
    return (torch.randn(batch, 3, 4 * length, 4 * length + 8),), {"return_dict": False}


def _table(inputs: Callable[[int, int], Given], *names: str) -> list[Model]:
    return [Model(name, inputs, _BACKENDS.get(name, "eager")) for name in names]


_BACKENDS: Final = {
    **dict.fromkeys(("DistilBertModel", "Qwen2ForCausalLM"), "inductor"),
    **dict.fromkeys(
        (
            "RobertaModel",
            "GPTNeoXModel",
            "MistralForCausalLM",
            "BartModel",
            "ConvNextModel",
            "PerceiverModel",
            "torch.nn.Transformer",
        ),
        "aot_eager",
    ),
}


MODELS: Final[dict[str, Model]] = {
    model.name: model
    for model in (
        *_table(
            text,
            "BertModel",
            "RobertaModel",
            "DistilBertModel",
            "ModernBertModel",
            "GPTNeoXModel",
            "GPTJModel",
            "BloomModel",
            "Qwen3MoeModel",
            "DeepseekV3Model",
            "Gemma2Model",
            "GptOssModel",
            "OPTModel",
            "BioGptModel",
            "FlaubertModel",
            "DbrxModel",
            "AriaTextModel",
            "LongcatFlashModel",
            "BambaModel",
            "JambaModel",
            "GraniteMoeHybridModel",
            "NemotronHModel",
            "Qwen3_5TextModel",
        ),
        *_table(labelled, "MistralForCausalLM", "MixtralForCausalLM", "Qwen2ForCausalLM"),
        *_table(unmasked, "Mamba2Model"),
        *_table(
            pair,
            "MT5Model",
            "LongT5Model",
            "SwitchTransformersModel",
            "BartModel",
            "M2M100Model",
            "MarianModel",
            "NllbMoeModel",
            "FSMTModel",
        ),
        *_table(picture(4), "ConvNextModel", "SegformerModel"),
        *_table(picture(8), "SwinModel", "DetrModel", "ConditionalDetrModel"),
        *_table(wave, "Wav2Vec2Model", "HubertModel", "Data2VecAudioModel", "SEWModel"),
        *_table(features, "Wav2Vec2BertModel"),
        *_table(speech, "Speech2TextModel"),
        *_table(perceiver, "PerceiverModel"),
        *_table(sequence(16), "torch.LSTM"),
        *_table(transformer, "torch.nn.Transformer"),
        *_table(unet, "diffusers.UNet2DConditionModel"),
        *_table(autoencoder, "diffusers.AutoencoderKL"),
    )
}
