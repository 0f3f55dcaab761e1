# mypy: ignore-errors
"""Inputs that lie in one memory, of which the program changes some."""

import itertools
import os
from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
import torch

import stator


def _two(base: torch.Tensor, a: Any, b: Any) -> tuple[torch.Tensor, ...]:
    return base[a], base[b]


def _memory() -> torch.Tensor:
    return torch.arange(12.0)


def _square() -> torch.Tensor:
    return torch.arange(9.0).view(3, 3)


PAIRS: Final[Mapping[str, Callable[[], tuple[torch.Tensor, ...]]]] = {
    "other memory": lambda: (torch.arange(3.0), torch.arange(3.0) + 1),
    "overlap": lambda: _two(_memory(), slice(0, 3), slice(1, 4)),
    "overlap elsewhere": lambda: _two(_memory(), slice(2, 5), slice(1, 4)),
    "the same part": lambda: _two(_memory(), slice(0, 3), slice(0, 3)),
    "disjoint": lambda: _two(_memory(), slice(0, 3), slice(3, 6)),
    "far apart": lambda: _two(_memory(), slice(0, 3), slice(9, 12)),
    "a tensor and its view": lambda: (lambda t: (t, t[:]))(torch.arange(3.0)),
    "a view and its tensor": lambda: (lambda t: (t[:], t))(torch.arange(3.0)),
    "detached": lambda: (lambda t: (t[:3], t.detach()[1:4]))(_memory()),
    "data": lambda: (lambda t: (t[:3], t.data[1:4]))(_memory()),
    "rows": lambda: _two(_square(), 0, 0),
    "row and column": lambda: (lambda t: (t[0], t[:, 0]))(_square()),
    "with gaps": lambda: _two(_memory(), slice(0, 6, 2), slice(0, 3)),
}
MATRICES: Final[Mapping[str, Callable[[], tuple[torch.Tensor, ...]]]] = {
    "other memory": lambda: (_square(), _square()),
    "transposed": lambda: (lambda t: (t, t.t()))(_square()),
    "transposed first": lambda: (lambda t: (t.t(), t))(_square()),
    "shifted": lambda: (lambda t: (t[:3], t[1:]))(torch.arange(12.0).view(4, 3)),
}


def first_is_changed(a, b):
    a.add_(1)
    return a + b


def both_are_changed(a, b):
    a.mul_(2)
    b.add_(1)
    return a * b


def changed_and_read_in_turn(a, b):
    before = b.sum()
    a[0] = 7
    b.mul_(before)
    a += 1
    return a, b.clone(), before


def part_of_a_changed_one(a, b):
    b.zero_()
    return a[0], a.view(-1)


def nothing_is_changed(a, b):
    return a - b


PROGRAMS: Final = (
    first_is_changed,
    both_are_changed,
    changed_and_read_in_turn,
    part_of_a_changed_one,
    nothing_is_changed,
)
CAPTURED: Final = frozenset(PAIRS) - {"detached", "data", "row and column", "with gaps"}


def _seen(function: Callable[..., Any], given: tuple[torch.Tensor, ...]) -> Any:
    try:
        made = function(*given)
    except RuntimeError as error:
        return str(error)
    made = made if isinstance(made, tuple) else (made,)
    memory = [each.untyped_storage().data_ptr() for each in given]
    return [
        (each.tolist(), each.stride(), [at == each.untyped_storage().data_ptr() for at in memory])
        for each in (*made, *given)
    ]


ALL: Final = os.environ.get("STATOR_OPERATORS") == "all"


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_any_overlap_after_any_other(program: Any, backend: str) -> None:
    """Each call is served by what the calls before it have compiled, or by something new."""
    for kinds in (PAIRS, MATRICES):
        if kinds is MATRICES and program is part_of_a_changed_one:
            continue  # `view` of a transposed one raises, which ends the trace
        one = True if (kinds is PAIRS) == (backend == "eager") else None
        for dynamic in (None, True) if ALL else (one,):
            compiled = stator.compile(program, backend=backend, dynamic=dynamic, recompile_limit=32)
            for name in (*kinds, *reversed(kinds)):
                assert _seen(compiled, kinds[name]()) == _seen(program, kinds[name]()), name


@pytest.mark.parametrize("name", sorted(CAPTURED))
def test_captured_as_one_graph(name: str) -> None:
    for program in PROGRAMS[:4]:
        (graph,) = stator.explain(program)(*PAIRS[name]()).graphs
        compiled = stator.compile(program, backend="aot_eager", fullgraph=True)
        assert _seen(compiled, PAIRS[name]()) == _seen(program, PAIRS[name]())


def test_changes_are_counted_for_autograd() -> None:
    """What autograd has saved, and the compiled call changes, is an error, as in eager."""
    for function in (first_is_changed, stator.compile(first_is_changed, backend="aot_eager")):
        memory = _memory()
        weight = torch.ones(12, requires_grad=True)
        loss = (weight * memory).sum()
        function(memory[:3], memory[1:4])
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            loss.backward()


def test_another_input_in_the_same_memory() -> None:
    def program(a, b, c):
        a.add_(c)
        c.mul_(2)
        return a + b + c

    def calls():
        memory = [_memory() for _ in range(6)]
        yield memory[0][:3], memory[0][1:4], torch.ones(3)
        yield memory[1][:3], memory[1][1:4], memory[1][6:9]
        yield memory[2][:3], memory[2][1:4], memory[2][2:5]
        yield memory[3][:3], torch.ones(3), memory[3][1:4]
        yield torch.ones(3), memory[4][1:4], memory[4][2:5]
        yield torch.ones(3), torch.ones(3), torch.ones(3)

    for backend, order in itertools.product(("eager", "aot_eager"), (1, -1)):
        compiled = stator.compile(program, backend=backend)
        for mine, theirs in list(zip(calls(), calls(), strict=True))[::order]:
            assert _seen(compiled, mine) == _seen(program, theirs)


def test_a_view_that_was_given_other_memory() -> None:
    """Its base is still the same."""
    compiled = stator.compile(first_is_changed, backend="aot_eager")
    for moved in (False, True, False):
        seen = []
        for function in (first_is_changed, compiled):
            memory = _memory()
            a, b = memory[:3], memory[:3]
            if moved:
                b.data = torch.zeros(3)
            seen.append(_seen(function, (a, b)))
        assert seen[0] == seen[1]


def test_buffer_and_a_view_of_it() -> None:
    class Cache(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("cache", torch.zeros(4, 3))
            self.row = self.cache[1]

        def forward(self, x):
            self.cache[1] = x
            return self.row + 1, self.cache.sum()

    plain, compiled = Cache(), stator.compile(Cache(), backend="aot_eager", fullgraph=True)
    for k in range(3):
        x = torch.full((3,), float(k))
        assert [each.tolist() for each in plain(x)] == [each.tolist() for each in compiled(x)]
