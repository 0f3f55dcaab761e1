"""Vision-language models of transformers."""

from typing import Any, Final

from benchmarks.zoo.case import Entry, Inputs, hf, ids, image, mask
from benchmarks.zoo.cases.shared import LLM, SEQ2SEQ, VIT

IMAGE_TOKEN: Final = 90


def prompt(places: int, size: int = 32) -> Inputs:
    """Text with ``places`` image tokens, and the image."""

    def inputs() -> dict[str, Any]:
        tokens = ids(2, 24, 80)
        tokens[:, 2 : 2 + places] = IMAGE_TOKEN
        return {
            "input_ids": tokens,
            "attention_mask": mask(2, 24),
            "pixel_values": image(size),
        }

    return inputs


ENTRIES: Final[tuple[Entry, ...]] = (
    hf(
        "LlavaForConditionalGeneration",
        "LlavaConfig",
        {
            "text_config": {**LLM, "model_type": "llama"},
            "vision_config": {**VIT, "model_type": "clip_vision_model", "projection_dim": 16},
            "image_token_index": IMAGE_TOKEN,
            "image_seq_length": 16,
            "vision_feature_layer": -1,
        },
        prompt(16),
        "dyn_shape_op+logger",
        train=True,
    ),
    hf(
        "PaliGemmaForConditionalGeneration",
        "PaliGemmaConfig",
        {
            "text_config": {**LLM, "model_type": "gemma"},
            "vision_config": {**VIT, "model_type": "siglip_vision_model", "vision_use_head": False},
            "image_token_index": IMAGE_TOKEN,
            "projection_dim": 32,
            "hidden_size": 32,
        },
        prompt(16),
        "dyn_shape_op+logger",
    ),
    hf(
        "AriaModel",
        "AriaConfig",
        {
            "text_config": {
                **LLM,
                "model_type": "aria_text",
                "moe_num_experts": 4,
                "moe_topk": 2,
                "moe_num_shared_experts": 1,
            },
            "vision_config": {**VIT, "model_type": "idefics3_vision"},
            "image_token_index": IMAGE_TOKEN,
            "projector_patch_to_query_dict": {16: 4},
        },
        prompt(4),
        "item+ctxmgr(lock)+logger+dyn_shape_op",
    ),
    hf(
        "Florence2Model",
        "Florence2Config",
        {
            "text_config": {**SEQ2SEQ, "model_type": "bart"},
            "vision_config": {
                "embed_dim": [8, 8, 16, 32],
                "num_heads": [1, 1, 2, 4],
                "num_groups": [1, 1, 2, 4],
                "depths": [1, 1, 1, 1],
                "patch_size": [3, 3, 3, 3],
                "patch_stride": [4, 2, 2, 2],
                "window_size": 4,
                "projection_dim": 32,
                "max_position_embeddings": 8,
                "max_temporal_embeddings": 8,
            },
            "image_token_id": IMAGE_TOKEN,
        },
        lambda: {**prompt(10, 64)(), "decoder_input_ids": ids(2, 8)},
        "dyn_shape_op+deepcopy",
    ),
)
