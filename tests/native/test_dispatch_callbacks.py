"""Functions that C code calls back in a compiled region run their compiled form."""

import gc
import sys
from typing import Any

from stator._native import _core as core
from stator._native._core import CompiledFunction
from tests.native.dispatching import no_miss, type_is


def compiled_key() -> tuple[Any, CompiledFunction]:
    def key(x: Any, scale: int = 1) -> Any:
        return x

    compiled = CompiledFunction(key, no_miss)
    compiled.add_entry(type_is(0, int), lambda x, scale: -x * scale)
    core.attach(key.__code__, compiled)
    return key, compiled


def test_a_callback_runs_its_entry() -> None:
    key, compiled = compiled_key()
    assert core.call_dispatching(sorted, [1, 3, 2], key=key) == [3, 2, 1]
    assert compiled.entries()[0].hits == 3
    assert not core.hook_installed()


def test_a_callback_whose_guards_fail_runs_natively() -> None:
    key, compiled = compiled_key()
    assert core.call_dispatching(sorted, [1.0, 3.0, 2.0], key=key) == [1.0, 2.0, 3.0]
    assert compiled.entries()[0].hits == 0


def test_outside_of_a_region_nothing_is_dispatched() -> None:
    key, _ = compiled_key()
    assert sorted([1, 3, 2], key=key) == [1, 2, 3]


def test_an_exception_of_the_target_comes_out() -> None:
    def key(x: int) -> int:
        return x

    def target(x: int) -> int:
        raise KeyError(x)

    compiled = CompiledFunction(key, no_miss)
    compiled.add_entry(None, target)
    core.attach(key.__code__, compiled)
    try:
        core.call_dispatching(sorted, [1], key=key)
    except KeyError as error:
        assert error.args == (1,)
    else:
        raise AssertionError("the target's exception was lost")
    assert not core.hook_installed()


def test_a_dropped_compiled_function_is_not_found() -> None:
    key, compiled = compiled_key()
    del compiled
    gc.collect()
    assert core.call_dispatching(sorted, [1, 3, 2], key=key) == [1, 2, 3]


def test_no_leak() -> None:
    key, compiled = compiled_key()
    for _ in range(100):
        core.call_dispatching(sorted, [1, 3, 2], key=key)
    gc.collect()
    before = sys.getallocatedblocks(), sys.getrefcount(key), sys.getrefcount(compiled)
    for _ in range(2000):
        core.call_dispatching(sorted, [1, 3, 2], key=key)
    gc.collect()
    after = sys.getallocatedblocks(), sys.getrefcount(key), sys.getrefcount(compiled)
    assert after[0] - before[0] < 30
    assert after[1:] == before[1:]


def test_a_target_may_leave_it_to_the_function() -> None:
    def key(x: int) -> int:
        return -x

    def target(x: int) -> int:
        raise core.RunOriginal

    compiled = CompiledFunction(key, no_miss)
    compiled.add_entry(type_is(0, int), target)
    core.attach(key.__code__, compiled)
    assert core.call_dispatching(sorted, [1, 3, 2], key=key) == [3, 2, 1]
    assert compiled.entries()[0].hits == 3
