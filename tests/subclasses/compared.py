"""Runs a program in eager and compiled, and compares types, parts, metadata and gradients."""

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

import stator
from stator.backends.registry import lookup


class Counted:
    """A backend that counts the graphs it gets, and their operators."""

    def __init__(self, name: str = "eager") -> None:
        self._backend: Any = lookup(name)
        self.graphs: list[list[str]] = []

    def __call__(self, module: Any, inputs: Any) -> Any:
        self.graphs.append([n.name for n in module.graph.nodes if n.op.startswith("call")])
        return self._backend(module, inputs)


def same(a: Any, b: Any, path: str = "result") -> None:
    """Both are equal, in all that can be seen."""
    assert type(a) is type(b), (path, type(a), type(b))
    if isinstance(a, torch.Tensor):
        assert (a.shape, a.dtype, a.stride()) == (b.shape, b.dtype, b.stride()), path
        assert a.requires_grad == b.requires_grad, path
        if hasattr(a, "__tensor_flatten__"):
            (names, context), (others, other) = a.__tensor_flatten__(), b.__tensor_flatten__()
            assert names == others and context == other, (path, context, other)
            for name in names:
                part, twin = getattr(a, name), getattr(b, name)
                if isinstance(part, torch.Tensor):
                    same(part.detach(), twin.detach(), f"{path}.{name}")
        else:
            torch.testing.assert_close(a, b, equal_nan=True)
    elif isinstance(a, torch.nn.Module):
        same([*a.parameters(), *a.buffers()], [*b.parameters(), *b.buffers()], path)
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), path
        for index, (one, two) in enumerate(zip(a, b, strict=True)):
            same(one, two, f"{path}[{index}]")
    elif isinstance(a, dict):
        assert list(a) == list(b), path
        for key in a:
            same(a[key], b[key], f"{path}[{key!r}]")
    else:
        assert a == b, path


def gradients(result: Any, given: Any) -> Any:
    """Of the sum of all results, by all arguments; None if nothing requires grad."""
    leaves = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]
    roots = [t for t in leaves if t.requires_grad]
    if not roots:
        return None
    sum(t.sum() for t in roots).backward()  # type: ignore[union-attr]
    return [t.grad for t in pytree.tree_leaves(given) if isinstance(t, torch.Tensor)]


def compared(
    function: Callable[..., Any],
    *makers: Callable[[], tuple[Any, ...]],
    backend: str = "eager",
    between: Callable[[int], None] | None = None,
) -> list[int]:
    """Calls with arguments that are made anew; how many graphs there were after each call."""
    counted = Counted(backend)
    compiled = stator.compile(function, backend=counted)
    found = []
    for number, make in enumerate(makers):
        if between is not None:
            between(number)
        torch.manual_seed(number)
        given = make()
        torch.manual_seed(number)
        twin = make()
        with warnings.catch_warnings(action="ignore"):
            expected, result = function(*given), compiled(*twin)
            same(expected, result)
            same(list(given), list(twin), "arguments")
            same(gradients(expected, given), gradients(result, twin), "gradients")
        found.append(len(counted.graphs))
    return found
