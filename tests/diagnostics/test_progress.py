"""Progress on a terminal, which is a pty here, and nowhere else."""

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import stator
from stator.diagnostics import progress

pty = pytest.importorskip("pty")

X = torch.ones(2)


class Screen:
    """A terminal in place of standard error; what arrives is collected."""

    def __init__(self) -> None:
        self._reader, writer = pty.openpty()
        self.stream = os.fdopen(writer, "w")
        self._data = b""
        self._thread = threading.Thread(target=self._collect)
        self._thread.start()

    def _collect(self) -> None:
        try:
            while data := os.read(self._reader, 4096):
                self._data += data
        except OSError:  # the other end is closed
            pass

    def close(self) -> str:
        self.stream.close()
        self._thread.join(10)
        os.close(self._reader)
        return self._data.decode()


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """What a call writes to the terminal."""
    monkeypatch.setattr(progress, "_PATIENCE", 0.05)
    monkeypatch.setattr(progress, "_PERIOD", 0.01)
    monkeypatch.delenv("TERM", raising=False)

    def shown(call: Callable[[], Any]) -> str:
        screen = Screen()
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stderr", screen.stream)
            patched.setattr(sys, "__stderr__", screen.stream)
            try:
                call()
            finally:
                text = screen.close()
        return text

    with stator.config.patch(progress=True):
        yield shown


def slow(module: Any, inputs: Any) -> Any:
    time.sleep(0.3)
    return module.forward


def program(x: torch.Tensor) -> torch.Tensor:
    for _ in range(1500):
        x = x + 1
    return x


def compile_it() -> None:
    assert torch.equal(stator.compile(program, backend=slow)(X), X + 1500)


def visible(text: str) -> str:
    """What is left on the line."""
    return text.rpartition("\r\x1b[K")[2].strip()


def test_stages(shown: Any) -> None:
    text = shown(compile_it)
    line = program.__code__.co_firstlineno
    assert f"stator: program (test_progress.py:{line}): tracing, " in text
    assert " ops, " in text
    assert re.search(rf"stator: program \(test_progress.py:{line}\): backend slow, \d+ s", text)
    assert visible(text) == ""


def test_quick_ones_have_none(shown: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_PATIENCE", 60.0)
    assert shown(compile_it) == ""


def test_switched_off(shown: Any) -> None:
    with stator.config.patch(progress=False):
        assert shown(compile_it) == ""


def test_terminals_that_cant(shown: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert shown(compile_it) == ""


def test_not_without_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with stator.config.patch(progress=True):
        assert progress._terminal() is None
        compile_it()
    assert capfd.readouterr().err == ""


def test_erased_after_errors(shown: Any) -> None:
    def failing(module: Any, inputs: Any) -> Any:
        time.sleep(0.2)
        raise ZeroDivisionError

    def call() -> None:
        with pytest.raises(stator.BackendError):
            stator.compile(program, backend=failing)(X)

    text = shown(call)
    assert "backend failing" in text
    assert visible(text) == ""
    assert progress._line is None


def test_logs_stand_on_lines_of_their_own(shown: Any) -> None:
    def call() -> None:
        stator.set_logs("bytecode")
        try:
            compile_it()
        finally:
            stator.set_logs()

    text = shown(call)
    before, found, _ = text.partition("[stator.bytecode]")
    assert found
    assert visible(before) in ("", "\x1b[36m")


def test_long_lines_are_cut(shown: Any) -> None:
    name = "f" * 200
    text = shown(lambda: stator.compile(program, backend=slow, name=name)(X))
    lines = text.split("\r\x1b[K")
    assert any(line.endswith("…") for line in lines)
    assert max(map(len, lines)) < 80


def test_the_program_does_not_see_it(shown: Any) -> None:
    """Neither when it is traced nor when it runs."""
    seen = []

    def backend(module: Any, inputs: Any) -> Any:
        seen.append((threading.active_count(), len(threading.enumerate())))
        return slow(module, inputs)

    def call() -> None:
        wanted = threading.active_count(), len(threading.enumerate())
        stator.compile(program, backend=backend)(X)
        assert seen == [wanted]

    assert "backend backend" in shown(call)


def test_compiles_inside_of_compiles_and_other_threads(shown: Any) -> None:
    def backend(module: Any, inputs: Any) -> Any:
        assert torch.equal(stator.compile(lambda x: x + 2, backend=slow)(X), X + 2)
        return slow(module, inputs)

    def call() -> None:
        threads = [
            threading.Thread(target=lambda: stator.compile(program, backend=backend)(X))
            for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    text = shown(call)
    assert "stator: program (" in text
    assert visible(text) == ""
    assert progress._line is None


def test_a_child_of_a_compile(shown: Any) -> None:
    """A process that is forked while the line is shown ends as if there were none."""

    def backend(module: Any, inputs: Any) -> Any:
        time.sleep(0.1)
        child = os.fork()
        if child == 0:
            with progress.aside():
                pass
            progress._line.end()  # type: ignore[union-attr]
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        return module.forward

    shown(lambda: stator.compile(program, backend=backend)(X))


def test_environment() -> None:
    program = "import stator; print(stator.config.progress)"
    for value, wanted in (("0", "False"), ("1", "True")):
        output = subprocess.check_output(
            [sys.executable, "-c", program],
            env={**os.environ, "STATOR_PROGRESS": value},
            text=True,
            timeout=60,
        )
        assert output.strip() == wanted
