"""SKILL.md says nothing that is not so, and the scripts work as it tells."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from stator.diagnostics.catalogue import all_reasons, all_recompile_reasons
from tests.skills.tools import SKILL, script

TEXT: Final = (SKILL / "SKILL.md").read_text()
PROGRAM: Final = """
import time
import torch

def step(x, n):
    y = torch.sin(x)
    time.sleep(0)
    return y * n

def main(step):
    return [step(torch.ones(2), n / 2) for n in (1, 2)]
"""
FIXED: Final = """
import time
import torch

def step(x, n):
    return torch.sin(x) * n

def main(step):
    found = []
    for n in (1, 2):
        time.sleep(0)
        found.append(step(torch.ones(2), torch.tensor(n / 2)))
    return found
"""


def mentioned(prefix: str) -> set[str]:
    """Ids in the text, and those that lie in its ranges."""
    numbers: set[int] = set()
    for first, last in re.findall(rf"{prefix}(\d{{4}})(?:–{prefix}(\d{{4}}))?", TEXT):
        numbers.update(range(int(first), int(last or first) + 1))
    return {f"{prefix}{number:04}" for number in numbers}


def test_front_matter() -> None:
    head = re.match(r"---\nname: (.+)\ndescription: (.+)\n---\n", TEXT)
    assert head is not None
    assert head.group(1) == SKILL.name
    assert len(head.group(2)) <= 1024


def test_it_is_short() -> None:
    assert len(TEXT.split()) < 1200


def test_every_reason_is_mentioned_and_no_other() -> None:
    assert mentioned("SB") == {reason.id for reason in all_reasons()}
    assert mentioned("SR") == {reason.id for reason in all_recompile_reasons()}


def test_files_that_are_mentioned_exist() -> None:
    named = set(re.findall(r"\b(?:scripts|evaluation)/\w+\.\w+", TEXT))
    assert named
    assert all((SKILL / name).is_file() for name in named)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    original, fixed = tmp_path / "original.py", tmp_path / "fixed.py"
    original.write_text(PROGRAM)
    fixed.write_text(FIXED)
    return original, fixed


def run(name: str, *args: object) -> tuple[int, Any, str]:
    """A script as a user calls it: exit status, output as JSON, errors."""
    command = [sys.executable, str(SKILL / "scripts" / name), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return done.returncode, json.loads(done.stdout or "null"), done.stderr


def test_the_scripts_as_commands(files: tuple[Path, Path]) -> None:
    original, fixed = files
    status, found, _ = run("breaks.py", f"{original}::step")
    assert status == 1
    (broken,) = found["breaks"]
    assert (broken["id"], broken["line"], broken["text"]) == ("SB0007", 7, "time.sleep(0)")
    assert not broken["resumed"]
    assert found["graphs"][0] == ["sin"]
    assert found["calls"] == 2
    assert {each["id"] for each in found["recompiles"]} == {"SR0004"}
    assert all(each["fix"] and each["source"] for each in found["recompiles"])
    assert [each["resumed"] for each in found["recompiles"]] == [True]  # n is used there
    status, found, _ = run("check.py", original, fixed)
    assert (status, found["good"]) == (0, True)
    status, found, _ = run("check.py", original, original)
    assert (status, found["good"], found["reason"]) == (1, False, "SB0007")


def test_nothing_to_fix(files: tuple[Path, Path]) -> None:
    found = script("breaks").report(str(files[1]))
    assert found["breaks"] == found["recompiles"] == found["not captured"] == []
    assert found["eager calls"] == 0
    assert found["graphs"] == [["sin", "mul"]]


def test_calls_that_go_another_way(tmp_path: Path) -> None:
    """Under fullgraph=True they run eagerly. What decides is told by both scripts."""
    file = tmp_path / "program.py"
    file.write_text(
        """
import torch

def step(x):
    print("called")
    if x.sum() > 0:
        return x * 2
    return x - 1

def main(step):
    return [step(torch.ones(3) * sign) for sign in (1, -1)]
"""
    )
    found = script("breaks").report(str(file))
    (broken,) = found["breaks"]
    assert (broken["id"], broken["line"]) == ("SB0013", 6)
    verdict = script("check").check(str(file), str(file))
    assert (verdict.eager, verdict.reason) == (1, "SB0013")
    assert f"{file}:6" in verdict.why


def test_what_follows_from_a_break(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(
        """
