"""What is dropped goes: wrappers, models, inputs, traces."""

import contextlib
import gc
import importlib
import time
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor

import stator

from .tools import Block, Recording

X = torch.ones(2, 4)


def scaled(x: torch.Tensor, factor: int) -> torch.Tensor:
    return x * factor


def call(model: Any, x: torch.Tensor) -> torch.Tensor:
    return torch.relu(model(x)) + 1


def watch(*objects: Any) -> list[weakref.ref[Any]]:
    return [weakref.ref(o) for o in objects]


def alive(*references: weakref.ref[Any]) -> list[str]:
    """The types of what is still there."""
    gc.collect()
    return [type(found).__name__ for found in (r() for r in references) if found is not None]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_models_and_inputs_of_a_function(backend: str) -> None:
    compiled = stator.compile(call, backend=backend, fullgraph=True)
    model, x = Block(), torch.randn(2, 4)
    for _ in range(2):
        compiled(model, x)
    references = watch(model, model.linear, model.linear.weight, x)
    del model, x
    assert alive(*references) == []


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_module(backend: str) -> None:
    wrapper: Any = stator.compile(Block(), backend=backend, fullgraph=True)
    result = wrapper(X)
    wrapper(X)
    kind = type(wrapper)
    references = watch(wrapper, wrapper._orig_mod, wrapper.linear.weight, kind)
    del wrapper, kind, result
    assert alive(*references) == []


def test_compiled_in_place() -> None:
    model = Block()
    stator.compile_module_(model, backend="eager", fullgraph=True)
    model(X)
    references = watch(model, model.linear.weight)
    del model
    assert alive(*references) == []


def test_another_module_of_the_class_keeps_nothing() -> None:
    first: Any = stator.compile(Block(), backend="eager", fullgraph=True)
    second: Any = stator.compile(Block(), backend="eager", fullgraph=True)
    first(X)
    second(X)
    references = watch(first._orig_mod, first.linear.weight)
    del first
    assert alive(*references) == []
    assert torch.equal(second(X), second._orig_mod(X))


def test_function_and_backend() -> None:
    backend = Recording()

    def local(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    compiled = stator.compile(local, backend=backend, fullgraph=True)
    compiled(X)
    references = watch(compiled, local, backend)
    del compiled, local, backend
    assert alive(*references) == []


def test_failed_traces_keep_nothing() -> None:
    def fails(model: Any, x: torch.Tensor) -> Any:
        y = model(x)
        time.sleep(0)
        return y

    strict = stator.compile(fails, backend="eager", fullgraph=True)
    lenient = stator.compile(fails, backend="eager")
    model, x = Block(), torch.randn(2, 4)
    with pytest.raises(stator.CaptureError):
        strict(model, x)
    lenient(model, x)
    references = watch(model, x)
    del model, x
    assert alive(*references) == []


def test_no_fake_tensors_stay() -> None:
    def fakes() -> int:
        gc.collect()
        return sum(issubclass(type(o), FakeTensor) for o in gc.get_objects())

    before = fakes()
    compiled = stator.compile(call, backend="eager", fullgraph=True)
    compiled(Block(), X)
    assert fakes() == before


def test_a_thousand_compiles() -> None:
    def size() -> int:
        gc.collect()
        return len(gc.get_objects())

    compiled = stator.compile(scaled, backend="eager", fullgraph=True)

    def rounds(n: int) -> None:
        for i in range(n):
            # Few different operators, since torch keeps what it finds out about each.
            compiled(X, i % 3)
            stator.compile(scaled, backend="eager")(X, i % 3)
            stator.reset()

    rounds(20)  # caches fill
    gc.collect()
    gc.freeze()  # what other tests have left: each collection would look at it
    try:
        before = size()
        rounds(500)
        assert size() - before < 50
    finally:
        gc.unfreeze()


def _refuses(x: torch.Tensor) -> None:
    raise ValueError("no")


def raises(x: torch.Tensor) -> Any:
    raise ValueError(x + 1)


def raises_in_a_callee(x: torch.Tensor) -> Any:
    _refuses(x + 1)


def raises_from(x: torch.Tensor) -> Any:
    try:
        _refuses(x + 1)
    except ValueError as error:
        raise KeyError from error


def raises_in_a_kernel(x: torch.Tensor) -> Any:
    x.add_(1)
    return torch.ones(2)[x.to(torch.int64)]


@pytest.mark.parametrize("program", [raises, raises_in_a_callee, raises_from, raises_in_a_kernel])
def test_what_an_exception_kept_goes_with_it(program: Any) -> None:
    """At once, as in eager: no cycle waits for the garbage collector."""
    compiled = stator.compile(program, backend="eager")
    compiled_once = False
    for run in (program, compiled, compiled):
        x = torch.full((3,), 8.0)
        with contextlib.suppress(ValueError, KeyError, IndexError):
            run(x)
        (reference,) = watch(x)
        del x
        if run is program or compiled_once:
            assert reference() is None
        compiled_once = run is compiled
        gc.collect()
    assert compiled.statistics() == {"hits": 1, "misses": 1}


def test_a_module_that_leaves_a_frame_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds those below it, with the arguments: then, and only then, garbage is collected."""
    leaves = "import sys\ndef leave():\n    frame = sys._getframe()\nleave()\n"
    (tmp_path / "leaves_a_frame.py").write_text(leaves)
    (tmp_path / "leaves_nothing.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    whole = []

    def noted(phase: str, about: dict[str, int]) -> None:
        if phase == "start" and about["generation"] == 2:
            whole.append(phase)

    gc.callbacks.append(noted)
    for name, count in (("leaves_nothing", 0), ("leaves_a_frame", 1)):

        def backend(module: Any, inputs: Any, name: str = name) -> Any:
            importlib.import_module(name)
            return module.forward

        compiled = stator.compile(scaled, backend=backend)
        x = torch.randn(2, 4)
        gc.collect()
        whole.clear()
        compiled(x, 2)
        assert len(whole) == count
        (reference,) = watch(x)
        del x
        assert reference() is None
    gc.callbacks.remove(noted)
