"""Backends by name: built in, registered, installed."""

import subprocess
import sys
from importlib.metadata import EntryPoint
from typing import Any

import pytest
import torch

import stator
from stator.backends import (
    UnknownBackendError,
    list_backends,
    lookup,
    register_backend,
    registry,
)


@pytest.fixture(autouse=True)
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})


def mine(module: Any, example_inputs: Any) -> Any:
    return module.forward


def test_built_in() -> None:
    assert {"eager", "aot_eager", "inductor", "cudagraphs"} <= set(list_backends())
    assert callable(lookup("eager"))


def test_a_callable_is_a_backend() -> None:
    assert lookup(mine) is mine
    with pytest.raises(TypeError, match="int"):
        lookup(3)  # type: ignore[arg-type]


def test_register() -> None:
    assert register_backend(mine) is mine
    assert lookup("mine") is mine
    assert register_backend(mine, name="other") is mine

    @register_backend(name="third")
    def third(module: Any, example_inputs: Any) -> Any:
        return module

    @register_backend
    def fourth(module: Any, example_inputs: Any) -> Any:
        return module

    assert {"mine", "other", "third", "fourth"} <= set(list_backends())
    assert lookup("third") is third


def test_a_backend_may_prepare_itself() -> None:
    events: list[str] = []

    def prepared(module: Any, example_inputs: Any) -> Any:
        events.append("graph")
        return module.forward

    vars(prepared)["_dynamo_backend_init"] = lambda: events.append("prepared")
    register_backend(prepared)
    given: list[Any] = [prepared, "prepared"]
    for backend in given:
        compiled: Any = stator.compile(lambda x: x + 1, backend=backend)
        assert events == ["prepared"]
        compiled(torch.ones(2))
        assert events == ["prepared", "graph"]
        events.clear()


def test_names_are_taken_once() -> None:
    register_backend(mine)
    register_backend(mine)  # the same again is no conflict
    with pytest.raises(ValueError, match="already"):
        register_backend(lambda m, e: m, name="mine")
    with pytest.raises(ValueError, match="already"):
        register_backend(mine, name="inductor")
    with pytest.raises(TypeError, match="callable"):
        register_backend(3, name="three")  # type: ignore[call-overload]


def test_unknown() -> None:
    with pytest.raises(UnknownBackendError) as caught:
        lookup("inductr")
    text = str(caught.value)
    assert "Did you mean 'inductor'?" in text
    assert "aot_eager, cudagraphs, eager, inductor" in text


def test_entry_points_are_loaded_on_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("theirs", "json:loads", registry.ENTRY_POINTS)
    asked = []

    def entry_points(*, group: str) -> list[EntryPoint]:
        asked.append(group)
        return [point]

    monkeypatch.setattr(registry, "entry_points", entry_points)
    lookup("eager")
    assert not asked
    assert "theirs" in list_backends()
    assert lookup("theirs").__name__ == "loads"
    assert set(asked) == {"torch_dynamo_backends"}


@pytest.mark.parametrize(
    "statement",
    [
        "import stator.backends",
        "import stator.backends.compile",
        "import stator.graph, stator.graph.recording.state, stator.graph.leaves.leaves",
        "import stator.backends.inductor",
        "from stator.backends import lookup; lookup('eager'); lookup('inductor')",
    ],
)
def test_importing_is_light(statement: str) -> None:
    code = f"""
import sys
{statement}
heavy = ("torch._dynamo", "torch._inductor.compile_fx", "triton", "torch._functorch.aot_autograd")
found = [name for name in heavy if name in sys.modules]
assert not found, found
"""
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})
