"""Tensors made of numbers that are read from tensors, and of others that were there before."""

# mypy: ignore-errors

import pytest
import torch

import stator
from tests.dynamic.harness import Counting, outcome

MADE = {
    "all": lambda items, n: torch.tensor(items),
    "nested": lambda items, n: torch.tensor([items, items]),
    "by_name": lambda items, n: torch.tensor(data=items, dtype=torch.float64),
    "as_tensor": lambda items, n: torch.as_tensor(items, dtype=torch.int32),
    "leaf": lambda items, n: torch.tensor([float(n)], requires_grad=True) * 2,
    "plain_leaf": lambda items, n: torch.tensor([n], requires_grad=False, pin_memory=False),
    "refused": lambda items, n: torch.as_tensor(n, requires_grad=True),
    "by_place": lambda items, n: torch.tensor(n, torch.float32),
    "unheard_of": lambda items, n: torch.tensor(items, size=n),
}


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("name", MADE)
def test_made_as_in_eager(name, backend, dynamic):
    make = MADE[name]

    def program(x, k):
        items = [int(k[0]), 7]
        stator.graph_break()  # from here on, the list is one of the world
        n = int((x > 1).sum())
        items.append(n)
        return make(items, n), items

    counting = Counting(backend)
    compiled = stator.compile(program, backend=counting, dynamic=dynamic)
    for x, k in (([0.0, 2.0], 1), ([3.0, 2.0], 2), ([0.0, 0.0], 0), ([2.0, 2.0], 0)):
        call = torch.tensor(x), torch.tensor([k])
        assert outcome(compiled, call) == outcome(program, call)
    assert counting.graphs


def test_the_boxes_that_are_left():
    def suppressed(x):
        order, chosen = x.argsort(descending=True), []
        while order.numel() > 0:
            best = order[0].item()
            chosen.append(best)
            rest = order[1:]
            order = rest[(x[rest] - x[best]).abs() > 1]
        return torch.tensor(chosen, dtype=torch.long)

    counting = Counting("eager")
    compiled = stator.compile(suppressed, backend=counting)
    generator = torch.Generator().manual_seed(0)
    for _ in range(24):
        x = torch.randint(-4, 5, (4,), generator=generator).float()
        assert torch.equal(compiled(x), suppressed(x)), x
    assert 3 < len(counting.graphs) <= 16
