"""Forked children that do one job and leave its result in a file."""

import contextlib
import ctypes
import json
import os
import signal
import tempfile
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn, TypeVar

Name = TypeVar("Name")

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Linux: a killed run leaves no workers behind."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def fork(body: Callable[[], object]) -> int:
    """Run ``body`` in a forked child, which exits 0 if it returned; gives the child's pid."""
    pid = os.fork()
    if pid == 0:
        _run_and_exit(body)
    return pid


def _run_and_exit(body: Callable[[], object]) -> NoReturn:
    code = 1
    try:
        die_with_parent()
        body()
        code = 0
    except BaseException:
        with contextlib.suppress(BaseException):
            traceback.print_exc()
    finally:
        os._exit(code)


def how_it_ended(status: int) -> str:
    """A wait status in words."""
    code = os.waitstatus_to_exitcode(status)
    return f"exit {code}" if code >= 0 else f"signal {-code}"


def in_children(
    jobs: int, work: Iterable[tuple[Name, Callable[[], Any]]]
) -> Iterator[tuple[Name, Any]]:
    """Run each job in a forked child, at most ``jobs`` at a time.

    Yields (name, the JSON-able value the job returned) as they finish; None for a child that died.
    """
    todo = iter(work)
    running: dict[int, tuple[Name, str]] = {}
    with tempfile.TemporaryDirectory(prefix="conformance_") as folder:
        while True:
            while len(running) < jobs and (job := next(todo, None)) is not None:
                name, body = job
                path = os.path.join(folder, f"{len(os.listdir(folder))}.json")
                open(path, "w").close()
                running[fork(lambda: _save(body, path))] = name, path  # noqa: B023
            if not running:
                return
            pid, _ = os.wait()
            if pid in running:
                name, path = running.pop(pid)
                yield name, _load(path)


def _save(body: Callable[[], Any], path: str) -> None:
    value = body()
    with open(path, "w") as file:
        json.dump(value, file)


def _load(path: str) -> Any:
    with open(path) as file:
        text = file.read()
    return json.loads(text) if text else None
