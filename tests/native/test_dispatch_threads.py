"""Calls from several threads while the entries change; fork, shutdown."""

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stator._native._core import CompiledFunction
from tests.threads import in_threads

from .dispatching import echo, type_is, when, wrap

SECONDS = 0.4


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def identity(x: Any, y: Any = 1) -> Any:
    return "original", x, y


def until_time_is_up() -> Iterator[int]:
    end = time.monotonic() + SECONDS
    n = 0
    while time.monotonic() < end:
        yield n
        n += 1


def test_calls_while_entries_change() -> None:
    c = wrap(identity, lambda _, bound: bound)
    kinds: dict[type, Any] = {int: 1, str: "", float: 0.5, bytes: b""}

    def call() -> None:
        for _ in until_time_is_up():
            for value in kinds.values():
                assert c(value) == (value, 1)
                assert c(y=2, x=value) == (value, 2)

    def change() -> None:
        for n in until_time_is_up():
            added = [c.add_entry(type_is(0, cls), echo) for cls in kinds]
            if n % 3:
                for entry in added:
                    c.remove_entry(entry)
            else:
                c.clear()

    in_threads(call, call, call, change, change)
    assert set(c.statistics()) == {"hits", "misses"}


def test_guards_that_let_other_threads_run() -> None:
    c = wrap(identity, lambda _, bound: bound)

    def slow(wanted: int) -> Callable[[Any], bool]:
        def predicate(x: Any) -> bool:
            time.sleep(0)
            return bool(x % 3 == wanted)

        return predicate

    def call() -> None:
        for n in until_time_is_up():
            assert c(n) == (n, 1)

    def change() -> None:
        for n in until_time_is_up():
            c.add_entry(when(slow(n % 3)), echo)
            if len(c.entries()) > 6:
                c.clear()

    in_threads(call, call, change)


def test_entry_freed_while_its_target_runs_elsewhere() -> None:
    c = wrap(identity, lambda _, bound: bound)

    def call() -> None:
        for n in until_time_is_up():
            assert c(n) == (n, 1)

    def change() -> None:
        for _ in until_time_is_up():

            def target(x: Any, y: Any) -> Any:
                time.sleep(0)
                return x, y

            c.add_entry(None, target)
            c.clear()

    in_threads(call, call, change)


def test_two_threads_miss_at_once() -> None:
    meeting = threading.Barrier(2)
    compiles = []

    def miss(c: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        compiles.append(threading.get_ident())
        meeting.wait(10)
        return c.add_entry(type_is(0, int), echo)

    c = wrap(identity, miss)

    def call() -> None:
        for n in range(100):
            assert c(n) == (n, 1)

    in_threads(call, call)
    assert len(set(compiles)) == len(compiles) == 2
    assert len(c.entries()) == 2
    assert c.statistics() == {"hits": 198, "misses": 2}


def test_a_driver_may_lock_and_look_again() -> None:
    """find() lets a miss callback compile once in all, whoever comes first."""
    lock = threading.Lock()
    compiles = []

    def miss(c: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        with lock:
            found = c.find(bound)
            if found is None:
                compiles.append(bound)
                time.sleep(0.01)
                found = c.add_entry(type_is(0, int), echo)
            return found

    c = wrap(identity, miss)
    in_threads(*[lambda: c(1)] * 4)
    assert compiles == [(1, 1)]
    assert len(c.entries()) == 1


def test_code_replaced_while_others_call() -> None:
    def f(x: Any, y: Any = 1) -> Any:
        return x, y

    def other(x: Any, y: Any = 1, *rest: Any) -> Any:
        return x, y

    codes = f.__code__, other.__code__
    c = wrap(f, lambda _, bound: bound[:2])

    def call() -> None:
        for n in until_time_is_up():
            assert c(n) == c(n, 1) == (n, 1)

    def change() -> None:
        for n in until_time_is_up():
            f.__code__ = codes[n % 2]
            c.add_entry(when(lambda x: True), lambda *bound: bound[:2])

    in_threads(call, call, change)


def test_recursion_in_a_thread() -> None:
    def target(n: Any, y: Any) -> Any:
        return 0 if n == 0 else 1 + c(n - 1)

    c = wrap(identity)
    c.add_entry(None, target)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)
    try:

        def deep() -> None:
            assert c(2000) == 2000
            with pytest.raises(RecursionError):
                c(10**5)

        in_threads(deep, deep)
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork() -> None:
    c = wrap(identity)
    c.add_entry(None, echo)
    child = os.fork()
    if child == 0:
        os._exit(0 if c(1) == (1, 1) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_shutdown_with_live_functions() -> None:
    program = """
        import threading, sys
        from stator._native._core import CompiledFunction
        def f(x): return x
        c = CompiledFunction(f, lambda c, bound: c.add_entry(None, f))
        class Late:
            def __del__(self, c=c): assert c(1) == 1
        f.late = sys.late = Late()
        def forever():
            while True: c(1)
        threading.Thread(target=forever, daemon=True).start()
        c(1)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
