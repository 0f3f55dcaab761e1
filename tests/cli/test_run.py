"""`stator run` is Python with another compiler: path, arguments, status, errors, processes."""

import json
import signal
from pathlib import Path

import pytest

from tests.cli.compare import Outcome, run

PLAIN = (
    "import sys; from stator.cli.program import Program; sys.exit(Program.{}(sys.argv[1:]).run())"
)


def as_main(arguments: list[str], folder: Path, how: str = "script") -> Outcome:
    """A program as `stator run` runs it, without torch and summary."""
    return run(["-c", PLAIN.format(how), *arguments], folder)


SEEN = """\
import json, sys, os
class Here: pass
print(json.dumps({
    "argv": sys.argv, "path": sys.path[0], "name": __name__, "file": __file__,
    "spec": None if __spec__ is None else __spec__.name, "package": __package__,
    "doc": __doc__, "names": sorted(globals()), "main": sys.modules["__main__"].Here is Here,
    "loader": type(__loader__).__name__, "loaded": "torch" in sys.modules,
}))
"""


def test_a_script_sees_what_it_sees_under_python(tmp_path: Path) -> None:
    (tmp_path / "seen.py").write_text(f'"""A text."""\n{SEEN}')
    arguments = ["seen.py", "--flag", "-m", "x y"]
    assert json.loads(as_main(arguments, tmp_path).output) == json.loads(
        run(arguments, tmp_path).output
    )


def test_a_linked_script_has_the_folder_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "seen.py").write_text(SEEN)
    (tmp_path / "link.py").symlink_to(tmp_path / "real" / "seen.py")
    assert as_main(["link.py"], tmp_path).output == run(["link.py"], tmp_path).output


