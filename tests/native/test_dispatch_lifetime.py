"""Nothing leaks, nothing is freed too early."""

import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stator._native import _core
from stator._native._core import CALL_ORIGINAL, Bucket, CompiledFunction
from tests.native.buckets import compiled

from .dispatching import echo, entered, no_miss, type_is, when, wrap

ITERATIONS = 100_000


class Thing:
    pass


def function(a: Any, b: Any = 2) -> Any:
    return a


# ---- 1e5 iterations of each case ----


def plain_hit() -> Callable[[], Any]:
    c = entered(function, type_is(0, Thing))
    return lambda: c(Thing(), 2)


def bound_hit() -> Callable[[], Any]:
    def f(a: Any, b: Any = 2, *args: Any, k: Any = 3, **kw: Any) -> Any:
        return a

    c = entered(f, type_is(0, Thing))
    return lambda: (c(Thing()), c(Thing(), 2, Thing(), z=Thing()), c(b=Thing(), a=Thing()))


def many_parameters() -> Callable[[], Any]:
    namespace: dict[str, Any] = {}
    exec("def f(" + ", ".join(f"p{i}=None" for i in range(40)) + "): pass", namespace)
    c = entered(namespace["f"])
    return lambda: c(Thing(), p30=Thing())


def promotion() -> Callable[[], Any]:
    c = wrap(function)
    for cls in (int, str, Thing):
        c.add_entry(type_is(0, cls), function)
    return lambda: (c(1), c(""), c(Thing()), c(Thing(), 2))


def shared_hit() -> Callable[[], Any]:
    shared = Bucket(function.__code__)
    shared.add(type_is(0, Thing), function)
    c = CompiledFunction(function, no_miss, shared=shared)
    return lambda: c(Thing())


def miss_result() -> Callable[[], Any]:
    c = wrap(function, lambda _, bound: bound)
    return lambda: (c(Thing()), c(a=Thing()))


def miss_entry() -> Callable[[], Any]:
    c = wrap(function, lambda c, _: c.add_entry(None, function))

    def call() -> None:
        c(Thing()), c(Thing(), 2)
        c.clear()

    return call


def miss_original() -> Callable[[], Any]:
    c = wrap(function, lambda _, bound: CALL_ORIGINAL)
    return lambda: (c(Thing()), c(a=Thing()))


def refused_call() -> Callable[[], Any]:
    def f(a: Any, /, *args: Any, k: Any, **kw: Any) -> Any:
        return None

    c = entered(f)

    def call() -> None:
        for args, kwargs in (((), {"k": Thing()}), ((Thing(), 2), {"z": Thing()})):
            try:
                c(*args, **kwargs)
            except TypeError:
                continue
            raise AssertionError

    return call


def exception() -> Callable[[], Any]:
    def target(a: Any, b: Any) -> Any:
        raise KeyError(a)

    c = entered(function, target=target)

    def call() -> None:
        try:
            c(Thing())
        except KeyError:
            return
        raise AssertionError

    return call


def method_call() -> Callable[[], Any]:
    class C:
        m = entered(function)

    obj: Any = C()
    return lambda: (obj.m(Thing()), obj.m)


def python_guard() -> Callable[[], Any]:
    c = wrap(function)
    c.add_entry(when(lambda x: type(x) is Thing), function)
    c.add_entry(when(lambda x: False), function)
    return lambda: c(Thing())


def new_code() -> Callable[[], Any]:
    def f(a: Any, b: Any = 2) -> Any:
        return a

    def call() -> None:
        f.__code__ = f.__code__.replace(co_name="g")
        c(Thing())
        c.add_entry(None, function)
        c(Thing())

    c = wrap(f, lambda _, bound: CALL_ORIGINAL)
    return call


def new_wrapper() -> Callable[[], Any]:
    def call() -> None:
        c = compiled(function, no_miss)
        c.add_entry(type_is(0, Thing), lambda a, b: a)
        c(Thing())
        c.attribute = c.__name__ = "x"  # type: ignore[attr-defined]
        repr(c), c.entries(), c.statistics(), c.find((1, 2)), c.bucket, c.__doc__

    return call


