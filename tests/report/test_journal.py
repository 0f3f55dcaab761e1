"""The journal: who is told what, and when nothing is; traces, and reading them."""

import functools
import gc
import json
import os
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch

import stator
from stator.diagnostics import journal
from stator.driver import announcements, story
from stator.report import build
from tests.report import programs

pytestmark = pytest.mark.filterwarnings("ignore:recompile_limit")


@pytest.fixture(scope="module")
def events() -> list[dict[str, Any]]:
    stator.reset()
    return programs.told()


def of(events: list[dict[str, Any]], kind: str, **fields: Any) -> list[dict[str, Any]]:
    return [
        event
        for event in events
        if event["kind"] == kind and all(event[name] == value for name, value in fields.items())
    ]


def function(events: list[dict[str, Any]], name: str) -> int:
    (found,) = of(events, "function", name=name)
    number: int = found["id"]
    return number


class TestListening:
    def test_nobody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*args: Any) -> None:
            raise AssertionError("told to nobody")

        for name in ("began", "traced", "recorded", "compiled", "recompiled", "known"):
            monkeypatch.setattr(story, name, fail)
        assert not journal.on()
        journal.write("reset")
        programs.run()
        announcements.ended()

    def test_until_stopped(self) -> None:
        heard: list[dict[str, Any]] = []
        stop = journal.listen(heard.append)
        assert journal.on()
        journal.write("reset")
        stop()
        journal.write("reset")
        assert not journal.on()
        (event,) = heard
        assert event["kind"] == "reset"
        assert event["pid"] == os.getpid()
        assert 0 < event["at"] <= journal.now()

    def test_one_that_raises_is_not_called_again(self) -> None:
        def bad(event: dict[str, Any]) -> None:
            raise ValueError("full")

        heard: list[dict[str, Any]] = []
        journal.listen(bad)
        stop = journal.listen(heard.append)
        with pytest.warns(UserWarning, match="told no further, since ValueError"):
            journal.write("reset")
        journal.write("reset")
        stop()
        assert len(heard) == 2

    def test_each_hears_what_functions_are(self) -> None:
        compiled = stator.compile(programs.scaled, backend="eager", dynamic=False)
        for n in (1, 2):
            heard: list[dict[str, Any]] = []
            stop = journal.listen(heard.append)
            compiled(torch.ones(3), n)
            stop()
            assert of(heard, "function", name="scaled")
            assert len(of(heard, "compile")) == 1


