"""Outputs of a model as a flat list, and whether two such lists agree."""

import dataclasses
import math
from typing import Any

import torch

Leaves = list[tuple[str, Any]]


def flat(value: Any, path: str = "") -> Leaves:
    """Tensors and plain constants with their place; anything else is left out."""
    if isinstance(value, torch.Tensor | int | float | str):
        return [(path, value)]
    parts: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        parts = [(f"{path}.{key}", part) for key, part in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(f"{path}[{index}]", part) for index, part in enumerate(value)]
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = dataclasses.fields(value)
        parts = [(f"{path}.{field.name}", getattr(value, field.name)) for field in fields]
    return [leaf for where, part in parts for leaf in flat(part, where)]


def difference(expected: Leaves, actual: Leaves, rtol: float, atol: float) -> str | None:
    """None if they agree, else the first difference in words."""
    if len(expected) != len(actual):
        return f"{len(expected)} vs {len(actual)} outputs"
    found = dict(actual)
    if set(dict(expected)) != set(found):
        return f"different outputs {sorted(set(dict(expected)) ^ set(found))[:3]}"
    for path, value in expected:
        if problem := _leaf_difference(value, found[path], rtol, atol):
            return f"{path}: {problem}"
    return None


def _leaf_difference(x: Any, y: Any, rtol: float, atol: float) -> str | None:
    if isinstance(x, torch.Tensor) != isinstance(y, torch.Tensor):
        return "type"
    if not isinstance(x, torch.Tensor):
        close = isinstance(x, float) and math.isclose(x, y, rel_tol=1e-4)
        return None if x == y or close else f"{x!r} vs {y!r}"
    if x.shape != y.shape or x.dtype != y.dtype:
        return f"{tuple(x.shape)} {x.dtype} vs {tuple(y.shape)} {y.dtype}"
    if not (x.is_floating_point() or x.is_complex()):
        return None if torch.equal(x, y) else "integer/bool values differ"
    if torch.allclose(x, y, rtol=rtol, atol=atol, equal_nan=True):
        return None
    return f"max diff {(x - y).abs().max().item():.3g}"


def has_nan(leaves: Leaves) -> bool:
    return any(
        isinstance(value, torch.Tensor) and value.is_floating_point() and bool(value.isnan().any())
        for _, value in leaves
    )
