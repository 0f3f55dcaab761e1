"""`stator run` tells of all processes of a program: those it starts, and the ranks of torchrun."""

import os
import re
import sys
import tempfile
from pathlib import Path

import pytest

from stator.cli.processes import Ranks
from stator.cli.summary import Summary
from tests.cli.compare import Outcome, numbers, run

COMPILES = """\
import os, sys, time
import torch

def step(x):
    return torch.relu(x) + 1

def split(x):
    y = x * 2
    time.sleep(0)
    return y + 1

def work(number, times=3):
    compiled = torch.compile(step, backend="eager", dynamic=False)
    for _ in range(times):
        compiled(torch.ones(number + 2))
    if number == 1:
        torch.compile(split, backend="eager")(torch.ones(2))
"""
SPAWNED = """\
import torch.multiprocessing as mp
if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
    print("done")
"""
FORKED = """\
import multiprocessing
if __name__ == "__main__":
    work(0, 2)
    started = [multiprocessing.get_context("fork").Process(target=work, args=(n,)) for n in (1, 2)]
    [each.start() for each in started]
    [each.join() for each in started]
    if not (child := os.fork()):
        work(3)
        sys.exit(0)
    os.waitpid(child, 0)
    print("done")
"""
NESTED = """\
import multiprocessing
def inner():
    multiprocessing.get_context("spawn").Process(target=work, args=(1,)).start()
    work(0)
if __name__ == "__main__":
    outer = multiprocessing.get_context("spawn").Process(target=inner)
    outer.start()
    outer.join()
    print("done")
"""


IDLE = """\
import multiprocessing
def idle(number):
    loaded = [name for name in ("stator.capture", "torch._dynamo") if name in sys.modules]
    print(torch.ones(2).sum().item(), loaded, flush=True)
def by_import(number):
    import torch._dynamo
    print(torch._dynamo.explain(step)(torch.ones(2)).graph_count, flush=True)
def by_logs(number):
    import torch._logging
    torch._logging.set_logs(graph_code=True)
    work(0)
def by_wrapper(number):
    original = torch.compile  # as libraries do
    def wrapper(*args, **kwargs):
        return original(*args, **kwargs)
    wrapper.__wrapped__ = original
    torch.compile = wrapper
    work(0)
def by_module(number):
    model = torch.nn.Linear(2, 2)
    model.compile(backend="eager")
    print(model(torch.ones(1, 2)).shape[1], flush=True)
if __name__ == "__main__":
    process = multiprocessing.get_context("spawn").Process(target=globals()[NAME], args=(0,))
    process.start()
    process.join()
    assert not process.exitcode
    print("done")
"""


