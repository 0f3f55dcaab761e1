"""What nodes are computed from.

In: nodes of a graph. Out: these and all that lead to them, each once, as they are come upon.
"""

from collections.abc import Iterable, Iterator

import torch.fx as fx


def computed_from(nodes: Iterable[fx.Node]) -> Iterator[fx.Node]:
    """The nodes themselves, and what their arguments are computed from."""
    waiting = list(nodes)
    seen = set(waiting)
    while waiting:
        node = waiting.pop()
        yield node
        new = set(node.all_input_nodes) - seen
        seen |= new
        waiting += new
