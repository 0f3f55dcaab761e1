# mypy: ignore-errors
"""Tensors and objects as keys of dicts that existed before the call: each is a key of its own.

The state of an optimizer is such a dict.
"""

import copy
from collections import defaultdict

import pytest
import torch

import stator

P, Q = (torch.nn.Parameter(torch.full((3,), n)) for n in (1.0, 2.0))
T = torch.arange(3.0)


@pytest.fixture(autouse=True)
def _reset():
    stator.reset()


def compare(program, *calls) -> None:
    """Each call: a function that makes the arguments, twice alike."""
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for make in calls:
        expected = make()
        found = make()
        results = program(*expected), compiled(*found)
        assert same(results[0], results[1]), make
        assert same(expected, found), make


def same(a, b) -> bool:
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    if isinstance(a, dict):
        # The keys are the same objects, in the same order.
        pairs = zip(a.items(), b.items(), strict=True)
        return len(a) == len(b) and all(k is j and same(v, w) for (k, v), (j, w) in pairs)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def test_looked_up() -> None:
    def program(table, x):
        return x * table[x] + table.get(T, 7.0)

    compare(
        program,
        lambda: ({P: 2.0, Q: 3.0}, P),
        lambda: ({P: 2.0, Q: 3.0}, Q),
        lambda: ({Q: 2.0, P: 3.0}, P),
        lambda: ({P: 2.0, Q: 3.0, T: 4.0}, P),
        lambda: ({P: 5.0, Q: 3.0}, P),
    )


def test_an_equal_tensor_is_another_key() -> None:
    def program(table, x):
        return x + table.get(x, 5.0), x in table, len(table)

    compare(
        program,
        lambda: ({T: 1.0}, T),
        lambda: ({T: 1.0}, T.clone()),
        lambda: ({T: 1.0}, T),
        lambda: ({P: 1.0}, P),
    )


class Key:
    pass


A, B = Key(), Key()


def test_objects_that_are_keys_or_not() -> None:
    def program(table, group, x, key):
        return x + table.get(key, 5.0), key in table, key in group

    def calls(x):
        return [lambda key=key: ({A: 1.0}, {B, A}, x, key) for key in (A, B, Key(), A, B)]

    compare(program, *calls(torch.zeros(3)))
    stator.reset()
    compare(program, *reversed(calls(torch.zeros(3))))


def test_changed() -> None:
    def program(table, x):
        table[x]["steps"] += 1
        table[x]["sum"].add_(x.detach())
        del table[T]
        table[Q] = x * 2
        return [len(table), *table.values()][0]

    def make():
        return {P: {"steps": 1, "sum": torch.zeros(3)}, T: 3}, P

    compare(program, make, make)


def test_missing() -> None:
    def program(table, x):
        table[x].append(x.shape[0])
        return x + len(table[x])

    compare(
        program,
        lambda: (defaultdict(list, {Q: [1]}), P),
        lambda: (defaultdict(list, {P: [1]}), P),
    )


def test_a_class_with_its_own_hash_is_left_alone() -> None:
    class Loud(torch.nn.Parameter):
        def __hash__(self):
            raise AssertionError("hashed")

    table = {}
    key = Loud(torch.zeros(3))
    with pytest.raises(AssertionError, match="hashed"):
        table[key] = 1

    class Quiet(torch.nn.Parameter):
        def __hash__(self):
            return 7

    table[Quiet(torch.zeros(3))] = 1

    def program(x):
        return x + len(list(table.keys()))

    with pytest.raises(stator.CaptureError):
        stator.compile(program, backend="eager", fullgraph=True)(torch.zeros(3))


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
        (torch.optim.Adam, {"lr": 0.1, "capturable": False}),
        (torch.optim.AdamW, {"lr": 0.1, "foreach": True}),
        (torch.optim.RMSprop, {"lr": 0.1}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_optimizers(kind, options) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
    other = copy.deepcopy(model)
    optimizers = [kind(each.parameters(), **options) for each in (model, other)]

    def step(optimizer):
        optimizer.step()

    compiled = stator.compile(step, backend="eager")
    for call in range(5):
        x = torch.randn(5, 3)
        for each in (model, other):
            each.zero_grad()
            each(x).sum().backward()
        step(optimizers[0])
        compiled(optimizers[1])
        for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
            # Adam computes in another order where it is compiled.
            assert torch.allclose(mine, theirs, rtol=1e-2, atol=1e-4), call
    states = [optimizer.state_dict()["state"] for optimizer in optimizers]
    assert states[0].keys() == states[1].keys()
    for index in states[0]:
        assert states[0][index].keys() == states[1][index].keys()
