"""The driver: limits, reasons, errors, threads, reentrancy."""

import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from stator import config
from stator.testing import compilations, count, recompiles
from tests.threads import outcomes

from . import tools
from .tools import Block, Recording

X = torch.arange(4.0)


def scaled(x: torch.Tensor, factor: int) -> torch.Tensor:
    return x * factor


def eager(function: Callable[..., Any], **options: Any) -> Any:
    return stator.compile(function, **{"backend": "eager", **options})


class TestReasons:
    def test_a_recompile_says_which_guard_failed(self) -> None:
        compiled = eager(scaled)
        compiled(X, 2)
        assert recompiles(compiled) == ()
        compiled(X, 3)
        compiled(X.double(), 3)
        first, second = recompiles(compiled)
        assert first.label.name == "scaled"
        assert first.label.file == __file__
        (one,) = first.misfits
        assert (one.source, one.expected, one.actual) == ("factor", "2", "3")
        assert len(second.misfits) == 2
        assert any("torch.float64" in each.actual for each in second.misfits)
        assert "is compiled again, since" in str(first)

    def test_modules_are_called_by_their_class(self) -> None:
        compiled = eager(Block())
        compiled(torch.ones(2, 4))
        compiled(torch.ones(3, 4))
        (why,) = recompiles(compiled)
        assert (why.label.name, why.label.file) == ("Block", tools.__file__)
        (one,) = why.misfits
        assert "Tensor(3, 4)" in one.actual

    def test_names_are_for_messages(self) -> None:
        compiled = eager(scaled, name="the scaler", fullgraph=True, recompile_limit=1)
        compiled(X, 1)
        with pytest.raises(stator.RecompileLimitError, match=r"the scaler .* was compiled 1 times"):
            compiled(X, 2)

    def test_what_was_compiled(self) -> None:
        compiled = eager(scaled)
        compiled(X, 2)
        (one,) = compilations(compiled)
        assert one.graph is not None
        assert "x * 2" in one.graph
        assert "return" in one.residual
        assert one.eager is None
        assert "factor: 2" in [str(guard) for guard in one.guards]

    def test_error_on_recompile(self) -> None:
        compiled = eager(scaled)
        with config.patch(error_on_recompile=True):
            compiled(X, 2)
            compiled(X, 2)
            with pytest.raises(stator.RecompileError, match="factor: expected 2, got 3"):
                compiled(X, 3)
        assert torch.equal(compiled(X, 3), X * 3)


