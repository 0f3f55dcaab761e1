"""Programs without numpy: torch works without it, and so does stator."""

import subprocess
import sys
from pathlib import Path

import pytest

# As if it were not installed: nobody finds it, also nobody who only asks.
HIDDEN = """\
import sys
class Without:
    def __init__(self, finder):
        self.finder = finder
    def find_spec(self, name, path=None, target=None):
        hidden = name.partition(".")[0] == "numpy"
        return None if hidden else self.finder.find_spec(name, path, target)
    def __getattr__(self, name):
        return getattr(self.finder, name)
sys.meta_path[:] = [Without(finder) for finder in sys.meta_path]
import warnings
warnings.simplefilter("ignore")  # torch's own about numpy
"""

PROGRAM = """\
import random, time
import torch
import stator

def split(x, n):
    y = x * 2
    time.sleep(0)
    return (y + n).sum().item()

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.calls = 0
    def forward(self, x):
        self.calls += 1
        return torch.relu(self.linear(x)) + torch.rand(3)

def trained(layer, x):
    layer(x).sum().backward()
    return layer.linear.weight.grad.shape

def branching(x):
    return x + 1 if x.sum() > 0 else x - 1

X = torch.ones(3)

def same(function, *calls, **options):
    for backend in ("eager", "aot_eager"):
        compiled = stator.compile(function, backend=backend, isolate_recompiles=True, **options)
        for args in calls:
            seed = random.random()
            results = []
            for each in (function, compiled):
                random.seed(seed)
                torch.manual_seed(0)
                result = each(*args)
                results.append(result.tolist() if isinstance(result, torch.Tensor) else result)
            assert results[0] == results[1], (function, results)

same(split, (X, 3), (X, 4), (torch.ones(5), 4))
same(Layer().eval(), (X,), (X,))
same(trained, (Layer(), X))
same(branching, (X,), (-X,))
same(lambda x: x + random.random(), (X,), (X,))
same(lambda x: x + 1 if random.random() > 0.5 else x - 1, (X,), (X,), (X,), (X,))
same(lambda x: torch.tensor([1, 2.0]) + x[:2], (X,))
same(lambda x: x.tolist(), (X,))
same(lambda x, n: x * n, (X, 2), (X, 3), dynamic=True)
same(lambda x, n: x * n, (X, 0.5), (X, 0.25))
same(lambda x: f"{x}", (X,))

told = stator.explain(split)(X, 3)
assert (told.graph_count, told.break_count) == (2, 1) and str(told)
assert stator.counters()["calls"]
try:
    stator.compile(lambda x: x.numpy(), backend="eager")(X)
except RuntimeError as error:
    assert "Numpy is not available" in str(error), error
else:
    raise AssertionError("there is a numpy")
stator.install()
assert torch.compile(split, backend="eager")(X, 3) == 15
stator.uninstall()
assert "numpy" not in sys.modules
print("done")
"""


def run(program: str, *args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", HIDDEN + program, *args], capture_output=True, text=True, timeout=500
    )


def test_programs() -> None:
    done = run(PROGRAM)
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr


SCRIPT = """\
import torch

@torch.compile(backend="eager")
def doubled(x):
    print("called")
    return x * 2

print(doubled(torch.ones(2)))
"""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "FILE"), "tensor([2., 2.])"),
        (("run", "--report", "PAGE", "FILE"), "tensor([2., 2.])"),
        (("why", "SB0013"), "SB0013"),
        (("doctor",), "numpy"),
    ],
)
def test_commands(arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(SCRIPT)
    places = {"FILE": str(file), "PAGE": str(tmp_path / "page.html")}
    given = [places.get(each, each) for each in arguments]
    done = run("from stator.cli import main\nsys.exit(main(sys.argv[1:]))\n", *given)
    assert said in done.stdout + done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == 0, done.stderr
    if "--report" in arguments:
        assert "doubled" in (tmp_path / "page.html").read_text()
