# mypy: ignore-errors
"""Settings of torch that a program changes for a while, and other harmless context managers."""

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import stator
from tests.versions import without_gpu

from .harness import Program, Programs, call, check, compile_with, module, reset_engine, t
from .test_23_tensor_state import plain

programs = Programs()


@programs(lambda: (t(3),), free=True)
def profiled_range(x):
    with torch.profiler.record_function("scaled") as entered:
        y = x * 2
    return y, type(entered).__name__


@programs(lambda: (t(3),), free=True)
def profiled_function(x):
    @torch.autograd.profiler.record_function("doubled")
    def double(x):
        return x * 2

    return double(x)


@programs(lambda: (module(nn.Conv1d, 2, 2, 1), t(1, 2, 3)))
def flags_of_cudnn(m, x):
    with torch.backends.cudnn.flags(enabled=False, deterministic=True):
        inside = torch.backends.cudnn.enabled, torch.backends.cudnn.deterministic
        y = m(x)
    return y, inside, torch.backends.cudnn.enabled


@programs(lambda: (t(3),))
def flags_of_cudnn_and_an_exception(x):
    try:
        with torch.backends.cudnn.flags(enabled=False):
            raise ValueError("not today")
    except ValueError as error:
        return x + torch.backends.cudnn.enabled, str(error)


@programs(lambda: (t(3),))
def default_device(x):
    with torch.device("cpu"):
        y = torch.ones(3)
        inside = torch.get_default_device()
    return x + y, inside, torch.get_default_device()


@programs(lambda: (t(3),), free=True)
def default_device_meta(x):
    with torch.device("meta"):
        y = torch.ones(3) + 1
        with torch.device("cpu"):
            z = torch.ones(3)
        w = torch.zeros(2, device="cpu")
    return y.device, y.shape, z + x, w, torch.ones(2)


@programs(lambda: (t(3),), free=True)
def default_device_of_a_stack(x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.device("meta"))
        y = torch.ones(3)
    return y.device, x + 1, torch.ones(1)


@programs(lambda: (t(3),), free=True)
def layer_made_on_meta(x):
    with torch.device("meta"):
        m = nn.Linear(3, 4)
    return [tuple(p.shape) for p in m.parameters()], m.weight.device, x + 1


@programs(lambda: (t(3),))
def default_dtype_as_it_is(x):
    torch.set_default_dtype(torch.get_default_dtype())
    return x + torch.ones(3)


@programs(lambda: (t(3, grad=True),))
def anomalies_as_they_are(x):
    with torch.autograd.set_detect_anomaly(False):
        return x * 2


LOCK, CONDITION = threading.RLock(), threading.Condition()


@programs(lambda: (t(3), []))
def locks(x, log):
    with LOCK, LOCK:
        log.append("held")
    with CONDITION:
        CONDITION.notify_all()
    return x + 1


@programs(lambda: (t(3),))
def tools_of_contextlib(x):
    with contextlib.suppress(ValueError), contextlib.nullcontext(2) as two:
        x = x * two
        raise ValueError
    return x


# With a GPU, the flags of cuDNN change which kernels run.
marked = [
    pytest.param(program, marks=without_gpu if "cudnn" in program.name else ())
    for program in programs
]


@pytest.mark.parametrize("program", marked, ids=str)
def test_program(program: Program) -> None:
    check(program)


@pytest.mark.parametrize("program", marked, ids=str)
def test_through_autograd_of_the_backend(program: Program) -> None:
    reset_engine()
    expected = [plain(line) for line in call(program, program.fn, 1).lines]
    compiled = compile_with(program.fn, backend="aot_eager", fullgraph=True)
    for _ in range(2):
        assert [plain(line) for line in call(program, compiled, 1).lines] == expected


# ---------------------------------------------------------------------------- what is refused


def default_dtype(x):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    y = torch.ones(3)
    torch.set_default_dtype(before)
    return x + y


def anomalies_detected(x):
    with torch.autograd.set_detect_anomaly(True):
        return x * 2


def other_kernels(x):
    with torch.backends.mkldnn.flags(enabled=False):
        return x * 2


@pytest.mark.parametrize("program", [default_dtype, anomalies_detected, other_kernels])
def test_refused_without_a_trace(program: Callable[..., Any]) -> None:
    stator.reset()
    before = torch.get_default_dtype(), torch.is_anomaly_enabled(), torch.backends.mkldnn.enabled
    with pytest.raises(stator.CaptureError):
        stator.compile(program, backend="eager", fullgraph=True)(torch.ones(3))
    after = torch.get_default_dtype(), torch.is_anomaly_enabled(), torch.backends.mkldnn.enabled
    assert after == before


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
def test_flags_of_cudnn_where_they_count() -> None:
    def switched(x: torch.Tensor) -> torch.Tensor:
        with torch.backends.cudnn.flags(enabled=False):
            return x + 1

    stator.reset()
    before = torch.backends.cudnn.enabled
    with pytest.raises(stator.CaptureError, match="changes which kernels run"):
        stator.compile(switched, backend="eager", fullgraph=True)(torch.ones(3))
    assert torch.equal(stator.compile(switched, backend="eager")(torch.ones(3)), torch.ones(3) + 1)
    assert torch.backends.cudnn.enabled is before


