"""Each check holds for what it says, and for nothing else."""

import enum
import gc
import math
import struct
from collections import OrderedDict
from typing import Any

import pytest

from stator import guards as G  # noqa: N812

from .test_guards_sources import X, agreed


class Base: ...


class Derived(Base): ...


class Colour(enum.Enum):
    RED = 1


def holds(check: G.Check, value: Any) -> bool:
    return agreed([G.Guard(X, check)], value)


CONSTANTS: Any = [
    0, 1, -1, 2**100, True, False, 0.0, -0.0, 1.0, math.inf, math.nan, -math.nan, "", "a", "ä", b"",
    b"a", None, ..., NotImplemented, 0j, complex(-0.0, 0.0), 1 + 0j, (), (1,), (True,), (1.0,),
    ((),),
    (1, "a", (None, -0.0)), (1, "a", (None, 0.0)), frozenset(), frozenset({1}), frozenset({True}),
    frozenset({1.0, "a"}), range(3), range(0, 3, 2), range(0, 4, 2), range(0), range(0, 0, 2),
    range(2**70), slice(None), slice(1), slice(True), slice(1.0), slice(1, None, None),
    slice(None, 1, 2), slice(None, 1, (2, -0.0)), slice(None, 1, (2, 0.0)), (slice(1), ...),
    slice(slice(None)), (frozenset({(1, 2)}),), (frozenset({(1, True)}),),
]  # fmt: skip


def twin(value: Any) -> Any:
    """An equal object, another one where possible."""
    if type(value) is float:
        return struct.unpack("d", struct.pack("d", value))[0]
    if type(value) is str:
        return "".join(list(value))
    if type(value) is tuple:
        return tuple(map(twin, value))
    if type(value) is int:
        return int(str(value))
    if type(value) is frozenset:
        return frozenset(map(twin, value))
    if type(value) is slice or type(value) is range:
        return type(value)(*map(twin, (value.start, value.stop, value.step)))
    return value


@pytest.mark.parametrize("index", range(len(CONSTANTS)))
def test_constants_equal_themselves_only(index: int) -> None:
    constant = CONSTANTS[index]
    for other, value in enumerate(CONSTANTS):
        assert holds(G.Equal(constant), value) == (index == other), value
    assert holds(G.Equal(constant), twin(constant))


def test_subclasses_of_constants_are_not_equal() -> None:
    class Int(int): ...

    class Str(str): ...

    assert not holds(G.Equal(1), Int(1))
    assert not holds(G.Equal("a"), Str("a"))
    assert not holds(G.Equal((1,)), (Int(1),))


@pytest.mark.parametrize(
    "value", [
        [], {}, object(), Base, Base(), (1, []), frozenset({Base()}), slice([]), slice(1, Base()),
        slice(1, 2, (slice({}),)), Colour.RED, bytearray(), {1}, OrderedDict(),
    ],
)  # fmt: skip
def test_what_may_change_is_no_constant(value: Any) -> None:
    with pytest.raises(TypeError, match="no constant"):
        G.compile([G.Guard(X, G.Equal(value))])


def test_identity_and_type() -> None:
    base = Base()
    assert holds(G.Is(base), base)
    assert not holds(G.Is(base), Base())
    assert holds(G.Is(Colour.RED), Colour.RED)
    assert holds(G.IsNot(None), base)
    assert not holds(G.IsNot(None), None)
    assert holds(G.TypeIs(Base), base)
    assert not holds(G.TypeIs(Base), Derived())
    assert holds(G.SubclassOf(Base), Derived())
    assert not holds(G.SubclassOf(Derived), base)


def test_a_weak_identity_ends_with_its_object() -> None:
    base = Base()
    tree = G.compile([G.Guard(X, G.IsWeak(base))])
    assert tree.check((base,), None)
    assert not tree.check((Base(),), None)
    assert not tree.check((None,), None)
    del base
    gc.collect()
    assert not tree.check((None,), None)
    assert not any(tree.check((Base(),), None) for _ in range(100))


def test_lengths() -> None:
    for value in ([1, 2], (1, 2), {1: 1, 2: 2}, {1, 2}, frozenset({1, 2}), "ab", b"ab"):
        assert holds(G.Length(2), value)
        assert not holds(G.Length(3), value)
    assert not holds(G.Length(2), Base())


def test_keys() -> None:
    assert holds(G.Keys(("a", 1)), {"a": 0, 1: 0})
    assert not holds(G.Keys(("a", 1)), {1: 0, "a": 0})
    assert not holds(G.Keys(("a", 1)), {"a": 0, True: 0})
    assert not holds(G.Keys(("a",)), {"a": 0, 1: 0})
    assert not holds(G.Keys(()), [])
    key = Base()
    assert holds(G.Keys((key,)), {key: 0})
    assert not holds(G.Keys((key,)), {Base(): 0})


def test_elements_of_sets() -> None:
    for kind in (set, frozenset):
        found = kind((1, "a", 2.5))
        order = tuple(found)
        assert holds(G.Keys(order), found)
        assert not holds(G.Keys(order[::-1]), found)
        assert not holds(G.Keys(order[1:]), found)
        assert not holds(G.Keys((*order, None)), found)
        assert not holds(G.Keys(tuple(True if each == 1 else each for each in order)), found)
    assert not holds(G.Keys((1,)), {1: 0, 2: 0}.keys())


def test_constants_that_are_sets_have_an_order() -> None:
    one, other = (frozenset(numbers) for numbers in ((0, 8), (8, 0)))  # they collide
    assert one == other and [*one] != [*other]
    assert holds(G.Equal(one), frozenset((0, 8)))
    assert not holds(G.Equal(one), other)


