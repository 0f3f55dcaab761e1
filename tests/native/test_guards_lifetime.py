"""Trees leak nothing, keep nothing alive they should not, and survive threads and collection."""

import gc
import random
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from stator import guards as G  # noqa: N812

X = G.Local(0, "x")
ROUNDS = 100_000


class Node:
    value = 1
    a: Any
    kids: Any
    tree: Any

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def leaked(action: Callable[[], Any], rounds: int) -> int:
    """Blocks that stay allocated after many rounds."""
    for _ in range(200):
        action()
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(rounds):
        action()
    gc.collect()
    return sys.getallocatedblocks() - before


def everything(obj: Any) -> list[G.Guard]:
    item = G.Item(G.Attr(X, "d"), "k")
    return [
        G.Guard(X, G.TypeIs(Node)),
        G.Guard(X, G.IsWeak(obj)),
        G.Guard(G.Attr(X, "a"), G.Equal((1, "x", 2.5))),
        G.Guard(G.Attr(X, "d"), G.Keys(("k",))),
        G.Guard(G.Attr(X, "s"), G.Keys((1, 2))),
        G.Guard(item, G.Length(2)),
        G.Guard(G.ClassAttr(G.TypeOf(X), "value"), G.Equal(1)),
        G.Guard(X, G.NotAliased((item,))),
        G.Guard(None, G.Holds(G.LenOf(item) * 2 == 4)),
        G.Guard(X, G.Callback(accept)),
    ]


def accept(value: Any) -> bool:
    return True


def make() -> Any:
    return Node(a=(1, "x", 2.5), d={"k": [1, 2]}, s={1, 2})


def test_checking_leaks_nothing() -> None:
    obj = make()
    tree = G.compile(everything(obj))

    def check() -> None:
        assert tree.check((obj,), None)

    assert leaked(check, ROUNDS) < 500  # the allocator keeps some


def test_failing_leaks_nothing() -> None:
    obj, other = make(), make()
    tree = G.compile(everything(obj)[:1] + everything(obj)[2:])
    values = iter(range(10**9))

    def fail() -> None:
        other.a = next(values)
        assert tree.check((obj,), None)
        assert not tree.check((other,), None)

    assert leaked(fail, ROUNDS) < 500


def test_fresh_objects_leak_nothing() -> None:
    tree = G.compile([g for g in everything(make()) if not isinstance(g.check, G.IsWeak)])

    def check() -> None:
        obj = make()
        assert tree.check((obj,), None)
        assert tree.check((obj,), None)
        assert tree.check((obj,), None)

    assert leaked(check, ROUNDS // 4) < 200  # free lists fill up


def test_building_and_explaining_leak_nothing() -> None:
    obj = make()

    def build() -> None:
        tree = G.compile(everything(obj))
        assert tree.check((obj,), None)
        assert tree.explain((1,), None) is not None

    assert leaked(build, 2_000) < 50


def test_malformed_trees_leak_nothing() -> None:
    obj = make()

    def build() -> None:
        with pytest.raises(TypeError):
            G.compile([*everything(obj), G.Guard(X, G.Equal([]))])

    assert leaked(build, 500) < 50


def test_nothing_is_allocated_on_the_hit_path() -> None:
    obj = make()
    tree = G.compile([g for g in everything(obj) if not isinstance(g.check, G.Callback)])
    arguments = (obj,)
    for _ in range(10):
        tree.check(arguments, None)
    before = sys.getallocatedblocks()
    for _ in range(1000):
        tree.check(arguments, None)
    assert abs(sys.getallocatedblocks() - before) < 5


def test_a_tree_in_a_cycle_is_collected() -> None:
    obj = Node()
    tree = G.compile([G.Guard(X, G.Is(obj))])
    obj.tree = tree
    gone = weakref.ref(tree), weakref.ref(obj)
    del obj, tree
    gc.collect()
    assert [ref() for ref in gone] == [None, None]


def test_arguments_are_not_kept_alive() -> None:
    obj = make()
    tree = G.compile(everything(obj))
    for _ in range(10):
        assert tree.check((obj,), None)
    gone = weakref.ref(obj)
    inner = weakref.ref(obj.__class__)
    del obj
    assert gone() is None
    assert inner() is not None
    assert not tree.check((make(),), None)


def test_a_strong_identity_keeps_its_object() -> None:
    obj = Node()
    gone = weakref.ref(obj)
    tree = G.compile([G.Guard(X, G.Is(obj))])
    del obj
    assert gone() is not None
    assert tree.check((gone(),), None)


def test_a_dying_world() -> None:
    """Everything a record points to is freed before the next check."""
    kids = {str(i): Node(a=i) for i in range(50)}
    guards = [
        G.Guard(G.Attr(G.Item(G.Attr(X, "kids"), str(i)), "a"), G.Equal(i)) for i in range(50)
    ]
    tree = G.compile(guards)
    for _ in range(200):
        x = Node(kids={key: Node(a=kid.a) for key, kid in kids.items()})
        for _ in range(3):
            assert tree.check((x,), None)
        if random.random() < 0.5:
            x.kids.clear()
            gc.collect(0)
            assert not tree.check((x,), None)
        del x


def test_threads() -> None:
    """Several threads check, change and build at once; answers stay right for own objects."""
    tree = G.compile([g for g in everything(Node()) if not isinstance(g.check, G.IsWeak)])
    wrong: list[str] = []
    interval = sys.getswitchinterval()

    def work(seed: int) -> None:
        chance = random.Random(seed)
        obj = make()
        for _ in range(3000):
            good = chance.random() < 0.8
            obj.a = (1, "x", 2.5) if good else 0
            if tree.check((obj,), None) != good:
                wrong.append(f"{seed}: {good}")
            if chance.random() < 0.01:
                G.compile(everything(obj)).check((obj,), None)
                obj = make()

    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_a_callback_may_check_the_same_tree() -> None:
    depth = 0

    def again(value: Any) -> bool:
        nonlocal depth
        depth += 1
        return depth > 5 or tree.check((value,), None)

    tree = G.compile([G.Guard(X, G.TypeIs(Node)), G.Guard(X, G.Callback(again))])
    assert tree.check((Node(),), None)


def test_interpreter_shutdown() -> None:
    code = (
        "from stator import guards as G\n"
        "class N: pass\n"
        "n = N(); n.a = 1\n"
        "t = G.compile([G.Guard(G.Attr(G.Local(0), 'a'), G.Equal(1))])\n"
        "assert all(t.check((n,), None) for _ in range(9))\n"
        "n.t = t; n.n = n\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
