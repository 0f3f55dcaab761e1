"""`mode` and `options`: ignored, with a line in the log, where a backend has none; else checked."""

import logging
import warnings
from collections.abc import Mapping
from typing import Any

import pytest
import torch

import stator

X = torch.ones(3)
PLAIN = ("eager", "aot_eager", "cudagraphs")
SETTINGS: tuple[dict[str, Any], ...] = (
    {"mode": "reduce-overhead"},
    {"mode": "no such mode"},
    {"options": {"max_autotune": True}},
    {"options": {"no such option": 1}},
)


def step(x: Any) -> Any:
    return x * 2


@pytest.mark.parametrize("given", SETTINGS, ids=str)
@pytest.mark.parametrize("backend", PLAIN)
@pytest.mark.parametrize("installed", [False, True])
def test_ignored(
    backend: str, given: Mapping[str, Any], installed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    stator.reset()
    caplog.set_level(logging.WARNING, "stator")
    compiled: Any
    if installed:
        stator.install()
        try:
            compiled = torch.compile(step, backend=backend, **given)
        finally:
            stator.uninstall()
    else:
        compiled = stator.compile(step, backend=backend, **given)
    (line,) = caplog.messages
    assert repr(backend) in line
    assert "takes no mode and no options" in line
    assert "is ignored" in line
    assert f"{next(iter(given))}=" in line
    if backend == "cudagraphs":
        return
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert compiled(X).tolist() == [2, 2, 2]
    assert stator.testing.count(compiled).compiles == 1


@pytest.mark.parametrize("backend", PLAIN)
@pytest.mark.parametrize("given", [{}, {"mode": "default"}, {"mode": None}, {"options": {}}])
def test_nothing_is_said_where_nothing_is_ignored(
    backend: str, given: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    stator.compile(step, backend=backend, **given)
    assert not caplog.messages


def test_ignored_settings_do_not_compile_again() -> None:
    stator.reset()
    for mode in (None, "reduce-overhead", "max-autotune"):
        stator.compile(step, backend="eager", mode=mode)(X)
    assert stator.testing.count(stator.compile(step, backend="eager")).compiles == 1


def test_explain_takes_them_too() -> None:
    assert stator.explain(step, mode="reduce-overhead")(X).graph_count == 1


REFUSED: tuple[tuple[dict[str, Any], type[Exception], str], ...] = (
    ({"mode": "max-autotun"}, ValueError, "Did you mean 'max-autotune'"),
    ({"options": {"max_autotun": True}}, ValueError, "Did you mean 'max_autotune"),
    ({"options": {3: True}}, ValueError, "no option 3"),
    ({"options": {"max_autotune": "yes"}}, TypeError, "is of type bool, not str"),
    ({"options": {"max-autotune": 1.5}}, TypeError, "'max-autotune' is of type bool"),
    ({"options": {"epilogue_fusion": None}}, TypeError, "is of type bool, not NoneType"),
)


@pytest.mark.parametrize(("given", "kind", "text"), REFUSED, ids=str)
def test_refused_when_compile_is_called(
    given: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        stator.compile(step, **given)
    with pytest.raises(kind, match=text):
        stator.compile(**given)
    original: Any = torch.compile
    with pytest.raises((RuntimeError, AttributeError)):  # torch refuses the same
        original(step, **given)
    stator.install()
    try:
        for model in ((), (step,), (torch.nn.ReLU(),)):
            with pytest.raises(RuntimeError, match=text):
                torch.compile(*model, **given)
        with pytest.raises(RuntimeError, match=text):
            torch.nn.ReLU().compile(**given)
    finally:
        stator.uninstall()


@pytest.mark.parametrize(
    "options",
    [
        {"max_autotune": False},
        {"epilogue-fusion": True},
        {"triton.cudagraphs": False, "trace.enabled": False},
        {"cpp.threads": 1},
    ],
    ids=str,
)
def test_taken(options: dict[str, Any]) -> None:
    compiled = stator.compile(step, options=options)
    assert stator.testing.function_of(compiled).miss.options.for_backend == {"options": options}  # type: ignore[attr-defined]


def test_a_backend_of_the_users_gets_them() -> None:
    seen: list[dict[str, Any]] = []

    def backend(module: Any, inputs: Any, **given: Any) -> Any:
        seen.append(given)
        return module.forward

    stator.compile(step, backend=backend, mode="of mine")(X)  # type: ignore[call-overload]
    stator.compile(step, backend=backend, options={"depth": 3})(X)
    assert seen == [{"mode": "of mine"}, {"options": {"depth": 3}}]
