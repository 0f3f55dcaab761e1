"""Marks for tests that need a certain torch."""

import pytest
import torch

known_layers = pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13), reason="other layers before 2.13"
)
"""Before 2.13, torch has other layers around Inductor's code: there the shortcut is refused."""
