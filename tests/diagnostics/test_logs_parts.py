"""Logs of parts of a program, regions, and the steps of a trace."""

import logging
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import stator
from stator.capture.trace import steps
from stator.diagnostics import logs
from stator.diagnostics.places import Place

X = torch.arange(4.0)
SEEN: list[Any] = []


@pytest.fixture(autouse=True)
def _quiet_again() -> Iterator[None]:
    yield
    stator.set_logs()


def broken(x: torch.Tensor) -> torch.Tensor:
    time.sleep(0)
    return x + 1


def outer(x: torch.Tensor) -> torch.Tensor:
    return broken(x) * 2


def scaled(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n


def told(capsys: pytest.CaptureFixture[str], names: str, *calls: Any) -> str:
    stator.set_logs(names)
    capsys.readouterr()
    for call in calls:
        call()
    return capsys.readouterr().err


def compiled(function: Any) -> Any:
    return stator.compile(function, backend="eager", isolate_recompiles=True)


class TestFilters:
    @pytest.mark.parametrize(
        ("pattern", "wanted"),
        [
            ("modeling_bert", True),
            ("modeling_bert.*", True),
            ("transformers.models", True),
            ("transformers.models.*", True),
            ("transformers.*.Layer", True),
            ("Layer.forward", True),
            ("forward", True),
            ("modeling", False),
            ("bert.Layer", False),
            ("models.*.backward", False),
        ],
    )
    def test_patterns(self, pattern: str, wanted: bool) -> None:
        file = "/lib/site-packages/transformers/models/bert/modeling_bert.py"
        stator.set_logs(f"guards:{pattern},graph")
        assert logs.on("guards")  # of something
        assert logs.on("guards", Place(file, 1, "Layer.forward")) is wanted
        assert logs.on("graph", Place(file, 1, "Layer.forward"))

    def test_several(self) -> None:
        place = Place("/a/b.py", 1, "f")
        for names, wanted in (
            ("guards:x,guards:b", True),
            ("guards:x,guards:y", False),
            ("guards:x,guards", True),
            ("guards,guards:x", True),
            ("+guards:b", True),
        ):
            stator.set_logs(names)
            assert logs.on("guards", place) is wanted, names
        assert logs.on("guards", place, verbose=True)
        stator.set_logs("guards")
        assert logs.on("guards", place)

    def test_by_function(self, capsys: pytest.CaptureFixture[str]) -> None:
        calls = partial(compiled(scaled), X, 5), partial(compiled(outer), X)
        text = told(capsys, "guards:test_logs_parts.scaled", *calls)
        assert "scaled (" in text
        assert "outer" not in text

    def test_breaks_by_any_function_on_the_way(self, capsys: pytest.CaptureFixture[str]) -> None:
        for name, wanted in (("outer", 1), ("broken", 1), ("scaled", 0)):
            text = told(capsys, f"graph_breaks:{name}", partial(compiled(outer), X))
            assert text.count("graph break: time.sleep") == wanted

    # The log of the cache is about files and entries, whoever made them.
    @pytest.mark.parametrize("name", sorted(set(logs.LOGS) - {"cache"}))
    def test_each_log_can_be_filtered(self, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        def calls() -> None:
            function = compiled(program)
            function(X, 1)
            function(X, 2)
            compiled(skipped)(X)

        def program(x: torch.Tensor, n: int) -> Any:
            SEEN.append(n)
            time.sleep(0)
            if n > 1:
                x = x * x[1].int().item()
            return checkpoint(torch.relu, x, use_reentrant=False) * n

        def skipped(x: torch.Tensor) -> torch.Tensor:
            stator.skip_frame()
            return x

        assert told(capsys, f"+{name}:elsewhere", calls) == ""
        stator.reset()
        assert told(capsys, f"+{name}:test_logs_parts", calls) != ""


def test_regions(capsys: pytest.CaptureFixture[str]) -> None:
    def body(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * 2

    def program(x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = checkpoint(body, x, use_reentrant=False)
        return y + 1

    text = told(capsys, "regions", partial(compiled(program), X))
    line = program.__code__.co_firstlineno + 1
    assert "[stator.regions] test_regions.<locals>.program (" in text
    assert f"at {__file__}:{line} in test_regions.<locals>.program\n" in text
    assert "body: inputs: 1; operators: 2 (relu, mul)\n" in text
    assert told(capsys, "regions", partial(compiled(scaled), X, 5)) == ""


class TestSteps:
    def test_each_instruction(self, capsys: pytest.CaptureFixture[str]) -> None:
        def program(x: torch.Tensor) -> Any:
            return sorted([3, 1], key=lambda n: -n), scaled(x, 2)

        text = told(capsys, "+dynamo", partial(compiled(program), X))
        line = scaled.__code__.co_firstlineno + 1
        assert f"  {__file__}:{line} in scaled: return x * n\n" in text
        assert "[FakeTensor, int]\n" in text
        assert "UNARY_NEGATIVE" in text  # of a frame that C code has started
        assert "instructions" not in told(capsys, "dynamo", partial(compiled(program), X))

    def test_the_same_graph_and_guards(self) -> None:
        def program(x: torch.Tensor, seen: list[int]) -> torch.Tensor:
            for index, value in enumerate(map(abs, seen)):
                x = x + index * value
            time.sleep(0)
            seen.append(1)
            return x

        found = []
        for names in ("", "+dynamo"):
            stator.set_logs(names)
            explained = stator.explain(program)(X, [1, -2])
            found.append([(part.code, part.guards, part.residual) for part in explained.parts])
        assert found[0] == found[1]

    def test_values_are_not_touched(self) -> None:
        class Hostile:
            def __getattribute__(self, name: str) -> Any:
                SEEN.append(name)
                return object.__getattribute__(self, name)

            def __repr__(self) -> str:
                SEEN.append("repr")
                return ""

        def program(x: torch.Tensor) -> torch.Tensor:
            hostile = Hostile()
            held = [hostile]
            return x + len(held)

        SEEN.clear()
        stator.set_logs("+dynamo")
        compiled(program)(X)
        assert not SEEN

    def test_nothing_is_told_in_the_middle_of_a_trace(self) -> None:
        """A handler of the program may do anything, for example see that a trace is on."""

        class Looking(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                answers.append(compiled(scaled)(X, 3).sum().item())

        answers: list[float] = []
        handler = Looking()
        logger = logging.getLogger("stator.dynamo")
        stator.set_logs("+dynamo")
        function = compiled(broken)
        logger.addHandler(handler)
        try:
            logger.setLevel(logging.DEBUG)
            with stator.config.patch(recompile_limit=1):
                handler.addFilter(lambda record: "broken" in record.getMessage())
                function(X)
        finally:
            logger.removeHandler(handler)
        assert answers
        assert set(answers) == {18.0}

    def test_without_the_log_nothing_is_noted(self) -> None:
        stator.set_logs("dynamo")
        compiled(broken)(X)
        assert steps.take() == []
