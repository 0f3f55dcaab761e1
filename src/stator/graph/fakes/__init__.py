"""Tensors without values: how they are made, and kernels that say what real ones do."""