@without_gpu
def test_a_flag_that_stays_changed() -> None:
    def switch(x: torch.Tensor) -> torch.Tensor:
        torch._C._set_cudnn_benchmark(True)
        return x + 1

    stator.reset()
    compiled = stator.compile(switch, backend="eager", fullgraph=True)
    before = torch.backends.cudnn.benchmark
    try:
        torch._C._set_cudnn_benchmark(False)
        compiled(torch.ones(3))
        assert torch.backends.cudnn.benchmark
        compiled(torch.ones(3))  # compiled anew: the flag was read, and is another one
        assert torch.backends.cudnn.benchmark
    finally:
        torch._C._set_cudnn_benchmark(before)


def test_a_profiler_sees_the_range() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        with torch.profiler.record_function("scaled"):
            return x * 2

    stator.reset()
    compiled = stator.compile(scaled, backend="eager")
    compiled(torch.ones(3))
    with torch.autograd.profiler.profile() as profiler:
        compiled(torch.ones(3))
    assert any(event.name == "scaled" for event in profiler.function_events)


def ranged(x: torch.Tensor) -> torch.Tensor:
    with torch.profiler.record_function("ranged"):
        x = x * 2
        stator.graph_break()
        x = x + 1
    return x - 3


def ranged_outside(x: torch.Tensor) -> torch.Tensor:
    with torch.autograd.profiler.record_function("outside"):
        return ranged(x).sin()


def ranged_and_raising(x: torch.Tensor) -> torch.Tensor:
    with torch.profiler.record_function("raising"):
        stator.graph_break()
        raise ValueError(f"of {x.dim()} dimensions")


@pytest.mark.parametrize("function", [ranged, ranged_outside])
def test_a_range_around_a_split_costs_no_other(function: Any) -> None:
    """It is entered behind the first graph, and left behind the second."""
    stator.reset()
    seen: list[list[str]] = []

    def backend(module: torch.fx.GraphModule, inputs: Any) -> Any:
        seen.append([node.name for node in module.graph.nodes if node.op.startswith("call")])
        return module.forward

    compiled = stator.compile(function, backend=backend)
    x = torch.ones(3)
    expected = function(x)
    with torch.autograd.profiler.profile() as profiler:
        assert torch.equal(compiled(x), expected)
    assert torch.equal(compiled(x), expected)
    assert [names[:2] for names in seen] == [["mul"], ["add", "sub"]]
    assert stator.counters()["graph_breaks"] == 1
    assert stator.counters()["compiles"] == 2
    names = [event.name for event in profiler.function_events]
    assert "ranged" in names
    assert ("outside" in names) is (function is ranged_outside)


def test_a_range_is_left_by_an_exception_behind_a_split() -> None:
    stator.reset()
    compiled = stator.compile(ranged_and_raising, backend="eager")
    with torch.autograd.profiler.profile() as profiler:
        for _ in range(2):
            with pytest.raises(ValueError, match="of 1 dimensions"):
                compiled(torch.ones(3))
        torch.ones(3).sin()
    (sin,) = (event for event in profiler.function_events if event.name == "aten::sin")
    assert sin.cpu_parent is None  # no range is open


def test_a_range_is_entered_in_one_call_and_left_in_another() -> None:
    def entering(x: torch.Tensor) -> tuple[torch.Tensor, Any]:
        entered = torch.profiler.record_function("long")
        entered.__enter__()
        return x + 1, entered

    def leaving(x: torch.Tensor, entered: Any) -> torch.Tensor:
        y = x * 2
        entered.__exit__(None, None, None)
        return y + 1

    stator.reset()
    first = stator.compile(entering, backend="eager", fullgraph=True)
    second = stator.compile(leaving, backend="eager", fullgraph=True)
    with torch.autograd.profiler.profile() as profiler:
        y, entered = first(torch.ones(3))
        y = y.sin()
        y = second(y, entered)
        y.cos()
    assert torch.equal(y, torch.full((3,), 2.0).sin() * 2 + 1)
    found = {event.name: event for event in profiler.function_events}
    assert found["aten::sin"].cpu_parent.name == "long"
    assert found["aten::cos"].cpu_parent is None
