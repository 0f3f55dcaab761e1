"""Inductor tries the best instruction set, and takes the lesser ones for granted."""

import pytest

from stator.backends import vector_instructions
from stator.torchlib import inductor as torch_inductor


class Set:
    """A set of instructions, as Inductor has them: what is built is noted."""

    def __init__(self, name: str, builds: dict[str, bool], tried: list[tuple[str, str]]) -> None:
        self.name, self.builds, self.tried = name, builds, tried

    def check_build(self, code: str) -> bool:
        self.tried.append((self.name, code))
        return self.builds.get(code, False)


def checked(
    monkeypatch: pytest.MonkeyPatch, *builds: dict[str, bool]
) -> tuple[list[tuple[str, str]], list[list[bool]]]:
    """What is tried, and the answers for two pieces of code, set by set."""
    tried: list[tuple[str, str]] = []
    sets = [Set(str(number), each, tried) for number, each in enumerate(builds)]
    monkeypatch.setattr(torch_inductor, "instruction_sets", lambda: sets)
    vector_instructions.try_each_once()
    vector_instructions.try_each_once()  # as before each graph
    return tried, [[each.check_build(code) for code in ("plain", "bf16")] for each in sets]


WORKS = {"plain": True, "bf16": True}


def test_what_the_best_set_builds_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, answers = checked(monkeypatch, WORKS, WORKS, WORKS)
    assert tried == [("0", "plain"), ("0", "bf16")]
    assert answers == [[True, True]] * 3


def test_what_it_does_not_build_is_tried_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    tried, answers = checked(monkeypatch, {}, {"plain": True}, WORKS)
    assert tried == [
        ("0", "plain"), ("0", "bf16"), ("1", "plain"), ("1", "bf16"), ("2", "bf16"),
    ]  # fmt: skip
    assert answers == [[False, False], [True, False], [True, True]]


def test_inductor_has_such_sets_the_best_first() -> None:
    sets = torch_inductor.instruction_sets()
    widths = [each.bit_width() for each in sets if "avx" in str(each)]
    assert widths == sorted(widths, reverse=True) and len(widths) >= 2
    assert all(callable(each.check_build) for each in sets)