class TestEvents:
    def test_all_are_json(self, events: list[dict[str, Any]]) -> None:
        assert json.loads(json.dumps(events)) == events

    def test_a_split_program(self, events: list[dict[str, Any]]) -> None:
        root = function(events, "split")
        rest = function(events, "split, resumed in split")
        (described,) = of(events, "function", id=rest)
        assert described["parent"] == root
        assert described["source"][0].startswith("def split")
        (first,) = of(events, "compile", function=root)
        (second,) = of(events, "compile", function=rest)
        assert first["outcome"] == second["outcome"] == "graph"
        assert (first["ops"], second["ops"]) == (2, 2)
        assert first["broken"]["line"] == "time.sleep(0)"
        assert first["broken"]["id"].startswith("SB")
        assert first["broken"]["why"]
        assert second["broken"] is None
        assert "relu" in first["graph"]
        assert "graph(" in first["residual"]
        assert "RETURN_VALUE" in second["bytecode"]
        assert second["effects"]

    def test_nodes_know_their_lines(self, events: list[dict[str, Any]]) -> None:
        (first,) = of(events, "compile", function=function(events, "split"))
        relu = next(node for node in first["nodes"] if node["target"] == "relu")
        code = programs.helper.__code__
        assert (relu["file"], relu["line"]) == (code.co_filename, code.co_firstlineno + 1)
        assert relu["shape"] == ["3"]
        assert relu["dtype"] == "float32"
        assert relu["inputs"] == ["x"]
        functions = [first["places"][number]["function"] for number in relu["stack"]]
        assert functions == ["split", "helper"]
        # Their text is told, too, and torch's is not.
        assert {"helper"} <= {each["name"] for each in of(events, "source")}
        assert not [e for e in of(events, "source") if e["library"].startswith("torch/")]

    def test_times(self, events: list[dict[str, Any]]) -> None:
        for event in of(events, "compile"):
            parts = [event[f"{name}_seconds"] for name in ("trace", "backend", "other")]
            assert min(parts) >= 0
            assert parts[0] > 0
            assert event["began"] + sum(parts) <= event["at"] + 1e-6

    def test_guards_by_what_they_protect(self, events: list[dict[str, Any]]) -> None:
        (made,) = of(events, "compile", function=function(events, "Layer"))
        groups: dict[str, list[str]] = {}
        for guard in made["guards"]:
            groups.setdefault(guard["group"], []).append(guard["text"])
        assert "torch grad_mode is True" in groups["torch state"]
        assert "args has length 1" in groups["arguments"]
        assert any(
            text.startswith("self.linear.weight is Para")
            for text in groups["parameters and buffers"]
        )
        assert "self.linear is of type Linear" in groups["attributes"]
        assert any(text.startswith("class Linear.forward is") for text in groups["classes"])
        assert any("F is module torch.nn.functional" in text for text in groups["globals"])

    def test_recompiles(self, events: list[dict[str, Any]]) -> None:
        number = function(events, "scaled")
        first, second = of(events, "compile", function=number)
        (why,) = of(events, "recompile", function=number)
        assert first["recompile"] is None
        assert second["recompile"] == why["number"]
        (failure,) = why["failures"]
        assert failure["compile"] == first["number"]
        assert (failure["source"], failure["expected"], failure["actual"]) == ("n", "2", "3")
        assert why["remedy"]

    def test_limit_and_warning(self, events: list[dict[str, Any]]) -> None:
        number = function(events, "scaled")
        (limit,) = of(events, "limit", function=number)
        assert limit["text"].startswith("recompile_limit (2) reached")
        (warning,) = of(events, "warning", function=number)
        assert warning["text"].startswith(limit["text"])

    def test_what_runs_as_it_is(self, events: list[dict[str, Any]]) -> None:
        (made,) = of(events, "compile", function=function(events, "whole"))
        assert made["outcome"] == "eager"
        assert made["graph"] is None
        assert made["broken"]["id"]

    def test_how_often_what_was_compiled_was_used(self, events: list[dict[str, Any]]) -> None:
        """Also of what is gone by the end: `run` keeps nothing."""
        (end,) = of(events, "end")
        used = {each["number"]: each["hits"] for each in end["entries"]}
        hits = {
            name: [
                used[e["number"]] for e in of(events, "compile", function=function(events, name))
            ]
            for name in ("split", "split, resumed in split", "scaled", "Layer")
        }
        assert hits == {
            "split": [2],
            "split, resumed in split": [2],
            "scaled": [1, 0],
            "Layer": [0],
        }
        # Of all runs of the process.
        scaled = next(e for e in end["functions"] if e["function"] == function(events, "scaled"))
        assert 2 * scaled["hits"] == scaled["declined"] >= 2

    def test_a_decorated_function_is_where_it_was_written(self) -> None:
        heard: list[dict[str, Any]] = []
        stop = journal.listen(heard.append)
        decorated = functools.wraps(programs.helper)(lambda x: x + 1)
        stator.compile(decorated, backend="eager")(torch.ones(3))
        stop()
        (described,) = of(heard, "function")
        assert described["name"] == "helper"
        assert described["line"] == programs.helper.__code__.co_firstlineno

    def test_failures(self) -> None:
        heard: list[dict[str, Any]] = []
        stop = journal.listen(heard.append)
        with pytest.raises(stator.CaptureError):
            stator.compile(programs.split, fullgraph=True, backend="eager")(torch.ones(3), 1)
        stop()
        (event,) = of(heard, "failure")
        assert event["error"] == "CaptureError"
        assert event["broken"]["line"] == "time.sleep(0)"

    def test_listening_keeps_nothing_alive(self) -> None:
        stop = journal.listen(lambda event: None)
        layer = programs.Layer()
        compiled = stator.compile(layer, backend="eager")
        compiled(torch.ones(2, 3))
        gone = weakref.ref(layer)
        del layer, compiled
        gc.collect()
        stop()
        assert gone() is None


