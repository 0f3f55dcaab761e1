"""From the values of a finished trace to the steps that make them again.

Stage: effects. In: the result, the effects, and the tracer's `resolve`. Out: a `Plan`.

1. *Collect*: from the result and the effects' values, every object that `resolve` does not know
   gets a node (`recipes`).
2. *Order*: what an object is made from comes before it (`schedule`).
3. *Write*: each node becomes steps; an object in no cycle is made whole, the others are made, then
   filled. What reads containers that effects change comes after these (`waiting`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any

from stator.effects.exits import Entry
from stator.effects.hashing import hashes_contents, require_plain_hash
from stator.effects.instances import forget_traceback
from stator.effects.model import (
    CannotRebuild,
    Constant,
    DictContents,
    Effect,
    KeyDel,
    KeySet,
    Perform,
    Ref,
    Resolve,
    SetContents,
    values_of,
)
from stator.effects.node import Node
from stator.effects.recipes import is_constant, recipe
from stator.effects.schedule import components
from stator.effects.steps import (
    Apply,
    Built,
    Call,
    Dict,
    Expr,
    Fill,
    Helper,
    Make,
    Plan,
    Raw,
    Self,
    Set,
    children,
    leaves,
    replaced,
)
from stator.effects.waiting import Waiting
from stator.objects.types import qualname_of


def plan(
    result: Any,
    effects: Sequence[Effect],
    resolve: Resolve,
    *,
    raises: bool = False,
    traceback: tuple[Entry, ...] = (),
    values: Sequence[Any] = (),
) -> Plan:
    """The steps that build the result and write the effects; raises CannotRebuild.

    `resolve` is asked once per object, and not about exact constants. With `raises`, the result is
    an exception that leaves the function. `values` are wanted too, if the trace ends in the middle.
    """
    planner = Planner(resolve)
    for value in (result, *values):
        planner.collect(value)
    for effect in effects:
        for value in values_of(effect):
            planner.collect(value)
        for key in _keys(effect):
            require_plain_hash(key, planner.resolve)
    if raises and id(result) in planner.nodes:
        forget_traceback(planner.nodes[id(result)])
    planner.share_dicts()
    waiting = Waiting(effects)
    planner.order(waiting)
    first, last = (
        [Apply(planner.applied(effect)) for effect in part] for part in waiting.divide(effects)
    )
    made, *others = (planner.bound(Raw(value), None) for value in (result, *values))
    applied = (*first, *planner.late_steps, *last)
    return Plan(tuple(planner.steps), applied, made, raises, traceback, tuple(others))


def _keys(effect: Effect) -> Sequence[Any]:
    match effect:
        case DictContents():
            return [key for key, _ in effect.pairs]
        case SetContents():
            return effect.items
        case KeySet() | KeyDel():
            return [effect.key]
        case _:
            return ()


class Planner:
    """One plan in the making."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        # A resolver may have recipes of its own, for values that only it knows.
        self._remade: Callable[[Any], Node | None] = getattr(resolve, "remade", _no_recipe)
        self._refs: dict[int, Ref | None] = {}
        self._alive: list[Any] = []  # ids are keys: nothing that was seen may die
        self.nodes: dict[int, Node] = {}
        self._owners: dict[int, list[Node]] = {}
        self._numbers: dict[int, int] = {}
        self.steps: list[Make | Fill] = []
        self.late_steps: list[Make | Fill] = []  # of nodes that wait for effects

    # -- collect --

    def resolve(self, value: Any) -> Ref | None:
        """The tracer's answer, asked for once per object."""
        if is_constant(value):
            return Constant(value)
        key = id(value)
        if key not in self._refs:
            self._alive.append(value)
            self._refs[key] = self._resolve(value)
        return self._refs[key]

    def collect(self, value: Any) -> None:
        """Gives a node to every object that has to be made for this one."""
        pending = [value]
        while pending:
            value = pending.pop()
            try:
                if id(value) in self.nodes or self.resolve(value) is not None:
                    continue
                node = self._remade(value) or recipe(value)
            except CannotRebuild as error:
                error.value = value
                raise
            if node is None:
                self._refs[id(value)] = Constant(value)
                continue
            self.nodes[id(value)] = node
            found = self._parts(node)
            pending += reversed(found)

    def _parts(self, node: Node) -> list[Any]:
        """The objects a node refers to, whether to make or to fill it."""
        parts = []
        for expr in (node.make, *node.fills, *node.late):
            self._require_plain_keys(expr)
            parts += [leaf.value for leaf in leaves(expr) if type(leaf) is Raw]
        held = node.attributes
        if held is not None:
            owners = self._owners.setdefault(id(held.value), [])
            owners.append(node)
            if type(held.value) is not dict or self.resolve(held.value) or len(owners) > 1:
                parts.append(held.value)  # it is somebody, besides being this object's dict
            elif held.fill is not None:
                self._require_plain_keys(held.fill)
                parts += [leaf.value for leaf in leaves(held.fill) if type(leaf) is Raw]
        return parts

    def _require_plain_keys(self, expr: Expr) -> None:
        keys: Sequence[Expr] = ()
        match expr:
            case Dict():
                keys = [key for key, _ in expr.pairs]
            case Set():
                keys = expr.items
            case Call() if expr.function is Helper.FILL_ORDERED:
                keys = [next(children(pair)) for pair in children(expr.args[1])]
            case Call() if expr.function in (set.update, frozenset.__new__):
                keys = list(children(expr.args[1]))
        for key in keys:
            if type(key) is Raw:
                require_plain_hash(key.value, self.resolve)
        for child in children(expr):
            if type(child) is not Raw:
                self._require_plain_keys(child)

    # -- instance dicts --

    def share_dicts(self) -> None:
        """Decides how each object gets its attributes.

        Mostly they are put into the dict it was made with. But the dict may be held by others too
        (`vars(obj)`): then it is a value of its own, got from its owner if there is one, and if the
        program assigned it, set.
        """
        for key, owners in self._owners.items():
            held = owners[0].attributes
            assert held is not None
            shared = self.nodes.get(key)
            if shared is not None and len(owners) == 1 and type(held.value) is dict:
                name = f"dict_of_{qualname_of(type(held.owner)).rpartition('.')[2]}"
                shared.make = Call(held.get, (Raw(held.owner),), name)
                shared.whole = None
                continue
            if shared is None and self._refs.get(key) is None:
                if held.fill is not None:
                    owners[0].fills.append(held.fill)
                continue
            for owner in owners:
                self._assign_dict(owner)

    def _assign_dict(self, owner: Node) -> None:
        held = owner.attributes
        assert held is not None
        if held.set is None:
            raise CannotRebuild(f"the dict of a {qualname_of(type(held.owner))}, held by others")
        owner.fills.append(Call(held.set, (Self(), Raw(held.value)), "set_dict"))

    # -- order --

    def order(self, waiting: Waiting) -> None:
        """Writes the steps of all nodes, those that others need first."""
        edges = {
            key: [k for expr in (node.make, *node.fills, *node.late) for k in self._needs(expr)]
            for key, node in self.nodes.items()
        }
        early = self.steps
        for component in components(self.nodes, edges.__getitem__):
            waiting.decide(component, self.nodes, self.resolve)
            self.steps = self.late_steps if component[0] in waiting.nodes else early
            if len(component) == 1 and component[0] not in edges[component[0]]:
                self._write_alone(component[0])
            else:
                self._write_cycle(component)
        self.steps = early

    def _needs(self, expr: Expr) -> list[int]:
        found = (id(leaf.value) for leaf in leaves(expr) if type(leaf) is Raw)
        return [key for key in found if key in self.nodes]

    def _write_alone(self, key: int) -> None:
        node = self.nodes[key]
        if node.whole is not None:
            self._make(key, node.whole)
            return
        self._make(key, node.make)
        self._fill(key, [*node.fills, *node.late])

    def _write_cycle(self, component: list[int]) -> None:
        members = set(component)

        def parts(key: int) -> list[int]:
            return [k for k in self._needs(self.nodes[key].make) if k in members]

        for group in components(component, parts):
            (key, *rest) = group
            node = self.nodes[key]
            if hashes_contents(type(node.value)):
                raise CannotRebuild(
                    f"a {_name(node)} in a cycle: it may be a key before it is filled"
                )
            if rest or key in parts(key):
                raise CannotRebuild(f"a {_name(node)} that contains itself")
            if node.complete and parts(key):
                raise CannotRebuild(f"a {_name(node)} in what it iterates over")
            self._make(key, node.make)
        for key in component:
            self._fill(key, self.nodes[key].fills)
        for key in component:
            self._fill(key, self.nodes[key].late)

    # -- write --

    def _make(self, key: int, expr: Expr) -> None:
        made = self.bound(expr, None)
        self._numbers[key] = number = len(self._numbers) + 1
        self.steps.append(Make(number, made, type(self.nodes[key].value)))

    def _fill(self, key: int, exprs: Sequence[Expr]) -> None:
        own = Built(self._numbers[key])
        self.steps += [Fill(self.bound(expr, own)) for expr in exprs]

    def bound(self, expr: Expr, own: Built | None) -> Expr:
        """The expression with the trace's objects replaced by where they come from now."""

        def leaf(found: Expr) -> Expr:
            if type(found) is Raw:
                number = self._numbers.get(id(found.value))
                if number is not None:
                    return Built(number)
                ref = self.resolve(found.value)
                assert ref is not None, "collected, but neither known nor made"
                return ref
            if type(found) is Self:
                assert own is not None, "only fills refer to what they fill"
                return own
            return found

        return replaced(expr, leaf)

    def applied(self, effect: Effect) -> Effect:
        """The effect with expressions for values."""

        def ready(value: Any) -> Any:
            return self.bound(Raw(value), None)

        match effect:
            case DictContents():
                pairs = tuple((ready(key), ready(value)) for key, value in effect.pairs)
                return replace(effect, pairs=pairs)
            case Perform():
                keywords = tuple((name, ready(value)) for name, value in effect.keywords)
                return replace(effect, args=tuple(map(ready, effect.args)), keywords=keywords)
            case _:
                changes: dict[str, Any] = {}
                for name in {f.name for f in fields(effect)} & {"items", "key", "value"}:
                    value = effect.__dict__[name]
                    changes[name] = tuple(map(ready, value)) if name == "items" else ready(value)
                return replace(effect, **changes)


def _no_recipe(value: Any) -> None:
    return None


def _name(node: Node) -> str:
    return qualname_of(type(node.value))
