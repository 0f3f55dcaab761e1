"""The measuring program is measured too: its verdicts on engines that misbehave, its lists."""

import os
import signal
import time
from pathlib import Path
from typing import Any, Final

import pytest

from tests.conformance import known, results
from tests.conformance.__main__ import main
from tests.conformance.engines import Function
from tests.conformance.modules import exists, resolve

pytestmark = pytest.mark.skipif(
    not exists("test.test_dict"), reason="this Python comes without its test suite"
)
HERE: Final = __name__
MODULE: Final = "test_dictcomps"
TEST: Final = "DictComprehensionTest.test_basics"
KEY: Final = f"{MODULE}::{TEST}"


def in_place_of_one_test(fn: Function, instead: Function) -> Function:
    """Misbehave in one test only, so that the others show what it costs."""
    return instead if getattr(fn, "__name__", "") == "test_basics" else fn


def crashing(fn: Function, *, fullgraph: bool, backend: str) -> Function:
    return in_place_of_one_test(fn, lambda: os.kill(os.getpid(), signal.SIGKILL))


def sleeping(fn: Function, *, fullgraph: bool, backend: str) -> Function:
    return in_place_of_one_test(fn, lambda: time.sleep(60))


def failing(fn: Function, *, fullgraph: bool, backend: str) -> Function:
    def fail() -> None:
        raise ValueError("wrong\nanswer")

    return in_place_of_one_test(fn, fail)


failing.captures = False  # type: ignore[attr-defined]


class Unverified:
    """Does the right thing, but not through the compiled path."""

    def __call__(self, fn: Function, *, fullgraph: bool, backend: str) -> Function:
        return fn

    def verify(self, fn: Function, compiled: Function) -> str:
        return "ran natively"


def run(tmp_path: Path, engine: str, *options: str) -> tuple[int, dict[str, Any]]:
    """The exit code, and the outcomes of MODULE."""
    out = tmp_path / "out.json"
    arguments = ["--engine", engine, "--out", str(out), "--logs", str(tmp_path / "logs"), MODULE]
    code = main([*arguments, *options])
    return code, results.read(out)["modules"].get(MODULE, {})


def statuses(outcomes: dict[str, Any]) -> set[str]:
    return {outcome["status"] for outcome in outcomes.values()}


def test_eager_passes_everything(tmp_path: Path) -> None:
    code, outcomes = run(tmp_path, "eager", "--min-rate", "100")
    assert code == 0
    assert len(outcomes) > 5
    assert statuses(outcomes) == {"pass"}


@pytest.mark.parametrize("engine", ["broken", f"{HERE}:Unverified"])
def test_scores_nothing(tmp_path: Path, engine: str) -> None:
    code, outcomes = run(tmp_path, engine, "--min-rate", "1")
    assert code == 1
    assert statuses(outcomes) == {"fail"}


def test_probes_flag_an_engine_that_swallows_tests(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, outcomes = run(tmp_path, "tests.conformance.controls:noop", "--min-rate", "1")
    assert statuses(outcomes) == {"pass"}
    assert code == 1
    assert "do not believe these passes" in capsys.readouterr().out


def test_a_mutant_shows_that_assertions_run(tmp_path: Path) -> None:
    _, outcomes = run(tmp_path, "tests.conformance.controls:EagerMutant")
    assert statuses(outcomes) == {"fail"}


@pytest.mark.parametrize(
    ("engine", "status"), [("crashing", "crash"), ("sleeping", "timeout"), ("failing", "fail")]
)
def test_a_bad_test_costs_one_test(tmp_path: Path, engine: str, status: str) -> None:
    _, outcomes = run(tmp_path, f"{HERE}:{engine}", "--timeout", "0.2")
    assert outcomes.pop(TEST)["status"] == status
    assert statuses(outcomes) == {"pass"}


def test_redo_and_resume(tmp_path: Path) -> None:
    run(tmp_path, f"{HERE}:failing")
    _, outcomes = run(tmp_path, "broken", "--resume")
    assert statuses(outcomes) == {"pass", "fail"}, "nothing was left to run"
    _, outcomes = run(tmp_path, "eager", "--redo", "fail")
    assert statuses(outcomes) == {"pass"}


def test_a_module_this_python_lacks_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.conformance.supervisor.resolve", lambda name: None)
    code, outcomes = run(tmp_path, "eager", "--known", str(write_list(tmp_path)))
    assert (code, outcomes) == (0, {})


def test_moved_modules_are_found() -> None:
    assert resolve("unittest.test.test_case") in (
        "unittest.test.test_case",
        "test.test_unittest.test_case",
    )
    assert resolve("no_such_module") is None


def test_an_unknown_module_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--engine", "eager", "test_dcit"])
    assert "test_dcit" in capsys.readouterr().err


# ---- lists of known failures


def test_a_reason_names_no_machine() -> None:
    error = "<frame at 0x7f09, file '/usr/lib/python3.11/test/test_frame.py'> is not 1/2 a/b"
    expected = "<frame at 0x..., file 'test_frame.py'> is not 1/2 a/b"
    outcome = results.Outcome(status="fail", error=error)
    run = results.Results(engine="", meta={}, modules={MODULE: {TEST: outcome}})
    assert known.compare(run, {}, whole_modules=True).regressions == {KEY: expected}


def write_list(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "known.txt"
    path.write_text("# a comment\n\n" + "".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("engine", "lines", "code"),
    [
        ("eager", [], 0),
        ("eager", [f"{KEY}  # reason"], 1),
        ("eager", [f"{KEY}  # flaky: reason"], 0),
        ("eager", [f"{MODULE}::Gone.test  # reason"], 1),
        ("eager", ["test_other::Test.test  # reason"], 0),
        ("eager", [KEY], 2),
        ("eager", [f"{KEY}  # reason"] * 2, 2),
        (f"{HERE}:failing", [], 1),
        (f"{HERE}:failing", [f"{KEY}  # reason"], 0),
        (f"{HERE}:failing", [f"{KEY}  # flaky: reason"], 0),
    ],
)
def test_a_list_is_exact(tmp_path: Path, engine: str, lines: list[str], code: int) -> None:
    assert run(tmp_path, engine, "--known", str(write_list(tmp_path, *lines)))[0] == code


def test_a_list_is_brought_up_to_date(tmp_path: Path) -> None:
    path = write_list(
        tmp_path,
        "test_other::Test.test  # kept: its module was not run",
        f"{MODULE}::DictComprehensionTest.test_evaluation_order  # dropped: it passes",
        f"{MODULE}::Gone.test  # dropped: it does not exist",
    )
    run(tmp_path, f"{HERE}:failing", "--write-known", str(path))
    assert known.read(path) == {
        entry.test: entry
        for entry in (
            known.Known(KEY, "ValueError: wrong"),
            known.Known("test_other::Test.test", "kept: its module was not run"),
        )
    }
    assert run(tmp_path, f"{HERE}:failing", "--known", str(path))[0] == 0


def test_a_reason_is_kept(tmp_path: Path) -> None:
    path = write_list(tmp_path, f"{KEY}  # the real reason")
    run(tmp_path, f"{HERE}:failing", "--write-known", str(path))
    assert known.read(path)[KEY].reason == "the real reason"
