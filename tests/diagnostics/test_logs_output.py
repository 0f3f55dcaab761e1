"""Where logs go, and how they look: colours, files, the program's own handlers, the environment."""

import io
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import stator
from stator.diagnostics import logs
from stator.diagnostics.log_output import coloured

X = torch.arange(4.0)
ESCAPE = re.compile(r"\x1b\[\d*m")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM", "STATOR_LOGS", "STATOR_LOGS_OUT", "TORCH_LOGS"):
        monkeypatch.delenv(name, raising=False)
    yield
    stator.set_logs()


def scaled(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n


def broken(x: torch.Tensor) -> torch.Tensor:
    stator.graph_break()
    return x + 1


def run(function: Any = scaled, *args: Any) -> None:
    stator.compile(function, backend="eager", isolate_recompiles=True)(*(args or (X, 5)))


def told(stream: Any, monkeypatch: pytest.MonkeyPatch, *given: Any) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    stator.set_logs("guards,graph_breaks")
    run(*given)
    return str(stream.getvalue())


def test_plain_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(io.StringIO(), monkeypatch)
    assert text.startswith("[stator.guards] scaled (")
    assert not ESCAPE.search(text)


def test_coloured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(Terminal(), monkeypatch, broken, X)
    assert text.startswith("\x1b[31m[stator.graph_breaks]\x1b[0m \x1b[1mgraph break: ")
    stator.set_logs()
    plain = told(io.StringIO(), monkeypatch, broken, X)
    assert ESCAPE.sub("", text) == plain


@pytest.mark.parametrize(
    ("variables", "terminal", "wanted"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_who_decides_about_colours(
    variables: dict[str, str], terminal: bool, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert coloured(Terminal() if terminal else io.StringIO()) is wanted


def test_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    file = tmp_path / "out.log"
    file.write_text("before\n")
    stator.set_logs("guards", out=str(file))
    run()
    stator.set_logs("guards")
    run()
    text = file.read_text()
    assert text.startswith("before\n[stator.guards] scaled (")
    assert text.count("n: 5\n") == 1  # and what came later went to standard error
    assert not ESCAPE.search(text)
    assert capsys.readouterr().err.count("n: 5\n") == 1


def test_a_file_that_cant_be_opened(tmp_path: Path) -> None:
    stator.set_logs("graph")
    with pytest.raises(OSError, match="nowhere"):
        stator.set_logs("guards", out=str(tmp_path / "nowhere" / "out.log"))
    assert (logs.on("graph"), logs.on("guards")) == (True, False)  # nothing was changed


def test_handlers_of_the_program() -> None:
    """On a logger of stator they get the records, also after `set_logs`."""

    class Collecting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record)

    found: list[logging.LogRecord] = []
    handler = Collecting()
    logger = logging.getLogger("stator.guards")
    logger.addHandler(handler)
    try:
        stator.set_logs("guards,graph")
        run()
    finally:
        logger.removeHandler(handler)
    assert [record.name for record in found] == ["stator.guards"]
    assert "n: 5" in found[0].getMessage()


def test_messages_of_the_program_are_not_ours(caplog: pytest.LogCaptureFixture) -> None:
    """`logging.basicConfig(level=logging.INFO)` asks for those of the program."""
    root, guards = logging.getLogger("stator"), logging.getLogger("stator.guards")
    before = root.level, guards.level
    try:
        with caplog.at_level(logging.DEBUG):
            run()
            assert not caplog.records
            for logger in (guards, root):
                caplog.clear()
                stator.reset()
                logger.setLevel(logging.INFO)
                run()
                assert "stator.guards" in {record.name for record in caplog.records}
    finally:
        root.setLevel(before[0])
        guards.setLevel(before[1])


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        (
            {"TORCH_LOGS": "+graph_breaks,aot,output_code,guards"},
            {"graph_breaks": 10, "guards": 20},
        ),
        ({"TORCH_LOGS": "-dynamo,torch.fx,graph_sizes"}, {"graph_sizes": 20}),
        ({"TORCH_LOGS": "aot"}, {}),
        ({"TORCH_LOGS": "guards", "STATOR_LOGS": "graph"}, {"graph": 20}),
        ({"TORCH_LOGS": "guards", "STATOR_LOGS": ""}, {}),
    ],
)
def test_names_in_the_environment(
    variables: dict[str, str], wanted: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    logs.read_environment()
    assert {name for name in logs.LOGS if logs.on(name)} == wanted.keys()
    assert {name: logging.getLogger(f"stator.{name}").level for name in wanted} == wanted


def test_a_file_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STATOR_LOGS", "guards")
    monkeypatch.setenv("STATOR_LOGS_OUT", str(tmp_path / "out.log"))
    logs.read_environment()
    run()
    assert "n: 5\n" in (tmp_path / "out.log").read_text()
    monkeypatch.setenv("STATOR_LOGS_OUT", str(tmp_path / "nowhere" / "out.log"))
    with pytest.warns(UserWarning, match=r"STATOR_LOGS: .*nowhere"):
        logs.read_environment()
