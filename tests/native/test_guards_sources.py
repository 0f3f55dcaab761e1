"""Each source reads what it says, runs no user code, and fails when it leads nowhere."""

import sys
import types
import weakref
from collections import OrderedDict
from typing import Any

import pytest

from stator import guards as G  # noqa: N812
from stator._native import _core
from stator.guards import reference


def agreed(guard_list: list[G.Guard], *locals: Any, function: Any = None) -> bool:
    """What native and slow evaluation both say, first and after repetition."""
    tree = G.compile(guard_list)
    expected = reference.check(guard_list, locals, function)
    assert [tree.check(locals, function) for _ in range(4)] == [expected] * 4
    assert (tree.explain(locals, function) is None) == expected
    return expected


def reads(source: G.Source, value: Any, *locals: Any, function: Any = None) -> bool:
    return agreed([G.Guard(source, G.Is(value))], *locals, function=function)


class Instance:
    cls = object()

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)

    def method(self) -> None: ...


class Slotted:
    __slots__ = ("x", "y")


class Hostile:
    """Whoever touches this, but with the layout base's own methods, is caught."""

    def _caught(self, *args: Any) -> Any:
        raise AssertionError("user code ran")

    __getattribute__ = __getattr__ = __eq__ = __bool__ = __len__ = __iter__ = _caught
    __contains__ = __getitem__ = __call__ = __repr__ = __str__ = __format__ = _caught
    __instancecheck__ = __subclasscheck__ = _caught

    def __hash__(self) -> int:
        return 1

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        raise AssertionError("user code ran")


class HostileDict(Hostile, dict[Any, Any]):
    __hash__ = None  # type: ignore[assignment]


class HostileList(Hostile, list[Any]):
    __hash__ = None  # type: ignore[assignment]


A, B = object(), object()
X = G.Local(0, "x")


def test_locals() -> None:
    assert reads(G.Local(1), B, A, B)
    assert not reads(G.Local(0), B, A, B)
    assert not reads(G.Local(0), B, _core.NULL)
    tree = G.compile([G.Guard(G.Local(2), G.Is(A))])
    assert tree.n_locals == 3
    with pytest.raises(ValueError, match="needs 3 locals"):
        tree.check((A,), None)


def test_attributes() -> None:
    assert reads(G.Attr(X, "a"), A, Instance(a=A))
    assert not reads(G.Attr(X, "a"), A, Instance(a=B))
    assert not reads(G.Attr(X, "a"), A, Instance(b=A))
    assert not reads(G.Attr(X, "cls"), Instance.cls, Instance())  # not in the instance
    assert not reads(G.Attr(X, "a"), A, 1)
    assert not reads(G.Attr(X, "cls"), Instance.cls, Instance)  # a class: use ClassAttr


def test_attributes_that_were_never_in_a_dict() -> None:
    class Inline:
        def __init__(self) -> None:
            self.first, self.second = 0, A

    assert reads(G.Attr(X, "second"), A, Inline())
    for i in range(3):  # fresh objects: their dicts are not created for the guard's sake
        tree = G.compile([G.Guard(G.Attr(X, "second"), G.Is(A))])
        assert tree.check((Inline(),), None), i
        assert tree.statistics()["recorded"] == 0


def test_slots_classes_and_modules() -> None:
    slotted: Any = Slotted()
    slotted.x = A
    assert reads(G.Slot(X, Slotted.__dict__["x"]), A, slotted)
    assert not reads(G.Slot(X, Slotted.__dict__["y"]), A, slotted)
    assert not reads(G.Slot(X, Slotted.__dict__["x"]), A, Instance(x=A))
    assert reads(G.ClassAttr(G.TypeOf(X), "cls"), Instance.cls, Instance())
    assert reads(G.ClassAttr(X, "method"), Instance.method, Instance)
    assert not reads(G.ClassAttr(X, "nothing"), A, Instance)
    assert not reads(G.ClassAttr(X, "cls"), Instance.cls, Instance())
    assert reads(G.ModuleAttr(X, "path"), sys.path, sys)
    assert not reads(G.ModuleAttr(X, "a"), A, Instance(a=A))


