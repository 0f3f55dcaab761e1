"""What comes in between: other code, threads, errors in the middle, wrappers that go away."""

import gc
import threading
import time
import warnings
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
import torch

import stator
from stator.testing import count, recompiles
from tests.threads import in_threads

from .tools import Counting, X, compiled, scaled, split


@pytest.mark.parametrize("isolate", [False, True])
def test_another_code(isolate: bool) -> None:
    """Entries, limits and reasons are those of the code that the function has."""

    def first(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n

    def second(x: torch.Tensor, n: int) -> torch.Tensor:
        return x + n

    function = FunctionType(first.__code__, first.__globals__, "function")
    backend = Counting()
    made = compiled(function, backend=backend, recompile_limit=2, isolate_recompiles=isolate)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (1, 2):
            assert torch.equal(made(X, n), X * n)
        function.__code__ = second.__code__
        for n in (1, 2):
            assert torch.equal(made(X, n), X + n)
    assert backend.graphs == 4
    (why,) = recompiles(made)
    assert [each.expected for each in why.misfits] == ["1"]
    with pytest.warns(UserWarning, match=r"recompile_limit \(2\)"):
        assert torch.equal(made(X, 3), X + 3)
    function.__code__ = first.__code__  # what was compiled for it is void
    assert torch.equal(made(X, 3), X * 3)
    assert count(made).compiles == 1


def test_two_threads_that_miss_compile_once() -> None:
    class Slow(Counting):
        def __call__(self, module: Any, inputs: Any) -> Any:
            time.sleep(0.05)
            return super().__call__(module, inputs)

    backend = Slow()
    made = compiled(scaled, backend=backend)

    def call() -> None:
        for n in (1, 2):
            assert torch.equal(made(X, n), X * n)

    in_threads(call, call, call)
    assert backend.graphs == 2
    assert len(recompiles(made)) == 1


@pytest.mark.parametrize("forget", [stator.reset, lambda: stator.reset_code(split)])
def test_forgetting_while_others_call(forget: Callable[[], None]) -> None:
    wrappers = [compiled(split, isolate_recompiles=isolate) for isolate in (False, True)]
    done = threading.Event()

    def call(made: Any) -> None:
        while not done.is_set():
            for n in (1, 2, 3):
                assert torch.equal(made(X, n), (X + 1) * n)

    def forgets() -> None:
        for _ in range(15):
            forget()
            time.sleep(0.01)
        done.set()

    try:
        in_threads(forgets, *(lambda made=made: call(made) for made in wrappers))
    finally:
        done.set()
    forget()
    for made in wrappers:
        assert count(made).compiles == 0
        assert torch.equal(made(X, 2), (X + 1) * 2)


def test_forgetting_waits_for_a_compile() -> None:
    """What was begun before is forgotten too."""
    began, go = threading.Event(), threading.Event()

    def backend(module: Any, inputs: Any) -> Any:
        began.set()
        go.wait(10)
        return module.forward

    made = compiled(scaled, backend=backend)

    def forgets() -> None:
        began.wait(10)
        threading.Timer(0.05, go.set).start()
        stator.reset_code(scaled)

    in_threads(lambda: made(X, 2), forgets)
    assert count(made).compiles == 0
    assert stator.testing.function_of(made).entries() == ()


def test_forgetting_in_a_backend_and_in_a_program() -> None:
    def backend(module: Any, inputs: Any) -> Any:
        stator.reset_code(scaled)
        return module.forward

    made = compiled(scaled, backend=backend)
    for n in (1, 2, 1):
        assert torch.equal(made(X, n), X * n)

    def forgets(x: torch.Tensor, everything: bool) -> torch.Tensor:
        x = x + 1
        if everything:
            stator.reset()
        else:
            stator.reset_code(forgets)
        return x * 2

    made = compiled(forgets)
    for everything in (True, False, True):
        assert torch.equal(made(X, everything), (X + 1) * 2)
        assert count(made).compiles == 0


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_error_in_the_middle_of_a_compile(error: type[BaseException]) -> None:
    """Nothing counts, nothing is left, the next call compiles."""
    fails = [True]

    def backend(module: Any, inputs: Any) -> Any:
        if fails[0]:
            raise error
        return module.forward

    made = compiled(scaled, backend=backend, recompile_limit=1)
    expected = stator.BackendError if error is ZeroDivisionError else error
    for _ in range(3):
        with pytest.raises(expected):
            made(X, 2)
        assert count(made).compiles == 0
        assert stator.testing.function_of(made).entries() == ()
    fails[0] = False
    assert torch.equal(made(X, 2), X * 2)
    assert count(made) == (1, 0)


def test_an_error_behind_a_break() -> None:
    """The part before is compiled and stays; the rest is tried again."""
    backend = Counting()

    def fails_later(module: Any, inputs: Any) -> Any:
        forward = backend(module, inputs)
        backend.fails = not backend.fails
        return forward

    made = compiled(split, backend=fails_later)
    with pytest.raises(stator.BackendError):
        made(X, 2)
    assert count(made).compiles == 1
    backend.fails = False
    assert torch.equal(made(X, 2), (X + 1) * 2)
    assert count(made) == (1, 1)


def test_recursion_through_a_wrapper() -> None:
    def down(x: torch.Tensor, n: int) -> torch.Tensor:
        time.sleep(0)
        return made(x, n - 1) + 1 if n else x

    made = compiled(down, recompile_limit=16)
    assert torch.equal(made(X, 5), X + 5)
    assert torch.equal(made(X, 5), X + 5)


def test_many_wrappers_come_and_go_in_threads() -> None:
    def work() -> None:
        for n in range(6):
            made = compiled(split, isolate_recompiles=bool(n % 2))
            assert torch.equal(made(X, n), (X + 1) * n)
            del made
            gc.collect(0)

    in_threads(work, work)
