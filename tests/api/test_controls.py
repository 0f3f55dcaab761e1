"""What the program says about graph breaks: error_on_graph_break, skip_frame, torch's own words."""

import threading
import time
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch._compile import _disable_dynamo

import stator
from stator.diagnostics.break_errors import WANTED
from stator.testing import compilations, count

from .tools import Recording

X = torch.arange(4.0)
torch_disable: Any = torch.compiler.disable


def compiled(function: Any, **options: Any) -> Any:
    return stator.compile(function, **{"backend": "eager", "isolate_recompiles": True, **options})


def breaks(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    time.sleep(0)
    return x * 2


@stator.error_on_graph_break(True)
def strict(x: torch.Tensor) -> torch.Tensor:
    return breaks(x)


@stator.error_on_graph_break(False)
def lenient(x: torch.Tensor) -> torch.Tensor:
    return breaks(x)


class TestErrorOnGraphBreak:
    def raises(self, function: Any) -> None:
        call = compiled(function)
        for _ in range(2):
            with pytest.raises(stator.CaptureError, match=r"time\.sleep") as info:
                call(X)
            assert "error_on_graph_break(True)" in info.value.__notes__[0]
        assert compilations(call) == () or compilations(call)[0].eager is None

    def is_split(self, function: Any, graphs: int = 2) -> None:
        told = stator.explain(function)(X)
        assert torch.equal(told.result, function(X))
        assert told.graph_count == graphs
        assert told.eager == ()
        assert not WANTED.get()

    def test_block(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            with stator.error_on_graph_break(True):
                return breaks(x)

        self.raises(function)

    def test_only_inside_of_the_block(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            with stator.error_on_graph_break(True):
                x = x + 1
            return breaks(x)

        self.is_split(function)

    def test_decorator(self) -> None:
        self.raises(lambda x: strict(x - 1))
        assert torch.equal(strict(X), breaks(X))  # nothing outside of compiled code

    def test_the_innermost_counts(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            with stator.error_on_graph_break(True):
                return lenient(x) - 1

        def other(x: torch.Tensor) -> torch.Tensor:
            with stator.error_on_graph_break(False):
                return strict(x) - 1

        self.is_split(function)
        self.raises(other)

    def test_behind_a_split(self) -> None:
        """The setting comes back with the block, in a continuation."""

        def function(x: torch.Tensor) -> torch.Tensor:
            with stator.error_on_graph_break(True):
                x = lenient(x)
                time.sleep(0)
            return x

        with pytest.raises(stator.CaptureError, match=r"time\.sleep"):
            compiled(function)(X)

    def test_off_again_behind_a_split(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            with stator.error_on_graph_break(True):
                x = lenient(x)
            return breaks(x)

        self.is_split(function, 3)

    def test_toggled_around_each_of_many(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            for error in (False, True, False):
                with stator.error_on_graph_break(error):
                    x = x + 1
                    if not error:
                        time.sleep(0)
            return x

        call = compiled(function)
        for _ in range(3):
            assert torch.equal(call(X), X + 3)
        assert count(call) == (1, 2)

    def test_around_the_call(self) -> None:
        """What holds outside counts, too, whatever was compiled before."""
        with stator.error_on_graph_break(False):
            pass  # the first use in a process compiles what was compiled before once more
        call = compiled(breaks)
        for _ in range(2):
            assert torch.equal(call(X), breaks(X))
            with stator.error_on_graph_break(True), pytest.raises(stator.CaptureError):
                call(X)
            assert not WANTED.get()
        with stator.error_on_graph_break(True):
            with stator.error_on_graph_break(False):
                assert torch.equal(call(X), breaks(X))
            assert WANTED.get()
        assert count(call).compiles == 1

    def test_what_is_captured_whole_does_not_depend_on_it(self) -> None:
        call = compiled(lambda x: x + 1)
        call(X)
        with stator.error_on_graph_break(True):
            call(X)
        assert count(call) == (1, 1)

    def test_fullgraph(self) -> None:
        with pytest.raises(stator.CaptureError) as info:
            compiled(lenient, fullgraph=True)(X)
        assert not hasattr(info.value, "__notes__")

    def test_other_threads(self) -> None:
        results: list[Any] = []
        call = compiled(breaks)
        with stator.error_on_graph_break(True):
            thread = threading.Thread(target=lambda: results.append(call(X)))
            thread.start()
            thread.join()
        assert torch.equal(results[0], breaks(X))

    def test_an_exception_leaves_the_block(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            try:
                with stator.error_on_graph_break(True):
                    raise KeyError
            except KeyError:
                return breaks(x)

        self.is_split(function)

    def test_recursion(self) -> None:
        """Each call of a decorated function has a block of its own."""

        @stator.error_on_graph_break(True)
        def down(x: torch.Tensor, n: int) -> torch.Tensor:
            return x if n == 0 else down(x + 1, n - 1)

        call = compiled(lambda x: down(x, 3), fullgraph=True)
        for _ in range(2):
            assert torch.equal(call(X), X + 3)
        assert torch.equal(down(X, 3), X + 3)

    @pytest.mark.parametrize("wrong", [1, None, "yes"])
    def test_refusals(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match="takes True or False"):
            stator.error_on_graph_break(wrong)


def skipping(x: torch.Tensor, skip: bool) -> torch.Tensor:
    x = x + 1
    if skip:
        stator.skip_frame("small")
    return x * 2


class TestSkipFrame:
    def test_all_of_the_call_runs_as_it_is(self) -> None:
        backend = Recording()
        call = compiled(skipping, backend=backend)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # who asks for it needs no warning
            for _ in range(2):
                assert torch.equal(call(X, True), (X + 1) * 2)
        assert backend.graphs == []
        assert count(call) == (1, 1)

    def test_other_paths_are_captured_in_any_order(self) -> None:
        for order in ([True, False], [False, True]):
            backend = Recording()
            call = compiled(skipping, backend=backend)
            for skip in order * 2:
                assert torch.equal(call(X, skip), (X + 1) * 2)
            assert len(backend.graphs) == 1
            assert count(call) == (2, 2)

    def test_deep_inside(self) -> None:
        """It is the call that is compiled that runs as it is, not the function that asks."""
        backend = Recording()
        call = compiled(lambda x: skipping(x - 1, True) + 3, backend=backend)
        assert torch.equal(call(X), X * 2 + 3)
        assert backend.graphs == []

    def test_what_is_compiled_inside(self) -> None:
        backend = Recording()
        inner = compiled(lambda x: x.sin(), backend=backend)

        def outer(x: torch.Tensor) -> Any:
            stator.skip_frame()
            return inner(x) + 1

        assert torch.equal(compiled(outer, backend=backend)(X), X.sin() + 1)
        assert ["sin" in graph for graph in backend.graphs] == [True]

    def test_behind_a_break(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            return skipping(breaks(x), True) - 1

        told = stator.explain(function)(X)
        assert torch.equal(told.result, function(X))
        assert told.ops_per_graph == (("add",),)
        assert len(told.eager) == 1

    def test_it_is_no_break(self) -> None:
        with stator.error_on_graph_break(True):
            assert torch.equal(compiled(skipping)(X, True), (X + 1) * 2)

    def test_fullgraph(self) -> None:
        with pytest.raises(stator.CaptureError, match="asks not to be captured: small"):
            compiled(skipping, fullgraph=True)(X, True)

    def test_outside_of_compiled_code(self) -> None:
        assert torch.equal(skipping(X, True), (X + 1) * 2)


def cosine(x: torch.Tensor) -> torch.Tensor:
    return x.cos()


class TestDisable:
    @pytest.mark.parametrize("recursive", [True, False])
    def test_what_is_compiled_inside_stays_so(self, recursive: bool) -> None:
        """As with torch.compile: a function that was compiled itself is not meant."""
        backend = Recording()
        inner = compiled(cosine, backend=backend)

        @stator.disable(recursive=recursive)
        def disabled(x: torch.Tensor) -> Any:
            return inner(x) + 5

        outer = compiled(lambda x: disabled(x * 2) * 3, backend=backend)
        for _ in range(2):
            assert torch.equal(outer(X), (cosine(X * 2) + 5) * 3)
        assert [("cos" in graph, "mul" in graph) for graph in backend.graphs] == [
            (False, True),
            (True, False),
            (False, True),
        ]


class TestTorchsWords:
    @pytest.mark.parametrize("recursive", [True, False])
    def test_disable(self, recursive: bool) -> None:
        disabled = torch_disable(cosine, recursive=recursive, reason="a device")
        told = stator.explain(lambda x: disabled(x + 1) * 2)(X)
        assert torch.equal(told.result, (X + 1).cos() * 2)
        assert told.ops_per_graph == (("add",), ("mul",))
        (found,) = told.breaks
        assert found.reason == "cosine is disabled: a device"

    def test_disabled_module(self) -> None:
        module = torch_disable(nn.Linear(4, 4))
        told = stator.explain(lambda x: module(x + 1) * 2)(X)
        assert torch.equal(told.result, module(X + 1) * 2)
        assert told.ops_per_graph == (("add",), ("mul",))

    def test_graph_break(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            x = x + 1
            torch._dynamo.graph_break("here")
            return x * 2

        told = stator.explain(function)(X)
        assert told.ops_per_graph == (("add",), ("mul",))
        assert told.breaks[0].reason == "the program asks for a graph break: here"

    def test_skip_frame(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            torch._dynamo.skip_frame()
            return x * 2

        told = stator.explain(function)(X)
        assert told.graphs == ()
        assert len(told.eager) == 1

    def test_error_on_graph_break(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            with torch._dynamo.error_on_graph_break(True):
                return breaks(x)

        with pytest.raises(stator.CaptureError, match=r"time\.sleep"):
            compiled(function)(X)

    def test_what_keeps_dynamo_away_inside_of_torch(self) -> None:
        """`torch._disable_dynamo` is about Dynamo: the function behind it is evaluated."""

        def plain(x: torch.Tensor, n: int = 2) -> torch.Tensor:
            return x * n

        wrapped = _disable_dynamo(plain)
        call = compiled(lambda x: wrapped(x, n=3) + 1, fullgraph=True)
        for _ in range(2):
            assert torch.equal(call(X), X * 3 + 1)
        assert not hasattr(plain, "__dynamo_disable")

    def test_its_closure_is_guarded(self) -> None:
        """Another function behind the wrapper is another program."""

        def plain(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        def other(x: torch.Tensor) -> torch.Tensor:
            return x * 3

        wrapped: Any = _disable_dynamo(plain)
        call = compiled(lambda x: wrapped(x), fullgraph=True)
        assert torch.equal(call(X), X * 2)
        wrapped.__closure__[0].cell_contents = other
        assert torch.equal(call(X), X * 3)
        assert count(call).compiles == 2

    def test_optimizer(self) -> None:
        """torch.optim keeps Dynamo away and asks for breaks; neither is about the program."""
        parameter = nn.Parameter(X.clone())
        optimizer = torch.optim.SGD([parameter], lr=0.5)

        def step(x: torch.Tensor) -> None:
            optimizer.zero_grad()
            parameter.grad = x * 2
            optimizer.step()

        told = stator.explain(step)(torch.ones(4))
        assert torch.equal(parameter, X - 1)
        assert not any("graph break" in each.reason for each in told.breaks)
        assert not any("disabled" in each.reason for each in told.breaks)


def test_a_nested_region_is_called_twice() -> None:
    @torch.compiler.nested_compile_region
    def block(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + 1)

    def program(x: torch.Tensor) -> Any:
        return block(block(x))

    x = torch.randn(3)
    explained = stator.explain(program)(x)
    assert torch.equal(explained.result, program(x))
    assert explained.ops_per_graph == (
        ("invoke_subgraph", "getitem", "invoke_subgraph", "getitem"),
    )
