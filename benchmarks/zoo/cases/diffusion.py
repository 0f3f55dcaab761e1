"""Image generation models of diffusers."""

from typing import Final

import torch

from benchmarks.zoo.case import Case, Entry, image, library


def unet() -> Case:
    model = library("diffusers", "UNet2DConditionModel")(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        block_out_channels=(16, 32),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        cross_attention_dim=16,
        attention_head_dim=8,
        norm_num_groups=4,
    )
    args = (torch.randn(2, 4, 16, 16), torch.tensor([3, 7]), torch.randn(2, 6, 16))
    return Case(model, args, {"return_dict": False})


def autoencoder() -> Case:
    model = library("diffusers", "AutoencoderKL")(
        in_channels=3,
        out_channels=3,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(8, 16),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=4,
        sample_size=32,
    )
    return Case(model, (image(),), {"return_dict": False})


def flux() -> Case:
    model = library("diffusers", "FluxTransformer2DModel")(
        patch_size=1,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        pooled_projection_dim=32,
        axes_dims_rope=[4, 4, 8],
    )
    kwargs = {
        "hidden_states": torch.randn(1, 16, 4),
        "encoder_hidden_states": torch.randn(1, 8, 32),
        "pooled_projections": torch.randn(1, 32),
        "timestep": torch.tensor([1.0]),
        "img_ids": torch.rand(16, 3),
        "txt_ids": torch.rand(8, 3),
        "return_dict": False,
    }
    return Case(model, (), kwargs)


ENTRIES: Final[tuple[Entry, ...]] = (
    Entry("diffusers.UNet2DConditionModel", "diffusers", "clean", unet, train=True),
    Entry("diffusers.AutoencoderKL", "diffusers", "clean", autoencoder),
    Entry("diffusers.FluxTransformer2DModel", "diffusers", "clean", flux),
)
