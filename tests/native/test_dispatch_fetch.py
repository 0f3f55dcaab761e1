"""Entries whose target takes what the guards fetched."""

import gc
import sys
import threading
import time
import weakref
from typing import Any

import pytest

from stator import guards as G  # noqa: N812
from stator._native._core import Bucket, CompiledFunction, Entry, call_dispatching
from tests.native.buckets import compiled

from .dispatching import MODEL, Model, Part, echo, forward, no_miss, tree, wrap


def fetching(function: Any, guards: G.GuardTree | None, target: Any = echo) -> CompiledFunction:
    wrapper = wrap(function)
    wrapper.add_entry(guards, target, fetch=True)
    return wrapper


def test_the_target_gets_the_values_first() -> None:
    model = Model("w", "b")
    call = fetching(forward, tree("b", "w"))
    for _ in range(4):
        assert call(model, 1) == ((model.b, model.w), model, 1)
    assert call.statistics() == {"hits": 4, "misses": 0}
    assert call.entries()[0].fetch is True


def test_without_fetch_the_target_gets_none_of_them() -> None:
    call = wrap(forward)
    entry = call.add_entry(tree("w"), echo)
    model = Model("w")
    assert entry.fetch is False
    assert call(model, 1) == (model, 1)


def test_no_guards_fetch_nothing() -> None:
    assert fetching(forward, None)(1, 2) == ((), 1, 2)
    assert fetching(forward, G.compile([]))(1, 2) == ((), 1, 2)


def test_a_replaced_value_is_fetched() -> None:
    model = Model("w")
    call = fetching(forward, tree("w"))
    for _ in range(3):
        call(model, 0)
    for _ in range(3):
        model.w = Part()
        assert call(model, 0)[0] == (model.w,)
    model.__dict__ = {"w": 5}
    assert call(model, 0)[0] == (5,)
    other = Model("w")
    assert call(other, 0)[0] == (other.w,)
    assert call(model, 0)[0] == (5,)


def test_keywords_and_defaults() -> None:
    def function(model: Any, x: Any = 2, *rest: Any, flag: bool = True, **more: Any) -> None: ...

    model = Model("w")
    call = fetching(function, tree("w"))
    assert call(model) == ((model.w,), model, 2, True, (), {})
    assert call(model, 1, 7, flag=False, z=3) == ((model.w,), model, 1, False, (7,), {"z": 3})
    assert call(x=5, model=model) == ((model.w,), model, 5, True, (), {})


def test_methods() -> None:
    class Layer(Model):
        def forward(self, x: Any) -> Any: ...

    guards = G.compile([], outputs=[G.Attr(MODEL, "w")])
    Layer.forward = fetching(Layer.forward, guards)  # type: ignore[method-assign]
    layer = Layer("w")
    marker = object()
    for _ in range(3):  # the interpreter's own call, a bound method, a call from C
        assert layer.forward(marker) == ((layer.w,), layer, marker)
        bound = layer.forward
        assert bound(marker) == ((layer.w,), layer, marker)
        assert list(map(bound, [1, 2])) == [((layer.w,), layer, 1), ((layer.w,), layer, 2)]
        assert list(map(Layer.forward, [layer], [1])) == [((layer.w,), layer, 1)]


@pytest.mark.parametrize("n", [1, 11, 12, 13, 40])
def test_many_parameters(n: int) -> None:
    namespace: dict[str, Any] = {}
    names = ", ".join(f"p{i}" for i in range(n))
    exec(f"def function({names}): ...", namespace)
    call = fetching(namespace["function"], G.compile([], outputs=[G.Local(n - 1)]))
    values = tuple(object() for _ in range(n))
    assert call(*values) == ((values[-1],), *values)
    assert list(map(call, *([v] for v in values))) == [((values[-1],), *values)]
    assert call_dispatching(call, *values) == ((values[-1],), *values)


