"""Entries that call their graph at once, without the frame of the residual function."""

import gc
import sys
import traceback
import weakref
from collections.abc import Callable
from types import CellType
from typing import Any

import pytest

from stator._native._core import CompiledFunction, DirectCall, Entry

from .dispatching import Model, Part, forward, tree, wrap


def nothing() -> None:
    """What is done about an error."""


def _through(*args: Any) -> Any:
    return "function", args


through: Any = _through


def entry_of(
    graph: Callable[..., Any],
    arguments: tuple[int, ...],
    *names: str,
    output: int = 0,
    failed: Callable[[], object] = nothing,
    tails: bool = False,
) -> tuple[CompiledFunction, Entry, CellType]:
    """A function that is called directly, its entry and what holds the graph."""
    cell = CellType(graph)
    made = DirectCall(through, cell, arguments, output, failed)
    wrapper = wrap(forward)
    entry = wrapper.add_entry(tree(*names), made, fetch=bool(names), tails=tails)
    return wrapper, entry, cell


def collected(*args: Any) -> list[Any]:
    return [args]


def test_parameters_and_fetched_values_in_any_order() -> None:
    call, entry, _ = entry_of(collected, (1, ~1, 0, ~0, ~1), "w", "b")
    model, x = Model("w", "b"), object()
    assert entry.direct
    for _ in range(4):
        assert call(model, x) == (x, model.b, model, model.w, model.b)
    model.w = Part()
    assert call(model, x) == (x, model.b, model, model.w, model.b)
    assert call(x=x, model=model)[0] is x
    assert entry.hits == 6


def test_many() -> None:
    names = [f"n{i}" for i in range(200)]
    call, _, _ = entry_of(collected, tuple(~i for i in range(200)), *names)
    model = Model(*names)
    assert call(model, 0) == tuple(getattr(model, name) for name in names)


@pytest.mark.parametrize("outputs", [(1, 2), [1, 2], "ab", range(1, 3)])
def test_the_output_that_is_wanted(outputs: Any) -> None:
    call, _, _ = entry_of(lambda: outputs, (), output=1)
    assert call(Model(), 0) == outputs[1]


@pytest.mark.parametrize("outputs", [(), None, 5])
def test_a_graph_that_returns_something_else(outputs: Any) -> None:
    failures: list[Any] = []
    call, _, _ = entry_of(lambda: outputs, (), failed=lambda: failures.append(sys.exc_info()[0]))
    with pytest.raises((IndexError, TypeError)) as caught:
        call(Model(), 0)
    assert failures == [caught.type]


def test_what_the_cell_holds_now_is_called() -> None:
    call, _, cell = entry_of(lambda x: [x], (1,))
    assert call(Model(), 5) == 5
    cell.cell_contents = lambda x: [x + 1]
    assert call(Model(), 5) == 6
    del cell.cell_contents
    with pytest.raises(SystemError, match="is gone"):
        call(Model(), 5)


def test_others_call_the_function() -> None:
    _, entry, _ = entry_of(collected, (1,))
    assert entry.target(1, 2) == ("function", (1, 2))
    assert entry.target.function is through  # type: ignore[attr-defined]


