"""Shortcuts: unchanged levels are skipped, and no change is hidden by that.

Each trap is a way to change something that one or another kind of version does not see.
"""

import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from stator import guards as G  # noqa: N812

from .guard_versions import VERSIONS, WALKED, needs_versions, noticing

X = G.Local(0, "x")
M = G.Attr(X, "m")


@pytest.fixture(params=(*VERSIONS, *WALKED), autouse=True)
def versions(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from noticing(request.param)


class Node:
    a: Any
    b: Any
    m: Any
    count: Any

    def __init__(self, **attributes: Any) -> None:
        for name, value in attributes.items():
            setattr(self, name, value)

    def set(self, value: Any) -> None:
        self.a = value


class Inline:
    """Its instances keep their attributes inline until somebody asks for the dict."""

    def __init__(self) -> None:
        self.a: Any = 1
        self.b: Any = 2


class Other(Node):
    pass


def armed(guards: list[G.Guard], *locals: Any) -> G.GuardTree:
    """A tree that has seen its arguments a few times, and has passed."""
    tree = G.compile(guards)
    for _ in range(5):
        assert tree.check(locals, None), tree.explain(locals, None)
    return tree


def evaluated(tree: G.GuardTree, *locals: Any) -> int:
    """How many levels one passing check evaluates."""
    before = tree.statistics()["evaluated"]
    assert tree.check(locals, None)
    return int(tree.statistics()["evaluated"] - before)


def guards_on(n: int) -> list[G.Guard]:
    kids = G.Attr(X, "kids")
    found = [G.Guard(X, G.TypeIs(Node))]
    for i in range(n):
        kid = G.Item(kids, f"k{i}")
        found += [G.Guard(kid, G.TypeIs(Node)), G.Guard(G.Attr(kid, "a"), G.Equal(1))]
    return found


def test_unchanged_levels_are_skipped_and_one_change_evaluates_one_level() -> None:
    needs_versions()
    kids = {f"k{i}": Node(a=1) for i in range(50)}
    x = Node(kids=kids)
    tree = armed(guards_on(50), x)
    assert tree.statistics()["levels"] == 53
    assert evaluated(tree, x) == 1  # the root: locals are new each time
    kids["k7"].b = 5
    assert evaluated(tree, x) == 2
    for _ in range(20):
        evaluated(tree, x)
    assert evaluated(tree, x) == 1
    kids["k7"].a = 2
    assert not tree.check((x,), None)
    kids["k7"].a = 1
    assert tree.check((x,), None)


def test_without_shortcuts_everything_is_evaluated() -> None:
    x = Node(kids={f"k{i}": Node(a=1) for i in range(5)})
    tree = G.compile(guards_on(5), shortcuts=False)
    for _ in range(5):
        assert evaluated(tree, x) == 8


def by_attribute(o: Any, v: Any) -> None:
    o.a = v


def by_method(o: Any, v: Any) -> None:
    o.set(v) if type(o) is Node else setattr(o, "a", v)


def by_object_setattr(o: Any, v: Any) -> None:
    object.__setattr__(o, "a", v)


def by_dict(o: Any, v: Any) -> None:
    o.__dict__["a"] = v


def by_update(o: Any, v: Any) -> None:
    vars(o).update(a=v)


def by_clear(o: Any, v: Any) -> None:
    vars(o).clear()
    o.a = v


def by_pop(o: Any, v: Any) -> None:
    vars(o).pop("a")
    o.a = v


def by_delete(o: Any, v: Any) -> None:
    del o.a
    o.a = v


def by_new_dict(o: Any, v: Any) -> None:
    o.__dict__ = {"a": v, "b": 2}


def by_deleting_the_dict(o: Any, v: Any) -> None:
    del o.__dict__
    o.a = v


def by_setdefault(o: Any, v: Any) -> None:
    vars(o).pop("a")
    vars(o).setdefault("a", v)


def by_or(o: Any, v: Any) -> None:
    d = vars(o)
    d |= {"a": v}


def by_popitem(o: Any, v: Any) -> None:
    d = vars(o)
    while d:
        d.popitem()
    d["a"] = v


def by_exec(o: Any, v: Any) -> None:
    exec("a = v", {"v": v}, vars(o))


WAYS = [value for name, value in list(globals().items()) if name.startswith("by_")]


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
@pytest.mark.parametrize("cls", [Node, Inline])
@pytest.mark.parametrize("materialized", [False, True])
def test_every_way_to_change_an_attribute(way: Any, cls: Any, materialized: bool) -> None:
    for _ in range(300):  # let CPython specialise the store
        warm = cls()
        warm.a = 1
        way(warm, 1)
    obj = cls()
    obj.a = 1
    if materialized:
        assert vars(obj)
    x = Node(m=obj)
    guards = [G.Guard(M, G.TypeIs(cls)), G.Guard(G.Attr(M, "a"), G.Equal(1))]
    tree = armed(guards, x)
    for value in (2, 1, True, 1, 1.0, 1):
        way(obj, value)
        assert tree.check((x,), None) == (type(value) is int and value == 1), value
        for _ in range(30):  # armed again where it passes
            assert tree.check((x,), None) == (type(value) is int and value == 1)


def test_a_changed_class_is_seen() -> None:
    x = Node(m=Node(a=1))
    tree = armed([G.Guard(M, G.TypeIs(Node)), G.Guard(G.Attr(M, "a"), G.Equal(1))], x)
    leaf = armed([G.Guard(M, G.TypeIs(Node))], x)
    sub = armed([G.Guard(M, G.SubclassOf(Node))], x)
    x.m.__class__ = Other
    assert not tree.check((x,), None)
    assert not leaf.check((x,), None)
    assert sub.check((x,), None)
    x.m.__class__ = Inline
    assert not sub.check((x,), None)
    x.m.__class__ = Node
    assert tree.check((x,), None) and leaf.check((x,), None) and sub.check((x,), None)


def test_changed_bases_are_seen() -> None:
    class A: ...

    class B: ...

    class C(A): ...

    x = Node(m=C())
    sub = armed([G.Guard(M, G.SubclassOf(A))], x)
    C.__bases__ = (B,)
    assert not sub.check((x,), None)
    C.__bases__ = (A,)
    assert sub.check((x,), None)


def test_class_attributes_are_seen() -> None:
    needs_versions()

    class A:
        value = 1

    class B(A): ...

    x = Node(m=B())
    source = G.ClassAttr(G.TypeOf(M), "value")
    tree = armed([G.Guard(source, G.Equal(1)), G.Guard(G.TypeOf(M), G.NoClassAttr("other"))], x)
    assert evaluated(tree, x) == 1
    A.value = 2
    assert not tree.check((x,), None)
    A.value = 1
    assert all(tree.check((x,), None) for _ in range(5))
    B.value = 3
    assert not tree.check((x,), None)
    del B.value
    assert all(tree.check((x,), None) for _ in range(5))
    A.other = 1  # type: ignore[attr-defined]
    assert not tree.check((x,), None)
    del A.other  # type: ignore[attr-defined]
    B.__bases__ = (Node,)
    assert not tree.check((x,), None)


def test_a_class_that_ran_out_of_versions_is_checked_each_time() -> None:
    class A:
        value = 1

    x = Node(m=A())
    tree = armed([G.Guard(G.ClassAttr(G.TypeOf(M), "value"), G.Equal(1))], x)
    for i in range(3000):
        A.value = i % 3
        assert tree.check((x,), None) == (i % 3 == 1)


def test_many_classes() -> None:
    classes: list[Any] = [type(f"C{i}", (), {"value": i}) for i in range(200)]
    x = Node(**{f"m{i}": cls() for i, cls in enumerate(classes)})
    guards = [
        G.Guard(G.ClassAttr(G.TypeOf(G.Attr(X, f"m{i}")), "value"), G.Equal(i)) for i in range(200)
    ]
    tree = armed(guards, x)
    for cls in classes:
        old, cls.value = cls.value, -1
        assert not tree.check((x,), None)
        cls.value = old
        assert tree.check((x,), None)


@pytest.mark.parametrize("make", [lambda: [1, 2], lambda: {1, 2}])
def test_contents_without_versions_are_checked_each_time(make: Any) -> None:
    x = Node(m=make())
    tree = armed([G.Guard(M, G.Length(2))], x)
    x.m.pop()
    assert not tree.check((x,), None)


def test_slots_cells_and_functions_are_checked_each_time() -> None:
    class Slotted:
        __slots__ = ("a",)

    slotted: Any = Slotted()
    slotted.a = 1
    cell = types.CellType(1)

    def function(p: int = 1) -> None: ...

    x = Node(s=slotted, c=cell, f=function)
    tree = armed(
        [
            G.Guard(G.Slot(G.Attr(X, "s"), Slotted.__dict__["a"]), G.Equal(1)),
            G.Guard(G.CellContents(G.Attr(X, "c")), G.Equal(1)),
            G.Guard(G.Item(G.Defaults(G.Attr(X, "f")), 0), G.Equal(1)),
        ],
        x,
    )
    changes: Any = (
        (lambda: setattr(slotted, "a", 2), lambda: setattr(slotted, "a", 1)),
        (lambda: setattr(cell, "cell_contents", 2), lambda: setattr(cell, "cell_contents", 1)),
        (
            lambda: setattr(function, "__defaults__", (2,)),
            lambda: setattr(function, "__defaults__", (1,)),
        ),
    )
    for change, undo in changes:
        change()
        assert not tree.check((x,), None)
        undo()
        assert tree.check((x,), None)


def test_a_tuple_that_takes_anothers_address() -> None:
    """A tuple's items are fixed, but not which tuple lives at an address."""
    x = Node(m=(object(), 1))
    tree = armed([G.Guard(G.Item(M, 1), G.Equal(1))], x)
    same_address = 0
    for i in range(100):
        address = id(x.m)
        x.m = None
        x.m = (None, i)
        same_address += id(x.m) == address
        assert tree.check((x,), None) == (i == 1)
        x.m = (None, 1)
        assert all(tree.check((x,), None) for _ in range(4))
    tree = armed([G.Guard(G.Item(X, 1), G.Equal(1))], (None, 1))
    for i in range(100):
        assert tree.check(((None, i),), None) == (i == 1)
    if not same_address:
        pytest.skip("the allocator did not use an address again")


def test_an_object_that_takes_anothers_address() -> None:
    tree = armed([G.Guard(G.Attr(X, "a"), G.Equal(1))], Node(a=1))
    for i in range(200):
        obj = Node(a=i % 3)
        assert all(tree.check((obj,), None) == (i % 3 == 1) for _ in range(3))
        del obj


def test_a_dict_that_serves_two_objects() -> None:
    one, two = Node(a=1), Node()
    two.__dict__ = one.__dict__
    x = Node(m=one, n=two)
    tree = armed([G.Guard(G.Attr(G.Attr(X, n), "a"), G.Equal(1)) for n in "mn"], x)
    two.a = 2
    assert not tree.check((x,), None)


def test_two_trees_watch_one_dict() -> None:
    x = Node(a=1)
    one = armed([G.Guard(G.Attr(X, "a"), G.Equal(1))], x)
    two = armed([G.Guard(G.Attr(X, "a"), G.TypeIs(int))], x)
    x.a = 2
    assert not one.check((x,), None)
    assert two.check((x,), None)
    del one
    x.a = "x"
    assert not two.check((x,), None)


def test_globals_are_seen() -> None:
    namespace: dict[str, Any] = {"g": 1, "__builtins__": __builtins__}
    exec("def f(): pass\ndef setg(v):\n  global g\n  g = v\n", namespace)
    f, setg = namespace["f"], namespace["setg"]
    tree = G.compile([G.Guard(G.Global("g"), G.Equal(1)), G.Guard(G.GLOBALS, G.NoKey("len"))])
    for _ in range(200):
        assert tree.check((), f)
        setg(2)
        assert not tree.check((), f)
        setg(1)
    namespace["len"] = 1
    assert not tree.check((), f)


def test_another_function_with_other_globals() -> None:
    def make(value: int) -> Any:
        namespace = {"g": value}
        exec("def f(): pass", namespace)
        return namespace["f"]

    tree = G.compile([G.Guard(G.Global("g"), G.Equal(1))])
    f, g = make(1), make(2)
    for _ in range(50):
        assert tree.check((), f)
        assert not tree.check((), g)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no watchers")
def test_events_void_records(versions: str) -> None:
    x = Node(a=1)
    tree = armed([G.Guard(G.Attr(X, "a"), G.Equal(1))], x)
    x.a = 1.0
    assert tree.statistics()["events"] == (versions == "watchers")
    assert not tree.check((x,), None)


def test_a_level_that_changes_each_time_is_no_longer_recorded() -> None:
    needs_versions()
    x = Node(a=1, count=0)
    tree = armed([G.Guard(G.Attr(X, "a"), G.Equal(1))], x)
    for _ in range(300):
        x.count += 1
        assert tree.check((x,), None)
    events = tree.statistics()["events"]
    for _ in range(100):
        x.count += 1
        assert tree.check((x,), None)
    assert tree.statistics()["events"] - events < 10
    for _ in range(3000):
        assert tree.check((x,), None)
    assert evaluated(tree, x) == 1  # quiet again: recorded again
