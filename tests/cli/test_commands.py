"""The other commands, and what they say when they can't."""

import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stator import api
from stator.cli import bench, doctor, main, screen
from stator.cli.summary import Summary, lines, show
from stator.diagnostics import journal
from stator.diagnostics.catalogue import all_reasons, page
from tests.cli.compare import run

MODEL = """\
import time
import torch

class Net(torch.nn.Module):
    def forward(self, x, scale=1):
        y = x * scale
        time.sleep(0)
        return y + 1

    @staticmethod
    def static(x):
        return x - 1

net = Net()
wrapped = torch.compile(Net())

@torch.compile
def nothing():
    return torch.ones(2) + 1

def arguments():
    return (torch.ones(3),), {"scale": 2}

def fails(x, scale=1):
    raise ValueError("on purpose")

number = 3
"""


@pytest.fixture
def model(tmp_path: Path) -> Iterator[Path]:
    path, modules = list(sys.path), set(sys.modules)
    file = tmp_path / "a_model.py"
    file.write_text(MODEL)
    yield file
    sys.path[:] = path
    for name in ("a_model", "inputs"):
        if name not in modules:
            sys.modules.pop(name, None)


def test_nothing_heavy_is_loaded(tmp_path: Path) -> None:
    """Help and reasons come at once."""
    ask = (
        "import sys; from stator.cli import main; main({}); "
        "print(*(n for n in ('torch', 'rich', 'numpy') if n in sys.modules), file=sys.stderr)"
    )
    found = run(["-c", ask.format(["why", "SB0007"])], tmp_path)
    assert (found.status, found.errors.strip()) == (0, "")
    found = run(["-m", "stator", "--help"], tmp_path)
    assert "stator run train.py" in found.output
    found = run(["-m", "stator", "--version"], tmp_path)
    assert found.output.startswith("stator 0.")


