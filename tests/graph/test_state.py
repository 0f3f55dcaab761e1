"""torch's global state: snapshots, restoration, recorded changes."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from stator.backends.compile import compile_graph
from stator.graph import OutputGraph
from stator.graph.recording.state import State, StateRecorder, preserved
from stator.torchlib.settings import FLAGS

CHANGES: dict[str, Callable[[], Any]] = {
    "grad": lambda: torch._C._set_grad_enabled(False),
    "autocast.cpu": lambda: torch.set_autocast_enabled("cpu", True),
    "autocast.cuda": lambda: torch.set_autocast_dtype("cuda", torch.bfloat16),
    "autocast_nesting": torch.autocast_increment_nesting,
    "autocast_cache": lambda: torch.set_autocast_cache_enabled(False),
    "default_dtype": lambda: torch.set_default_dtype(torch.float64),
    "default_device": lambda: torch.set_default_device("meta"),
    "flags.deterministic": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "flags.float32_matmul_precision": lambda: torch.set_float32_matmul_precision("high"),
    "flags.cudnn_benchmark": lambda: torch._C._set_cudnn_benchmark(True),
    "flags.sdp_flash": lambda: torch.backends.cuda.enable_flash_sdp(False),
    "flags.fp16_reduced_precision_reduction": lambda: setattr(
        torch.backends.cuda.matmul, "allow_fp16_reduced_precision_reduction", False
    ),
    "rng": lambda: torch.rand(1),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen_and_undone(name: str) -> None:
    before = State.capture()
    with preserved() as state:
        assert state == before
        CHANGES[name]()
        now = State.capture()
        assert set(before.diff(now)) - {"autocast_cache"} == {name} - {"autocast_cache"}
        assert now != before
    assert State.capture() == before


@pytest.mark.parametrize("name", FLAGS)
def test_each_flag_can_be_written(name: str) -> None:
    flag = FLAGS[name]
    value = flag.read()
    flag.write(value)
    assert flag.read() == value


def test_restored_after_an_error() -> None:
    before = State.capture()
    with pytest.raises(KeyError), preserved():
        for change in CHANGES.values():
            change()
        raise KeyError
    assert State.capture() == before


def test_without_random_state() -> None:
    before = State.capture(rng=False)
    torch.rand(1)
    assert before == State.capture(rng=False)
    assert "rng" not in before.diff(State.capture())


def test_under_a_fake_mode_and_a_default_device() -> None:
    with preserved(), OutputGraph().fake_mode:
        torch.set_default_device("meta")
        before = State.capture()
        before.restore()
        assert State.capture() == before


def test_inference_mode_has_no_setter() -> None:
    before = State.capture()
    with torch.inference_mode(), pytest.raises(RuntimeError, match="scope is still open"):
        before.restore()


class TestRecorder:
    @pytest.mark.parametrize("backend", ["eager", "aot_eager"])
    def test_grad_mode_and_autocast(self, backend: str) -> None:
        graph = OutputGraph()
        x = graph.add_input("x", torch.randn(3, 3, requires_grad=True))
        before = State.capture()
        with preserved(), StateRecorder(graph) as state:
            state.set_grad_enabled(True)  # no change: no node
            state.set_grad_enabled(False)
            a = graph.call(torch.mm, (x, x))
            assert not a.requires_grad
            state.set_grad_enabled(True)
            scope = state.enter_autocast("cpu")
            b = graph.call(torch.mm, (x, x))
            assert b.dtype is torch.bfloat16
            state.exit(scope)
            c = graph.call(torch.mm, (x, x))
            recorded = graph.finish([a, b, c])
        assert State.capture() == before
        names = [node.name for node in recorded.module.graph.nodes if node.op == "call_function"]
        assert names == [
            "_set_grad_enabled",
            "mm",
            "_set_grad_enabled_1",
            "_enter_autocast",
            "mm_1",
            "_exit_autocast",
            "mm_2",
        ]
        run = compile_graph(
            recorded.module, recorded.example_inputs, backend, fake_mode=recorded.fake_mode
        ).function
        given = torch.randn(3, 3, requires_grad=True)
        results = run(given)
        assert [r.requires_grad for r in results] == [False, True, True]
        assert [r.dtype for r in results] == [torch.float32, torch.bfloat16, torch.float32]
        with torch.autocast("cpu"):
            expected = torch.mm(given, given)
        assert torch.equal(results[1], expected)
        assert not before.diff(State.capture(rng=False))

    def test_inference_mode(self) -> None:
        given = torch.randn(3, requires_grad=True)
        graph = OutputGraph()
        x = graph.add_input("x", given)
        before = State.capture()
        with preserved(), StateRecorder(graph) as state:
            scope = state.enter_inference_mode()
            y = graph.call(torch.sin, (x,))
            assert y.is_inference()
            state.exit(scope)
            recorded = graph.finish([y])
        assert State.capture() == before
        (result,) = recorded.module(given)
        assert result.is_inference()
        assert State.capture() == before

    def test_an_aborted_trace_closes_its_scopes(self) -> None:
        before = State.capture()
        graph = OutputGraph()
        with pytest.raises(KeyError), preserved(), StateRecorder(graph) as state:
            state.enter_autocast("cpu", torch.float16)
            state.enter_inference_mode()
            state.enter_autocast("cuda", enabled=False)
            state.set_grad_enabled(False)
            raise KeyError
        assert State.capture() == before

    def test_scopes_nest(self) -> None:
        graph = OutputGraph()
        with StateRecorder(graph) as state:
            outer = state.enter_autocast("cpu")
            state.enter_inference_mode()
            with pytest.raises(ValueError, match="innermost"):
                state.exit(outer)
