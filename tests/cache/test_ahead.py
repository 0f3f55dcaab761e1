"""`aot_compile`: compiled for a call that is not made, saved, and loaded by another process."""

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import stator
from stator.store import files
from stator.store.reasons import CacheError

SEEN: list[int] = []
X = torch.linspace(-1, 1, 5)


def program(x: torch.Tensor, *rest: torch.Tensor, n: int = 2) -> torch.Tensor:
    SEEN.append(n)
    for each in rest:
        x = x + each
    return torch.relu(x) * n + 1


def changing(x: torch.Tensor, log: list[int]) -> torch.Tensor:
    log.append(len(log))
    x.add_(1)
    return x * 2


def drawing(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand(5)


def split(x: torch.Tensor) -> torch.Tensor:
    stator.graph_break()
    return x * 2


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = torch.tanh(self.linear(x))
        return y

    def other(self, x: torch.Tensor, n: int) -> torch.Tensor:
        y: torch.Tensor = self.linear(x) * n
        return y


@pytest.fixture(autouse=True)
def anew() -> None:
    stator.reset()
    SEEN.clear()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_call_is_not_made(backend: str) -> None:
    before = stator.counters()["compiles"]
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    made = compiled.aot_compile(((X, X), {"n": 3}))  # type: ignore[attr-defined]
    assert SEEN == []
    assert torch.equal(made(X, X, n=3), program(X, X, n=3))
    assert SEEN == [3, 3]
    assert torch.equal(compiled(X, X, n=3), program(X, X, n=3))
    assert stator.counters()["compiles"] == before + 1
    assert [each.module for each in made.source_info().inlined_sources] == [__name__]


def test_effects_happen_in_the_call() -> None:
    compiled: Any = stator.compile(changing, backend="eager", fullgraph=True)
    x, log = torch.ones(3), [7]
    made = compiled.aot_compile(((x, log), {}))
    assert (x.tolist(), log) == ([1, 1, 1], [7])
    assert made(x, log).tolist() == [4, 4, 4]
    assert (x.tolist(), log) == ([2, 2, 2], [7, 1])


def test_guards_that_fail() -> None:
    compiled: Any = stator.compile(program, backend="eager", fullgraph=True)
    made = compiled.aot_compile(((X,), {}))
    with pytest.raises(stator.RecompileError, match=r"x: expected Tensor\(5\) .* got Tensor\(2\)"):
        made(torch.ones(2))
    with pytest.raises(stator.RecompileError, match="n: expected 2, got 3"):
        made(X, n=3)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
        made()
    assert SEEN == []
    made.disable_guard_check()
    assert torch.equal(made(X, n=3), program(X, n=2))  # what it was compiled for


def test_what_makes_no_sense() -> None:
    compiled: Any = stator.compile(program, backend="eager")
    with pytest.raises(RuntimeError, match="fullgraph=True"):
        compiled.aot_compile(((X,), {}))
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    wrong: list[Any] = [X, (X,), (X, {})]
    for inputs in wrong:
        with pytest.raises(TypeError, match=r"\(args, kwargs\)"):
            compiled.aot_compile(inputs)
    with pytest.raises(TypeError, match="unexpected keyword argument 'm'"):
        compiled.aot_compile(((X,), {"m": 3}))
    with stator.set_stance("force_eager"), pytest.raises(RuntimeError, match="force_eager"):
        compiled.aot_compile(((X,), {}))
    compiled = stator.compile(split, backend="eager", fullgraph=True)
    with pytest.raises(stator.CaptureError):
        compiled.aot_compile(((X,), {}))
    assert SEEN == []


def test_modules_and_methods(tmp_path: Path) -> None:
    model = Model()
    made: Any = stator.compile(model, backend="eager", fullgraph=True)
    made = made.aot_compile(((X,), {}))
    assert torch.equal(made(X), model(X))
    path = tmp_path / "model.stator"
    made.save_compiled_function(path)
    another = Model()
    assert torch.equal(stator.load_compiled_function(path, another)(X), another(X))
    method: Any = stator.compile(model.other, backend="eager", fullgraph=True)
    made = method.aot_compile(((X,), {"n": 3}))
    assert torch.equal(made(X, 3), model.other(X, 3))
    made.save_compiled_function(path)
    again = stator.load_compiled_function(path, another.other)
    assert torch.equal(again(X, 3), another.other(X, 3))
    again = stator.load_compiled_function(path, f_globals=globals())
    assert torch.equal(again(another, X, 3), another.other(X, 3))


@pytest.mark.parametrize("name", ["changing", "drawing"])
def test_what_undoes_what_a_graph_does(name: str, tmp_path: Path) -> None:
    function, log = globals()[name], [[0]] if name == "changing" else []
    compiled: Any = stator.compile(function, backend="eager", fullgraph=True)
    compiled.aot_compile(((X.clone(), *log), {})).save_compiled_function(tmp_path / "f.stator")
    made = stator.load_compiled_function(tmp_path / "f.stator", function)
    torch.manual_seed(0)
    expected = function(X.clone(), *([[0]] if log else []))
    torch.manual_seed(0)
    assert torch.equal(made(X.clone(), *log), expected)


def test_what_can_not_be_saved(tmp_path: Path) -> None:
    compiled: Any = stator.compile(program, backend="aot_eager", fullgraph=True)
    made = compiled.aot_compile(((X,), {}))
    with pytest.raises(CacheError, match=r"program .* can't be saved: \[C003\]"):
        made.save_compiled_function(tmp_path / "no.stator")
    assert not list(tmp_path.iterdir())


def test_files_that_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: Any = stator.compile(program, backend="eager", fullgraph=True)
    path = tmp_path / "program.stator"
    compiled.aot_compile(((X,), {})).save_compiled_function(path)
    data = path.read_bytes()
    with pytest.raises(CacheError, match="neither a file on disk nor signed"):
        stator.load_compiled_function(io.BytesIO(data))
    with pytest.raises(CacheError, match="other code"):
        stator.load_compiled_function(path, changing)
    with pytest.raises(CacheError, match="not found by its name"):
        stator.load_compiled_function(path, f_globals={})
    with pytest.raises(TypeError, match="needs a function, a method or a module"):
        stator.load_compiled_function(path, 3)  # type: ignore[arg-type]
    if os.name == "posix":
        path.chmod(0o666)
        for each in (path, path.open("rb")):
            with pytest.raises(CacheError, match="others may write"):
                stator.load_compiled_function(each)
        path.chmod(0o600)
    path.write_bytes(data[:-3])
    with pytest.raises(CacheError, match="not what was written"):
        stator.load_compiled_function(path)
    monkeypatch.setenv(files.KEY, "secret")
    path.write_bytes(data)
    with pytest.raises(CacheError, match="not signed"):
        stator.load_compiled_function(io.BytesIO(data))


PROGRAM = """
import sys
import torch
import stator

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.linear(x))

SEEN = []

def program(x, n=2):
    SEEN.append(n)
    return torch.relu(x) * n

path, backend, saves = sys.argv[1], sys.argv[2], sys.argv[3] == "save"
torch.manual_seed(0)
model, x = Model(), torch.randn(2, 4)
with torch.no_grad():
    if saves:
        made = stator.compile(model, backend=backend, fullgraph=True).aot_compile(((x,), {}))
        made.save_compiled_function(path + ".model")
        stator.compile(program, backend=backend, fullgraph=True).aot_compile(
            ((x,), {})
        ).save_compiled_function(path)
        assert SEEN == []
    else:
        made = stator.load_compiled_function(path + ".model", model)
        assert torch.allclose(made(x), model(x), atol=1e-6)
        f = stator.load_compiled_function(path)
        assert torch.allclose(f(x), torch.relu(x) * 2) and SEEN == [2]
        heavy = ("stator.driver.compiler", "stator.capture", "sympy", "torch._dynamo")
        print([name for name in heavy if name in sys.modules])
        try:
            f(x, 3)
        except stator.RecompileError as error:
            print(str(error).splitlines()[-1].strip())
        again = stator.load(path, program)
        assert torch.allclose(again(x), torch.relu(x) * 2)
        print(stator.counters()["compiles"], stator.counters()["loaded"])
"""


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_another_process(backend: str, tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    told = ""
    for what in ("save", "load"):
        command = [sys.executable, str(path), str(tmp_path / "made.stator"), backend, what]
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert ran.returncode == 0, ran.stderr
        told = ran.stdout
    assert told.splitlines() == ["[]", "- n: expected 2, got 3", "0 3"]
