"""Errors that only the kernels find: the program goes on as without stator."""

import logging
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import stator
from stator.backends.registry import lookup
from stator.graph.recording.state import State

GOOD, BAD = torch.tensor([1, 2]), torch.tensor([1, 9])
BACKENDS = ["eager", "aot_eager"]


class Recording:
    """A context manager that notes what it sees."""

    def __init__(self, swallows: bool = False) -> None:
        self.seen: list[Any] = []
        self.swallows = swallows

    def __enter__(self) -> None:
        self.seen.append("enter")

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        self.seen.append(kind)
        return self.swallows


def outcome(call: Callable[..., Any], *args: Any) -> Any:
    """What a call returns, or the type and the text of what it raises."""
    try:
        return "returned", call(*args)
    except Exception as error:
        assert error.__context__ is None
        return type(error), str(error)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor):
        return torch.equal(a, b)
    return bool(a == b) if not isinstance(a, tuple) else all(map(same, a, b))


def compare(make: Callable[[], tuple[Any, list[Any]]], backend: str, graphs: int = 1) -> None:
    """A good call, a bad one, a good one again: as in eager, with one compile."""
    compiles = []

    def counting(module: Any, inputs: Any) -> Any:
        compiles.append(module)
        return lookup(backend)(module, inputs)

    x = torch.randn(4)
    found = []
    for eager in (True, False):
        function, log = make()
        run = function if eager else stator.compile(function, backend=counting)
        results = [outcome(run, x, i) for i in (GOOD, BAD, GOOD)]
        found.append(
            (results, list(log), torch.is_grad_enabled(), torch.is_autocast_enabled("cpu"))
        )
        torch.set_grad_enabled(True)
    assert same(tuple(found[0][0]), tuple(found[1][0])), found
    assert found[0][1:] == found[1][1:]
    assert len(compiles) == graphs


def handled() -> tuple[Any, list[Any]]:
    log: list[Any] = []

    def program(x: Tensor, i: Tensor) -> Tensor:
        try:
            y = x[i] * 2
            log.append("fine")
        except IndexError:
            log.append("handled")
            y = x.sum()
        finally:
            log.append("finally")
        return y

    return program, log


def with_effects() -> tuple[Any, list[Any]]:
    log: list[Any] = []

    def program(x: Tensor, i: Tensor) -> Tensor:
        log.append("before")
        y = x[i]
        log.append("after")
        return y

    return program, log


def in_a_context() -> tuple[Any, list[Any]]:
    recording = Recording()

    def program(x: Tensor, i: Tensor) -> Any:
        with recording, torch.no_grad(), torch.autocast("cpu"):
            return x[i] * 2

    return program, recording.seen


def swallowed() -> tuple[Any, list[Any]]:
    recording = Recording(swallows=True)

    def program(x: Tensor, i: Tensor) -> Tensor:
        y = x
        with recording:
            y = x[i] * 2
        return y + 1

    return program, recording.seen


def in_a_callee() -> tuple[Any, list[Any]]:
    log: list[Any] = []

    def inner(x: Tensor, i: Tensor) -> Tensor:
        return x[i]

    def program(x: Tensor, i: Tensor) -> Any:
        for attempt in range(3):
            try:
                return inner(x, i - attempt * 3)
            except IndexError:
                log.append(attempt)
        return None

    return program, log


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("make", [handled, with_effects, in_a_context, swallowed, in_a_callee])
def test_as_in_eager(make: Any, backend: str) -> None:
    compare(make, backend)


def behind_a_break() -> tuple[Any, list[Any]]:
    log: list[Any] = []

    def program(x: Tensor, i: Tensor) -> Tensor:
        x = x + 1
        log.append("first")
        try:
            stator.graph_break()
            with torch.no_grad():
                x = x[i]
            log.append("second")
        except IndexError:
            log.append("handled")
        return x * 2

    return program, log


@pytest.mark.parametrize("backend", BACKENDS)
def test_behind_a_break(backend: str) -> None:
    compare(behind_a_break, backend, graphs=2)


def in_inference_mode() -> tuple[Any, list[Any]]:
    log: list[Any] = []

    def program(x: Tensor, i: Tensor) -> Tensor:
        with torch.inference_mode():
            try:
                x = x[i]
            except IndexError:
                log.append(torch.is_inference_mode_enabled())
            return x * 2

    return program, log


