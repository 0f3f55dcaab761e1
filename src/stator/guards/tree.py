"""From guards to a native tree.

Stage: guards. In: a list of guards. Out: a `GuardTree`, in which each prefix that sources share is
one node, fetched once. Nodes come in preorder, and among siblings those that are cheap to decide
come first; within a node, its type comes before anything that depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from stator._native import _core

from .checks import Aliased, Check, TypeIs
from .sources import Source

SOURCES: Final = {name: number for number, name in enumerate(_core.GUARD_SOURCES)}
CHECKS: Final = {name: number for number, name in enumerate(_core.GUARD_CHECKS)}

# Types whose equality and hash are C code: as keys, equal means equal.
PLAIN: Final = frozenset({int, bool, float, str, bytes, type(None)})


@dataclass(frozen=True)
class Guard:
    """The check must hold for the value at the source; a relation has no source of its own."""

    source: Source | None
    check: Check

    def __str__(self) -> str:
        return f"{self.source}: {self.check}" if self.source else str(self.check)


@dataclass(frozen=True)
class Failure:
    """Which guard fails, and on what: the answer of `tree.explain`."""

    index: int
    guard: Guard
    path: str
    expected: str
    actual: str
    value: Any = field(repr=False, default=None)

    def __str__(self) -> str:
        return f"guard {self.index}: {self.path}: expected {self.expected}, got {self.actual}"


class Missing:
    """Stands for the value at a source that leads nowhere."""


@dataclass(eq=False)
class Node:
    """A step of one or more sources. Numbers instead of a parent: no cycles to collect."""

    op: int
    argument: Any
    children: dict[Any, Node] = field(default_factory=dict)
    checks: list[tuple[int, int, Check]] = field(default_factory=list)
    number: int = -1
    parent: int = -1

    def rank(self) -> tuple[int, int]:
        """Leaves before inner nodes, cheap checks before dear ones."""
        return (len(self.children) > 0, min((c[0] for c in self.checks), default=0))


class Builder:
    """The tree under construction."""

    def __init__(self) -> None:
        self.root = Node(SOURCES["ROOT"], None)
        self.known: dict[int, tuple[Source, Node]] = {}
        self.relations: list[tuple[int, Check]] = []

    def node(self, source: Source) -> Node:
        """The node of a source, made with its prefixes where new."""
        path = []
        step: Source | None = source
        while step is not None and id(step) not in self.known:
            path.append(step)
            step = step.base
        node = self.root if step is None else self.known[id(step)][1]
        for step in reversed(path):
            key = step.op, identity(step.argument)
            child = node.children.get(key)
            if child is None:
                child = node.children[key] = Node(SOURCES[step.op], step.argument)
            self.known[id(step)] = step, child
            node = child
        return node

    def add(self, index: int, guard: Guard) -> None:
        for other in guard.check.sources():
            self.node(other)
        if guard.source is None:
            self.relations.append((index, guard.check))
        else:
            self.node(guard.source).checks.append((guard.check.cost, index, guard.check))

    def preorder(self) -> list[Node]:
        nodes: list[Node] = []
        stack = [self.root]
        while stack:
            node = stack.pop()
            node.number = len(nodes)
            nodes.append(node)
            for child in sorted(node.children.values(), key=Node.rank, reverse=True):
                child.parent = node.number
                stack.append(child)
        return nodes

    def number(self, source: Source) -> int:
        return self.node(source).number

    def lower(self, number: int, index: int, check: Check) -> tuple[int, int, Any, int]:
        argument = check.argument(self.number)
        if isinstance(check, Aliased):
            argument = (number, *argument)
        return CHECKS[check.op], number, argument, index


def identity(argument: Any) -> Any:
    """Equal for arguments that mean the same; runs no user code."""
    if type(argument) in PLAIN:
        return type(argument), argument
    if type(argument) is tuple:
        return tuple(map(identity, argument))
    return id(argument)


def compile(
    guards: Iterable[Guard], *, outputs: Sequence[Source] = (), shortcuts: bool = True
) -> _core.GuardTree:
    """One native tree for all guards; `outputs` are the sources `tree.values` returns."""
    guards = list(guards)
    builder = Builder()
    for index, guard in enumerate(guards):
        builder.add(index, guard)
    for output in outputs:
        builder.node(output)
    nodes = builder.preorder()
    checks = [
        builder.lower(node.number, index, check)
        for node in nodes
        for _, index, check in sorted(node.checks, key=order)
    ]
    checks += [builder.lower(0, index, check) for index, check in builder.relations]
    return _core.GuardTree(
        tuple((n.op, n.parent, n.argument) for n in nodes),
        tuple(checks),
        outputs=tuple(map(builder.number, outputs)),
        explainer=Explainer(guards),
        shortcuts=shortcuts,
    )


def order(entry: tuple[int, int, Check]) -> tuple[bool, int, int]:
    """A type check makes the others meaningful: it comes first."""
    cost, index, check = entry
    return not isinstance(check, TypeIs), cost, index


@dataclass(frozen=True)
class Explainer:
    """Turns the native answer (index, found, value) into words."""

    guards: list[Guard]

    def __call__(self, index: int, found: bool, value: Any) -> Failure:
        guard = self.guards[index]
        return Failure(
            index=index,
            guard=guard,
            path=str(guard.source) if guard.source else "relation",
            expected=str(guard.check),
            actual=guard.check.actual(value) if found else "nothing there",
            value=value if found else Missing,
        )