import time
import torch

def step(x, n):
    time.sleep(0)
    for part in [x] * n:
        x = x + part
        time.sleep(0)
    return x

def main(step):
    return [step(torch.ones(3), n) for n in (1, 2, 3)]
"""
    )
    found = script("breaks").report(str(file))
    places = [(each["line"], each["resumed"]) for each in found["breaks"]]
    assert places[:2] == [(6, False), (9, True)]
    assert all(resumed for _, resumed in places[1:])
    assert found["recompiles"]
    assert all(each["resumed"] for each in found["recompiles"])


def test_a_program_that_raises(tmp_path: Path) -> None:
    """The exception needs the function itself to run: that is no call which the graph misses."""
    file = tmp_path / "program.py"
    file.write_text(
        """
import torch

def step(x, index):
    return x[index] * 2

def main(step):
    step(torch.ones(3), torch.tensor([1]))
    step(torch.ones(3), torch.tensor([5]))
"""
    )
    found = script("breaks").report(str(file))
    assert (found["calls"], found["eager calls"]) == (2, 0)
    assert found["raises"].startswith("IndexError")


def test_a_fix_that_is_right_for_graphs_as_they_are_only() -> None:
    """Results of a graph that a backend has compiled are not computed from each other."""
    case = script("cases").case("keeps_a_gradient")
    moved = case.broken.replace("    hidden.retain_grad()\n", "").replace(
        "    loss.backward()\n", "    hidden.retain_grad()\n    loss.backward()\n"
    )
    verdict = script("evaluate").verdict(case, moved)
    assert not verdict.good
    assert verdict.why.startswith("with the backend aot_eager, not what the original does")


def test_a_failure_of_stator_is_not_the_fault_of_a_fix(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*args: object) -> None:
        raise AssertionError("a mistake")

    monkeypatch.setattr("stator.driver.tracing.trace", fails)
    verdict = script("check").check(str(files[0]), str(files[1]))
    assert not verdict.good
    assert verdict.why.startswith("stator has failed, which is not the program's fault")
    assert "a mistake" in verdict.why


def test_a_step_that_only_changes_its_input(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(
        """
import torch

def step(x):
    x.mul_(2)

def main(step):
    x = torch.randn(3)
    step(x)
    return x
"""
    )
    assert script("check").check(str(file), str(file)).good


def test_arguments_instead_of_main(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(
        "import torch\ndef f(x):\n    return x + 1\nexample_inputs = (torch.ones(2),)\n"
    )
    assert script("breaks").report(f"{file}::f")["graphs"] == [["add"]]


@pytest.mark.parametrize(
    ("text", "target", "told"),
    [
        ("", "missing.py", "there is no file"),
        ("def f(): ...", "program.py", "has no function step. It has: f"),
        ("def step(): ...", "program.py", "needs a function main"),
        ("def step(): ...\ndef main(step): ...", "program.py", "was not called"),
    ],
)
def test_files_that_cannot_be_used(text: str, target: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(text)
    with pytest.raises(script("programs").ProgramError, match=told):
        script("breaks").report(str(tmp_path / target))


def test_tasks_do_not_show_the_fix(tmp_path: Path) -> None:
    evaluate, cases = script("evaluate"), script("cases")
    chosen = [cases.case("time_of_forward"), cases.case("learning_rate_as_a_float")]
    evaluate.start(tmp_path / "work", chosen)
    for case in chosen:
        place = tmp_path / "work" / case.name
        assert {each.name for each in place.iterdir()} == {"program.py", "TASK.md"}
        assert (place / "program.py").read_text() == case.broken
    (tmp_path / "work" / chosen[0].name / "program.py").write_text(chosen[0].fixed)
    found = evaluate.score(tmp_path / "work")
    assert [found[case.name]["good"] for case in chosen] == [True, False]
    assert found[chosen[1].name]["reason"] == "SR0004"


def test_a_program_with_a_mistake_is_judged(tmp_path: Path) -> None:
    case = script("cases").case("time_of_forward")
    verdict = script("evaluate").verdict(case, "def step(:")
    assert not verdict.good
    assert verdict.why.startswith("SyntaxError")


@pytest.mark.parametrize("name", ["no_such_case", "../README"])
def test_an_unknown_case(name: str) -> None:
    with pytest.raises(script("cases").CaseError):
        script("cases").case(name)