def test_a_profiler_sees_the_function() -> None:
    call, _, _ = entry_of(collected, (1,), "w")
    model, seen = Model("w"), []

    def note(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            seen.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        found = call(model, 5)
    finally:
        sys.setprofile(None)
    assert found == ("function", ((model.w,), model, 5))
    assert seen == ["_through"]
    assert call(model, 5) == (5,)


def test_what_does_not_fit_is_no_direct_call() -> None:
    assert not entry_of(collected, (2,))[1].direct
    assert not entry_of(collected, (~0,))[1].direct
    assert not entry_of(collected, (~1,), "w")[1].direct
    assert not entry_of(collected, (1,), tails=True)[1].direct
    call, entry, _ = entry_of(collected, (1, ~1), "w")
    model = Model("w")
    assert not entry.direct
    assert call(model, 3) == ("function", ((model.w,), model, 3))


def test_bad_arguments() -> None:
    cell = CellType(collected)
    with pytest.raises(OverflowError, match="numbers of parameters"):
        DirectCall(through, cell, (1 << 40,), 0, nothing)
    with pytest.raises(TypeError):
        DirectCall(through, cell, ("x",), 0, nothing)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        DirectCall(through, collected, (), 0, nothing)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- errors


def raising(x: Any) -> Any:
    raise ValueError(x)


def test_an_error_goes_on_after_it_was_seen() -> None:
    seen: list[Any] = []

    def failed() -> None:
        try:
            raise KeyError
        except KeyError:
            pass
        seen.append(sys.exc_info()[1])

    call, _, _ = entry_of(raising, (1,), failed=failed)
    with pytest.raises(ValueError, match="5") as caught:
        call(Model(), 5)
    assert seen == [caught.value]
    assert sys.exc_info() == (None, None, None)
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert [frame.name for frame in frames][-1] == "raising"
    assert "_through" not in [frame.name for frame in frames]


def test_the_traceback_can_be_replaced() -> None:
    def failed() -> None:
        error = sys.exc_info()[1]
        assert error is not None
        error.__traceback__ = None

    call, _, _ = entry_of(raising, (1,), failed=failed)
    try:
        call(Model(), 5)
    except ValueError as error:
        names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert names == ["test_the_traceback_can_be_replaced"]


def test_another_error_in_its_place() -> None:
    def failed() -> None:
        raise KeyError("other")

    call, _, _ = entry_of(raising, (1,), failed=failed)
    with pytest.raises(KeyError, match="other") as caught:
        call(Model(), 5)
    assert isinstance(caught.value.__context__, ValueError)


def test_what_the_caller_handles_stays_so() -> None:
    call, _, _ = entry_of(raising, (1,))

    def generator() -> Any:
        with pytest.raises(ValueError, match="5"):
            call(Model(), 5)
        yield sys.exc_info()[1]
        yield sys.exc_info()[1]

    running = generator()
    try:
        raise KeyError
    except KeyError as error:
        assert next(running) is error
        with pytest.raises(ValueError, match="6") as caught:
            call(Model(), 6)
        assert caught.value.__context__ is error
        assert sys.exc_info()[1] is error
    assert next(running) is None


# ---------------------------------------------------------------------- lifetimes


class Taker:
    """A callable that has no frame: it relies on its caller for its arguments."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def __call__(self, part: Any) -> Any:
        del self.model.w
        gc.collect()
        return [weakref.ref(part)() is part]


@pytest.mark.parametrize("wrapped", [False, True])
def test_arguments_live_through_the_call(wrapped: bool) -> None:
    model = Model("w")
    taker = Taker(model)
    graph = (lambda part: taker(part)) if wrapped else taker
    call, _, _ = entry_of(graph, (~0,), "w")
    assert call(model, 0) is True


def test_nothing_is_counted_twice() -> None:
    call, _, _ = entry_of(lambda *args: [args[0]], (~0, 1, ~0), "w")
    model, x = Model("w"), Part()
    part = model.w
    before = sys.getrefcount(part), sys.getrefcount(x), sys.getrefcount(None)
    for _ in range(100):
        call(model, x)
    after = sys.getrefcount(part), sys.getrefcount(x), sys.getrefcount(None)
    assert before[:2] == after[:2]
    call, _, _ = entry_of(raising, (~0,), "w")
    before = sys.getrefcount(part), 0, 0
    for _ in range(100):
        with pytest.raises(ValueError, match="Part"):
            call(model, x)
    gc.collect()
    assert sys.getrefcount(part) == before[0]


def test_a_cycle_is_collected() -> None:
    class Graph:
        def __call__(self) -> Any:
            return [1]

    graph: Any = Graph()
    call, entry, cell = entry_of(graph, ())
    graph.back = entry
    gone = weakref.ref(graph)
    assert call(Model(), 0) == 1
    del graph, call, entry, cell
    gc.collect()
    assert gone() is None


def test_deep_recursion_is_an_error() -> None:
    def graph(model: Any, n: int) -> Any:
        return [call(model, n + 1)]

    call, _, _ = entry_of(graph, (0, 1))
    with pytest.raises(RecursionError):
        call(Model(), 0)
