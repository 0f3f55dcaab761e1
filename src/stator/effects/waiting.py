"""What has to wait for effects: iterators over containers that the program has changed.

Stage: effects, for `plan`. An iterator made over the container as it was would stand elsewhere in
the changed one, or refuse to go on. In: the nodes and effects of a plan. Out: which nodes are made,
and which effects are written, once the containers hold what they shall.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from stator.effects.model import (
    ArrayContents,
    ByteArrayContents,
    CannotRebuild,
    DequeContents,
    DictContents,
    Effect,
    Fetched,
    KeyDel,
    KeySet,
    ListContents,
    ListExtended,
    Perform,
    Resolve,
    SetContents,
    values_of,
)
from stator.effects.node import Node
from stator.effects.steps import Raw, leaves
from stator.guards import Source
from stator.objects.types import qualname_of

_CONTENTS: Final = (
    ListContents,
    ListExtended,
    DictContents,
    SetContents,
    DequeContents,
    ByteArrayContents,
    ArrayContents,
    KeySet,
    KeyDel,
)


class Waiting:
    """The nodes and effects of one plan that wait."""

    def __init__(self, effects: Iterable[Effect]) -> None:
        self._changed = {id(each.target) for each in effects if isinstance(each, _CONTENTS)}
        self._read: list[tuple[Node, Source]] = []  # containers that must be right by then
        self.nodes: set[int] = set()

    def decide(self, component: Sequence[int], nodes: dict[int, Node], resolve: Resolve) -> None:
        """A node waits, or a cycle of nodes: what they refer to has been decided about."""
        if self._changed and any(self._reads(nodes[key], resolve) for key in component):
            self.nodes.update(component)

    def _reads(self, node: Node, resolve: Resolve) -> bool:
        """Whether making it looks into a container that is changed, or needs one that waits."""
        looks = [*node.late, node.make] if node.complete or node.late else []
        found = False
        for expr in looks:
            for leaf in leaves(expr):
                ref = resolve(leaf.value) if type(leaf) is Raw else None
                if type(ref) is Fetched and id(ref.source) in self._changed:
                    self._read.append((node, ref.source))
                    found = True
        return found or any(
            type(leaf) is Raw and id(leaf.value) in self.nodes
            for expr in (node.make, *node.fills, *node.late)
            for leaf in leaves(expr)
        )

    def divide(self, effects: Iterable[Effect]) -> tuple[list[Effect], list[Effect]]:
        """The effects that come first, and those that come when all values have been made."""
        if not self.nodes:
            return list(effects), []
        first: list[Effect] = []
        last: list[Effect] = []
        targets: set[int] = set()
        for effect in effects:
            waits = isinstance(effect, Perform) or id(effect.target) in targets
            if waits or any(id(value) in self.nodes for value in values_of(effect)):
                targets.add(id(effect.target))
                last.append(effect)
            else:
                first.append(effect)
        for node, source in self._read:
            if id(source) in targets:
                name = qualname_of(type(node.value))
                raise CannotRebuild(f"a {name} in what it iterates over")
        return first, last