class TestLimits:
    def test_eager_with_one_warning(self) -> None:
        backend = Recording()
        compiled = eager(scaled, backend=backend, dynamic=False)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for factor in range(8):
                compiled(X, factor)
        with pytest.warns(UserWarning, match=r"recompile_limit \(8\) reached") as caught:
            for factor in range(6, 12):
                assert torch.equal(compiled(X, factor), X * factor)
        assert len(caught) == 1
        text = str(caught[0].message)
        assert f"scaled ({__file__}:" in text
        assert "factor: expected 7, got 8" in text
        assert caught[0].filename == __file__
        assert len(backend.graphs) == 8
        hits = count(compiled).hits
        compiled(X, 3)  # what is compiled still serves
        assert count(compiled) == (8, hits + 1)

    def test_fullgraph_raises(self) -> None:
        compiled = eager(scaled, fullgraph=True, recompile_limit=1)
        compiled(X, 1)
        for _ in range(2):
            with pytest.raises(stator.RecompileLimitError, match="expected 1, got 2"):
                compiled(X, 2)

    def test_failures_do_not_count(self) -> None:
        """What can't be captured says so each time, not that there is a limit."""

        def reads(x: torch.Tensor) -> torch.Tensor:
            time.sleep(0)
            return x

        compiled = eager(reads, fullgraph=True, recompile_limit=1)
        for _ in range(3):
            with pytest.raises(stator.CaptureError):
                compiled(X)
        assert count(compiled).compiles == 0

    def test_fail_on_recompile_limit_hit(self) -> None:
        compiled = eager(scaled, recompile_limit=1)
        compiled(X, 1)
        with (
            config.patch(fail_on_recompile_limit_hit=True),
            pytest.raises(stator.RecompileLimitError, match=r"recompile_limit \(1\) reached"),
        ):
            compiled(X, 2)
        with pytest.warns(UserWarning, match=r"recompile_limit \(1\) reached"):
            compiled(X, 2)

    def test_config(self) -> None:
        compiled = eager(scaled)
        compiled(X, 1)
        with config.patch(recompile_limit=1), pytest.warns(UserWarning, match=r"limit \(1\)"):
            compiled(X, 2)
        compiled(X, 2)
        assert count(compiled).compiles == 2

    def test_accumulated(self) -> None:
        with config.patch(accumulated_recompile_limit=2):
            first, second = (eager(scaled, dynamic=dynamic) for dynamic in (False, True))
            first(X, 1)
            second(X, 2)
            second(X, 2)
            with pytest.warns(UserWarning, match=r"accumulated_recompile_limit \(2\) reached"):
                second(X.double(), 2)

    def test_isolated_wrappers_have_a_limit_each(self) -> None:
        first, second = (
            eager(scaled, isolate_recompiles=True, fullgraph=True, recompile_limit=1)
            for _ in range(2)
        )
        first(X, 1)
        second(X, 2)
        assert torch.equal(second(X, 2), X * 2)

    def test_an_isolated_wrapper_takes_what_is_shared(self) -> None:
        backend = Recording()
        shared = eager(scaled, backend=backend)
        shared(X, 1)
        isolated = eager(scaled, backend=backend, isolate_recompiles=True)
        isolated(X, 1)
        assert len(backend.graphs) == 1
        isolated(X, 2)
        shared(X, 2)  # but it gives nothing
        assert len(backend.graphs) == 3

    def test_reset(self) -> None:
        compiled = eager(scaled, fullgraph=True, recompile_limit=1)
        compiled(X, 1)
        stator.reset()
        assert count(compiled).compiles == 0
        assert torch.equal(compiled(X, 2), X * 2)
        assert count(compiled).compiles == 1


