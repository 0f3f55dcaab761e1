"""The examples of the catalogue do what their page says.

`example` can't be captured, for the reason that it is an example of, and does what eager does
nevertheless; `fixed` is captured.
"""

import linecache
import random
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import stator
from stator.diagnostics.breaks import Break
from stator.diagnostics.catalogue import all_reasons
from tests.capture.harness import Program, Recording, call

REASONS = [pytest.param(reason, id=f"{reason.id}_{reason.__name__}") for reason in all_reasons()]


@pytest.fixture(autouse=True)
def settings() -> Iterator[None]:
    """Some examples leave settings of stator, torch or Python changed: that is what they show."""
    budget = stator.config.trace_budget
    dtype, filters, state = torch.get_default_dtype(), warnings.filters[:], random.getstate()
    yield
    torch.set_default_dtype(dtype)
    warnings.filters[:] = filters  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]
    random.setstate(state)
    stator.config.trace_budget = budget


def program(reason: type[Break], source: str) -> Program:
    """A program of a page, as if it were a file."""
    file = f"<{reason.id}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    names: dict[str, Any] = {"__name__": reason.id}
    exec(compile(source, file, "exec"), names)
    return Program("program", names["program"], names["arguments"], backward=False)


@pytest.mark.parametrize("reason", REASONS)
def test_the_example_breaks_for_this_reason(reason: type[Break]) -> None:
    example = program(reason, reason.example)
    compiled = stator.compile(example.fn, backend="eager", fullgraph=True)
    with pytest.raises(stator.CaptureError) as caught:
        compiled(*example.given(1).args)
    error = caught.value
    assert error.id == reason.id, str(error)
    assert error.places[0].file == f"<{reason.id}>"
    lines = str(error).splitlines()
    assert lines[-1] == f"  [{reason.id}] {reason.title}"
    assert lines[-2] == f"  fix: {error.hint}"
    assert len(lines) <= 12
    assert all(len(line) < 250 for line in lines)


@pytest.mark.parametrize("reason", REASONS)
def test_the_example_does_what_eager_does(reason: type[Break]) -> None:
    example = program(reason, reason.example)
    compiled = stator.compile(example.fn, backend="eager")
    if reason.refuses:
        with pytest.raises(stator.CaptureError) as caught:
            call(example, compiled, 1)
        assert caught.value.id == reason.id
        return
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="program.* can.t be captured")
        for seed in (1, 2):
            expected = call(example, program(reason, reason.example).fn, seed)
            found = call(example, compiled, seed)
            assert found.lines == expected.lines


@pytest.mark.parametrize("reason", REASONS)
def test_the_fixed_version_is_captured(reason: type[Break]) -> None:
    fixed = program(reason, reason.fixed)
    backend = Recording()
    compiled = stator.compile(fixed.fn, backend=backend, fullgraph=True)
    for seed in (1, 2):
        expected = call(fixed, program(reason, reason.fixed).fn, seed)
        found = call(fixed, compiled, seed)
        assert found.lines == expected.lines
    assert len(backend.graphs) == 1
