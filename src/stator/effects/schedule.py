"""The order in which values are made: what a value needs comes before it.

Stage: effects. In: nodes, and for each the nodes it refers to. Out: groups of nodes, those needed
first. A group of one that does not refer to itself is in no cycle and can be made whole; the
members of any other group refer to each other, and are all made before the first of them is filled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence


def components(keys: Iterable[int], edges: Callable[[int], Sequence[int]]) -> Iterator[list[int]]:
    """Strongly connected components, those referred to first: Tarjan's algorithm.

    Without recursion, because object graphs are deep: a linked list has a level per element.
    """
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    active: dict[int, None] = {}  # a stack whose membership is cheap
    for root in keys:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        active[root] = None
        path = [(root, iter(edges(root)))]
        while path:
            node, rest = path[-1]
            for target in rest:
                if target not in index:
                    index[target] = low[target] = len(index)
                    active[target] = None
                    path.append((target, iter(edges(target))))
                    break
                if target in active:
                    low[node] = min(low[node], index[target])
            else:
                path.pop()
                if path:
                    parent = path[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == index[node]:
                    yield _popped(active, node)


def _popped(active: dict[int, None], node: int) -> list[int]:
    component = []
    while True:
        member, _ = active.popitem()
        component.append(member)
        if member == node:
            return component[::-1]
