"""compile_graph: calling backends, their errors, Inductor's options."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._guards import TracingContext

from stator.backends import BackendError
from stator.backends.compile import compile_graph
from stator.backends.inductor import inductor
from stator.backends.inductor_settings import config_patches
from stator.graph import OutputGraph, Recorded
from stator.graph.recording.state import State


@pytest.fixture
def recorded() -> Recorded:
    graph = OutputGraph()
    x = graph.add_input("x", torch.randn(2, 3))
    line = 'File "model.py", line 3, in forward\n    return x.relu()'
    y = graph.call(torch.relu, (x,), stack_trace=line)
    return graph.finish([y])


def compiled(recorded: Recorded, backend: str | Callable[..., Any], **options: Any) -> Any:
    return compile_graph(
        recorded.module,
        recorded.example_inputs,
        backend,
        fake_mode=recorded.fake_mode,
        options=options,
    )


def test_the_backend_works_in_a_tracing_context(recorded: Recorded) -> None:
    seen = []

    def backend(module: Any, example_inputs: Any, **options: Any) -> Any:
        context = TracingContext.get()
        seen.append((context, type(example_inputs), options))
        assert context.fake_mode is recorded.fake_mode
        return module.forward

    result = compiled(recorded, backend, level=3)
    assert seen == [(result.context, list, {"level": 3})]
    assert TracingContext.try_get() is None
    assert compiled(recorded, backend).context is not result.context


def test_the_world_is_unchanged(recorded: Recorded) -> None:
    def careless(module: Any, example_inputs: Any) -> Any:
        torch.manual_seed(3)
        torch.set_default_dtype(torch.float64)
        torch._C._set_grad_enabled(False)
        return module.forward

    before = State.capture()
    compiled(recorded, careless)
    assert State.capture() == before


def test_a_failing_backend(recorded: Recorded) -> None:
    def broken(module: Any, example_inputs: Any) -> Any:
        module.graph.erase_node(list(module.graph.nodes)[-1])  # it may change the graph
        raise ZeroDivisionError("no luck")

    with pytest.raises(BackendError) as caught:
        compiled(recorded, broken)
    text = str(caught.value)
    assert "backend 'broken' failed: ZeroDivisionError: no luck" in text
    assert "torch.relu" in text
    assert "return (relu,)" in text
    assert "File: model.py:3 in forward, code: return x.relu()" in text
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert TracingContext.try_get() is None


def test_a_backend_that_answers_nonsense(recorded: Recorded) -> None:
    with pytest.raises(BackendError, match="returned int instead of a callable"):
        compiled(recorded, lambda module, example_inputs: 3)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients(backend: str) -> None:
    graph = OutputGraph()
    x = graph.add_input("x", torch.randn(4, 3))
    w = graph.add_input("w", torch.nn.Parameter(torch.randn(2, 3)))
    y = graph.call(torch.nn.functional.linear, (x, w))
    recorded = graph.finish([graph.call(("method", "sum"), (graph.call(torch.tanh, (y,)),))])
    run = compiled(recorded, backend).function
    given, mine = torch.randn(4, 3), torch.nn.Parameter(torch.randn(2, 3))
    theirs = torch.nn.Parameter(mine.detach().clone())
    torch.autograd.backward(run(given, mine)[0])
    torch.autograd.backward(torch.nn.functional.linear(given, theirs).tanh().sum())
    assert mine.grad is not None
    torch.testing.assert_close(mine.grad, theirs.grad)


class TestInductorOptions:
    def test_mode(self) -> None:
        assert config_patches("max-autotune-no-cudagraphs", None)["max_autotune"] is True
        assert config_patches("default", None) == {}
        assert config_patches(None, None) == {}

    def test_options(self) -> None:
        assert config_patches(None, {"max-autotune": True}) == {"max_autotune": True}
        assert config_patches(None, {"triton.cudagraphs": False}) == {"triton.cudagraphs": False}

    def test_errors(self) -> None:
        with pytest.raises(ValueError, match="not both"):
            config_patches("default", {"max_autotune": True})
        with pytest.raises(ValueError, match=r"no mode 'fast'\. Known: default"):
            config_patches("fast", None)
        with pytest.raises(ValueError, match="no option 'speed'"):
            config_patches(None, {"speed": 1})

    def test_they_reach_inductor(self, recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> None:
        calls = []

        def compile_fx(module: Any, inputs: Any, inner_compile: Any, config_patches: Any) -> Any:
            calls.append(config_patches)
            return module.forward

        monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", compile_fx)
        ours = {"size_asserts": False, "max_autotune": False}
        inductor(recorded.module, [], options={"max_autotune": True}, patches=ours)
        inductor(recorded.module, [])
        assert calls == [{"size_asserts": False, "max_autotune": True}, None]