@pytest.mark.parametrize("backend", BACKENDS)
def test_in_inference_mode(backend: str) -> None:
    compare(in_inference_mode, backend)


def test_inference_mode_ends() -> None:
    def program(x: Tensor, i: Tensor) -> Tensor:
        with torch.inference_mode():
            return x[i]

    compiled = stator.compile(program, backend="eager")
    x = torch.randn(4)
    compiled(x, GOOD)
    with pytest.raises(IndexError):
        compiled(x, BAD)
    assert not torch.is_inference_mode_enabled()


def test_an_interrupt_leaves_torch_as_it_was() -> None:
    interrupts: list[BaseException] = []

    def backend(module: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            outputs = module.forward(*args)
            if interrupts:
                torch.set_grad_enabled(False)  # as in the middle of the graph
                raise interrupts.pop()
            return outputs

        return run

    def program(x: Tensor) -> Tensor:
        with torch.no_grad():
            y = x + 1
        return y * 2

    compiled = stator.compile(program, backend=backend)
    compiled(torch.ones(2))
    interrupts.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        compiled(torch.ones(2))
    assert torch.is_grad_enabled()


def test_only_what_the_graph_changes_is_put_back() -> None:
    """The rest of torch's state may differ from what it was when the program was compiled."""

    def program(x: Tensor, i: Tensor) -> Tensor:
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            return x[i] * 2

    x = torch.randn(4)
    compiled = stator.compile(program, backend="eager")
    compiled(x, GOOD)
    before = State.capture()
    try:
        torch.set_float32_matmul_precision("medium")
        torch._C._set_mkldnn_enabled(False)
        torch.set_autocast_dtype("xpu", torch.float16)
        with torch.autocast("cpu", enabled=False):
            now = State.capture()
            with pytest.raises(IndexError):
                compiled(x, BAD)
            assert not now.diff(State.capture())
        assert now.autocast_nesting == 1
        assert State.capture().autocast_nesting == 0
    finally:
        before.restore()
    assert compiled.statistics()["misses"] == 1  # type: ignore[attr-defined]


def test_an_old_exception_that_is_raised_again() -> None:
    """Its traceback has frames that are still running."""
    try:
        raise IndexError("old")
    except IndexError as error:
        old = error

    def backend(module: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            if int(args[1].max()) > 4:
                raise old
            return module(*args)

        return run

    def program(x: Tensor, i: Tensor) -> Tensor:
        with torch.inference_mode():
            return x[i]

    compiled = stator.compile(program, backend=backend)
    compiled(torch.randn(4), GOOD)
    with pytest.raises(IndexError, match="out of bounds"):
        compiled(torch.randn(4), BAD)
    assert not torch.is_inference_mode_enabled()


def test_a_graph_that_may_be_half_done_is_not_run_again() -> None:
    def program(x: Tensor, i: Tensor, n: Tensor) -> Tensor:
        n.add_(1)
        with torch.no_grad():
            return x[i]

    compiled = stator.compile(program, backend="eager")
    x, n = torch.randn(4), torch.zeros(())
    compiled(x, GOOD, n)
    with pytest.raises(IndexError):
        compiled(x, BAD, n)
    assert n == 2
    assert torch.is_grad_enabled()


def test_a_backend_that_fails_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    def backend(module: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            raise ValueError("out of order")

        return run

    def program(x: Tensor) -> Tensor:
        return x + 1

    compiled = stator.compile(program, backend=backend)
    with caplog.at_level(logging.WARNING, "stator"):
        for _ in range(3):
            assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    (record,) = caplog.records
    assert "program" in record.getMessage()
    assert "ValueError: out of order" in record.getMessage()


def test_gradients_flow_through_what_ran_instead() -> None:
    def program(x: Tensor, i: Tensor) -> Tensor:
        try:
            return (x[i] * 2).sum()
        except IndexError:
            return (x * 3).sum()

    compiled = stator.compile(program, backend="aot_eager")
    x = torch.randn(4, requires_grad=True)
    good: Any = compiled(x, GOOD)
    good.backward()
    x.grad = None
    bad: Any = compiled(x, BAD)
    bad.backward()
    assert torch.equal(x.grad, torch.full((4,), 3.0))  # type: ignore[arg-type]
