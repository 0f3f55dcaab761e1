"""What the cache serves, without the compiler: nothing of it is loaded, and it can take over."""

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys
import time
import torch
import stator

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 4)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return torch.relu(self.a(x))

def broken(x, n):
    y = x.sin() * n
    time.sleep(0)
    return y.cos()

torch.manual_seed(0)
model, x = Model(), torch.randn(2, 4)
compiled = stator.compile(model, backend=BACKEND)
with torch.no_grad():
    assert torch.allclose(compiled(x), torch.relu(model.a(x)), atol=1e-6)
assert model.calls == 1
split = stator.compile(broken, backend=BACKEND)
for n in (2, 3):
    assert torch.allclose(split(x, n), (x.sin() * n).cos(), atol=1e-6)
heavy = ("stator.driver.compiler", "stator.capture", "sympy", "torch._dynamo", "torch._inductor")
print([name for name in heavy if name in sys.modules])
if len(sys.argv) > 1:  # what is not stored: the compiler takes over
    assert torch.allclose(split(x[:1], 2), (x[:1].sin() * 2).cos(), atol=1e-6)
    with torch.no_grad():
        assert torch.allclose(compiled(x[:1]), torch.relu(model.a(x[:1])), atol=1e-6)
    assert torch.allclose(split(x, 2), (x.sin() * 2).cos(), atol=1e-6)
    print(stator.counters()["loaded"], stator.counters()["compiles"] > 0)
"""
RAISES = """
import sys
import torch
import stator

def program(x, i):
    return x[i].sin()

compiled = stator.compile(program, backend="eager")
x = torch.ones(3)
compiled(x, torch.tensor([0, 1]))
try:
    compiled(x, torch.tensor([0, 9]))
except IndexError as error:
    print(type(error).__name__, error.__traceback__.tb_next.tb_frame.f_code.co_name)
"""


def run(tmp_path: Path, source: str, *arguments: str, path: Path | None = None) -> str:
    path = path or tmp_path / "program.py"
    path.write_text(source)
    environment = {**os.environ, "STATOR_CACHE": "1", "STATOR_CACHE_DIR": str(tmp_path / "cache")}
    ran = subprocess.run(
        [sys.executable, str(path), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_nothing_else_is_loaded(tmp_path: Path) -> None:
    source = PROGRAM.replace("BACKEND", "'eager'")
    assert "stator.driver.compiler" in run(tmp_path, source)
    assert run(tmp_path, source) == "[]"


def test_the_compiler_takes_over(tmp_path: Path) -> None:
    source = PROGRAM.replace("BACKEND", "'eager'")
    run(tmp_path, source)
    told = run(tmp_path, source, "more").splitlines()
    assert any(line == "[]" for line in told)
    loaded, compiled = told[-1].split()[-2:]
    assert int(loaded) >= 3
    assert compiled == "True"


def test_kernels_without_inductor(tmp_path: Path) -> None:
    source = PROGRAM.replace("BACKEND", "'inductor'")
    assert "torch._inductor" in run(tmp_path, source)
    assert run(tmp_path, source) == "[]"


def test_errors_of_graphs(tmp_path: Path) -> None:
    first = run(tmp_path, RAISES)
    assert first == "IndexError program"
    assert run(tmp_path, RAISES) == first


RETURNED = """
import traceback
import torch
import stator

def program(x):
    try:
        raise ValueError("no", 3)
    except ValueError as error:
        return x * 2, error

_, expected = program(torch.ones(3))
_, found = stator.compile(program, backend="eager")(torch.ones(3))
assert type(found) is ValueError and found.args == expected.args
told = [traceback.extract_tb(each.__traceback__)[0] for each in (expected, found)]
assert told[0].filename == told[1].filename and told[0].lineno == told[1].lineno
print(stator.counters()["loaded"])
"""


def test_an_exception_is_returned(tmp_path: Path) -> None:
    assert run(tmp_path, RETURNED) == "0"
    assert run(tmp_path, RETURNED) == "1"


MOVED = """
import traceback
import torch
import stator

def helper(x):
    raise ValueError("no")

def program(x):
    y = x * 2
    helper(y)

try:
    stator.compile(program, backend="eager")(torch.ones(3))
except ValueError as error:
    print({each.filename for each in traceback.extract_tb(error.__traceback__)} == {__file__})
print(stator.counters()["loaded"])
"""


def test_a_program_that_was_moved(tmp_path: Path) -> None:
    """Tracebacks name the file as it is called now."""
    assert run(tmp_path, MOVED).split() == ["True", "0"]
    path = tmp_path / "elsewhere" / "moved.py"
    path.parent.mkdir()
    assert run(tmp_path, MOVED, path=path).split() == ["True", "1"]


IN_A_MODE = """
import torch
import stator

def program(x, i):
    with torch.no_grad():
        y = x[i] * 2
    return y + x.sum()

compiled = stator.compile(program, backend="eager")
x = torch.ones(3, requires_grad=True)
found = compiled(x, torch.tensor([0, 1]))
assert torch.equal(found, program(x, torch.tensor([0, 1]))) and found.requires_grad
try:
    compiled(x, torch.tensor([0, 9]))
except IndexError:
    print(torch.is_grad_enabled(), stator.counters()["loaded"])
"""


def test_modes_after_an_error(tmp_path: Path) -> None:
    assert run(tmp_path, IN_A_MODE) == "True 0"
    assert run(tmp_path, IN_A_MODE) == "True 1"
