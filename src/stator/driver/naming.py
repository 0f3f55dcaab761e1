"""The code of a recorded graph: its name, its source, and where its lines come from.

Stage: driver, before the backend gets the graph. In: the graph module. Out: a name and a source for
the code that torch.fx has generated (`diagnostics/artefacts.py`), which a backend may call as it
is; and, for each line of it, the frames of the program.
"""

import linecache
from typing import Any

import torch.fx as fx

from stator.diagnostics.artefacts import Title, publish, when_gone
from stator.diagnostics.places import Place, users_own
from stator.driver.records import places_in
from stator.torchlib.tracers import forget_source

Lines = dict[int, tuple[Place, ...]]


def name_graph(module: fx.GraphModule, title: Title) -> Lines:
    """Names the code of a graph, which goes with it; where its lines come from."""
    function: Any = type(module).forward
    _forget_with(module, function.__code__.co_filename)
    file = title.file("graph")
    code = function.__code__.replace(co_filename=file, co_name=title.graph, co_qualname=title.graph)
    lines = lines_of(module)
    publish(file, _annotated(module.code, lines, title), code)
    function.__code__ = code
    return lines


def lines_of(module: fx.GraphModule) -> Lines:
    """For each line of a graph module's code, the frames of the program that it stands for."""
    nodes = list(module.graph.nodes)
    numbers: dict[int, int | None] = getattr(module, "_lineno_map", None) or {}
    # They count from where the function begins.
    lines = module.code.splitlines()
    first = next((n for n, line in enumerate(lines, 1) if line.startswith("def ")), 0)
    known: dict[str, list[Place]] = {}  # by line: deep programs have many, most of them the same
    made: Lines = {}
    for number, index in numbers.items():
        if index is None or index >= len(nodes):
            continue
        places: list[Place] = []
        for line in (nodes[index].stack_trace or "").splitlines():
            found = known.get(line)
            if found is None:
                found = known[line] = places_in(line)
            places += found
        made[first + number] = tuple(places)
    return made


def _annotated(code: str, places: Lines, title: Title) -> str:
    """The code, with the places at the ends of its lines, and its name where nothing is."""
    lines = code.splitlines()
    for number, found in places.items():
        if found and number <= len(lines) and lines[number - 1].strip():
            lines[number - 1] += f"  # {users_own(found)}"
    if lines and not lines[0].strip():
        lines[0] = f"# {title.graph}"
    return "\n".join([*lines, ""])


def _forget_with(module: fx.GraphModule, file: str) -> None:
    """torch.fx keeps the source of every graph module for tracebacks; ours goes with the module."""
    when_gone(module, _forget, file)


def _forget(file: str) -> None:
    linecache.cache.pop(file, None)
    forget_source(file)
