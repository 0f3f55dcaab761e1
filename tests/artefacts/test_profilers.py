"""Profilers know graphs by name; without one, nothing is different."""

import cProfile
import gc
import pstats
import threading
import time
from typing import Any

import pytest
import torch
from torch.autograd import profiler

import stator
from stator.capture.tensors import refused_values
from stator.evaluator import PACKAGE
from tests.versions import known_layers

X = torch.arange(4.0)


def forward(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def split(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    time.sleep(0)
    return y + 1


def graphs(profile: Any) -> list[str]:
    return [event.name for event in events(profile) if event.name.startswith("stator:")]


def events(profile: Any) -> Any:
    found: Any = profile.profiler if isinstance(profile, torch.profiler.profile) else profile
    return found.function_events


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_torch_profiler(backend: str) -> None:
    compiled = stator.compile(forward, backend=backend)
    compiled(X)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        result = compiled(X)
        compiled(X)
    assert torch.equal(result, forward(X))
    names = graphs(profile)
    assert len(names) == 2
    assert names[0].startswith("stator:forward graph ")
    assert set(names) == {names[0]}
    parents = [event.cpu_parent for event in events(profile) if event.name == "aten::mul"]
    assert [parent.name for parent in parents] == names


def test_parts_of_a_program() -> None:
    compiled = stator.compile(split, backend="eager")
    compiled(X)
    with profiler.profile() as profile:
        compiled(X)
    first, second = graphs(profile)
    assert first != second
    assert {first.rpartition(" ")[0], second.rpartition(" ")[0]} == {"stator:split graph"}


def test_compiled_while_profiling() -> None:
    with profiler.profile() as profile:
        stator.compile(forward, backend="eager")(X)
    assert len(graphs(profile)) == 1


def test_errors_while_profiling() -> None:
    def picked(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x[i]

    compiled = stator.compile(picked, backend="eager")
    compiled(X, torch.tensor([0]))
    with profiler.profile(), pytest.raises(IndexError) as caught:
        compiled(X, torch.tensor([9]))
    files = [entry.frame.code.path for entry in caught.traceback]
    assert {str(file) for file in files} == {__file__}


def test_nothing_is_left_behind() -> None:
    """After a profile, residual functions call their graphs as before."""
    compiled: Any = stator.compile(forward, backend="eager")
    compiled(X)
    (entry,) = compiled.entries()
    before = [cell.cell_contents for cell in entry.target.function.__closure__]
    for _ in range(2):
        with profiler.profile():
            during = [cell.cell_contents for cell in entry.target.function.__closure__]
            compiled(X)
        after = [cell.cell_contents for cell in entry.target.function.__closure__]
        assert [a is b for a, b in zip(before, during, strict=True)].count(False) == 1
        assert all(a is b for a, b in zip(before, after, strict=True))


def test_while_other_threads_compile() -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(15):
                compiled = stator.compile(forward, backend="eager", isolate_recompiles=True)
                assert torch.equal(compiled(X), forward(X))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        with profiler.profile():
            time.sleep(0.001)
    assert not errors
    gc.collect()


def test_a_profiler_in_the_program() -> None:
    """Starting one is not captured, and works."""

    def program(x: torch.Tensor) -> tuple[torch.Tensor, list[str]]:
        with profiler.profile() as profile:
            y = x * 2
        return y + 1, [event.name for event in profile.function_events]

    compiled = stator.compile(program, backend="eager")
    for _ in range(2):
        result, names = compiled(X)
        assert torch.equal(result, X * 2 + 1)
        assert "aten::mul" in names
    assert not profiler._is_profiler_enabled


def test_cprofile() -> None:
    compiled: Any = stator.compile(forward, backend="eager")
    compiled(X)
    profile = cProfile.Profile()
    profile.runcall(compiled, X)
    found: Any = pstats.Stats(profile)
    names = {(file, function) for file, _, function in found.stats}
    (number,) = (file for file, function in names if function == "forward")
    assert number.startswith("<stator forward#")
    graph = number.removeprefix("<stator forward#").removesuffix(">")
    assert (f"<stator forward#{graph} graph>", f"stator:forward graph {graph}") in names


@known_layers
def test_inductor() -> None:
    """Its code is called directly, by a function that has the graph's name."""
    compiled: Any = stator.compile(forward)
    with torch.no_grad():
        compiled(X)
        profile = cProfile.Profile()
        profile.runcall(compiled, X)
        with profiler.profile() as ranges:
            assert torch.equal(compiled(X), forward(X))
    (name,) = graphs(ranges)
    found: Any = pstats.Stats(profile)
    assert name in {function for _, _, function in found.stats}


@known_layers
def test_errors_in_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor does not tell which operation of a kernel has failed: a note names the lines."""
    monkeypatch.setattr(
        refused_values, "_SMALL", -1
    )  # or the graph is undone, and the program runs

    def picking(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x[i] * 2

    compiled = stator.compile(picking)
    compiled(torch.ones(4), torch.tensor([0, 1]))
    with pytest.raises(RuntimeError, match="index out of bounds") as caught:
        compiled(torch.ones(4), torch.tensor([0, 9]))
    (note,) = caught.value.__notes__
    line = picking.__code__.co_firstlineno
    assert f"  {__file__}:{line + 1}: x.add_(1)\n  {__file__}:{line + 2}: return x[i] * 2" in note
    frames = [str(entry.frame.code.path) for entry in caught.traceback]
    assert frames[0] == __file__
    assert frames[1].startswith("<stator test_errors_in_kernels.<locals>.picking#")
    assert not any("/torch/" in file or file.startswith(PACKAGE) for file in frames)