def test_the_order_of_an_ordered_dict_is_its_own() -> None:
    ordered = OrderedDict(a=1, b=2)
    tree = G.compile([G.Guard(X, G.Keys(("a", "b")))])
    assert all(tree.check((ordered,), None) for _ in range(4))
    ordered.move_to_end("a")
    assert not tree.check((ordered,), None)
    assert holds(G.Keys(("b", "a")), ordered)


def test_presence() -> None:
    assert holds(G.HasKey(1), {1: 0})
    assert holds(G.HasKey(True), {1: 0})
    assert holds(G.HasKey(1), {1, 2})
    assert not holds(G.HasKey("x"), {1, 2})
    assert holds(G.NoKey("x"), {1: 0})
    assert not holds(G.NoKey(1), {1: 0})
    assert not holds(G.NoKey(1), [])
    base = Base()
    assert holds(G.NoAttr("a"), base)
    base.a = 1  # type: ignore[attr-defined]
    assert not holds(G.NoAttr("a"), base)
    assert holds(G.NoClassAttr("a"), Base)
    assert not holds(G.NoClassAttr("__init__"), Base)
    assert not holds(G.NoClassAttr("a"), base)


def test_aliases() -> None:
    a, b, c = Base(), Base(), Base()
    one, two, three = G.Local(0), G.Local(1), G.Local(2)
    same = [G.Guard(one, G.Aliased((two, three)))]
    assert agreed(same, a, a, a)
    assert not agreed(same, a, a, b)
    different = [G.Guard(one, G.NotAliased((two, three)))]
    assert agreed(different, a, b, c)
    assert not agreed(different, a, b, b)


@pytest.mark.parametrize("n", [2, 9, 70, 500])
def test_many_different_objects(n: int) -> None:
    guards = [G.Guard(G.Local(0), G.NotAliased(tuple(G.Local(i) for i in range(1, n))))]
    values = [Base() for _ in range(n)]
    assert agreed(guards, *values)
    values[n // 2] = values[-1]
    assert agreed(guards, *values) == (n == 1 or n // 2 == n - 1)


def test_relations() -> None:
    a, b = G.Int(G.Local(0)), G.Int(G.Local(1))

    def relation(expr: G.Expr, x: Any, y: Any) -> bool:
        return agreed([G.Guard(None, G.Holds(expr))], x, y)

    for x in (-7, -1, 0, 1, 7, 2**63 - 1, -(2**63), 2**64, True, 1.0):
        for y in (-3, -1, 0, 1, 3, 2**62):
            for expr in (
                a + b == 8,
                a - b > 0,
                a * b <= 21,
                a // b == -3,
                a % b != 1,
                a < b,
                a >= b,
                -a == b,
            ):
                relation(expr, x, y)
    assert relation(a // b == -3, -7, 3)
    assert relation(a % b == 2, -7, 3)
    assert not relation(a // b == 0, 1, 0)
    assert not relation(a + b > 0, 2**63 - 1, 1)
    length = G.LenOf(G.Local(0))
    assert agreed([G.Guard(None, G.Holds(length * 2 == 4))], [1, 2])
    assert not agreed([G.Guard(None, G.Holds(length * 2 == 4))], [1])
    assert not agreed([G.Guard(None, G.Holds(length >= 0))], 5)
    assert not agreed([G.Guard(None, G.Holds(G.SizeOf(G.Local(0), 0) >= 0))], 5)


def test_callbacks_are_counted() -> None:
    seen = []

    def accept(value: Any) -> bool:
        seen.append(value)
        return bool(value == 1)

    tree = G.compile([G.Guard(X, G.Callback(accept)), G.Guard(X, G.TypeIs(int))])
    assert tree.check((1,), None)
    assert not tree.check((2,), None)
    assert not tree.check(("x",), None)  # cheap checks come first
    assert seen == [1, 2]
    assert tree.callbacks == 2


def test_a_callback_that_raises_fails_the_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", reported.append)
    tree = G.compile([G.Guard(X, G.Callback(lambda value: 1 / value))])
    assert tree.check((1,), None)
    assert not tree.check((0,), None)
    assert len(reported) == 1


def test_a_callback_may_change_everything() -> None:
    held: list[Any] = [Base(), Base()]

    def ruin(value: Any) -> bool:
        held.clear()
        gc.collect()
        return True

    guards = [G.Guard(G.Item(X, i), G.Callback(ruin)) for i in range(2)]
    tree = G.compile(guards)
    assert tree.check((held,), None)
    assert not tree.check((held,), None)


def test_outputs_are_current_after_a_callback() -> None:
    held: list[Any] = [Base()]

    def replace(value: Any) -> bool:
        held[0] = Derived()
        gc.collect()
        return True

    first = G.Item(X, 0)
    tree = G.compile([G.Guard(first, G.Callback(replace))], outputs=[first])
    for _ in range(5):
        found = tree.values((held,), None)
        assert found is not None and found[0] is held[0]


def test_explanations() -> None:
    guards = [
        G.Guard(X, G.TypeIs(dict)),
        G.Guard(G.Item(X, "k"), G.Equal(1)),
        G.Guard(G.Item(X, "l"), G.Length(1)),
    ]
    tree = G.compile(guards)
    assert tree.explain(({"k": 1, "l": [0]},), None) is None
    failure = tree.explain(({"k": 1, "l": []},), None)
    assert failure is not None
    assert (failure.index, failure.path, failure.expected, failure.actual) == (
        2, "x['l']", "length 1", "length 0",
    )  # fmt: skip
    assert str(tree.explain(({"k": 2, "l": [0]},), None)) == "guard 1: x['k']: expected 1, got 2"
    missing = tree.explain(({"k": 1},), None)
    assert missing is not None and missing.actual == "nothing there"
    assert str(tree.explain((1,), None)) == "guard 0: x: expected type dict, got type int"
