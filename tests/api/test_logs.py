"""Logs: what each of them says, how they are switched on, and that they cost nothing when off."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import stator
from stator.diagnostics import logs

X = torch.arange(4.0)
SEEN: dict[str, int] = {}


def broken(x: torch.Tensor) -> torch.Tensor:
    x = x * 2
    time.sleep(0)
    return x + 1


def counting(x: torch.Tensor) -> torch.Tensor:
    SEEN["calls"] = SEEN.get("calls", 0) + 1
    return x + 1


def scaled(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n


@pytest.fixture(autouse=True)
def _quiet_again() -> Iterator[None]:
    yield
    stator.set_logs()


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Any:
    """What one log says about calls, as text."""

    def told(names: str, function: Any, *calls: tuple[Any, ...]) -> str:
        stator.set_logs(names)
        capsys.readouterr()
        compiled = stator.compile(function, backend="eager", isolate_recompiles=True)
        for args in calls:
            compiled(*args)
        stator.set_logs()
        return capsys.readouterr().err

    return told


class TestEachLog:
    def test_graph_breaks(self, told: Any) -> None:
        text = told("graph_breaks", broken, (X,))
        assert text.startswith("[stator.graph_breaks] graph break: time.sleep ")
        assert f"at {__file__}:{broken.__code__.co_firstlineno + 2} in broken" in text
        assert "      time.sleep(0)\n" in text

    def test_graph_breaks_once_per_place(self, told: Any) -> None:
        def twice(x: torch.Tensor) -> torch.Tensor:
            return broken(broken(x))

        assert told("graph_breaks", twice, (X,)).count("graph break:") == 1
        assert told("+graph_breaks", twice, (X,)).count("graph break:") == 2

    def test_recompiles(self, told: Any) -> None:
        text = told("recompiles", scaled, (X, 1), (X, 2))
        assert text.startswith("[stator.recompiles] scaled (")
        assert "n: expected 1, got 2" in text

    def test_guards(self, told: Any) -> None:
        text = told("guards", scaled, (X, 5))
        assert "  n: 5\n" in text
        assert "  x: Tensor(4) of torch.float32 on cpu\n" in text

    def test_graph(self, told: Any) -> None:
        text = told("graph", scaled, (X, 5))
        assert "placeholder    x       x       \n" in text
        assert "call_function  mul     mul     x, 5\n" in text

    def test_graph_code(self, told: Any) -> None:
        assert "mul = x * 5" in told("graph_code", scaled, (X, 5))
        assert 'mul: "f32[4][1]cpu" = x * 5' in told("+graph_code", scaled, (X, 5))

    def test_graph_sizes(self, told: Any) -> None:
        assert "  mul: (4,)\n" in told("graph_sizes", scaled, (X, 5))

    def test_bytecode(self, told: Any) -> None:
        plain = told("bytecode", scaled, (X, 5))
        assert "return graph(x)[0]" in plain
        assert "RETURN_VALUE" not in plain
        assert "RETURN_VALUE" in told("+bytecode", scaled, (X, 5))

    def test_side_effects(self, told: Any) -> None:
        SEEN.clear()
        text = told("side_effects", counting, (X,))
        assert "an item of " in text
        assert " is set " in text
        assert told("side_effects", scaled, (X, 5)) == ""

    def test_dynamo(self, told: Any) -> None:
        text = told("dynamo", broken, (X,))
        assert "traced in " in text
        assert "ended by a break: time.sleep" in text
        assert "split in " in text
        assert "backend took " in text
        assert "tracing begins" not in text
        assert "tracing begins" in told("+dynamo", broken, (X,))

    def test_dynamic(self, told: Any) -> None:
        text = told("dynamic", lambda x: x * x[1].int().item(), (X,))
        assert "known when the graph runs" in text
        assert "from item" in text

    def test_perf_hints(self, told: Any) -> None:
        def skips(x: torch.Tensor) -> torch.Tensor:
            stator.skip_frame()
            return x

        assert "runs eagerly as a whole" in told("perf_hints", skips, (X,))
        assert told("perf_hints", scaled, (X, 5)) == ""

    def test_several(self, told: Any) -> None:
        text = told(" graph_code, guards ,", scaled, (X, 5))
        assert "[stator.graph_code]" in text
        assert "[stator.guards]" in text
        assert "[stator.graph]" not in text


class TestSwitches:
    def test_keywords(self) -> None:
        stator.set_logs(guards=True, bytecode=logging.DEBUG, graph=False)
        assert logs.on("guards")
        assert not logs.on("guards", verbose=True)
        assert logs.on("bytecode", verbose=True)
        assert not logs.on("graph")

    def test_the_last_one_counts(self) -> None:
        stator.set_logs("guards")
        stator.set_logs("graph")
        assert (logs.on("guards"), logs.on("graph")) == (False, True)
        stator.set_logs()
        assert not any(map(logs.on, logs.LOGS))

    def test_unknown(self) -> None:
        stator.set_logs("guards")
        for wrong in ("names", "guard"):
            given: Any = {wrong: True}
            with pytest.raises(ValueError, match=r"has no log '.*There are: graph_breaks, "):
                stator.set_logs(**given)
        with pytest.raises(ValueError, match="has no log 'gaurds'"):
            stator.set_logs("+gaurds")
        assert logs.on("guards")  # nothing was changed

    def test_reset_reports_again(self) -> None:
        key = ("reason", "place")
        assert logs.first_time(key)
        assert not logs.first_time(key)
        stator.reset()
        assert logs.first_time(key)

    def test_without_set_logs_it_is_plain_logging(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.INFO, logger="stator.guards"):
            stator.compile(scaled, backend="eager", isolate_recompiles=True)(X, 7)
        assert {record.name for record in caplog.records} == {"stator.guards"}
        assert "n: 7" in caplog.text

    def test_nothing_twice(self, caplog: pytest.LogCaptureFixture, told: Any) -> None:
        """A program with handlers of its own sees nothing of what goes to standard error."""
        assert told("guards", scaled, (X, 7)).count("n: 7") == 1
        assert caplog.records == []

    def test_nothing_is_computed_when_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*args: Any) -> Any:
            raise AssertionError("computed")

        for name in ("_titled", "_table", "_sizes", "_unknown", "_words"):
            monkeypatch.setattr(f"stator.driver.announcements.{name}", fail)
        monkeypatch.setattr("stator.diagnostics.explanation.GraphBreak.of", fail)
        compiled = stator.compile(broken, backend="eager", isolate_recompiles=True)
        assert torch.equal(compiled(X), X * 2 + 1)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("graph_breaks", "[stator.graph_breaks] graph break: time.sleep "),
        ("+bytecode,guards", "RETURN_VALUE"),
        ("guard", "STATOR_LOGS: stator has no log 'guard'"),
        ("guard,graph_breaks,+nothing", "[stator.graph_breaks] graph break: time.sleep "),
        ("graph_breaks,guard", "STATOR_LOGS: stator has no log 'guard'"),
        ("guard:f,bytecode:f", "[stator.bytecode] f ("),
    ],
)
def test_environment(value: str, wanted: str) -> None:
    program = (
        "import time, torch, stator\n"
        "def f(x):\n    time.sleep(0)\n    return x + 1\n"
        "print(stator.compile(f, backend='eager')(torch.ones(2)))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "STATOR_LOGS": value},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout == "tensor([2., 2.])\n"
    assert wanted in done.stderr


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ("guards,+dynamo", "guards,+dynamo"),
        ("output_code, graph_breaks ,-dynamo", "graph_breaks"),
        ("recompiles_verbose,graph_code_verbose", "+recompiles,+graph_code"),
        ("inductor", ""),
        ("", ""),
    ],
)
def test_names_of_torch(given: str, names: str) -> None:
    assert logs.of_torch(given) == names
