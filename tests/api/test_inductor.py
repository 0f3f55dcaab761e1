"""Inductor as the default backend: called well, and as directly as is safe."""

import shutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest
import torch

import stator
from stator import config
from stator.backends.shortcut import NO_ASSERTS, shortcut
from stator.testing import count
from tests.versions import known_layers

from .tools import Block

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs g++")

X = torch.linspace(-1, 1, 8).reshape(2, 4)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the driver gives Inductor, and whether the shortcut is taken."""
    found: list[Any] = []

    def watched(compiled: Any) -> Any:
        answer = shortcut(compiled)
        found.append(answer.refusal)
        return answer

    compile_fx = import_module("torch._inductor.compile_fx").compile_fx

    def watched_compile(module: Any, inputs: Any, **given: Any) -> Any:
        if "config_patches" in given:  # else it is Inductor that calls itself
            found.append(given["config_patches"])
        return compile_fx(module, inputs, **given)

    monkeypatch.setattr("stator.driver.backend.shortcut", watched)
    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", watched_compile)
    return found


def function(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * 2 + 1


@known_layers
def test_the_default_backend(seen: list[Any]) -> None:
    compiled = stator.compile(function, fullgraph=True)
    for i in range(3):
        x = X + i
        torch.testing.assert_close(compiled(x), function(x))
    assert count(compiled) == (1, 2)
    assert seen == [NO_ASSERTS, None]


def test_without_shortcuts(seen: list[Any]) -> None:
    with config.patch(inductor_shortcuts=False):
        compiled = stator.compile(function, fullgraph=True)
        for _ in range(2):
            torch.testing.assert_close(compiled(X), function(X))
    assert seen == [None]


def test_options(seen: list[Any]) -> None:
    stator.compile(function, options={"size_asserts": True})(X)
    assert seen[0] == {**NO_ASSERTS, "size_asserts": True}
    with pytest.raises(ValueError, match="Inductor has no option 'speed'"):
        stator.compile(function, options={"speed": 1})  # before anything is compiled
    with pytest.raises(TypeError, match="'size_asserts' is of type bool"):
        stator.compile(function, options={"size_asserts": "yes"})


@known_layers
def test_module(seen: list[Any]) -> None:
    block = Block()
    compiled = stator.compile(block, fullgraph=True)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(X), block(X))
    assert seen[1] is None
    for _ in range(2):
        block.zero_grad()
        compiled(X).sum().backward()
        found = block.linear.weight.grad
        block.zero_grad()
        block(X).sum().backward()
        torch.testing.assert_close(found, block.linear.weight.grad)
    assert seen[3] is not None  # gradients need AOTAutograd's layers


@known_layers
def test_in_place(seen: list[Any]) -> None:
    def counted(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    compiled = stator.compile(counted, fullgraph=True)
    for _ in range(3):
        mine, theirs = X.clone(), X.clone()
        torch.testing.assert_close(compiled(mine), counted(theirs))
        assert torch.equal(mine, theirs)
    assert seen[1] == "it changes its inputs"


def test_grad_mode_and_autocast_of_the_call() -> None:
    block = Block()
    compiled = stator.compile(block, fullgraph=True)

    def outcomes(call: Any) -> list[torch.Tensor]:
        found = [call(X)]
        with torch.no_grad():
            found.append(call(X))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found.append(call(X))
        return [*found, call(X)]

    for _ in range(2):
        for mine, theirs in zip(outcomes(compiled), outcomes(block), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=0.02, atol=0.02)
            assert mine.requires_grad == theirs.requires_grad
            assert mine.dtype == theirs.dtype
    assert count(compiled) == (3, 5)


def test_custom_operators_keep_the_asserts(seen: list[Any]) -> None:
    @torch.library.custom_op("stator_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @twice.register_fake
    def fake(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    compiled: Any = stator.compile(lambda x: torch.ops.stator_tests.twice(x) + 1, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), X * 2 + 1)
    assert seen[0] is None
