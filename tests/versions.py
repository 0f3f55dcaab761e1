"""Marks for tests that need a certain torch, or a machine with or without a GPU."""

from typing import Final

import pytest
import torch

from stator.torchlib.versions import RELEASE

TORCH: Final = RELEASE

known_layers = pytest.mark.skipif(TORCH < (2, 13), reason="other layers before 2.13")
"""Before 2.13, torch has other layers around Inductor's code: there the shortcut is refused."""

newest_names = pytest.mark.skipif(TORCH < (2, 13), reason="torch 2.11 has fewer names")
"""The pages and some programs tell of what torch 2.13 offers."""

fake_encoder = pytest.mark.skipif(
    TORCH < (2, 13), reason="torch 2.11 can't run _transformer_encoder_layer_fwd on fake tensors"
)
"""Its sizes can't be left open there."""

sizes_of_slices = pytest.mark.skipif(
    TORCH < (2, 13), reason="before 2.13, torch doesn't know the sizes of slices between numbers"
)
"""There, the size of `x[n : n + 2]` is no expression of an `n` from a tensor: a break."""

traces_inference: Final = TORCH >= (2, 13)
"""Before 2.13, AOTAutograd fails on views that are made in inference mode."""

without_gpu = pytest.mark.skipif(
    torch.cuda.is_available(), reason="with a GPU, its settings and its generators count: a break"
)
