"""`stator run`: a program written for torch.compile, on stator, and a summary at its end.

In: a script or module and its arguments. Out: what the program itself prints and its exit status;
on standard error, at the very end, what was compiled, by all processes. With `--report` a page as
well, with `--trace` all events.
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
from stator.cli.errors import NO_TORCH, UsageError
from stator.cli.processes import Ranks, Together, tell_the_end
from stator.cli.program import Program
from stator.diagnostics import journal
from stator.torchlib.loading import loaded


def main(given: argparse.Namespace) -> int:
    program = (Program.named if given.module else Program.script)(given.program)
    report = None if given.report is None else files.writable(given.report)
    if given.trace is not None:
        os.environ[journal.VARIABLE] = str(files.folder(given.trace))
    ending = _Ending(report, quiet=given.quiet, editor=given.editor, ranks=Ranks.of_environment())
    atexit.register(ending)  # before anything else: it runs last
    options = {"backend": given.backend, "fullgraph": given.fullgraph}
    try:
        _install(options)
        children.follow(options, ending.folder)
        return program.run()
    except KeyboardInterrupt:
        ending.interrupted()
        raise
    except UsageError:
        atexit.unregister(ending)  # nothing has run
        ending.forget()
        raise


def _install(options: dict[str, Any]) -> None:
    try:
        install: Callable[..., None] = loaded("stator.dropin.switch").install
    except ModuleNotFoundError as missing:
        if missing.name != "torch":
            raise
        raise UsageError(NO_TORCH) from None
    try:
        install(**options)
    except LookupError as unknown:
        raise UsageError(str(unknown)) from None


class _Ending:
    """Collects what happens, and tells it at the end."""

    def __init__(
        self, report: Path | None, *, quiet: bool, editor: str | None, ranks: Ranks | None
    ) -> None:
        self._report = report
        self._editor = editor
        self._quiet = quiet
        self._ranks = ranks
        self._interrupted = False
        self._process = os.getpid()
        self._together: Together | None = None
        if report is not None or not quiet:
            self._together = Together()
            journal.listen(self._together)

    @property
    def folder(self) -> str | None:
        """Where the processes that the program starts leave what they have to tell."""
        return None if self._together is None else self._together.folder

    def forget(self) -> None:
        """There is nothing to tell."""
        if self._together is not None:
            self._together.all()

    def interrupted(self) -> None:
        self._interrupted = True

    def __call__(self) -> None:
        if os.getpid() != self._process:
            tell_the_end()  # a process that was forked, and left by sys.exit
            return
        with suppress(Exception):
            sys.stdout.flush()
        if self._together is not None:
            self._tell(self._together.all())
        if self._interrupted:
            # Python ends by the signal if the last code that it has run from a text has left so;
            # modules that were loaded here may have run some since.
            with suppress(KeyboardInterrupt):
                exec("raise KeyboardInterrupt")

    def _tell(self, events: list[journal.Event]) -> None:
        """Shows the events, or leaves them to the rank that shows those of all."""
        missing = 0
        if self._ranks is not None:
            if not self._ranks.shows:
                self._ranks.leave(events)
                return
            others, missing = self._ranks.others(hurry=self._interrupted)
            events += others
        if not self._quiet:
            import_module("stator.cli.summary").show(events)
        if missing:
            print(
                f"stator: {missing} of the other ranks had not ended: without them", file=sys.stderr
            )
        if self._report is not None:
            self._write(self._report, events)

    def _write(self, path: Path, events: list[journal.Event]) -> None:
        try:
            import_module("stator.report").build(events, path, editor=self._editor)
        except OSError as error:
            print(f"stator run: {path}: {error.strerror}; no report", file=sys.stderr)
        else:
            print(f"stator: the report is {path}", file=sys.stderr)