def test_a_module_sees_what_it_sees_under_python(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(SEEN)
    (package / "part.py").write_text(f"from . import __main__\n{SEEN}")
    for name in ("package", "package.part"):
        ours = as_main([name, "a"], tmp_path, "named")
        assert ours.output == run(["-m", name, "a"], tmp_path).output, ours.errors


def test_a_folder_is_run(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__main__.py").write_text("import other; print(other.x, __name__)")
    (tmp_path / "app" / "other.py").write_text("x = 3")
    assert as_main(["app"], tmp_path).output == "3 __main__\n"


@pytest.mark.parametrize(
    "program",
    [
        "def f():\n    raise ValueError('no')\nf()",
        "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError(1) from e",
        "this is no program",
        "import sys; sys.exit(7)",
        "import sys; sys.exit('a text')",
        "raise SystemExit",
        "import sys\nsys.excepthook = lambda *a: print('mine', a[2].tb_lineno)\nraise ValueError",
        "import atexit\natexit.register(print, 'later')\nprint('now')\nraise ValueError('no')",
        "import threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()",
        "raise KeyboardInterrupt",
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(5)",
    ],
)
def test_the_end_is_the_same(program: str, tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text(program)
    ours, theirs = as_main(["ends.py"], tmp_path), run(["ends.py"], tmp_path)
    assert (ours.status, ours.output) == (theirs.status, theirs.output)
    assert ours.errors == theirs.errors


def test_an_interrupt_ends_it_by_the_signal(tmp_path: Path) -> None:
    (tmp_path / "ends.py").write_text("raise KeyboardInterrupt")
    found = run(["-m", "stator", "run", "ends.py"], tmp_path)
    assert found.status == -signal.SIGINT
    assert found.errors.count("Traceback") == 1
    assert "stator/cli" not in found.errors


CHILDREN = """\
import multiprocessing, os, sys, torch

def told(name):
    print(name, torch.compile(lambda x: x + 1, backend="eager")(torch.ones(1)).tolist(), flush=True)
    print(name, type(torch.compile(told, backend="eager")).__name__, flush=True)

if __name__ == "__main__":
    for method in ("spawn", "fork"):
        process = multiprocessing.get_context(method).Process(target=told, args=(method,))
        process.start()
        process.join()
        print(process.exitcode, process.name == str(process.name), flush=True)
    if os.fork() == 0:
        sys.exit(0)
    os.wait()
"""


def test_processes_run_on_stator(tmp_path: Path) -> None:
    (tmp_path / "children.py").write_text(CHILDREN)
    trace = tmp_path / "trace"
    found = run(["-m", "stator", "run", "--trace", "trace", "children.py"], tmp_path)
    assert found.output.splitlines() == [
        line
        for method in ("spawn", "fork")
        for line in (f"{method} [2.0]", f"{method} CompiledFunction", "0 True")
    ], found.errors
    assert found.errors.count("stator:") == 1  # one summary, not one per process
    assert len(list(trace.glob("stator-*.jsonl"))) >= 2


def test_report_trace_and_options(tmp_path: Path) -> None:
    (tmp_path / "breaks.py").write_text(
        "import time, torch\n"
        "@torch.compile\n"
        "def f(x):\n"
        "    y = x + 1\n"
        "    time.sleep(0)\n"
        "    return y * 2\n"
        "for n in (2, 2, 3):\n"
        "    f(torch.ones(n))\n"
        "print('done')\n"
    )
    start = ["-m", "stator", "run", "--backend", "eager"]
    found = run([*start, "--report", "page.html", "breaks.py"], tmp_path)
    assert (found.status, found.output) == (0, "done\n"), found.errors
    assert "breaks.py:5 in f: time.sleep" in found.errors
    assert "f (breaks.py:2), 1×: " in found.errors
    assert "33.3 % of 3 calls" in found.errors
    assert "stator why SB0007" in found.errors
    assert "time.sleep" in (tmp_path / "page.html").read_text()

    found = run([*start, "--quiet", "--fullgraph", "breaks.py"], tmp_path)
    assert (found.status, found.output) == (1, "")
    assert "CaptureError: f can't be captured as one graph" in found.errors
    assert "stator:" not in found.errors


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nosuch.py"], "nosuch.py: no such file; to run a module, say -m nosuch"),
        (["."], "is a folder without a __main__.py"),
        (["-m", "no.such.module"], "is it installed, and is this the right folder?"),
        ([], "name a script, or a module with -m"),
        (["--report", "nowhere/page.html", "x.py"], "there is no folder"),
        (["--report", ".", "x.py"], "is a folder; name a file"),
        (["--trace", "x.py/sub", "x.py"], "name a folder that can be written"),
        (["--backend", "eagr", "x.py"], "Did you mean 'eager'?"),
    ],
)
def test_mistakes(arguments: list[str], text: str, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("print('ran')")
    found = run(["-m", "stator", "run", *arguments], tmp_path)
    assert (found.status, found.output) == (2, "")
    assert text in found.errors
    if arguments:
        assert found.errors.count("\n") == 1


def test_an_interrupt_while_torch_loads_its_parts(tmp_path: Path) -> None:
    """It is the user's, whatever torch makes of it: nobody is asked to report a bug."""
    (tmp_path / "program.py").write_text(INTERRUPTED)
    found = run(["-m", "stator", "run", "program.py"], tmp_path)
    assert found.status == -2, found.errors
    assert "KeyboardInterrupt" in found.errors
    assert "bug" not in found.errors
    assert "report it" not in found.errors


# An import that is interrupted in a place where Python wraps the exception in another one.
INTERRUPTED = """\
import importlib.abc, signal, sys
import torch

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.startswith("torch._functorch") or name.startswith("torch._inductor"):
            sys.meta_path.remove(self)
            class Named:
                def __set_name__(self, owner, name):
                    signal.raise_signal(signal.SIGINT)
            class Wrapping:
                inside = Named()

sys.meta_path.insert(0, Interrupting())

def program(x):
    return torch.relu(x) + 1

torch.compile(program, backend="aot_eager")(torch.ones(3, requires_grad=True))
print("not interrupted")
"""
