"""The innermost process: runs the tests of one module through an engine.

In: test cases and an engine. Out: a stream of JSON lines, one per event, on a pipe: a test's
``start`` and ``end``, a broken class or module ``fixture``, and ``done``.
"""

import collections
import contextlib
import doctest
import inspect
import json
import os
import resource
import signal
import time
import unittest
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any, NoReturn

from tests.conformance.engines import Engine

WALL_FACTOR = 3.0
TAINTED = 77  # exit status of a worker that stopped after a timeout
_NOT_REAL_TESTS = ("_FailedTest", "_ErrorHolder", "ModuleSkipped")
_DETAIL_MARKS = ("Explanation:", "Developer debug context:", "- ")


@dataclass(frozen=True)
class Case:
    """A test and the name under which it is reported."""

    id: str
    test: unittest.TestCase


class TestTimeout(BaseException):
    """Raised inside a test that used up its time."""


class NotCompiledError(Exception):
    """A test returned, but not through the compiled path."""


def collect(module: ModuleType) -> list[Case]:
    """The module's tests with unique, stable ids; doctests are left out."""
    cases = []
    seen: collections.Counter[str] = collections.Counter()
    home = module.__name__.rpartition(".")[2]
    for test in _flatten(unittest.TestLoader().loadTestsFromModule(module)):
        if isinstance(test, doctest.DocTestCase) or not hasattr(test, "_testMethodName"):
            continue
        cls = type(test)
        if cls.__name__ in _NOT_REAL_TESTS:
            continue
        name = f"{cls.__qualname__}.{test._testMethodName}"
        origin = cls.__module__.rpartition(".")[2]
        if origin != home:
            name = f"{origin}.{name}"
        seen[name] += 1
        if seen[name] > 1:
            name = f"{name}#{seen[name]}"
        cases.append(Case(name, test))
    return cases


def _flatten(suite: unittest.BaseTestSuite) -> Iterator[unittest.TestCase]:
    for test in suite:
        if isinstance(test, unittest.BaseTestSuite):
            yield from _flatten(test)
        else:
            yield test


def work(fd: int, cases: Sequence[Case], engine: Engine, timeout: float, memory: int) -> None:
    """Body of a worker process: run the cases in order and report on ``fd``."""

    def on_alarm(signum: int, frame: FrameType | None) -> NoReturn:
        raise TestTimeout(f"timeout after {timeout:g}s")

    signal.signal(signal.SIGALRM, on_alarm)
    signal.signal(signal.SIGPROF, on_alarm)
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (memory, hard))
    engine.shims()
    recorder = Recorder(fd, timeout, {id(case.test): case.id for case in cases})
    _LateSuite([case.test for case in cases], engine).run(recorder)
    recorder.send(ev="done")


class _LateSuite(unittest.TestSuite):
    """A TestSuite (class and module fixtures included) that compiles each test just before it."""

    _cleanup = False

    def __init__(self, tests: Sequence[unittest.TestCase], engine: Engine) -> None:
        super().__init__()
        self._late, self._engine = tests, engine

    def __iter__(self) -> Iterator[unittest.TestCase]:
        for test in self._late:
            _install(test, self._engine)
            yield test


def _install(test: unittest.TestCase, engine: Engine) -> None:
    """Replace the bound test method of one instance by its compiled form."""
    method = getattr(test, test._testMethodName)

    def check(compiled: Any) -> None:
        if reason := engine.verify(method, compiled):
            raise NotCompiledError(reason)

    def run() -> None:
        engine.before_test()
        compiled = engine.compile(method)
        result = compiled()
        check(compiled)
        if inspect.isawaitable(result):
            raise NotCompiledError("returned an awaitable nobody awaited")

    async def run_async() -> Any:
        engine.before_test()
        compiled = engine.compile(method)
        result = await compiled()
        check(compiled)
        return result

    replacement = run_async if inspect.iscoroutinefunction(method) else run
    setattr(test, test._testMethodName, replacement)


class Recorder(unittest.TestResult):
    """Streams one JSON line per event to the supervising process."""

    def __init__(self, fd: int, timeout: float, ids: Mapping[int, str]) -> None:
        super().__init__()
        self._fd, self._timeout, self._ids = fd, timeout, ids
        self._status: str | None = None
        self._error: str | None = None
        self._detail = ""
        self._began = 0.0

    def send(self, **message: Any) -> None:
        os.write(self._fd, (json.dumps(message) + "\n").encode())

    def _arm(self, timeout: float) -> None:
        # The budget is CPU time, so that a busy machine does not change the verdict; WALL_FACTOR
        # times as much wall-clock time is the backstop (sleeps, deadlocks).
        signal.setitimer(signal.ITIMER_PROF, timeout, 2.0)
        signal.setitimer(signal.ITIMER_REAL, WALL_FACTOR * timeout, 2.0)

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().startTest(test)
        self._status = self._error = None
        self._detail = ""
        self._began = time.monotonic()
        self.send(ev="start", id=self._ids[id(test)])
        self._arm(self._timeout)

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        self._arm(0)
        self.send(
            ev="end",
            id=self._ids[id(test)],
            status=self._status or "fail",
            error=self._error,
            detail=self._detail,
            t=round(time.monotonic() - self._began, 3),
        )
        if self._status == "timeout":
            os._exit(TAINTED)  # who knows what was interrupted: a fresh worker carries on
        super().stopTest(test)

    def _note(self, status: str, text: str | None = None) -> None:
        if self._status not in ("fail", "timeout"):
            self._status, self._error = status, text

    def _note_error(self, error: BaseException | None) -> None:
        if self._status in ("fail", "timeout") or error is None:
            return
        timeout = next((e for e in _chain(error) if isinstance(e, TestTimeout)), None)
        self._status = "timeout" if timeout else "fail"
        self._error, self._detail = describe(timeout or error)

    def addSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        self._note("pass")

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        if id(test) in self._ids:
            self._note_error(err[1])
        else:  # a stand-in for a class or module fixture
            self.send(ev="fixture", error=describe(err[1])[0])

    addFailure = addError  # noqa: N815

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        if id(test) in self._ids:
            self._note("skip", f"skipped: {reason}")

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        self._note("xfail", "expected failure")

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        self._note("fail", "unexpected success")

    def addSubTest(  # noqa: N802
        self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any
    ) -> None:
        if err is not None:
            self._note_error(err[1])


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The exception and what it came from, each once."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def describe(error: BaseException) -> tuple[str, str]:
    """(first line, detail): torch puts the kind on line 1, explanation and context below."""
    try:
        text = str(error)
    except BaseException:
        text = "<unprintable>"
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if lines and lines[0].startswith("Dynamo failed to run FX node"):
        lines = [lines[0].split(":")[0], *lines]
    first = f"{type(error).__name__}: {lines[0] if lines else ''}"
    detail = " | ".join(line for line in lines[1:] if line.startswith(_DETAIL_MARKS))
    return first[:300], detail[:500]
