"""Tensors: fakes whose operations are recorded, and what else a tensor is."""