def test_python_targets_see_their_parameters() -> None:
    def target(fetched: tuple[Any, ...], model: Any, x: int) -> Any:
        x += 1
        del model
        return fetched, x

    model = Model("w")
    call = fetching(forward, tree("w"), target)
    assert [call(model, i) for i in range(3)] == [((model.w,), i + 1) for i in range(3)]


def test_a_later_entry_and_a_shared_bucket() -> None:
    def function(model: Any, x: Any) -> None: ...

    wrapper = compiled(function, no_miss)
    wrapper.add_entry(tree("w"), echo, fetch=True)
    wrapper.add_entry(tree("b"), echo, fetch=True)
    with_w, with_b = Model("w"), Model("b")
    isolated = compiled(function, no_miss, isolate=True)
    for call in (wrapper, isolated):
        for model in (with_w, with_b, with_w, with_w):
            (value,) = vars(model).values()
            assert call(model, 1) == ((value,), model, 1)


def test_adding_to_a_bucket() -> None:
    bucket = Bucket(forward.__code__)
    assert bucket.add(None, echo, True).fetch
    assert bucket.add(None, echo, fetch=True).fetch
    assert not bucket.add(None, echo).fetch
    call = CompiledFunction(forward, no_miss)
    assert call.add_entry(None, echo, bucket=bucket, fetch=True) is bucket.entries()[0]


def test_exceptions_and_references() -> None:
    def target(fetched: tuple[Any, ...], model: Any, x: Any) -> None:
        raise LookupError(fetched)

    model = Model("w")
    before = sys.getrefcount(model.w)
    call = fetching(forward, tree("w"), target)
    for _ in range(10):
        try:
            call(model, 1)
        except LookupError:
            continue
        raise AssertionError
    call.clear()
    call.add_entry(tree("w"), echo, fetch=True)
    for _ in range(10):
        call(model, 1)
        call.find((model, 1))
        call(x=1, model=model)
    gc.collect()
    after = sys.getrefcount(model.w)  # not in the assertion, which keeps what it shows
    assert after == before


# -- lifetime: what was fetched belongs to the caller


def test_a_dropped_model_is_freed() -> None:
    call = fetching(forward, tree(*(f"p{i}" for i in range(50))), lambda fetched, *_: len(fetched))
    model = Model(*(f"p{i}" for i in range(50)))
    for _ in range(5):
        assert call(model, 0) == 50
    dying = [weakref.ref(model), *(weakref.ref(part) for part in vars(model).values())]
    del model
    assert [ref() for ref in dying] == [None] * 51
    successor = Model(*(f"p{i}" for i in range(50)))
    assert call(successor, 0) == 50


def test_values_live_as_long_as_the_target_wants() -> None:
    def target(fetched: tuple[Any, ...], model: Any, x: Any) -> Any:
        part = weakref.ref(model.w)
        del model.w
        assert part() is fetched[0]
        return fetched

    model = Model("w")
    part = model.w
    call = fetching(forward, tree("w"), target)
    kept = call(model, 0)
    assert kept == (part,)
    gone = weakref.ref(part)
    del part, kept
    assert gone() is None


def test_collections_during_dispatch() -> None:
    """Allocating may run finalizers (3.11): the values are safe by then."""
    model = Model("w")

    class Vandal:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            model.w = Part()

    def target(fetched: tuple[Any, ...], model: Any, x: Any) -> Any:
        Vandal()
        return type(fetched[0])

    call = fetching(forward, tree("w"), target)
    threshold = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(300):
            Vandal()
            assert call(model, 0) is Part
    finally:
        gc.set_threshold(*threshold)
        gc.collect()
    assert gc.isenabled()


def test_the_collector_stays_off() -> None:
    model = Model("w")
    call = fetching(forward, tree("w"))
    gc.disable()
    try:
        call(model, 0)
        assert not gc.isenabled()
    finally:
        gc.enable()


# -- misses


