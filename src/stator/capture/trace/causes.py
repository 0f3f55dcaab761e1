"""What has led to a graph break, in the program's words.

Stage: capture, when a graph breaks. In: a condition over numbers that are known only at run time,
and the graph. Out: a text for the reason of the break: that they were drawn at random, or read from
a tensor, and in which line if that is another one. What symbols are called in the graph says
nothing to anybody. Where a trace begins behind another break, that one may be the cause of what is
in its way: `blamed` says so.
"""

import linecache
import re
from typing import Any, Final

import torch.fx as fx

from stator.bytecode import decode
from stator.capture.trace.task import Task
from stator.diagnostics.breaks import Break
from stator.diagnostics.catalogue import IteratorInUse, OpaqueObject, ValueNeeded
from stator.diagnostics.places import Place
from stator.graph import OutputGraph
from stator.graph.passes.ancestry import computed_from

DRAWN: Final = "drawn"
"""What placeholders for random numbers are called."""
_LINE: Final = re.compile(r'^  File "(.*)", line (\d+), in ', re.MULTILINE)


def described(graph: OutputGraph, condition: Any, here: Place | None = None) -> str:
    """Why a branch can't be followed, which is `here`."""
    nodes = [node for node in graph.graph.nodes if _bound(node) & _symbols(condition)]
    if any(is_drawn(node) for node in nodes):
        return f"a branch depends on a random number{_where(nodes, here)}"
    return f"a branch depends on a number that is read from a tensor{_where(nodes, here)}"


def blamed(graph: OutputGraph, broken: Break, task: Task) -> None:
    """Completes what a break says, when its trace is over and it is known what came before."""
    if isinstance(broken, ValueNeeded) and _all_drawn(graph):
        for words in _READ:
            broken.reason = broken.reason.replace(words, "is drawn at random")
        broken.hint = _DRAW_BEFORE
    if task.points and isinstance(broken, OpaqueObject | IteratorInUse):
        root = re.split(r"[.\[]", broken.source, maxsplit=1)[0]
        names = {name for point in task.points for name in decode(point.code).localsplus}
        if root in names or broken.source.startswith("stack["):
            at = task.place
            broken.hint = (
                f"this part of the program begins at line {at.line} of {at.file}, behind a graph "
                f"break: if the object is made before that in this call, remove that break first"
            )


_READ: Final = ("is read from a tensor", "depends on values")
_DRAW_BEFORE: Final = "draw the number before the compiled function, and pass it as an argument"


def _all_drawn(graph: OutputGraph) -> bool:
    """Whether all numbers of a trace that only a run knows were drawn, and there are some."""
    unknown = [node for node in graph.graph.nodes if _bound(node)]
    return bool(unknown) and all(map(is_drawn, unknown))


def _symbols(condition: Any) -> set[Any]:
    return set(getattr(condition, "free_symbols", ()))


def _bound(node: fx.Node) -> set[Any]:
    return set(node.meta.get("unbacked_bindings") or ())


def is_drawn(node: fx.Node) -> bool:
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
