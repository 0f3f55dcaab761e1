"""How long the graphs of traces live: until what was made of them is compiled.

Stage: capture, for the driver. A graph and what knows of it refer to each other in circles, and it
has the program's own tensors, the arguments of the call. So it is taken apart when a compile has
ended, or the arguments would live until Python next collects garbage.

A compile may be the first to import something, and code that runs when it is imported may leave a
frame behind that refers to itself (`torch.fx.wrap` does), with all frames below it: ours, and so
the arguments. Then the garbage is collected at once, which takes as long as many a compile; so it
is asked first whether somebody holds the frame that compiles, as a frame above it does.
"""

import contextlib
import gc
import sys
import threading
from collections.abc import Iterator
from types import FrameType

from stator.graph import OutputGraph


class _Open(threading.local):
    """The graphs of the compile that is under way in this thread."""

    graphs: list[OutputGraph] | None = None


_open = _Open()


def living(graph: OutputGraph) -> None:
    """A trace begins."""
    if _open.graphs is not None:
        _open.graphs.append(graph)


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Around a compile, with all of its traces."""
    outer, _open.graphs = _open.graphs, []
    modules = len(sys.modules)
    compiler: FrameType | None = sys._getframe(2)  # behind `__enter__`
    holders = sys.getrefcount(compiler)
    try:
        yield
    finally:
        for graph in _open.graphs:
            graph.close()
        _open.graphs = outer
        held = sys.getrefcount(compiler) != holders
        compiler = None  # it holds this frame
        if held and len(sys.modules) != modules and gc.isenabled():
            gc.collect()