CASES = [
    plain_hit,
    bound_hit,
    many_parameters,
    promotion,
    shared_hit,
    miss_result,
    miss_entry,
    miss_original,
    refused_call,
    exception,
    method_call,
    python_guard,
    new_code,
    new_wrapper,
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_no_leak(case: Callable[[], Callable[[], Any]]) -> None:
    call = case()

    def repeat(n: int) -> int:
        for _ in range(n):
            call()
        gc.collect()
        return sys.getallocatedblocks()

    repeat(1000)
    before = repeat(1000)
    after = repeat(ITERATIONS)
    assert after - before < ITERATIONS // 1000


# ---- lifetimes ----


def test_dropping_the_wrapper_frees_everything() -> None:
    def f(a: Any) -> Any:
        return a

    def target(a: Any) -> Any:
        return a

    class Predicate:
        def __call__(self, a: Any) -> bool:
            return True

    predicate = Predicate()
    c = wrap(f)
    c.add_entry(when(predicate), target)
    c(1)
    refs = [weakref.ref(o) for o in (c, c.bucket, f, target, predicate)]
    del c, f, target, predicate
    assert [ref() for ref in refs] == [None] * 5


def cyclic(attached: bool) -> list[weakref.ref[Any]]:
    """A wrapper reachable from everything it refers to."""
    thing = Thing()

    def f(a: Any) -> Any:
        return thing, c

    def target(a: Any) -> Any:
        return thing, c

    def miss(compiled: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        return thing, c

    c = compiled(f, miss) if attached else wrap(f, miss)
    c.add_entry(when(lambda a: c is not None), target)
    c.itself = f.wrapper = c  # type: ignore[attr-defined]
    c(1)
    return [weakref.ref(o) for o in (c, f, target, miss, thing, c.bucket)]


@pytest.mark.parametrize("attached", [False, True])
def test_cycles_are_collected(attached: bool) -> None:
    refs = cyclic(attached)
    gc.collect()
    assert [ref() for ref in refs] == [None] * 6


def test_a_bucket_outlives_a_wrapper_in_a_cycle() -> None:
    """Collecting one wrapper must not void the entries of another that shares its bucket."""
    dying, living = compiled(function, no_miss), compiled(function, no_miss)
    living.add_entry(None, function)
    dying.itself = dying  # type: ignore[attr-defined]
    ref = weakref.ref(dying)
    del dying
    gc.collect()
    assert ref() is None
    assert living(5) == 5


def test_code_does_not_keep_the_wrapper_or_the_function() -> None:
    def f(a: Any) -> Any:
        return a

    code = f.__code__
    c = compiled(f, no_miss)
    assert _core.lookup(code) is c
    refs = [weakref.ref(o) for o in (c, f, c.bucket)]
    del c, f
    assert [ref() for ref in refs] == [None] * 3
    assert _core.lookup(code) is None
    assert _core.shared_bucket(code).entries() == ()


def test_finalizer_that_calls_the_dying_function() -> None:
    results = []

    class Finalized:
        def __init__(self, c: CompiledFunction) -> None:
            self.c = c

        def __del__(self) -> None:
            results.append(self.c(1))

    def f(a: Any) -> Any:
        return "called", a

    c = wrap(f, lambda _, bound: CALL_ORIGINAL)
    c.holder = Finalized(c)  # type: ignore[attr-defined]
    del c
    gc.collect()
    assert results == [("called", 1)]


def test_wrapper_dropped_while_it_runs() -> None:
    holder: dict[str, Any] = {}

    def target(a: Any, b: Any) -> Any:
        holder.clear()
        gc.collect()
        return a, b

    holder["c"] = entered(function, target=target)
    del target
    assert holder["c"](1) == (1, 2)
    assert not holder


def test_references_of_arguments_are_balanced() -> None:
    thing = Thing()
    c = entered(function, type_is(0, Thing), function)
    before = sys.getrefcount(thing)
    for _ in range(10):
        c(thing), c(thing, thing), c(b=thing, a=thing)
    assert sys.getrefcount(thing) == before


# ---- under the debug allocator ----


def test_with_the_debug_allocator() -> None:
    """Writes out of bounds, uses after free and wrong frees abort the process."""
    here = Path(__file__)
    names = ("binding", "entries", "function", "threads")
    run = subprocess.run(
        [
            sys.executable,
            *("-X", "dev", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"),
            *(str(here.with_name(f"test_dispatch_{name}.py")) for name in names),
        ],
        cwd=here.parents[2],
        env={**os.environ, "PYTHONMALLOC": "debug"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]


def test_a_bucket_lives_while_it_is_searched() -> None:
    """A guard may give the function another code, and with it another bucket."""

    def first(x: object) -> object: ...
    def second(x: object) -> object: ...

    wrapper = wrap(first)
    alive: list[bool] = []

    def other_code(_: object) -> bool:
        first.__code__ = second.__code__
        assert wrapper.bucket is not old()
        alive.append(old() is not None)
        return True

    wrapper.add_entry(when(other_code), echo)
    wrapper.add_entry(when(lambda _: False), echo)
    old = weakref.ref(wrapper.bucket)
    assert wrapper(1) == (1,)
    assert alive == [True]
    assert old() is None
