"""Kernels that refuse values in graphs that change inputs: what the program has done by then."""

# mypy: ignore-errors

import pytest
import torch

import stator

BACKENDS = ["eager", "aot_eager"]
SIZES = [8, 1 << 16]  # of what is changed: one is copied, the other is not


class State:
    def __init__(self):
        self.calls = []


def refused_first(state, memory, x, i):
    state.calls.append(1)
    found = x[i]
    memory.add_(1)
    state.calls.append(2)
    return found * memory[0]


def refused_after_a_draw(state, memory, x, i):
    state.calls.append(1)
    drawn = torch.rand(3)
    found = x.index_select(0, i)
    memory.add_(drawn[0])
    return found


def refused_behind_a_check(state, memory, x, i):
    state.calls.append(1)
    n = int(x.sum())
    memory.mul_(2)
    found = torch.take(x, i)
    return found, n


def not_used(state, memory, x, i):
    state.calls.append(1)
    memory.mul_(2)
    torch.gather(x, 0, i)
    return x * 2


def not_used_list(state, memory, x, i):
    state.calls.append(1)
    memory.mul_(2)
    x[i.tolist()]
    return x * 2


def not_used_assignment(state, memory, x, i):
    state.calls.append(1)
    memory.mul_(2)
    y = x.clone()
    y[i] = 0.5
    return x * 2


def ran(function, size):
    state, memory, seen = State(), torch.ones(size), []
    torch.manual_seed(3)
    for index in (1, 2, 7, 0, 9):
        try:
            found = function(state, memory, torch.ones(3), torch.tensor([index]))
            seen.append(str(found))
        except (IndexError, RuntimeError) as error:
            seen.append((type(error), str(error).split("\n")[0]))
        seen += [list(state.calls), memory[0].item(), memory.sum().item()]
    return seen, torch.rand(1).item()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("program", [refused_first, refused_after_a_draw])
def test_nothing_has_changed_yet(program, size, backend):
    assert ran(stator.compile(program, backend=backend), size) == ran(program, size)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "program", [refused_behind_a_check, not_used, not_used_list, not_used_assignment]
)
def test_inputs_change_at_the_end_of_a_functional_graph(program, size):
    assert ran(stator.compile(program, backend="aot_eager"), size) == ran(program, size)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "program", [refused_behind_a_check, not_used, not_used_list, not_used_assignment]
)
def test_small_inputs_are_put_back(program):
    assert ran(stator.compile(program, backend="eager"), 8) == ran(program, 8)
