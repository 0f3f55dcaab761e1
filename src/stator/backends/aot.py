"""The backend that runs what AOTAutograd makes of the graph, without compiling it further."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
import torch.fx as fx

from stator.torchlib.aot import aot_module_simplified, make_boxed_func
from stator.torchlib.operators import ASSERT_ASYNC, ASSERT_ASYNC_MESSAGE, ASSERT_SCALAR

from . import certain_dropout, packed_operator, recurrent, reshaped

_CHECKS: Final = frozenset(
    {
        ASSERT_SCALAR,
        ASSERT_ASYNC,
        ASSERT_ASYNC_MESSAGE,
    }
)


def _as_it_is(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    boxed: Callable[..., Any] = make_boxed_func(gm.forward)
    return boxed


def _without_checks(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """A backward graph as it is, but for what it has of the forward graph without using it.

    AOTAutograd makes the checks of the forward graph again, and computes again what they look at:
    random numbers would be drawn twice.
    """
    for node in reversed(gm.graph.nodes):
        if node.target in _CHECKS and not _is_backward(node):
            gm.graph.erase_node(node)
    gm.graph.eliminate_dead_code(is_impure_node=_stays)
    gm.recompile()
    return _as_it_is(gm, example_inputs)


def _is_backward(node: fx.Node) -> bool:
    return node.meta.get("partitioner_tag") == "is_backward"


def _stays(node: fx.Node) -> bool:
    tags: Sequence[torch.Tag] = getattr(node.target, "tags", ())
    draws = torch.Tag.nondeterministic_seeded in tags
    return node.is_impure() and (_is_backward(node) or not draws)


def aot_eager(module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Functionalized forward and backward graphs, run node by node."""
    recurrent.as_operators(module)
    packed_operator.as_operators(module)
    reshaped.as_views(module)
    certain_dropout.as_products(module)
    compiled: Callable[..., Any] = aot_module_simplified(
        module, list(example_inputs), fw_compiler=_as_it_is, bw_compiler=_without_checks
    )
    return compiled
