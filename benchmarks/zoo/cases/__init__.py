"""The models of the zoo, as tables: one module per kind."""

from typing import Final

from benchmarks.zoo.case import Entry
from benchmarks.zoo.cases import (
    audio,
    diffusion,
    generation,
    geometric,
    lucidrains,
    multimodal,
    plain,
    text,
    text_breaking,
    vision,
)

ZOO: Final[dict[str, Entry]] = {
    entry.name: entry
    for module in (
        text,
        text_breaking,
        vision,
        multimodal,
        audio,
        generation,
        geometric,
        diffusion,
        lucidrains,
        plain,
    )
    for entry in module.ENTRIES
}

_NUMPY_RNG: Final = (
    "training: TorchDynamo runs np.random on torch's generator; "
    "equal to eager with --set use_numpy_random_stream=True"
)
# Where torch 2.13 is known to differ from eager, and why.
NOTES: Final[dict[str, str]] = {
    "PaliGemmaForConditionalGeneration": (
        "transformers branches on is_tracing(): eager drops the mask with is_causal=False; "
        "eager with is_tracing() forced to True gives the compiled result"
    ),
    "Wav2Vec2Model": _NUMPY_RNG,
    "HubertModel": _NUMPY_RNG,
    "Data2VecAudioModel": _NUMPY_RNG,
    "Wav2Vec2BertModel": _NUMPY_RNG,
    "BigBirdPegasusModel": _NUMPY_RNG,
    "ReformerModel": "training: eager is not deterministic (torch.seed() in a layer)",
}
