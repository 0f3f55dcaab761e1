"""`stator run`: a program written for torch.compile, on stator, and a summary at its end.

In: a script or module and its arguments. Out: what the program itself prints and its exit status;
on standard error, at the very end, what was compiled. With `--report` a page as well, with
`--trace` all events.
"""

import argparse
import atexit
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from stator.cli import children, files
from stator.cli.errors import UsageError
from stator.cli.program import Program
from stator.diagnostics import journal


def main(given: argparse.Namespace) -> int:
    program = (Program.named if given.module else Program.script)(given.program)
    report = None if given.report is None else files.writable(given.report)
    if given.trace is not None:
        os.environ[journal.VARIABLE] = str(files.folder(given.trace))
    ending = _Ending(report, quiet=given.quiet)
    atexit.register(ending)  # before anything else: it runs last
    options = {"backend": given.backend, "fullgraph": given.fullgraph}
    try:
        _install(options)
        children.follow(options)
        return program.run()
    except KeyboardInterrupt:
        ending.interrupted()
        raise
    except UsageError:
        atexit.unregister(ending)  # nothing has run
        raise


def _install(options: dict[str, Any]) -> None:
    try:
        install: Callable[..., None] = import_module("stator.dropin.switch").install
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        raise UsageError("torch is not installed here; `pip install torch`") from None
    try:
        install(**options)
    except LookupError as unknown:
        raise UsageError(str(unknown)) from None


class _Ending:
    """Collects what happens, and tells it at the end."""

    def __init__(self, report: Path | None, *, quiet: bool) -> None:
        self._report = report
        self._quiet = quiet
        self._interrupted = False
        self._process = os.getpid()
        self._events: list[journal.Event] = []
        if report is not None or not quiet:
            journal.listen(self._events.append)

    def interrupted(self) -> None:
        self._interrupted = True

    def __call__(self) -> None:
        if os.getpid() != self._process:
            return  # a process that was forked, and left by sys.exit
        with suppress(Exception):
            sys.stdout.flush()
        self._events.insert(0, journal.header())
        if not self._quiet:
            import_module("stator.cli.summary").show(self._events)
        if self._report is not None:
            self._write(self._report)
        if self._interrupted:
            # Python ends by the signal if the last code that it has run from a text has left so;
            # modules that were loaded here may have run some since.
            with suppress(KeyboardInterrupt):
                exec("raise KeyboardInterrupt")

    def _write(self, path: Path) -> None:
        try:
            import_module("stator.report").build(self._events, path)
        except OSError as error:
            print(f"stator run: {path}: {error.strerror}; no report", file=sys.stderr)
        else:
            print(f"stator: the report is {path}", file=sys.stderr)