PROGRAM = """
import os, torch, stator
def f(x, n):
    return x.relu() * n
compiled = stator.compile(f, backend="eager", dynamic=False)
compiled(torch.ones(3), 1)
compiled(torch.ones(3), 1)
child = os.fork()
if child == 0:
    compiled(torch.ones(3), 2)
    os._exit(0)
os.waitpid(child, 0)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trace of that program."""
    folder = tmp_path_factory.mktemp("trace") / "new" / "folder"
    environment = {**os.environ, journal.VARIABLE: str(folder)}
    command = [sys.executable, "-c", PROGRAM, "an argument"]
    subprocess.run(command, check=True, env=environment, timeout=300)
    return folder


class TestTraces:
    def test_one_file_per_process(self, folder: Path) -> None:
        files = sorted(folder.iterdir())
        assert len(files) == 2
        for file in files:
            lines = [json.loads(line) for line in file.read_text().splitlines()]
            assert lines[0]["kind"] == "start"
            assert lines[0]["format"] == journal.FORMAT
            assert lines[0]["argv"] == ["-c", "an argument"]
            assert lines[0]["torch"] == torch.__version__
            assert file.name == f"stator-{lines[0]['pid']}.jsonl"
            assert {each["pid"] for each in lines} == {lines[0]["pid"]}
            assert len(of(lines, "function", name="f")) == 1
            assert len(of(lines, "compile")) == 1

    def test_reading_it(self, folder: Path) -> None:
        events = journal.read(folder)
        assert len(of(events, "start")) == 2
        assert journal.read(*sorted(folder.iterdir())) == events
        (end,) = of(events, "end")  # a child that is left by os._exit says no last word
        assert end["functions"][0]["hits"] == 1

    def test_a_report_made_later(self, folder: Path, tmp_path: Path) -> None:
        page = build(journal.read(folder), tmp_path / "out.html")
        assert '"relu"' in page.read_text()

    def test_a_folder_that_can_not_be(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv(journal.VARIABLE, str(tmp_path / "file" / "folder"))
        with pytest.warns(UserWarning, match="STATOR_TRACE: no trace is written, since"):
            journal.follow_environment()
        assert not journal.on()

    def test_two_programs_with_one_number(self, tmp_path: Path) -> None:
        names = [
            journal.TraceFile(tmp_path) and sorted(p.name for p in tmp_path.iterdir()) for _ in "ab"
        ]
        pid = os.getpid()
        assert names[1] == sorted([f"stator-{pid}.jsonl", f"stator-{pid}-2.jsonl"])


START = json.dumps({"kind": "start", "format": 1, "stator": "0.1", "pid": 1})


class TestReading:
    def test_a_line_that_was_not_finished(self, tmp_path: Path) -> None:
        file = tmp_path / "stator-1.jsonl"
        file.write_text(f'{START}\n{{"kind": "reset"}}\n{{"kind": "comp')
        assert [event["kind"] for event in journal.read(file)] == ["start", "reset"]

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("", "no trace of stator, since it does not begin as one"),
            ("hello\n", "no trace of stator, since line 1 is no JSON"),
            ("[1]\n", "no trace of stator, since it does not begin as one"),
            ('{"kind": "start"}\n', "no trace of stator, since it has no format"),
            (f"{START}\nhello\n{START}\n", "no trace of stator, since line 2 is no JSON"),
            (f"{START}\n3\n", "no trace of stator, since line 2 is no event"),
            (
                '{"kind": "start", "format": 2, "stator": "9.0"}\n',
                "written by stator 9.0 in format 2, and this one reads up to 1; upgrade stator",
            ),
        ],
    )
    def test_bad_files(self, tmp_path: Path, content: str, message: str) -> None:
        file = tmp_path / "stator-1.jsonl"
        file.write_text(content)
        with pytest.raises(journal.TraceError) as caught:
            journal.read(tmp_path)
        text = str(caught.value)
        assert message in text
        assert str(file) in text
        assert "\n" not in text

    def test_no_text(self, tmp_path: Path) -> None:
        file = tmp_path / "stator-1.jsonl"
        file.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(journal.TraceError, match="can't be read: it is no text"):
            journal.read(file)

    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(journal.TraceError, match=r"nothing: no such file; STATOR_TRACE=dir"):
            journal.read(tmp_path / "nothing")
        with pytest.raises(journal.TraceError, match="no trace in this folder; run the program"):
            journal.read(tmp_path)