def test_fields_of_c_types() -> None:
    cause, error = KeyError(), ValueError()
    error.__cause__ = cause
    field = BaseException.__dict__["__cause__"]
    assert reads(G.Field(X, field), cause, error)
    assert reads(G.Field(X, field), None, ValueError())
    assert not reads(G.Field(X, field), cause, ValueError())
    assert not reads(G.Field(X, field), cause, Instance())
    assert str(G.Field(X, field)) == "x.__cause__"
    for wrong in [Slotted.__dict__["x"], Instance.method, None]:
        descriptor: Any = wrong
        with pytest.raises((ValueError, TypeError, AttributeError)):
            G.compile([G.Guard(G.Field(X, descriptor), G.Is(A))])


def test_items() -> None:
    assert reads(G.Item(X, 1), B, [A, B])
    assert reads(G.Item(X, -1), B, (A, B))
    assert not reads(G.Item(X, 2), B, [A, B])
    assert not reads(G.Item(X, -3), A, [A, B])
    assert reads(G.Item(X, "k"), A, {"k": A})
    assert reads(G.Key(X, 1), A, {1: A})
    assert reads(G.Key(X, True), A, {1.0: A})  # as a dict finds it
    assert not reads(G.Key(X, 2), A, {1: A})
    assert not reads(G.Key(X, "k"), A, [A])
    assert reads(G.DictKeyAt(X, 1), "b", {"a": 1, "b": 2})
    assert not reads(G.DictKeyAt(X, 2), "b", {"a": 1, "b": 2})
    assert not reads(G.DictKeyAt(X, 0), "a", OrderedDict(a=1))


def test_what_iterators_hold() -> None:
    items, others = [A, B], (B, A)
    pair = zip(items, others, strict=True)
    assert reads(G.Held(X, 0), items, iter(items))
    assert not reads(G.Held(X, 1), items, iter(items))
    assert not reads(G.Held(X, 0), A, A)
    assert not reads(G.Held(X, 0), 1, 1)
    inner = pair.__reduce__()[1]
    assert reads(G.Index(G.Held(X, 0), 1), inner[1], pair)
    assert reads(G.AheadOf(G.Index(G.Held(X, 0), 1), 1), A, pair)


def test_what_iterators_give() -> None:
    def begun(iterator: Any, times: int) -> Any:
        for _ in range(times):
            next(iterator, None)
        return iterator

    class Items(list[Any]):
        def __len__(self) -> int:
            raise AssertionError("nobody asks for it")

    for make in (iter, lambda each: list.__iter__(Items(each)), lambda each: iter(tuple(each))):
        assert reads(G.AheadOf(X, 0), A, make([A, B]))
        assert reads(G.AheadOf(X, 1), B, make([A, B]))
        assert not reads(G.AheadOf(X, 2), B, make([A, B]))
        assert reads(G.AheadOf(X, 0), B, begun(make([A, B]), 1))
        assert not reads(G.AheadOf(X, 1), A, begun(make([A, B]), 1))
        assert not reads(G.AheadOf(X, 0), A, begun(make([A, B]), 2))
        assert not reads(G.AheadOf(X, 0), A, begun(make([A, B]), 3))
    assert reads(G.AheadOf(X, 1), A, reversed([A, B]))
    assert reads(G.AheadOf(X, 0), A, begun(reversed([A, B]), 1))
    assert not reads(G.AheadOf(X, 2), A, reversed([A, B]))
    assert not reads(G.AheadOf(X, 1), A, begun(reversed([A, B]), 1))
    shrunk = [A, B]
    left = reversed(shrunk)
    shrunk.clear()
    assert not reads(G.AheadOf(X, 0), B, left)
    for other in (iter({1: A}), [A], 1, iter(range(3))):
        assert not reads(G.AheadOf(X, 0), A, other)


