"""What can be said about single functions, and what becomes of it in a trace."""

import gc
import operator
import time
import weakref
from typing import Any

import pytest
import torch

import stator
from stator.capture.calls import marks
from stator.capture.calls.marks import Kind
from stator.testing import compilations, count

from .tools import Block, Recording

X = torch.arange(4.0)


def doubled(x: torch.Tensor, times: int = 2) -> torch.Tensor:
    """Twice."""
    return x * times


class Holder:
    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def compiled(function: Any, **options: Any) -> Any:
    return stator.compile(function, **{"backend": "eager", "fullgraph": True, **options})


class TestDisable:
    def test_outside_of_compiled_code(self) -> None:
        disabled = stator.disable(doubled)
        assert torch.equal(disabled(X, times=3), X * 3)
        assert disabled.__name__ == "doubled"
        assert disabled.__doc__ == "Twice."
        assert disabled.__wrapped__ is doubled  # type: ignore[attr-defined]

    def test_the_original_is_left_alone(self) -> None:
        disabled = stator.disable(doubled)
        assert marks.of(doubled) is None
        assert marks.of(disabled) is not None
        assert torch.equal(compiled(lambda x: doubled(x))(X), X * 2)

    def test_full_graph(self) -> None:
        disabled = stator.disable(doubled, reason="it talks to a device")
        with pytest.raises(stator.CaptureError, match="doubled is disabled: it talks to a device"):
            compiled(lambda x: disabled(x) + 1)(X)

    def test_graph_break(self) -> None:
        disabled = stator.disable(doubled)
        backend = Recording()
        outer = compiled(lambda x: disabled(x - 1) + 1, fullgraph=False, backend=backend)
        for _ in range(2):
            assert torch.equal(outer(X), (X - 1) * 2 + 1)
        assert ["sub" in graph for graph in backend.graphs] == [True, False]
        assert not any("mul" in graph for graph in backend.graphs)
        (one,) = compilations(outer)
        assert one.broken is not None
        assert one.broken.reason == "doubled is disabled"

    def test_forms(self) -> None:
        @stator.disable
        def plain(x: torch.Tensor) -> torch.Tensor:
            return x

        @stator.disable(recursive=False, reason="why not")
        def with_arguments(x: torch.Tensor) -> torch.Tensor:
            return x

        class Class:
            @stator.disable
            def method(self, x: torch.Tensor) -> torch.Tensor:
                return x

            @stator.disable
            @staticmethod
            def static(x: torch.Tensor) -> torch.Tensor:
                return x

            @classmethod
            @stator.disable
            def of_class(cls, x: torch.Tensor) -> torch.Tensor:
                return x

        holder = Class()
        bound = stator.disable(Holder().method)
        functions: list[Any] = [plain, with_arguments, bound, stator.disable(torch.neg)]
        functions += [holder.method, Class.static, holder.of_class]
        for function in functions:
            assert function(X).shape == X.shape
            with pytest.raises(stator.CaptureError, match="is disabled"):
                compiled(lambda x, function=function: function(x))(X)
        mark = marks.of(with_arguments)
        assert mark is not None
        assert (mark.recursive, mark.reason) == (False, "why not")

    def test_module(self) -> None:
        block = Block()
        disabled = stator.disable(block)
        assert isinstance(disabled, Block)
        assert disabled.linear is block.linear
        assert torch.equal(disabled(X), block(X))
        with pytest.raises(stator.CaptureError, match="Block is disabled"):
            compiled(lambda x: disabled(x))(X)

    def test_compiled_function(self) -> None:
        backend = Recording()
        disabled = stator.disable(compiled(doubled, backend=backend))
        assert torch.equal(disabled(X), X * 2)
        assert backend.graphs == []

    def test_refusals(self) -> None:
        with pytest.raises(TypeError, match="not the class Holder"):
            stator.disable(Holder)
        with pytest.raises(TypeError, match="not an object of type int"):
            stator.disable(3)  # type: ignore[call-overload]

    def test_no_frame_of_ours(self) -> None:
        @stator.disable
        def fails() -> None:
            raise KeyError

        with pytest.raises(KeyError) as info:
            fails()
        assert [entry.name for entry in info.traceback][1:] == ["fails"]