class TestEagerPaths:
    def test_they_are_guarded(self) -> None:
        """Which path is seen first does not matter."""

        def reads(x: torch.Tensor, read: bool) -> torch.Tensor:
            if read:
                stator.skip_frame()
            return x + 1

        for order in ([True, False], [False, True]):
            stator.reset()
            backend = Recording()
            compiled = eager(reads, backend=backend)
            for read in order:
                compiled(X, read)
            for read in order:
                assert torch.equal(compiled(X, read), X + 1)
            assert len(backend.graphs) == 1
            assert count(compiled) == (2, 2)
            assert sorted(one.eager is None for one in compilations(compiled)) == [False, True]

    def test_split_paths_are_guarded(self) -> None:
        def reads(x: torch.Tensor, read: bool) -> torch.Tensor:
            x = x * 2
            if read:
                time.sleep(0)
            return x + 1

        for order in ([True, False], [False, True]):
            stator.reset()
            backend = Recording()
            compiled = eager(reads, backend=backend)
            for read in order * 2:
                assert torch.equal(compiled(X, read), X * 2 + 1)
            assert len(backend.graphs) == 3
            assert count(compiled) == (2, 2)
            assert sorted(one.broken is None for one in compilations(compiled)) == [False, True]

    def test_what_can_not_be_split_is_warned_of_once(self) -> None:
        class Ends:
            def __del__(self) -> None: ...

        def makes(x: torch.Tensor) -> torch.Tensor:
            Ends()
            return x + 1

        compiled = eager(makes)
        with pytest.warns(UserWarning, match="This path runs eagerly") as caught:
            for _ in range(3):
                assert torch.equal(compiled(X), X + 1)
        assert len(caught) == 1
        assert count(compiled) == (1, 2)

    def test_closures_of_one_code_are_not_confused(self) -> None:
        def make(offset: float) -> Any:
            def add(x: torch.Tensor, *, twice: bool = False, **more: Any) -> torch.Tensor:
                time.sleep(0)
                return x + offset * (2 if twice else 1)

            return eager(add)

        one, two = make(1.0), make(2.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(2):
                assert torch.equal(one(X), X + 1)
                assert torch.equal(two(X), X + 2)
                assert torch.equal(two(X, twice=True), X + 4)
                assert torch.equal(one(X, twice=True, other=1), X + 2)

    def test_no_frame_of_ours_in_tracebacks(self) -> None:
        def fails(x: torch.Tensor, *more: int) -> torch.Tensor:
            time.sleep(0)
            raise KeyError("gone")

        compiled = eager(fails)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(2):
                with pytest.raises(KeyError) as info:
                    compiled(X, 1)
                assert [entry.name for entry in info.traceback][1:] == ["fails"]


class TestErrors:
    @pytest.fixture
    def bug(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def trace(task: Any, limit: int) -> Any:
            raise LookupError("a bug")

        monkeypatch.setattr("stator.driver.tracing.trace", trace)

    @pytest.mark.usefixtures("bug")
    def test_a_bug_is_seen(self) -> None:
        compiled = eager(scaled)
        with pytest.raises(stator.InternalError, match=r"failed to compile scaled \(.*:\d+\)") as e:
            compiled(X, 2)
        assert "please report it" in str(e.value)
        assert isinstance(e.value.__cause__, LookupError)

    @pytest.mark.usefixtures("bug")
    def test_suppress_errors(self) -> None:
        compiled = eager(scaled)
        strict = eager(scaled, fullgraph=True)
        with config.patch(suppress_errors=True):
            with pytest.warns(UserWarning, match="a bug.*\n.*runs eagerly") as caught:
                for _ in range(3):
                    assert torch.equal(compiled(X, 2), X * 2)
            assert len(caught) == 1
            with pytest.raises(stator.InternalError):
                strict(X, 2)

    @pytest.mark.usefixtures("bug")
    def test_what_always_fails_is_not_tried_for_ever(self) -> None:
        compiled = eager(scaled, recompile_limit=2)
        with config.patch(suppress_errors=True), pytest.warns(UserWarning) as caught:
            for _ in range(4):
                assert torch.equal(compiled(X, 2), X * 2)
        assert [("a bug" in str(w.message), "it failed" in str(w.message)) for w in caught] == [
            (True, False),
            (False, True),
        ]
        assert count(compiled).compiles == 2

    def test_suppress_errors_of_backends(self) -> None:
        def broken(module: Any, inputs: Any) -> Any:
            raise ZeroDivisionError

        compiled = eager(scaled, backend=broken)
        with pytest.raises(stator.BackendError):
            compiled(X, 2)
        with (
            config.patch(suppress_errors=True),
            pytest.warns(UserWarning, match="'broken' failed"),
        ):
            assert torch.equal(compiled(X, 2), X * 2)

    def test_errors_of_the_program_are_its_own(self) -> None:
        def fails(x: torch.Tensor) -> torch.Tensor:
            y = x + 1
            raise KeyError(y.shape[0])

        compiled = eager(fails, fullgraph=True)
        for _ in range(2):
            with pytest.raises(KeyError, match="4"):
                compiled(X)


class TestThreads:
    def test_one_function_is_compiled_once(self) -> None:
        graphs: list[str] = []

        def slow(module: Any, inputs: Any) -> Any:
            graphs.append(module.code)
            time.sleep(0.05)
            return module.forward

        compiled = eager(scaled, backend=slow, fullgraph=True)
        results = outcomes(*[lambda: compiled(X, 2)] * 4)
        assert all(torch.equal(result, X * 2) for result in results)
        assert len(graphs) == 1

    def test_different_functions(self) -> None:
        def shifted(x: torch.Tensor, by: int) -> torch.Tensor:
            return x + by

        one, two = eager(scaled, fullgraph=True), eager(shifted, fullgraph=True)
        bodies = [lambda i=i: (one(X, i), two(X, i)) for i in range(4)]
        for i, (first, second) in enumerate(outcomes(*bodies)):
            assert torch.equal(first, X * i)
            assert torch.equal(second, X + i)

    def test_grad_mode_of_other_threads(self) -> None:
        compiled = eager(Block(), fullgraph=True)

        def without() -> bool:
            with torch.no_grad():
                return bool(compiled(torch.ones(2, 4)).requires_grad)

        def with_grad() -> bool:
            return bool(compiled(torch.ones(2, 4)).requires_grad)

        assert outcomes(without, with_grad, without, with_grad) == [False, True, False, True]

    def test_fork(self) -> None:
        """A child does not wait for a thread that it does not have."""
        ready, go = threading.Event(), threading.Event()

        def waiting(module: Any, inputs: Any) -> Any:
            ready.set()
            go.wait(60)
            return module.forward

        thread = threading.Thread(target=lambda: eager(scaled, backend=waiting)(X, 2), daemon=True)
        thread.start()
        assert ready.wait(60)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # 3.12: fork with threads
            pid = os.fork()
        if pid == 0:
            try:
                fine = torch.equal(eager(scaled)(X, 3), X * 3)
                os._exit(0 if fine else 1)
            finally:
                os._exit(2)
        go.set()
        thread.join(60)
        deadline = time.monotonic() + 60
        while (status := os.waitpid(pid, os.WNOHANG))[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        if status[0] == 0:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
        assert status == (pid, 0)


class TestReentrancy:
    def test_from_a_backend(self) -> None:
        inner_backend = Recording()
        inner = eager(scaled, backend=inner_backend, fullgraph=True)
        values: list[torch.Tensor] = []

        def backend(module: Any, inputs: Any) -> Any:
            values.append(inner(X, 5))
            return module.forward

        outer = eager(lambda x: inner(x, 2) + 1, backend=backend, fullgraph=True)
        assert torch.equal(outer(X), X * 2 + 1)
        assert torch.equal(values[0], X * 5)
        assert len(inner_backend.graphs) == 1

    def test_a_backend_that_calls_the_function_it_compiles(self) -> None:
        calls: list[int] = []

        def backend(module: Any, inputs: Any) -> Any:
            calls.append(1)
            if len(calls) == 1:
                assert torch.equal(compiled(X, 2), X * 2)
            return module.forward

        compiled = eager(scaled, backend=backend, fullgraph=True)
        assert torch.equal(compiled(X, 2), X * 2)
        assert len(calls) == 2

    def test_the_world_changes_during_a_compile(self) -> None:
        """As another thread may do: the call is traced again."""
        items = [1]
        compiles = []

        def backend(module: Any, inputs: Any) -> Any:
            compiles.append(module)
            if len(compiles) == 1:
                items.append(2)
            return module.forward

        def program(x: torch.Tensor) -> torch.Tensor:
            return x * len(items)

        compiled = stator.compile(program, backend=backend)
        assert torch.equal(compiled(X), X * 2)
        assert torch.equal(compiled(X), X * 2)
        assert len(compiles) == 2

    def test_too_little_stack_to_compile(self) -> None:
        """The program needs less of it: the call runs as it is, others are compiled."""

        def deep(calls: int, x: torch.Tensor) -> Any:
            return deep(calls - 1, x) if calls else compiled(x, 2)

        used = 0
        frame: Any = sys._getframe()
        while frame is not None:
            used, frame = used + 1, frame.f_back
        compiled = eager(scaled)
        for left in range(14, 40):
            if compiled.entries():
                break
            assert torch.equal(deep(sys.getrecursionlimit() - used - left, X), X * 2)
        assert left > 20
        stator.reset()  # with more of it, the last call was compiled on some versions of Python
        compiled = eager(scaled, isolate_recompiles=True)
        assert torch.equal(deep(sys.getrecursionlimit() - used - 20, X), X * 2)
        assert not compiled.entries()
        assert torch.equal(compiled(X, 2), X * 2)
        assert len(compiled.entries()) == 1

    def test_recursion(self) -> None:
        @stator.compile(backend="eager", fullgraph=True)
        def power(x: torch.Tensor, n: int) -> torch.Tensor:
            return x if n == 1 else x * power(x, n - 1)

        assert torch.equal(power(X, 4), X**4)
        assert count(power).compiles == 1

    def test_another_code(self) -> None:
        def grown(x: torch.Tensor, factor: int) -> torch.Tensor:
            return x * factor

        def other(x: torch.Tensor, factor: int) -> torch.Tensor:
            return x + factor

        compiled = eager(grown, fullgraph=True)
        assert torch.equal(compiled(X, 2), X * 2)
        compiled.__code__ = other.__code__
        for _ in range(2):
            assert torch.equal(compiled(X, 2), X + 2)
        assert count(compiled).compiles == 1
        stator.reset()
        assert torch.equal(compiled(X, 2), X + 2)