@pytest.mark.parametrize("command", ["run", "explain", "why", "doctor", "bench", "report"])
def test_help_teaches(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    text = capsys.readouterr().out
    assert text.startswith(f"usage: stator {command}")
    assert len(text.splitlines()) > 5


# ---------------------------------------------------------------------- why


def test_why(capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("SB0007", "sb7", "7"):
        assert main(["why", name]) == 0
        assert capsys.readouterr().out == page("SB0007")
    assert main(["why", "SR0001"]) == 0
    assert capsys.readouterr().out.startswith("# SR0001")
    assert main(["why"]) == 0
    listed = capsys.readouterr().out
    assert all(f"{each.id}  {each.title}" in listed for each in all_reasons())
    assert main(["why", "sleep"]) == 0
    assert "SB0007" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["SB9999", "SB00O7", "SR0999", "xyzzy"])
def test_unknown_reasons(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["why", name]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"stator why: there is no reason '{name}'. ")
    assert told.err.count("\n") == 1


# ---------------------------------------------------------------------- explain


def test_explain(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("net", "wrapped", "net.forward"):
        assert main(["explain", f"{model}::{name}"]) == 0
        told = capsys.readouterr().out
        assert "2 graphs, 1 graph break, 2 operators" in told, told
        assert "[SB0007]" in told
    assert main(["explain", f"{model}::fails"]) == 1
    told = capsys.readouterr().err
    assert 'raise ValueError("on purpose")' in told
    assert "/stator/" not in told
    report = tmp_path / "page.html"
    assert main(["explain", f"{model}::net", "--report", str(report)]) == 0
    assert "time.sleep" in report.read_text()
    assert not journal.on()


@pytest.mark.parametrize(
    ("text", "works"),
    [
        ("example_inputs = (torch.ones(2),)", True),
        ("example_inputs = torch.ones(2)", True),
        ("def arguments(): return [torch.ones(2)]", True),
        ("arguments = {'x': torch.ones(2)}", True),
        ("arguments = (torch.ones(2), 3)", False),
        ("arguments = {'y': torch.ones(2)}", False),
        ("other = 1", False),
    ],
)
def test_inputs(
    text: str, works: bool, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    inputs = tmp_path / "inputs.py"
    inputs.write_text(f"import torch\n{text}\n")
    status = main(["explain", f"{model}::Net.static", "--inputs", str(inputs)])
    told = capsys.readouterr()
    assert status == (0 if works else 2), told.err
    assert ("1 graph, 0 graph breaks" in told.out) is works
    assert bool(told.err) is not works


def test_no_inputs_are_needed(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model.write_text(MODEL.replace("def arguments", "def others"))
    assert main(["explain", f"{model}::nothing"]) == 0
    assert "1 graph, 0 graph breaks" in capsys.readouterr().out
    assert main(["explain", f"{model}::net"]) == 2
    assert "define `arguments` in it" in capsys.readouterr().err


DRIVEN = """\
import torch

def step(x, n):
    return x * n

def main(step):
    for n in (2, 3, 4):
        step(torch.ones(2), n)
"""


@pytest.mark.parametrize(
    ("more", "graphs"),
    [
        ("", "2 graphs"),
        ("options = {'dynamic': True}", "1 graph"),
        ("options = 'of something else'", "2 graphs"),
        ("arguments = (torch.ones(2), 5)", "1 graph"),
    ],
)
def test_explain_with_a_main(
    more: str, graphs: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a_program.py"
    file.write_text(f"{DRIVEN}\n{more}\n")
    assert main(["explain", f"{file}::step"]) == 0
    told = capsys.readouterr().out
    assert f"  {graphs}, 0 graph breaks" in told
    assert ("recompiles\n" in told) is (graphs == "2 graphs")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def main(step): pass", "does not call step"),
        ("def main(): pass", "define `arguments` in it"),
        ("def main(step, n): pass", "define `arguments` in it"),
        ("def main(step): pass\noptions = {'dynamc': True}", "has no option 'dynamc'"),
    ],
)
def test_a_main_that_is_of_no_use(
    text: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "a_program.py"
    file.write_text(f"def step(x):\n    return x\n\n{text}\n")
    assert main(["explain", f"{file}::step"]) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a_model.py", "write FILE::NAME"),
        ("nosuch.py::net", "nosuch.py: no such file"),
        ("a_model.py::nett", "has no 'nett'. Functions and modules in it: net, wrapped, nothing"),
        ("a_model.py::Net", "Net is a class; name a function, an instance or Class.method"),
        ("a_model.py::number", "number can't be called: it is of type int"),
        ("a_model.py::net --backend eagr", "Did you mean 'eager'?"),
        ("a_model.py::net --inputs nosuch.py", "nosuch.py: no such file"),
        ("bad.py::net", "bad.py can't be imported: ZeroDivisionError"),
    ],
)
def test_mistakes(
    name: str,
    text: str,
    model: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(model.parent)
    Path("bad.py").write_text("1 / 0\n")
    assert main(["explain", *name.split()]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert text in told.err.splitlines()[-1]
    assert told.err.splitlines()[-1].startswith("stator explain: ")


# ---------------------------------------------------------------------- report, doctor, bench


def test_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    traces, page = tmp_path / "traces", tmp_path / "page.html"
    writer = journal.TraceFile(traces)
    writer({"kind": "end", "at": 1.0, "functions": [], "entries": []})
    assert main(["report", str(traces), "-o", str(page)]) == 0
    assert "<html" in page.read_text()
    assert "2 events" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, "no such file"),
        ("no json", "no trace of stator"),
        ('{"kind": "start", "format": 999, "stator": "9.9"}', "upgrade stator"),
    ],
)
def test_bad_traces(
    content: str | None, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "stator-1.jsonl"
    if content is not None:
        trace.write_text(f"{content}\n")
    assert main(["report", str(trace), "-o", str(tmp_path / "page.html")]) == 2
    told = capsys.readouterr().err
    assert text in told
    assert told.count("\n") == 1


def test_doctor(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = {each.name: each for each in doctor.findings()}
    for name in ("python", "stator", "native core", "torch", "tensor checks"):
        assert found[name].state == "ok", found[name]
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    assert main(["doctor"]) == 1
    told = capsys.readouterr().out
    assert "missing  C++ compiler" in told
    assert "→ install g++" in told
    assert "slow     TORCH_COMPILE_DISABLE" in told
    monkeypatch.setattr(doctor, "_LOOKS", (lambda: 1 / 0,))
    assert main(["doctor"]) == 1
    assert "looking at it failed: ZeroDivisionError" in capsys.readouterr().out


def test_bench(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The real peer takes too long here."""
    monkeypatch.setattr(bench, "ENGINES", {"stator": api.compile, "peer": api.compile})
    monkeypatch.setattr(bench, "_ROUNDS", 1)
    monkeypatch.setattr(bench, "_SAMPLE_SECONDS", 1e-4)
    monkeypatch.setattr("torch.set_num_threads", lambda number: None)
    monkeypatch.setattr(bench, "_PROGRAMS", dict(list(bench._PROGRAMS.items())[:2]))
    assert main(["bench", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert len(results) == 2
    assert all(
        set(each["overhead"]) == set(each["first"]) == {"stator", "peer"} for each in results
    )
    assert main(["bench"]) == 0
    assert "a function of eight tensors" in capsys.readouterr().out


# ---------------------------------------------------------------------- the summary


def place(file: str, line: int, library: str = "") -> dict[str, Any]:
    return {"file": file, "line": line, "function": "f", "library": library}


def compiled(function: int, number: int, **fields: Any) -> dict[str, Any]:
    return {
        "kind": "compile",
        "function": function,
        "number": number,
        "trace_seconds": 0.5,
        "backend_seconds": 0.25,
        "other_seconds": 0.25,
        "ops": 3,
        "outcome": "graph",
        "broken": None,
        **fields,
    }


BROKEN = {
    "id": "SB0007",
    "reason": "time.sleep waits",
    "hint": "don't",
    "stack": [place("/x/a.py", 5), place("/lib/torch/b.py", 9, "torch")],
}
FUNCTION = {"kind": "function", "name": "f", "file": "/x/a.py", "line": 3}
EVENTS: list[journal.Event] = [
    {**FUNCTION, "id": 1, "parent": None},
    compiled(1, 1, broken=BROKEN),
    {**FUNCTION, "id": 2, "name": "f, resumed", "parent": 1},
    compiled(2, 2),
    {"kind": "recompile", "function": 1, "failures": [{"text": "n: expected 2, got 3"}]},
    compiled(1, 3, broken=BROKEN),
    {**FUNCTION, "id": 3, "name": "g", "parent": None},
    compiled(3, 4, outcome="eager", ops=0),
    {"kind": "limit", "function": 1, "text": "…"},
    {"kind": "something new"},
    {
        "kind": "end",
        "functions": [
            {"function": 1, "hits": 10, "declined": 2},
            {"function": 2, "hits": 10, "declined": 0},
            {"function": 3, "hits": 4, "declined": 0},
        ],
        "entries": [{"number": 1, "hits": 10}, {"number": 4, "hits": 4}],
    },
]


def test_summary() -> None:
    found = Summary.of(EVENTS)
    assert (found.functions, found.graphs, found.operators, found.eager) == (2, 3, 9, 1)
    assert (found.seconds, found.limits) == (4.0, 1)
    # Three compiles, two calls at the limit and four that run as they are; ten are served.
    assert (found.hits, found.misses) == (10, 9)
    assert list(lines(found)) == [
        "stator:",
        "  functions      2",
        "  graphs         3 (9 operators)",
        "  graph breaks   1",
        "  recompiles     1",
        "  not captured   1 path",
        "  limits reached 1",
        "  compile time   4.00 s (2.00 s tracing, 1.00 s backend)",
        "  hit rate       52.6 % of 19 calls",
        "  breaks",
        "    /x/a.py:5 in f: time.sleep waits [SB0007] (2 graphs end here)",
        "  compiled again",
        "    f (/x/a.py:3), 1×: n: expected 2, got 3",
        "  next",
        "    `stator why SB0007` explains the reason and shows a fix",
    ]
    assert list(lines(Summary.of([]))) == ["stator: nothing was compiled"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    shown = Terminal()
    monkeypatch.setattr(sys, "stdout", shown)
    monkeypatch.setattr(sys, "stderr", shown)
    assert screen.is_terminal(shown)
    assert main(["why", "SB0007"]) == 0
    assert main(["doctor"]) in (0, 1)
    show(EVENTS)
    text = shown.getvalue()
    assert "a clock is read" in text
    assert "hit rate" in text
    assert "**Why.**" not in text  # drawn, not printed
    monkeypatch.setenv("TERM", "dumb")
    assert not screen.is_terminal(shown)
