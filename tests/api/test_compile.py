"""stator.compile: what it takes, what it returns, what it refuses."""

import functools
import operator
import time
from typing import Any

import pytest
import torch

import stator
from stator._native._core import CompiledFunction
from stator.testing import count

from .tools import Block, Recording


def double(x: torch.Tensor, times: int = 2) -> torch.Tensor:
    """Twice."""
    return x * times


class Scaler:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def apply(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.factor

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.factor


X = torch.arange(3.0)


def test_function() -> None:
    backend = Recording()
    compiled = stator.compile(double, backend=backend, fullgraph=True)
    assert isinstance(compiled, CompiledFunction)
    assert compiled.__name__ == "double"
    assert compiled.__doc__ == "Twice."
    assert compiled.__wrapped__ is double
    assert torch.equal(compiled(X), X * 2)
    assert torch.equal(compiled(X, times=2), X * 2)
    assert len(backend.graphs) == 1
    assert count(compiled) == (1, 1)
    assert torch.equal(compiled(X, 3), X * 3)
    assert count(compiled) == (2, 1)


def test_decorator_without_arguments() -> None:
    @stator.compile
    def triple(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    assert isinstance(triple, CompiledFunction)


def test_decorator_with_arguments() -> None:
    @stator.compile(backend="eager", fullgraph=True)
    def triple(x: torch.Tensor) -> torch.Tensor:
        return x * 3

    assert torch.equal(triple(X), X * 3)
    assert count(triple) == (1, 0)


def test_bound_method() -> None:
    scaler = Scaler(2.0)
    compiled = stator.compile(scaler.apply, backend="eager", fullgraph=True)
    assert compiled.__self__ is scaler  # type: ignore[attr-defined]
    assert torch.equal(compiled(X), X * 2)
    scaler.factor = 3.0
    assert torch.equal(compiled(X), X * 3)
    assert count(compiled) == (2, 0)


def test_method_in_a_class() -> None:
    class Compiled:
        factor = 2.0

        @stator.compile(backend="eager", fullgraph=True)
        def apply(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.factor

        @stator.compile(backend="eager", fullgraph=True)
        @staticmethod
        def static(x: torch.Tensor) -> torch.Tensor:
            return x + 1

        @classmethod
        @stator.compile(backend="eager", fullgraph=True)
        def of_class(cls, x: torch.Tensor) -> torch.Tensor:
            return x * cls.factor

    assert torch.equal(Compiled().apply(X), X * 2)
    assert torch.equal(Compiled.static(X), X + 1)
    assert torch.equal(Compiled().static(X), X + 1)
    assert torch.equal(Compiled.of_class(X), X * 2)


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (functools.partial(double, times=5), X * 5),
        (torch.neg, -X),
        (Scaler(2.0), X + 2),
        (operator.neg, -X),
    ],
)
def test_other_callables(target: Any, expected: torch.Tensor) -> None:
    backend = Recording()
    compiled = stator.compile(target, backend=backend, fullgraph=True)
    for _ in range(2):
        assert torch.equal(compiled(X), expected)
    assert len(backend.graphs) == 1


def test_two_other_callables_share_nothing() -> None:
    negate = stator.compile(torch.neg, backend="eager", fullgraph=True)
    absolute = stator.compile(torch.abs, backend="eager", fullgraph=True)
    assert torch.equal(negate(X), -X)
    assert torch.equal(absolute(-X), X)


def test_compiled_again_is_compiled_once() -> None:
    outer = Recording()
    inner = stator.compile(double, backend="eager")
    compiled = stator.compile(inner, backend=outer, fullgraph=True)
    assert compiled.__wrapped__ is double  # type: ignore[attr-defined]
    assert torch.equal(compiled(X), X * 2)
    assert len(outer.graphs) == 1


def test_a_compiled_function_is_inlined() -> None:
    backend, unused = Recording(), Recording()
    inner = stator.compile(double, backend=unused)

    @stator.compile(backend=backend, fullgraph=True)
    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(x) + 1

    assert torch.equal(outer(X), X * 2 + 1)
    assert (len(backend.graphs), len(unused.graphs)) == (1, 0)


@pytest.mark.parametrize("model", [double, Scaler(1.0).apply, Block()])
def test_disable(model: Any) -> None:
    assert stator.compile(model, disable=True) is model
    assert stator.compile(disable=True)(model) is model


class TestRefusals:
    @pytest.mark.parametrize(
        ("target", "text"),
        [
            (Block, "not the class Block: compile an instance of it, or its methods"),
            (3, "not an object of type int"),
            ("double", "not an object of type str"),
        ],
    )
    def test_targets(self, target: Any, text: str) -> None:
        with pytest.raises(TypeError, match=text):
            stator.compile(target)
        with pytest.raises(TypeError, match=text):
            stator.compile(backend="eager")(target)

    def test_mode_and_options(self) -> None:
        with pytest.raises(ValueError, match=r"a mode or options, not both \(mode='default'"):
            stator.compile(double, mode="default", options={"max_autotune": True})

    def test_unknown_backend(self) -> None:
        with pytest.raises(
            stator.UnknownBackendError,
            match=r"no backend named 'inducktor'. Did you mean 'inductor'\? Known: .*eager",
        ):
            stator.compile(double, backend="inducktor")
        with pytest.raises(TypeError, match="a name or a callable, not int"):
            stator.compile(double, backend=3)  # type: ignore[call-overload]

    def test_unknown_mode(self) -> None:
        with pytest.raises(ValueError, match=r"no mode 'fast'\. Known: .*reduce-overhead"):
            stator.compile(double, mode="fast")  # type: ignore[call-overload]

    @pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
    def test_known_modes(self, mode: Any) -> None:
        stator.compile(double, mode=mode)

    @pytest.mark.parametrize("limit", [0, -1, True, 2.0])
    def test_recompile_limit(self, limit: Any) -> None:
        with pytest.raises(ValueError, match="must be a positive number"):
            stator.compile(double, recompile_limit=limit)

    def test_dynamic(self) -> None:
        with pytest.raises(TypeError, match="True, False or None, not 'yes'"):
            stator.compile(double, dynamic="yes")  # type: ignore[call-overload]

    def test_options_that_are_none(self) -> None:
        with pytest.raises(TypeError, match="options must be a mapping, not list"):
            stator.compile(double, options=[])  # type: ignore[call-overload]

    def test_unknown_arguments(self) -> None:
        with pytest.raises(TypeError, match="unexpected keyword argument 'fulgraph'"):
            stator.compile(double, fulgraph=True)  # type: ignore[call-overload]


class TestBackends:
    def test_mode_and_options_reach_the_backend(self) -> None:
        seen: list[dict[str, Any]] = []

        def backend(module: Any, inputs: Any, **given: Any) -> Any:
            seen.append(given)
            return module.forward

        for options in ({}, {"mode": "default"}, {"mode": "fast"}, {"options": {"level": 3}}):
            stator.compile(double, backend=backend, **options)(X)
        assert seen == [{}, {}, {"mode": "fast"}, {"options": {"level": 3}}]

    def test_registered(self) -> None:
        @stator.register_backend(name="tests_api")
        def backend(module: Any, inputs: Any) -> Any:
            return lambda *args: [-value for value in module.forward(*args)]

        assert "tests_api" in stator.list_backends()
        assert torch.equal(stator.compile(double, backend="tests_api")(X), X * -2)

    def test_failing(self) -> None:
        def broken(module: Any, inputs: Any) -> Any:
            raise ZeroDivisionError("no luck")

        with pytest.raises(stator.BackendError, match="'broken' failed: ZeroDivisionError") as info:
            stator.compile(double, backend=broken)(X)
        assert "x * 2" in info.value.graph
        assert isinstance(info.value.__cause__, ZeroDivisionError)

    def test_wrappers_with_different_backends_keep_apart(self) -> None:
        first, second = Recording(), Recording()
        one = stator.compile(double, backend=first)
        two = stator.compile(double, backend=second)
        for _ in range(2):
            assert torch.equal(one(X), two(X))
        assert (len(first.graphs), len(second.graphs)) == (1, 1)

    def test_equal_wrappers_share(self) -> None:
        backend = Recording()
        for _ in range(2):
            assert torch.equal(stator.compile(double, backend=backend)(X), X * 2)
        kept = [stator.compile(double, backend=backend) for _ in range(2)]
        for compiled in kept:
            assert torch.equal(compiled(X), X * 2)
        # Without a wrapper that keeps it, what was compiled goes.
        assert len(backend.graphs) == 3

    def test_functions_made_by_one_definition(self) -> None:
        def make(offset: float) -> Any:
            @stator.compile(backend="eager", fullgraph=True)
            def add(x: torch.Tensor) -> torch.Tensor:
                return x + offset

            return add

        functions = [make(float(i)) for i in range(4)]
        for _ in range(2):
            for i, function in enumerate(functions):
                assert torch.equal(function(X), X + i)

    def test_fullgraph_does_not_take_what_is_split(self) -> None:
        def reads(x: torch.Tensor) -> torch.Tensor:
            time.sleep(0)
            return x + 1

        lenient = stator.compile(reads, backend="eager")
        strict = stator.compile(reads, backend="eager", fullgraph=True)
        assert torch.equal(lenient(X), X + 1)
        with pytest.raises(stator.CaptureError, match="can't be captured as one graph"):
            strict(X)
