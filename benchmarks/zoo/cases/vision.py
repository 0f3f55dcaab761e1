"""Vision models of transformers."""

from typing import Final

import torch

from benchmarks.zoo.case import Case, Config, Entry, Settings, hf, ids, image, library, mask
from benchmarks.zoo.cases.shared import BERT, VIT, captioned, large_picture, picture

CLIP: Final[Settings] = {
    "text_config": {**BERT, "bos_token_id": 1, "eos_token_id": 2},
    "vision_config": VIT,
    "projection_dim": 16,
}
STAGES: Final[Settings] = {
    "embedding_size": 8,
    "hidden_sizes": [8, 16, 24, 32],
    "depths": [1, 1, 1, 1],
    "out_features": ["stage2", "stage3", "stage4"],
}
NO_DOWNLOAD: Final[Settings] = {
    "backbone": None,
    "use_timm_backbone": False,
    "use_pretrained_backbone": False,
}
DETECTION: Final[Settings] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "num_queries": 8,
    "encoder_layerdrop": 0.1,
    "decoder_layerdrop": 0.1,
    **NO_DOWNLOAD,
}
LAST_STAGE: Final = Config("ResNetConfig", {**STAGES, "out_features": ["stage4"]})


def qwen2_vision() -> Case:
    """Positional arguments and names that transformers' top level does not have."""
    folder = "transformers.models.qwen2_vl"
    config = library(f"{folder}.configuration_qwen2_vl", "Qwen2VLVisionConfig")(
        depth=2,
        embed_dim=32,
        hidden_size=32,
        num_heads=4,
        mlp_ratio=2,
        patch_size=4,
        spatial_merge_size=2,
        temporal_patch_size=2,
    )
    model = library(f"{folder}.modeling_qwen2_vl", "Qwen2VisionTransformerPretrainedModel")(config)
    patches = torch.randn(32, 3 * 2 * 16)
    return Case(model, (patches, torch.tensor([[1, 4, 4], [1, 4, 4]])))


ENTRIES: Final[tuple[Entry, ...]] = (
    hf("ViTModel", "ViTConfig", VIT, picture, "clean", train=True),
    hf("Dinov2Model", "Dinov2Config", VIT, picture, "clean"),
    hf(
        "SwinModel",
        "SwinConfig",
        {
            "image_size": 32,
            "patch_size": 2,
            "embed_dim": 16,
            "depths": [1, 2],
            "num_heads": [2, 2],
            "window_size": 4,
        },
        picture,
        "clean",
        train=True,
    ),
    hf(
        "ConvNextModel",
        "ConvNextConfig",
        {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
        picture,
        "clean",
    ),
    hf(
        "SegformerModel",
        "SegformerConfig",
        {
            "num_encoder_blocks": 2,
            "depths": [1, 1],
            "sr_ratios": [2, 1],
            "hidden_sizes": [16, 32],
            "patch_sizes": [7, 3],
            "strides": [4, 2],
            "num_attention_heads": [1, 2],
            "mlp_ratios": [2, 2],
        },
        picture,
        "clean",
    ),
    hf("ViTMAEModel", "ViTMAEConfig", VIT, picture, "clean"),
    hf(
        "PerceiverModel",
        "PerceiverConfig",
        {
            "num_latents": 8,
            "d_latents": 16,
            "d_model": 32,
            "num_blocks": 1,
            "num_self_attends_per_block": 2,
            "num_self_attention_heads": 2,
            "num_cross_attention_heads": 2,
        },
        lambda: {"inputs": torch.randn(2, 16, 32)},
        "clean",
    ),
    hf(
        "CLIPModel",
        "CLIPConfig",
        CLIP,
        captioned,
        "clean",
        train=True,
    ),
    hf(
        "SiglipModel",
        "SiglipConfig",
        CLIP,
        captioned,
        "clean",
    ),
    hf(
        "ViltModel",
        "ViltConfig",
        {**BERT, "image_size": 32, "patch_size": 8},
        lambda: {
            "input_ids": ids(),
            "attention_mask": mask(),
            "token_type_ids": torch.zeros(2, 16, dtype=torch.long),
            "pixel_values": image(),
            "pixel_mask": torch.ones(2, 32, 32, dtype=torch.long),
        },
        "non_tensor+data_dep",
    ),
    hf(
        "DetrModel",
        "DetrConfig",
        {**DETECTION, "backbone_config": LAST_STAGE},
        large_picture,
        "data_dep(train)",
        train=True,
    ),
    hf(
        "ConditionalDetrModel",
        "ConditionalDetrConfig",
        {**DETECTION, "backbone_config": LAST_STAGE},
        large_picture,
        "data_dep(train)",
        train=True,
    ),
    hf(
        "DeformableDetrModel",
        "DeformableDetrConfig",
        {
            **DETECTION,
            "backbone_config": Config("ResNetConfig", STAGES),
            "num_feature_levels": 3,
        },
        large_picture,
        "as_proxy",
        train=True,
    ),
    hf(
        "RTDetrModel",
        "RTDetrConfig",
        {
            "backbone_config": Config(
                "RTDetrResNetConfig",
                {
                    **STAGES,
                    "layer_type": "basic",
                    "downsample_in_bottleneck": False,
                    "downsample_in_first_stage": False,
                },
            ),
            **NO_DOWNLOAD,
            "encoder_hidden_dim": 32,
            "encoder_in_channels": [16, 24, 32],
            "encoder_ffn_dim": 64,
            "encoder_layers": 1,
            "encoder_attention_heads": 2,
            "d_model": 32,
            "num_queries": 8,
            "decoder_in_channels": [32, 32, 32],
            "decoder_ffn_dim": 64,
            "decoder_layers": 2,
            "decoder_attention_heads": 2,
            "num_feature_levels": 3,
            "decoder_n_points": 2,
            "num_denoising": 0,
            "num_labels": 5,
            "hidden_expansion": 1.0,
            "anchor_image_size": None,
        },
        large_picture,
        "as_proxy",
        train=True,
    ),
    hf(
        "GroundingDinoModel",
        "GroundingDinoConfig",
        {
            "backbone_config": Config(
                "SwinConfig",
                {
                    "image_size": 64,
                    "patch_size": 4,
                    "embed_dim": 8,
                    "depths": [1, 1, 1, 1],
                    "num_heads": [1, 1, 1, 1],
                    "window_size": 2,
                    "out_features": ["stage2", "stage3", "stage4"],
                },
            ),
            **NO_DOWNLOAD,
            "text_config": {**BERT, "model_type": "bert"},
            "d_model": 32,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 32,
            "decoder_ffn_dim": 32,
            "num_queries": 4,
            "num_feature_levels": 4,
            "max_text_len": 16,
            "encoder_n_points": 2,
            "decoder_n_points": 2,
        },
        lambda: {"pixel_values": image(64), "input_ids": ids(), "attention_mask": mask()},
        "as_proxy",
    ),
    Entry("Qwen2VisionModel", "hf", "dyn_shape_op+data_dep", qwen2_vision),
)
