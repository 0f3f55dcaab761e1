"""The catalogue of reasons for recompiles: complete, and its examples do what their page says."""

import linecache
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

import stator
from stator.diagnostics import catalogue
from stator.diagnostics.catalogue.pages import recompiles_document, render
from stator.diagnostics.catalogue.recompiles import (
    RecompileReason,
    all_recompile_reasons,
    reason_of,
    recompile_reason,
)
from stator.diagnostics.recompiles import Cause
from tests.capture.harness import Recording

ROOT = Path(__file__).parents[2]
REASONS = all_recompile_reasons()
EACH = pytest.mark.parametrize("reason", REASONS, ids=lambda reason: f"{reason.id}_{reason.cause}")


def test_numbers_are_unique_and_in_order() -> None:
    assert [reason.id for reason in REASONS] == [f"SR{n + 1:04}" for n in range(len(REASONS))]


def test_the_documentation_is_up_to_date() -> None:
    """If not: `python -m stator.diagnostics.catalogue recompiles > docs/recompile_reasons.md`."""
    assert (ROOT / "docs" / "recompile_reasons.md").read_text() == recompiles_document(REASONS)


def test_every_cause_has_a_reason() -> None:
    assert [reason.cause for reason in REASONS] == list(Cause)
    assert all(reason_of(cause).cause is cause for cause in Cause)


@EACH
def test_texts(reason: RecompileReason) -> None:
    for text in (reason.title, reason.what, reason.why, reason.more):
        assert text.strip()
    assert len(reason.title) <= 100
    assert not reason.title.endswith(".")
    assert reason.example != reason.fixed
    page = catalogue.page(reason.id)
    assert page == render(reason)
    assert page.startswith(f"# {reason.id}: {reason.title}\n")
    assert reason.example in page
    assert reason.fixed in page


@pytest.mark.parametrize("spelling", ["SR0004", "sr0004", "sr4", " SR4 "])
def test_lookup(spelling: str) -> None:
    assert recompile_reason(spelling).cause is Cause.NUMBER


@pytest.mark.parametrize("spelling", ["", "SR", "SR0000", "SR9999", "SB0004"])
def test_lookup_of_what_is_not_there(spelling: str) -> None:
    with pytest.raises(KeyError, match="there is no reason"):
        recompile_reason(spelling)


class Run:
    """The calls of an example: with the program as it is, and compiled."""

    def __init__(self, reason: RecompileReason, source: str) -> None:
        file = f"<{reason.id}>"
        linecache.cache[file] = len(source), None, source.splitlines(True), file
        expected = self._results(self._names(source, file), compiled=False)
        self.backend = Recording()
        found = self._results(self._names(source, file), compiled=True)
        assert len(expected) == len(found) >= 2
        for one, other in zip(tree_leaves(expected), tree_leaves(found), strict=True):
            assert type(one) is type(other)
            assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other

    def _names(self, source: str, file: str) -> dict[str, Any]:
        torch.manual_seed(0)
        names: dict[str, Any] = {"__name__": "example"}
        exec(compile(source, file, "exec"), names)
        return names

    def _results(self, names: dict[str, Any], compiled: bool) -> list[Any]:
        call = names["program"]
        if compiled:
            options = names.get("options", {})
            self.compiled = call = stator.compile(
                call, backend=self.backend, fullgraph=True, **options
            )
        results = []

        def noting(*args: Any) -> Any:
            results.append(call(*args))
            return results[-1]

        names["calls"](noting)
        return results


@EACH
def test_the_example_is_compiled_again_for_this_reason(reason: RecompileReason) -> None:
    run = Run(reason, reason.example)
    assert stator.testing.count(run.compiled).compiles >= 2
    for why in stator.testing.recompiles(run.compiled):
        assert why.closest is not None
        assert why.closest.cause is reason.cause, str(why)


@EACH
def test_the_fixed_version_is_compiled_once(reason: RecompileReason) -> None:
    run = Run(reason, reason.fixed)
    assert stator.testing.count(run.compiled).compiles == 1
    assert len(run.backend.graphs) == 1
