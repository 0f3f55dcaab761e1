"""Effects are written to the same objects, after all values are built, in the given order."""

import collections
import types
from typing import Any

import pytest

from stator.effects import (
    AttrDel,
    AttrSet,
    ByteArrayContents,
    CellDel,
    CellSet,
    ClassAttrDel,
    ClassAttrSet,
    DequeContents,
    DictContents,
    Effect,
    KeyDel,
    KeySet,
    ListContents,
    SetContents,
    SlotDel,
    SlotSet,
)
from tests.emit.world import World


class Plain:
    pass


class Slotted:
    __slots__ = ("x",)


def applied(target: Any, *effects: Any, result: Any = None, world: World | None = None) -> Any:
    """Writes effects, given as functions of a source, to a target; the function's result."""
    world = world or World()
    world.items.append(target)
    source = world.source(len(world.items) - 1)
    return world.run(world.residual(result, [effect(source) for effect in effects]))


def test_list() -> None:
    target = [1, 2, 3]
    applied(target, lambda s: ListContents(s, (4, [5])))
    assert target == [4, [5]]


def test_dict_keeps_the_given_order() -> None:
    target = {"a": 1, "b": 2}
    applied(target, lambda s: DictContents(s, (("b", 3), ("c", 4), ("a", 1))))
    assert list(target.items()) == [("b", 3), ("c", 4), ("a", 1)]


def test_ordered_dict() -> None:
    target = collections.OrderedDict(a=1, b=2)
    applied(target, lambda s: DictContents(s, (("b", 3), ("a", 1))))
    assert list(target.items()) == [("b", 3), ("a", 1)]
    applied(target, lambda s: KeyDel(s, "b"), lambda s: KeySet(s, "c", 5))
    assert list(target.items()) == [("a", 1), ("c", 5)]
    target.move_to_end("a")  # its own order is whole
    assert list(reversed(target)) == ["a", "c"]


def test_default_dict() -> None:
    target: Any = collections.defaultdict(list, a=[1])
    factory = collections.defaultdict.__dict__["default_factory"]
    applied(target, lambda s: DictContents(s, (("b", 1),)), lambda s: SlotSet(s, factory, set))
    assert dict(target) == {"b": 1}
    assert target["new"] == set()


def test_set_deque_bytearray() -> None:
    bag, queue, data = {1}, collections.deque([1, 2], maxlen=2), bytearray(b"abc")
    applied(bag, lambda s: SetContents(s, (2, 3)))
    applied(queue, lambda s: DequeContents(s, (4, 5)))
    applied(data, lambda s: ByteArrayContents(s, b"xy"))
    assert bag == {2, 3}
    assert queue == collections.deque([4, 5]) and queue.maxlen == 2
    assert data == b"xy"


def test_empty_contents() -> None:
    for target, effect in (
        ([1], ListContents), ({1}, SetContents), ({1: 1}, DictContents),
        (collections.deque([1]), DequeContents),
    ):  # fmt: skip
        applied(target, lambda s, effect=effect: effect(s, ()))
        assert len(target) == 0


@pytest.mark.parametrize("kind", [None, Plain])
def test_attributes(kind: type | None) -> None:
    target: Any = Plain()
    applied(target, lambda s: AttrSet(s, "x", [1], kind), lambda s: AttrSet(s, "y", 2, kind))
    assert vars(target) == {"x": [1], "y": 2}
    applied(target, lambda s: AttrDel(s, "x", kind))
    assert vars(target) == {"y": 2}


def test_attributes_of_modules_and_functions() -> None:
    module: Any = types.ModuleType("m")
    applied(module, lambda s: AttrSet(s, "x", 1))
    assert module.x == 1

    def function() -> None: ...

    applied(function, lambda s: AttrSet(s, "x", 1))
    assert vars(function) == {"x": 1}


def test_no_dict() -> None:
    with pytest.raises(TypeError, match="Slotted object has no __dict__"):
        applied(Slotted(), lambda s: AttrSet(s, "x", 1))


def test_slots() -> None:
    target: Any = Slotted()
    slot = Slotted.__dict__["x"]
    applied(target, lambda s: SlotSet(s, slot, [1]))
    assert target.x == [1]
    applied(target, lambda s: SlotDel(s, slot))
    assert not hasattr(target, "x")


def test_keys() -> None:
    target: dict[str, Any] = {"a": 1}
    applied(target, lambda s: KeySet(s, "b", [2]), lambda s: KeyDel(s, "a"))
    assert target == {"b": [2]}
    applied(target, lambda s: KeyDel(s, "gone"))  # what is not there need not leave
    assert target == {"b": [2]}


def test_cells() -> None:
    cell = types.CellType(1)
    applied(cell, lambda s: CellSet(s, [2]))
    assert cell.cell_contents == [2]
    applied(cell, lambda s: CellDel(s))
    assert cell == types.CellType()


def test_classes() -> None:
    class Target:
        old = 1

    applied(Target, lambda s: ClassAttrSet(s, "new", [1]), lambda s: ClassAttrDel(s, "old"))
    assert Target.new == [1] and not hasattr(Target, "old")  # type: ignore[attr-defined]


def test_order() -> None:
    target: dict[str, int] = {}
    effects = [lambda s, i=i: KeySet(s, "k", i) for i in range(3)]
    applied(target, *effects, lambda s: KeySet(s, "a", 1))
    assert list(target.items()) == [("k", 2), ("a", 1)]


def test_values_are_shared_with_the_result() -> None:
    world = World()
    shadow = world.fetched([0], real := [0])
    made: list[Any] = [shadow]
    target: list[Any] = []
    result = applied(target, lambda s: ListContents(s, (made, shadow)), result=made, world=world)
    assert target[0] is result and target[1] is real and result[0] is real


def test_target_contains_itself() -> None:
    world = World()
    real: list[Any] = [1]
    shadow = world.fetched([1], real)
    world.run(world.residual(shadow, [ListContents(world.source(0), (shadow, 1))]))
    assert real[0] is real


def test_same_values_for_two_targets_at_two_calls() -> None:
    world = World()
    targets: list[Any] = [{}, {}]
    world.items += targets
    made: list[Any] = []
    function = world.residual(None, [KeySet(world.source(i), "k", made) for i in range(2)])
    world.run(function)
    first = targets[0]["k"]
    assert first is targets[1]["k"]
    world.run(function)
    assert targets[0]["k"] is targets[1]["k"] is not first


def test_nothing_is_written_if_a_value_cannot_be_built() -> None:
    class Vanishing:
        pass

    world = World()
    target: list[Any] = [1]
    world.items.append(target)
    made = Vanishing()
    effects: list[Effect] = [ListContents(world.source(0), (2,))]
    function = world.residual(made, effects)
    Vanishing.__abstractmethods__ = frozenset("x")  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        world.run(function)
    assert target == [1]


def test_nothing_is_written_if_the_graph_raises() -> None:
    world = World()
    target: list[Any] = [1]
    world.items.append(target)
    tensor = world.output(object(), None)
    function = world.residual(tensor, [ListContents(world.source(0), (tensor,))])
    world.outputs.clear()  # the graph's answer lacks its output
    with pytest.raises(IndexError):
        world.run(function)
    assert target == [1]
