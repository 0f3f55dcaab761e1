"""The evaluation set: each program is broken as it says, its fix is accepted, cheats are not."""

from collections import Counter
from typing import Any, Final

import pytest

from stator.diagnostics.catalogue import all_reasons, all_recompile_reasons
from tests.skills.tools import script

evaluate: Final = script("evaluate")
CASES: Final[list[Any]] = script("cases").all_cases()
EACH: Final = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)

DUMMY: Final = """
import torch
_main, _step = main, step
def step(x):
    for _ in range(40):
        x = x + 1
    return x
"""
CHEATS: Final = {
    "disabled": """
import stator
step = stator.disable(step)
""",
    "compiled, not called": """
_main, _step = main, step
def main(compiled):
    return _main(_step)
""",
    "eager where it fails": """
_main, _step = main, step
def main(compiled):
    def call(*args, **kwargs):
        try:
            return compiled(*args, **kwargs)
        except RuntimeError:
            return _step(*args, **kwargs)
    return _main(call)
""",
    "something else is compiled": f"""{DUMMY}
def main(compiled):
    compiled(torch.ones(2))
    return _main(_step)
""",
    "always the same": f"""{DUMMY}
def main(compiled):
    compiled(torch.ones(2))
    torch.manual_seed(1)
    return _main(_step)
""",
    "no work": """
def step(x):
    return x
def main(compiled):
    return compiled(0)
""",
}


@EACH
def test_the_program_is_broken(case: Any) -> None:
    verdict = evaluate.verdict(case, case.broken)
    assert not verdict.good
    assert verdict.reason == case.reason, verdict.why


@EACH
def test_the_fix_is_accepted(case: Any) -> None:
    verdict = evaluate.verdict(case, case.fixed)
    assert verdict.good, verdict.why
    assert verdict.compiles == case.compiles
    assert all(case.ops <= len(graph) for graph in verdict.graphs)


@pytest.mark.parametrize(
    ("case", "cheat"),
    [
        # Each case with one of them, each of them with many cases.
        pytest.param(case, cheat, id=f"{case.name}-{cheat}")
        for number, case in enumerate(CASES)
        for cheat in [list(CHEATS)[number % len(CHEATS)]]
    ],
)
def test_a_cheat_is_rejected(case: Any, cheat: str) -> None:
    verdict = evaluate.verdict(case, case.broken + CHEATS[cheat])
    assert not verdict.good
    assert verdict.why


def test_there_are_enough() -> None:
    assert len(CASES) >= 60


def test_every_reason_has_a_case() -> None:
    counted = Counter(case.reason for case in CASES)
    known = {reason.id for reason in all_reasons()} | {
        reason.id for reason in all_recompile_reasons()
    }
    assert set(counted) <= known
    missing = known - set(counted)
    assert not missing, f"write a case for each of them in evaluation/cases: {sorted(missing)}"