@pytest.mark.parametrize(
    ("name", "printed", "graphs"),
    [
        ("idle", "2.0 []\n", "0"),
        ("by_import", "1\n", "1"),
        ("by_logs", "", "1"),
        ("by_wrapper", "", "1"),
        ("by_module", "2\n", "1"),
    ],
)
def test_a_spawned_process_loads_stator_when_it_uses_it(
    name: str, printed: str, graphs: str, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(COMPILES + f"NAME = {name!r}\n" + IDLE)
    found = run(["-m", "stator", "run", "program.py"], tmp_path)
    assert found.recorded() == f"{printed}done\nexit status 0\n", found.errors
    assert numbers(found.errors).get("graphs", "0") == graphs, found.errors
    assert ("GRAPH" in found.errors.upper().partition("STATOR:")[0]) == (name == "by_logs")


def test_what_is_forked_finds_what_a_trace_needs(tmp_path: Path) -> None:
    """torch loads half of itself for the first trace: once, not in each child."""
    text = """\
import multiprocessing
def ask(number):
    before = "torch._dynamo" in sys.modules
    work(0)
    print(before, flush=True)
if __name__ == "__main__":
    compiled = COMPILED and torch.compile(step, backend="eager")
    process = multiprocessing.get_context("fork").Process(target=ask, args=(0,))
    process.start()
    process.join()
"""
    for compiled in (True, False):
        (tmp_path / "program.py").write_text(COMPILES + f"COMPILED = {compiled}\n" + text)
        found = run(["-m", "stator", "run", "program.py"], tmp_path)
        assert found.recorded() == f"{compiled}\nexit status 0\n", found.errors


def ran(text: str, folder: Path, *options: str) -> Outcome:
    (folder / "program.py").write_text(COMPILES + text)
    (folder / "tmp").mkdir()
    arguments = ["-m", "stator", "run", *options, "program.py"]
    found = run(arguments, folder, TMPDIR=str(folder / "tmp"))
    assert found.recorded() == "done\nexit status 0\n", found.errors
    assert "ResourceWarning" not in found.errors
    left = [each.name for each in (folder / "tmp").iterdir() if "stator" in each.name]
    assert not left
    return found


# Program, processes that compile, functions, graphs, calls of the compiled functions.
PROGRAMS = {
    "spawned": (SPAWNED, 2, 2, 4, 7),
    "forked": (FORKED, 4, 2, 6, 12),
    "nested": (NESTED, 2, 2, 4, 7),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_processes_that_the_program_starts(name: str, tmp_path: Path) -> None:
    text, processes, functions, graphs, calls = PROGRAMS[name]
    found = ran(text, tmp_path, "--report", "page.html")
    told = numbers(found.errors)
    assert told["processes"] == str(processes), found.errors
    assert told["functions"] == str(functions)
    assert told["graphs"] == str(graphs)
    assert told["graph breaks"] == "1"
    assert f"% of {calls} calls" in found.errors
    assert found.errors.count("stator:\n") == 1
    page = (tmp_path / "page.html").read_text()
    assert len(set(re.findall(r'"pid":(\d+)', page))) >= processes


LOADING = """\
import torch.utils.data as data
if __name__ == "__main__":
    work(0)
    assert len(list(data.DataLoader(list(range(4)), num_workers=2))) == 4
    print("done")
"""


def test_processes_that_compile_nothing_are_not_told(tmp_path: Path) -> None:
    found = ran(LOADING, tmp_path, "--report", "page.html")
    assert "processes" not in numbers(found.errors)
    assert numbers(found.errors)["functions"] == "1"
    assert len(set(re.findall(r'"pid":(\d+)', (tmp_path / "page.html").read_text()))) == 1


def test_quiet(tmp_path: Path) -> None:
    assert ran(SPAWNED, tmp_path, "--quiet").errors == ""


RANKS = """\
import torch.distributed as dist
dist.init_process_group("gloo")
work(dist.get_rank())
total = torch.ones(1) * (dist.get_rank() + 1)
dist.all_reduce(total)
if dist.get_rank() == 0:
    print("sum", total.item(), flush=True)
dist.destroy_process_group()
"""


def test_ranks_of_torchrun(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(COMPILES + RANKS)
    (tmp_path / "tmp").mkdir()
    command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    stator = [sys.executable, "-m", "stator", "run", "--report", "page.html", "program.py"]
    found = run([*command, "--no-python", *stator], tmp_path, TMPDIR=str(tmp_path / "tmp"))
    assert found.recorded() == "sum 3.0\nexit status 0\n", found.errors
    told = numbers(found.errors)
    assert told["processes"] == "2", found.errors
    assert told["graphs"] == "4"
    assert told["graph breaks"] == "1"
    assert "% of 7 calls" in found.errors
    assert found.errors.count("stator:\n") == 1
    page = (tmp_path / "page.html").read_text()
    assert len(set(re.findall(r'"pid":(\d+)', page))) == 2
    assert not list((tmp_path / "tmp").glob("stator-*"))


def test_a_rank_that_has_not_ended_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stator.cli.processes._PATIENCE", 0.1)
    ranks = [Ranks(tmp_path / "ranks", rank, 3) for rank in range(3)]
    ranks[2].leave([{"kind": "start", "pid": 5}])
    assert ranks[0].others() == ([{"kind": "start", "pid": 5}], 1)
    assert not ranks[0].folder.exists()


def test_a_folder_of_somebody_else_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    (tmp_path / "ranks").symlink_to(tmp_path / "target")
    ranks = Ranks(tmp_path / "ranks", 1, 2)
    ranks.leave([{"kind": "start"}])
    assert not list((tmp_path / "target").iterdir())


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, None),
        ({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2"}, None),  # not of torchrun
        ({"LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "a"}, None),
        ({"LOCAL_RANK": "x", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "a"}, None),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "../a"}, (1, 2)),
    ],
)
def test_who_is_a_rank(
    environment: dict[str, str], expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = Ranks.of_environment()
    assert (None if found is None else (found.rank, found.count)) == expected
    if found is not None:
        assert found.folder.parent == Path(tempfile.gettempdir())
        assert str(os.getppid()) in found.folder.name


def _event(kind: str, pid: int, **fields: object) -> dict[str, object]:
    return {"kind": kind, "pid": pid, **fields}


def test_numbers_are_those_of_one_process() -> None:
    """The first function of each process has the same number."""
    events = []
    for pid in (1, 2):
        name = {"id": 1, "name": "f", "file": "/a.py", "line": 3, "parent": None}
        times = {"trace_seconds": 1.0, "backend_seconds": 0.0, "other_seconds": 0.0}
        graph = {"function": 1, "number": 1, "ops": 2, "outcome": "graph", "broken": None}
        used: dict[str, object] = {
            "function": 1,
            "calls": 4,
            "hits": pid,
            "eager": {},
            "declined": 0,
        }
        events += [
            _event("function", pid, **name),
            _event("compile", pid, **graph, **times),
            _event("end", pid, functions=[used], entries=[]),
        ]
    summary = Summary.of(events)
    assert (summary.processes, summary.functions, summary.graphs) == (2, 1, 2)
    assert (summary.hits, summary.misses) == (3, 5)
