"""What signal handlers raise, and finalizers do, in the middle of a trace, a compile or a graph."""

import asyncio
import gc
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import stator
from stator._native._core import hook_installed
from stator.graph.recording.interrupts import is_interrupt
from stator.graph.recording.modes import Modes
from stator.graph.recording.state import State


class AlarmError(Exception):
    """What the handler raises."""


@pytest.fixture(params=[KeyboardInterrupt, TimeoutError, AlarmError])
def interrupt(request: Any) -> Iterator[type[BaseException]]:
    """The exception that SIGALRM means for a while."""
    kind = request.param

    def handler(signum: int, frame: FrameType | None) -> None:
        raise kind("now")

    before = signal.signal(signal.SIGALRM, handler)
    yield kind
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def torch_is_as_before() -> Iterator[None]:
    state, modes = State.capture(), Modes.capture()
    yield
    assert not state.diff(State.capture())
    assert Modes.capture().is_same(modes)
    assert gc.isenabled()
    assert not hook_installed()


hooks: list[Callable[[], None]] = []
"""What happens, once, while a fake kernel runs."""


@torch.library.custom_op("stator_tests::observed", mutates_args=())
def observed(x: Tensor) -> Tensor:
    return x + 1


@observed.register_fake
def _(x: Tensor) -> Tensor:
    if hooks:
        hooks.pop()()
    return torch.empty_like(x)


def alarm() -> None:
    signal.raise_signal(signal.SIGALRM)


def alarm_in_a_mode() -> None:
    """As in the middle of torch's own code, which would leave the mode."""
    mode: Any = FakeTensorMode()
    mode.__enter__()
    torch.set_grad_enabled(False)
    alarm()


def program(x: Tensor) -> Any:
    try:
        y = observed(x * 2)
    except BaseException:  # sees nothing of what happens to a trace
        return None
    return y + 1


@pytest.mark.usefixtures("torch_is_as_before")
@pytest.mark.parametrize("hook", [alarm, alarm_in_a_mode])
def test_in_a_trace(hook: Callable[[], None], interrupt: type[BaseException]) -> None:
    """It leaves the call; nothing of it is compiled."""
    compiled = stator.compile(program, backend="eager", isolate_recompiles=True)
    x = torch.arange(3.0)
    hooks.append(hook)
    with pytest.raises(interrupt, match="now"):
        compiled(x)
    assert torch.equal(compiled(x), program(x))
    assert len(compiled.entries()) == 1  # type: ignore[attr-defined]


@pytest.mark.usefixtures("torch_is_as_before")
def test_in_a_backend(interrupt: type[BaseException]) -> None:
    calls = [alarm_in_a_mode]

    def backend(module: Any, inputs: Any) -> Any:
        if calls:
            calls.pop()()
        return module

    def function(x: Tensor) -> Tensor:
        return x * 2

    compiled = stator.compile(function, backend=backend)
    with pytest.raises(interrupt, match="now"):
        compiled(torch.ones(2))
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))


def unchecked(x: Tensor) -> Tensor:
    return x * 2


def checked(x: Tensor) -> Tensor:
    total = x.sum().item()
    if total < 0:
        raise ValueError(total)
    return x * total


@pytest.mark.usefixtures("torch_is_as_before")
@pytest.mark.parametrize("function", [unchecked, checked])
def test_in_a_graph(function: Any, interrupt: type[BaseException]) -> None:
    """The program is not run in its place."""
    calls: list[Callable[[], None]] = []

    def backend(module: Any, inputs: Any) -> Any:
        def run(*args: Any) -> Any:
            if calls:
                calls.pop()()
            return module(*args)

        return run

    compiled = stator.compile(function, backend=backend)
    x = torch.ones(2)
    compiled(x)
    calls.append(alarm)
    with pytest.raises(interrupt, match="now"):
        compiled(x)
    assert torch.equal(compiled(x), x * 2)


def test_what_the_program_raises_itself_is_no_interrupt() -> None:
    def function(x: Tensor) -> Tensor:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            return x + 1

    compiled = stator.compile(function, backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))


def test_handlers_are_known_by_their_frames() -> None:
    def raised(handler: Any) -> Exception:
        before = signal.signal(signal.SIGALRM, handler)
        try:
            alarm()
        except Exception as error:
            return error
        finally:
            signal.signal(signal.SIGALRM, before)
        raise AssertionError

    def handler(*args: Any) -> None:
        raise AlarmError

    class Object:
        def __call__(self, signum: int, frame: Any) -> None:
            handler()

    assert is_interrupt(raised(handler))
    assert is_interrupt(raised(Object()))
    assert is_interrupt(raised(lambda signum, frame: handler()))
    assert is_interrupt(KeyboardInterrupt())
    try:
        handler()
    except AlarmError as error:
        assert not is_interrupt(error)


def test_finalizers_do_not_run_on_fake_tensors() -> None:
    seen: list[type] = []

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            seen.append(type(torch.ones(2)))

    def garbage() -> None:
        for _ in range(3):
            Cycle()
        for _ in range(3 * gc.get_threshold()[0]):
            seen_lists.append([])

    seen_lists: list[list[Any]] = []
    compiled = stator.compile(program, backend="eager", isolate_recompiles=True)
    hooks.append(garbage)
    compiled(torch.ones(3))
    assert not hooks
    gc.collect()
    assert seen == [torch.Tensor] * 3


def test_a_coroutine_of_a_trace_does_not_say_that_nobody_awaits_it() -> None:
    async def function(x: Tensor) -> Tensor:
        return x + 1

    compiled: Any = stator.compile(function, backend="eager")
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        assert torch.equal(asyncio.run(compiled(torch.ones(2))), torch.full((2,), 2.0))
        gc.collect()
    assert not [each for each in shown if "never awaited" in str(each.message)]


def test_threads_have_no_signals(interrupt: type[BaseException]) -> None:
    """An exception that a thread raises in a graph is the program's."""
    found: list[Any] = []

    def function(x: Tensor, i: Tensor) -> Tensor:
        try:
            return x[i]
        except IndexError:
            return x

    compiled = stator.compile(function, backend="eager")
    x = torch.ones(2)
    compiled(x, torch.tensor([0]))
    thread = threading.Thread(target=lambda: found.append(compiled(x, torch.tensor([9]))))
    thread.start()
    thread.join()
    assert torch.equal(found[0], x)
