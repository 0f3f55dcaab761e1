"""Generated code has file names and sources, for as long as it lives."""

import gc
import io
import linecache
import pdb
import sys
import time
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
import torch

import stator
from stator.diagnostics.artefacts import Title

X = torch.arange(4.0)


@pytest.fixture(autouse=True)
def _nothing_of_others() -> None:
    """What other tests have compiled, and a debugger still holds, is out of the way."""
    for file in ours():
        del linecache.cache[file]


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def forward(x: torch.Tensor, seen: list[int]) -> torch.Tensor:
    seen.append(1)
    return double(x) + 1


def split(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    time.sleep(0)
    return y + 1


def codes(compiled: Any) -> list[CodeType]:
    """What its entries run."""
    return [entry.target.__code__ for entry in compiled.entries()]


def collect() -> None:
    """A graph module goes after the entry that calls it."""
    for _ in range(3):
        gc.collect()


def ours() -> list[str]:
    return [file for file in linecache.cache if file.startswith("<stator ")]


def test_names() -> None:
    title = Title.of("Net.forward, resumed in helper", 3)
    assert title.file() == "<stator Net.forward#3>"
    assert title.file("graph") == "<stator Net.forward#3 graph>"
    assert title.graph == "stator:Net.forward graph 3"


def test_residual_functions() -> None:
    compiled: Any = stator.compile(forward, backend="eager")
    compiled(X, [])
    (code,) = codes(compiled)
    assert code.co_name == "forward"
    assert code.co_filename.startswith("<stator forward#")
    lines = linecache.getlines(code.co_filename)
    line = forward.__code__.co_firstlineno
    assert lines[0].startswith(f"# stator: what runs in place of forward ({__file__}:{line}), ")
    assert lines[1].startswith("# graph: mul, add (see <stator forward#")
    assert lines[code.co_firstlineno - 1] == "def forward(x, seen):\n"
    assert "".join(lines).endswith("return outputs[0]\n")
    # Each instruction is on the line of the text that it comes from.
    numbers = {line for _, _, line in code.co_lines() if line is not None}
    assert numbers == set(range(code.co_firstlineno, len(lines) + 1))


def test_a_split_is_told() -> None:
    compiled: Any = stator.compile(split, backend="eager")
    compiled(X)
    (code,) = codes(compiled)
    assert code.co_filename == __file__  # it stands for the program where it was split
    texts = ["".join(linecache.getlines(file)) for file in ours() if "graph" not in file]
    assert len(texts) == 2
    assert "# then: time.sleep " in texts[0]
    assert "    outputs = graph(x)\n" in texts[0]
    assert "# stator: what runs in place of split, resumed in split (" in texts[1]


def test_graphs() -> None:
    stator.compile(forward, backend="eager")(X, [])
    (file,) = (file for file in ours() if file.endswith(" graph>"))
    text = "".join(linecache.getlines(file))
    line = double.__code__.co_firstlineno + 1
    assert text.startswith("# stator:forward graph ")
    assert f"mul = x * 2;  x = None  # {__file__}:{line} in double\n" in text


def test_sources_go_with_the_code() -> None:
    before = len(linecache.cache)
    for _ in range(3):
        compiled = stator.compile(split, backend="eager", isolate_recompiles=True)
        compiled(X)
        assert len(ours()) == 4
        del compiled
        collect()
        assert not ours()
    assert len(linecache.cache) <= before + 2  # this file, perhaps


def test_checkcache_keeps_them() -> None:
    """traceback and pdb call it before they read."""
    compiled: Any = stator.compile(forward, backend="eager")
    compiled(X, [])
    (code,) = codes(compiled)
    linecache.checkcache()
    assert linecache.getline(code.co_filename, 1)


def test_real_files(tmp_path: Path) -> None:
    with stator.config.patch(artefacts=str(tmp_path / "made")):
        compiled: Any = stator.compile(forward, backend="eager")
        compiled(X, [])
        torch.testing.assert_close(compiled(X, []), X * 2 + 1)
    (code,) = codes(compiled)
    found = sorted((tmp_path / "made").glob("stator-*/*.py"))
    assert [file.name.partition("_")[2] for file in found] == ["forward.py", "forward_graph.py"]
    assert code.co_filename == str(found[0])
    assert found[0].read_text().splitlines()[code.co_firstlineno - 1] == "def forward(x, seen):"
    assert linecache.getline(code.co_filename, code.co_firstlineno) == "def forward(x, seen):\n"
    assert "mul = x * 2" in found[1].read_text()
    assert not ours()


def test_files_that_cant_be_written(tmp_path: Path) -> None:
    occupied = tmp_path / "file"
    occupied.write_text("")
    with stator.config.patch(artefacts=str(occupied)):
        compiled: Any = stator.compile(forward, backend="eager")
        torch.testing.assert_close(compiled(X, []), X * 2 + 1)
    (code,) = codes(compiled)
    assert linecache.getline(code.co_filename, code.co_firstlineno) == "def forward(x, seen):\n"


@pytest.mark.skipif(sys.gettrace() is not None, reason="somebody debugs the tests")
@pytest.mark.parametrize(
    ("program", "args", "wanted"),
    [
        (forward, (X, []), "def forward(x, seen):\n"),
        (split, (X,), "time.sleep(0)\n"),
    ],
)
def test_pdb_lists_the_source(program: Any, args: tuple[Any, ...], wanted: str) -> None:
    compiled = stator.compile(program, backend="eager")
    compiled(*args)
    said = io.StringIO()
    debugger = pdb.Pdb(stdin=io.StringIO("step\nlist\nargs\ncontinue\n"), stdout=said)
    debugger.use_rawinput = False
    debugger.prompt = ""
    result: Any = debugger.runcall(lambda: compiled(*args))
    assert torch.equal(result, X * 2 + 1)
    text = said.getvalue()
    assert f"{program.__name__}()" in text
    assert wanted in text
    assert "x = tensor([0., 1., 2., 3.])" in text