def test_large_dicts() -> None:
    for size in (5, 200, 300, 70_000):
        numbers = {i: object() for i in range(size)}
        names = {str(i): object() for i in range(size)}
        for i in (0, size // 2, size - 1):
            assert reads(G.Key(X, i), numbers[i], numbers)
            assert reads(G.Key(X, str(i)), names[str(i)], names)
            assert not reads(G.Key(X, i + size), numbers[i], numbers)


def test_functions() -> None:
    def make(free: Any) -> Any:
        def f(a: Any, b: Any = A, *, c: Any = B) -> Any:
            return free

        return f

    f = make(A)
    assert reads(G.Cell(0), A, function=f)
    assert reads(G.Global("sys"), sys, function=f)
    assert not reads(G.Global("nothing"), sys, function=f)
    assert reads(G.Builtin("len"), len, function=f)
    assert reads(G.Code(G.FUNCTION), f.__code__, function=f)
    assert reads(G.Item(G.Defaults(G.FUNCTION), 0), A, function=f)
    assert reads(G.Item(G.KwDefaults(G.FUNCTION), "c"), B, function=f)
    assert reads(G.Defaults(X), None, make)
    assert reads(G.Closure(X), None, make)
    assert not reads(G.Code(X), None, 1)
    assert not reads(G.FUNCTION, f)
    bound: Any = Instance().method
    assert reads(G.MethodFunction(X), Instance.method, bound)
    assert reads(G.MethodSelf(X), bound.__self__, bound)
    assert not reads(G.MethodSelf(X), None, 1)


def test_an_empty_cell_leads_nowhere() -> None:
    assert not reads(G.CellContents(X), None, types.CellType())
    assert reads(G.CellContents(X), A, types.CellType(A))


def test_weak_references() -> None:
    target = Instance()
    ref = weakref.ref(target)
    assert reads(G.Referent(X), target, ref)
    tree = G.compile([G.Guard(G.Referent(X), G.Is(None))])
    assert not tree.check((ref,), None)
    del target
    assert tree.check((ref,), None)
    assert not reads(G.Referent(X), None, 1)


def test_fixed_objects_and_state() -> None:
    world = {"k": A}
    assert reads(G.Key(G.Fixed(world), "k"), A)
    guards = [G.Guard(G.State(sys.getrecursionlimit), G.Equal(sys.getrecursionlimit()))]
    assert agreed(guards)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 1)
    try:
        assert not agreed(guards)
    finally:
        sys.setrecursionlimit(limit)


def test_no_user_code_runs() -> None:
    hostile: Any = Hostile()
    object.__setattr__(hostile, "a", A)
    pairs = HostileDict()
    dict.__setitem__(pairs, "k", A)
    items = HostileList()
    list.append(items, A)
    guards = [
        G.Guard(X, G.TypeIs(Hostile)),
        G.Guard(X, G.SubclassOf(Hostile)),
        G.Guard(X, G.Is(hostile)),
        G.Guard(G.Attr(X, "a"), G.Is(A)),
        G.Guard(X, G.NoAttr("b")),
        G.Guard(G.ClassAttr(G.TypeOf(X), "_caught"), G.Is(Hostile.__dict__["_caught"])),
        G.Guard(G.Key(G.Local(1), "k"), G.Is(A)),
        G.Guard(G.Local(1), G.Keys(("k",))),
        G.Guard(G.Local(1), G.Length(1)),
        G.Guard(G.Item(G.Local(2), 0), G.Is(A)),
        G.Guard(G.Local(2), G.Length(1)),
    ]
    assert agreed(guards, hostile, pairs, items)
    dict.__setitem__(pairs, "l", hostile)
    failure = G.compile(guards).explain((hostile, pairs, items), None)
    assert failure is not None and str(failure)
    failure = G.compile([G.Guard(X, G.Equal(1))]).explain((hostile,), None)
    assert failure is not None and "Hostile object" in str(failure)


def test_a_key_only_user_code_can_compare_fails_the_guard() -> None:
    class Equal:
        def __hash__(self) -> int:
            return hash("k")

        def __eq__(self, other: object) -> bool:
            raise AssertionError("user code ran")

    pairs = {Equal(): A}
    for check in (G.HasKey("k"), G.NoKey("k")):
        tree = G.compile([G.Guard(X, check)])
        assert not tree.check((pairs,), None)
    assert not G.compile([G.Guard(G.Key(X, "k"), G.Is(A))]).check((pairs,), None)


def test_shared_prefixes_are_one_node() -> None:
    base = G.Attr(X, "m")
    again = G.Attr(G.Local(0), "m")
    guards = [G.Guard(G.Attr(s, n), G.Is(A)) for s in (base, again) for n in "ab"]
    assert G.compile(guards).statistics()["nodes"] == 5  # root, x, x.m, x.m.a, x.m.b


def test_outputs() -> None:
    tree = G.compile([G.Guard(X, G.TypeIs(Instance))], outputs=[G.Attr(X, "a"), X])
    obj = Instance(a=A)
    for _ in range(4):
        assert tree.values((obj,), None) == (A, obj)
    assert tree.values((1,), None) is None
    assert tree.values((Instance(),), None) is None
