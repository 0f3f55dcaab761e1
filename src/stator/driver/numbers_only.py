"""Graphs that compute with Python's numbers and nothing else: a branch on `random.random()`.

Stage: driver. In: a trace. Out: why its graph is no work for a backend. It gets numbers (drawn
before it, floats, ints) and answers with numbers: each of its operators is a few instructions, and
code for them would take longer to compile than they will ever take.
"""

from typing import Any, Final

import torch
import torch.fx as fx

from stator.capture import Trace

NUMBERS: Final = "it computes with numbers only"
_SYMBOLS: Final = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)
_CPU: Final = torch.device("cpu")


def only_numbers(trace: Trace) -> str | None:
    """Why the graph of a trace runs as it is, if no tensor of the program has to do with it."""
    recorded = trace.recorded
    if recorded is None or trace.changes is None or trace.prologue.leaves:
        return None
    ours = {step.position for step in trace.prologue.steps} | {*trace.edges.floats}
    for position, given in enumerate(recorded.inputs):
        if type(given.value) is not int and position not in ours:
            return None
    nodes = recorded.module.graph.nodes
    return NUMBERS if all(map(_is_number, nodes)) else None


def _is_number(node: fx.Node) -> bool:
    if node.op == "output":
        return True
    value: Any = node.meta.get("example_value")
    if isinstance(value, torch.Tensor):
        return value.device == _CPU and value.dim() == 0 and not value.requires_grad
    # Checks have no value.
    return isinstance(value, _SYMBOLS) or (value is None and not node.users)
