"""What a number that is known only at run time comes from, in the program's words.

Stage: capture, when a graph breaks. In: a condition over such numbers, and the graph. Out: a text
for the reason of the break: that they were drawn at random, or read from a tensor, and in which
line if that is another one. What symbols are called in the graph says nothing to anybody.
"""

import linecache
import re
from typing import Any, Final

import torch.fx as fx

from stator.diagnostics.places import Place
from stator.graph import OutputGraph
from stator.graph.ancestry import computed_from

DRAWN: Final = "drawn"
"""What placeholders for random numbers are called."""
_LINE: Final = re.compile(r'^  File "(.*)", line (\d+), in ', re.MULTILINE)


def described(graph: OutputGraph, condition: Any, here: Place | None = None) -> str:
    """Why a branch can't be followed, which is `here`."""
    nodes = [node for node in graph.graph.nodes if _bound(node) & _symbols(condition)]
    if any(_is_drawn(node) for node in nodes):
        return f"a branch depends on a random number{_where(nodes, here)}"
    return f"a branch depends on a number that is read from a tensor{_where(nodes, here)}"


def _symbols(condition: Any) -> set[Any]:
    return set(getattr(condition, "free_symbols", ()))


def _bound(node: fx.Node) -> set[Any]:
    return set(node.meta.get("unbacked_bindings") or ())


def _is_drawn(node: fx.Node) -> bool:
    """Whether a node reads what was drawn before the graph, and nothing else."""
    inputs = [str(each.target) for each in computed_from([node]) if each.op == "placeholder"]
    return bool(inputs) and all(name.startswith(DRAWN) for name in inputs)


def _where(nodes: list[fx.Node], here: Place | None) -> str:
    """The line in which the number was read, if that is another one."""
    for node in nodes:
        found = _LINE.findall(node.stack_trace or "")
        if found:
            file, line = found[-1]
            if here is not None and (file, int(line)) == (here.file, here.line):
                return ""
            text = linecache.getline(file, int(line)).strip()
            if text:
                return f": {text}"
    return ""
