# mypy: ignore-errors
"""State of tensors, random numbers and settings where a program is split by a graph break."""

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import stator
from stator import graph_break


def leaf(x):
    y = x.clone().requires_grad_()
    graph_break()
    return y * 2


def leaf_that_was_used(x):
    y = x.clone().requires_grad_()
    z = y * 3
    graph_break()
    return z * 2, y


def parameter(x):
    p = nn.Parameter(x * 2)
    graph_break()
    return p * 2, p


def layer(x):
    m = nn.Linear(4, 4)
    graph_break()
    return m(x)


def input_switched_on(x):
    x.requires_grad_()
    graph_break()
    return x * 2


def data(x):
    x.data = x * 2
    graph_break()
    return x + 1


def gradient(x):
    x.grad = x * 2
    graph_break()
    return x.grad + 1


def attributes(x):
    y = x + 1
    y.tag = [x]
    graph_break()
    return y.tag[0] is x, y


def resized(x):
    out = torch.empty(0)
    torch.add(x, 1, out=out)
    graph_break()
    return out.resize_(2)


def deep_copy(x):
    y = copy.deepcopy(x)
    graph_break()
    y.add_(1)
    return y


class Stubborn:
    def __deepcopy__(self, memo):
        graph_break()
        return Stubborn()


def deep_copy_that_is_split(x):
    first, _, second = copy.deepcopy([x, Stubborn(), x.view(2, 2)])
    first.add_(1)
    return first, second


def numbers(x):
    drawn = random.random()
    graph_break()
    return x * drawn + random.random()


def arrays(x):
    drawn = np.random.rand(4)
    graph_break()
    return x + torch.from_numpy(drawn) + np.random.rand()


def shuffled(x):
    items = [1, 2, 3]
    random.shuffle(items)
    return x * items[0] + random.random()


def seeded_twice(x):
    y = torch.rand(4)
    torch.manual_seed(4)
    return x + y + torch.rand(4)


def forked(x):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        y = torch.rand(4)
    return y + torch.rand(4)


def profiled(x):
    with torch.profiler.record_function("part"):
        y = x + 1
        graph_break()
        return y * 2


def device(x):
    with torch.device("meta"):
        y = torch.ones(3)
        graph_break()
        z = torch.ones(2)
    return y.device, z.device, x + torch.ones(4)


def flags(x):
    with torch.backends.cudnn.flags(enabled=False):
        y = x + 1
        graph_break()
        inside = torch.backends.cudnn.enabled
    return y, inside, torch.backends.cudnn.enabled


PROGRAMS = [
    leaf,
    leaf_that_was_used,
    parameter,
    layer,
    input_switched_on,
    data,
    gradient,
    attributes,
    resized,
    deep_copy,
    deep_copy_that_is_split,
    numbers,
    arrays,
    shuffled,
    seeded_twice,
    forked,
    profiled,
    device,
    flags,
]


def shown(value: Any) -> Any:
    """All that matters here of a value."""
    if isinstance(value, torch.Tensor):
        values = value.tolist() if value.device.type != "meta" else None
        grad = shown(value.grad) if value.is_leaf else None
        return values, value.dtype, value.requires_grad, value.is_leaf, grad, list(vars(value))
    if isinstance(value, list | tuple):
        return [shown(item) for item in value]
    return value


def outcome(fn: Callable[..., Any]) -> Any:
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    x = torch.arange(4.0)
    result = fn(x)
    return shown(result), shown(x), random.random(), np.random.rand(), torch.rand(1).item()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda fn: fn.__name__)
def test_goes_on_as_it_was(program: Callable[..., Any], backend: str) -> None:
    stator.reset()
    before = torch.get_rng_state()
    compiled = stator.compile(program, backend=backend)
    expected = outcome(program)
    for _ in range(2):
        assert outcome(compiled) == expected
    torch.set_rng_state(before)
