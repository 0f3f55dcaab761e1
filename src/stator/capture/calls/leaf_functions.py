"""`stator.leaf_function`: what is called in eager, and how it is told about.

In: a function, later what it returns without values, and a hook for gradients. Out: a function that
calls it; a trace makes one node of that (`whole_calls.py`).
"""

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any

import torch

from stator.capture.calls import marks
from stator.capture.calls.marks import Kind, Leaf, Mark
from stator.torchlib.transforms import pytree


def leaf_of(function: Callable[..., Any], mutates_args: frozenset[str]) -> Any:
    """A function of the same name, with `register_fake` and `register_multi_grad_hook`."""
    if not inspect.isroutine(function):
        raise TypeError(f"stator.leaf_function() needs a function, not {type(function).__name__}")
    names = inspect.signature(function).parameters
    for each in sorted(mutates_args):
        if re.split(r"[.\[]", each, maxsplit=1)[0] not in names:
            raise ValueError(f"mutates_args says {each!r}, which is no argument of the function")
    said = Leaf(function, mutates_args=mutates_args)

    @functools.wraps(function)
    def leaf(*args: Any, **kwargs: Any) -> Any:
        if said.fake is None:
            raise ValueError(f"the leaf function {function.__name__} needs a register_fake")
        if said.hook is not None and torch.is_grad_enabled():
            leaves = pytree.tree_leaves((args, kwargs))
            wanted = [each for each in leaves if _requires_grad(each)]
            if wanted:
                torch.autograd.graph.register_multi_grad_hook(wanted, _calling(said.hook))
        return function(*args, **kwargs)

    def register_fake(fake: Callable[..., Any]) -> Any:
        said.fake = fake
        return leaf

    def register_multi_grad_hook(hook: Callable[..., Any]) -> Any:
        said.hook = hook
        return leaf

    made: Any = leaf
    made.register_fake = register_fake
    made.register_multi_grad_hook = register_multi_grad_hook
    marks.put(leaf, Mark(Kind.LEAF, leaf=said))
    return leaf


def _requires_grad(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.requires_grad


def _calling(hook: Callable[..., Any]) -> Callable[..., None]:
    def called(gradients: Any) -> None:
        hook(*(each for each in gradients if each is not None))

    return called