def test_a_miss_may_return_such_an_entry() -> None:
    model = Model("w")

    def miss(call: CompiledFunction, bound: tuple[Any, ...]) -> Entry:
        return call.add_entry(tree("w"), echo, fetch=True)

    call = wrap(forward, miss)
    assert call(model, 1) == ((model.w,), model, 1)
    assert call(x=2, model=model) == ((model.w,), model, 2)
    assert call.statistics() == {"hits": 1, "misses": 1}


def test_the_new_entry_must_hold() -> None:
    """It names the guard; nothing runs."""

    def miss(call: CompiledFunction, bound: tuple[Any, ...]) -> Entry:
        guards = tree("w", extra=(G.Guard(G.Local(1, "x"), G.Equal(5)),))
        return call.add_entry(guards, no_miss, fetch=True)

    call = wrap(forward, miss)
    with pytest.raises(SystemError, match=r"forward.*guard 1: x: expected 5, got 7.*report"):
        call(Model("w"), 7)
    with pytest.raises(SystemError, match="nothing there"):
        call(Model("other"), 5)


def test_an_entry_of_another_function() -> None:
    def wide(a: Any, b: Any, c: Any, d: Any) -> None: ...

    entry = Bucket(wide.__code__).add(G.compile([], outputs=[G.Local(3)]), echo, True)
    call = wrap(forward, lambda *_: entry)
    with pytest.raises(SystemError, match="another function"):
        call(1, 2)


def test_find_returns_the_entry() -> None:
    model = Model("w")
    call = fetching(forward, tree("w"))
    (entry,) = call.entries()
    assert call.find((model, 1)) is entry
    assert call.find((Model(), 1)) is None
    assert entry.hits == 0


# -- callbacks and threads


def test_values_after_callbacks() -> None:
    """A callback replaces what was fetched before it ran: the target gets what is there now."""
    model = Model("w")

    def replace(_: Any) -> bool:
        model.w = Part()
        return True

    call = fetching(forward, tree("w", extra=(G.Guard(MODEL, G.Callback(replace)),)))
    for _ in range(5):
        assert call(model, 0)[0] == (model.w,)


def test_a_callback_that_removes_the_value() -> None:
    model = Model("w")

    def remove(_: Any) -> bool:
        del model.w
        return True

    call = fetching(forward, tree("w", extra=(G.Guard(MODEL, G.Callback(remove)),)))
    assert call.find((model, 0)) is None


def test_a_callback_that_calls_again() -> None:
    outer, inner = Model("w"), Model("w")
    seen: list[Any] = []

    def again(model: Any) -> bool:
        if model is outer and not seen:
            seen.append(call(inner, 1))
        return True

    call = fetching(forward, tree("w", extra=(G.Guard(MODEL, G.Callback(again)),)))
    assert call(outer, 0) == ((outer.w,), outer, 0)
    assert seen == [((inner.w,), inner, 1)]


def test_threads_get_their_own_values() -> None:
    def slow(_: Any) -> bool:
        time.sleep(0)
        return True

    call = fetching(forward, tree("w", extra=(G.Guard(MODEL, G.Callback(slow)),)))
    wrong = []

    def work() -> None:
        model = Model("w")
        for i in range(200):
            if i % 50 == 0:
                model.w = Part()
            if call(model, i) != ((model.w,), model, i):
                wrong.append(i)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# -- frames that C code starts


def test_frames_called_from_c() -> None:
    def key(model: Any) -> Any:
        raise AssertionError

    wrapper = compiled(key, no_miss)
    wrapper.add_entry(
        G.compile([], outputs=[G.Attr(MODEL, "rank"), MODEL]),
        lambda fetched, model: fetched[0] if fetched[1] is model else None,
        fetch=True,
    )
    models = [Model() for _ in range(5)]
    for rank, model in zip((3, 1, 4, 0, 2), models, strict=True):
        model.rank = rank
    found = call_dispatching(sorted, models, key=key)
    assert [model.rank for model in found] == [0, 1, 2, 3, 4]
    assert wrapper.entries()[0].hits == 5
    last = weakref.ref(models[0])
    del models, found, model
    assert last() is None