class TestGraphBreak:
    def test_message(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            stator.graph_break("look at it here")
            return x + 1

        def silent(x: torch.Tensor) -> torch.Tensor:
            stator.graph_break()
            return x + 1

        with pytest.raises(stator.CaptureError, match=r"a graph break: look at it here\n.* at "):
            compiled(function)(X)
        with pytest.raises(stator.CaptureError, match="asks for a graph break\n"):
            compiled(silent)(X)
        lenient = compiled(function, fullgraph=False)
        assert torch.equal(lenient(X), X + 1)
        (one,) = compilations(lenient)
        assert one.broken is not None
        assert "look at it here" in str(one.broken)

    def test_outside_of_compiled_code(self) -> None:
        stator.graph_break("nothing happens")


class TestIsCompiling:
    def test_in_a_trace(self) -> None:
        def function(x: torch.Tensor) -> torch.Tensor:
            if stator.is_compiling():
                x = x + 1
            if torch.compiler.is_compiling():
                x = x + 10
            return x

        assert torch.equal(function(X), X)
        for _ in range(2):
            assert torch.equal(compiled(function)(X), X + 11)

    def test_outside(self) -> None:
        answers = []

        def backend(module: Any, inputs: Any) -> Any:
            answers.append(stator.is_compiling())
            return module.forward

        compiled(doubled, backend=backend)(X)
        assert answers == [False]
        assert not stator.is_compiling()


class TestAllowInGraph:
    def test_one_node(self) -> None:
        @stator.allow_in_graph
        def whole(x: torch.Tensor, scale: float) -> torch.Tensor:
            if x.shape[0] > 2:
                x = torch.relu(x)
            return x * scale

        backend = Recording()
        function = compiled(lambda x: whole(x, 2.0) + 1, backend=backend)
        for _ in range(2):
            assert torch.equal(function(X), torch.relu(X) * 2 + 1)
        (graph,) = backend.graphs
        assert "whole(x, 2.0)" in graph
        assert "relu" not in graph

    def test_gradients(self) -> None:
        whole: Any = stator.allow_in_graph(lambda x: torch.tanh(x) * 3)
        x = X.clone().requires_grad_()
        result = compiled(lambda x: whole(x).sum())(x)
        torch.autograd.backward(result)
        torch.testing.assert_close(x.grad, 3 / torch.cosh(X) ** 2)


class TestAssumeConstantResult:
    def test_called_once_per_trace(self) -> None:
        calls = []

        @stator.assume_constant_result
        def settings(name: str) -> dict[str, int]:
            calls.append(name)
            return {"factor": 3}

        function = compiled(lambda x: x * settings("a")["factor"])
        for _ in range(3):
            assert torch.equal(function(X), X * 3)
        assert calls == ["a"]

    def test_its_error_is_the_programs(self) -> None:
        @stator.assume_constant_result
        def fails() -> int:
            raise KeyError("nothing")

        with pytest.raises(KeyError, match="nothing"):
            compiled(lambda x: x + fails())(X)


class TestSubstituteInGraph:
    def test_function(self) -> None:
        def original(x: torch.Tensor, n: int = 1) -> torch.Tensor:
            time.sleep(0)
            return x + n

        @stator.substitute_in_graph(original)
        def substitute(x: torch.Tensor, n: int = 1) -> torch.Tensor:
            return x + n

        for _ in range(2):
            assert torch.equal(compiled(lambda x: original(x, n=3))(X), X + 3)
        assert torch.equal(substitute(X), X + 1)

    def test_c_function(self) -> None:
        kept = marks.of(operator.indexOf)

        @stator.substitute_in_graph(operator.indexOf, skip_signature_check=True)
        def index_of(items: list[int], wanted: int) -> int:
            return 100

        try:
            assert torch.equal(compiled(lambda x: x + operator.indexOf([1, 2], 2))(X), X + 100)
        finally:
            marks.remove(operator.indexOf)
        assert kept is None

    def test_signatures(self) -> None:
        def original(x: int, /, y: int = 1, *, z: int) -> int:
            return x + y + z

        @stator.substitute_in_graph(original)
        def same(other: int, /, y: int = 2, *, z: int) -> int:
            return other

        with pytest.raises(TypeError, match=r"the substitute takes \(x, y\)"):

            @stator.substitute_in_graph(original)
            def different(x, y):  # type: ignore[no-untyped-def]
                return x

        with pytest.raises(TypeError, match="must be a Python function, not an object of type"):
            stator.substitute_in_graph(original)(max)


class TestRegistry:
    def test_weak(self) -> None:
        def function() -> None: ...

        stator.allow_in_graph(function)
        key, reference = id(function), weakref.ref(function)
        assert key in marks._slots
        del function
        gc.collect()
        assert reference() is None
        assert key not in marks._slots

    def test_methods_are_marked_as_functions(self) -> None:
        class Other(Holder):
            def method(self, x: torch.Tensor) -> torch.Tensor:
                return x * 2

        stator.allow_in_graph(Other().method)
        mark = marks.of(Other.method)
        assert mark is not None
        assert mark.kind is Kind.ALLOW
        assert marks.of(Holder.method) is None

    def test_by_identity(self) -> None:
        class Equal:
            def __eq__(self, other: object) -> bool:
                raise AssertionError("asked")

            __hash__ = None  # type: ignore[assignment]

            def __call__(self) -> None: ...

        first, second = Equal(), Equal()
        stator.allow_in_graph(first)
        assert marks.of(first) is not None
        assert marks.of(second) is None

    def test_what_has_no_weak_references(self) -> None:
        marks.put(str.upper, marks.Mark(Kind.ALLOW))
        assert marks.of(str.upper) is not None
        marks.remove(str.upper)
        assert marks.of(str.upper) is None

    @pytest.mark.parametrize("mark", [stator.allow_in_graph, stator.assume_constant_result])
    def test_refusals(self, mark: Any) -> None:
        for wrong in (3, Block()):
            with pytest.raises(TypeError, match="needs a function, not an object of type"):
                mark(wrong)


def test_a_break_is_an_entry() -> None:
    """A disabled function costs one compile, not one per call."""
    disabled = stator.disable(doubled)
    outer = compiled(lambda x: disabled(x), fullgraph=False)
    for _ in range(3):
        assert torch.equal(outer(X), X * 2)
    assert count(outer) == (1, 2)
