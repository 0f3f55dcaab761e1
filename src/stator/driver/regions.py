"""Regions of a graph, for the log `regions`: parts that are graphs of their own.

Stage: driver, before the backend gets a graph. In: the graph module. Out: lines: for each operator
that has regions, where it is in the program, and what they compute.
"""

from collections.abc import Iterator
from typing import Final

import torch.fx as fx

from stator.diagnostics.places import users_own
from stator.driver.records import name, places_of

_SHOWN: Final = 6  # operators of a region that are named


def described(module: fx.GraphModule, depth: int = 0) -> Iterator[str]:
    """A line for each operator that has regions, and for each region, those inside of it too."""
    for node in module.graph.nodes:
        bodies = dict(_bodies(module, node)) if node.op.startswith("call_") else {}
        if bodies:
            places = places_of(node)
            where = f" at {users_own(places)}" if places else ""
            yield f"{'  ' * depth}{name(node)}{where}"
        for title, body in bodies.items():
            yield f"{'  ' * (depth + 1)}{title}: {_contents(body)}"
            yield from described(body, depth + 2)


def _bodies(module: fx.GraphModule, node: fx.Node) -> Iterator[tuple[str, fx.GraphModule]]:
    """The graphs that a node calls: parts of a module, or its arguments."""
    if node.op == "call_module":
        for title, child in module.get_submodule(str(node.target)).named_children():
            if isinstance(child, fx.GraphModule):
                yield title, child
    for given in node.all_input_nodes:
        target = str(given.target)
        if given.op == "get_attr" and isinstance(getattr(module, target, None), fx.GraphModule):
            yield target, getattr(module, target)


def _contents(body: fx.GraphModule) -> str:
    called = [name(node) for node in body.graph.nodes if node.op.startswith("call_")]
    inputs = sum(node.op == "placeholder" for node in body.graph.nodes)
    names = ", ".join([*called[:_SHOWN], *["…"][: len(called) > _SHOWN]])
    return f"inputs: {inputs}; operators: {len(called)}" + (f" ({names})" if names else "")
