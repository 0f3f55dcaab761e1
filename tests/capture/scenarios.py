# mypy: ignore-errors
"""Scenarios: calls with changes in between, played in eager and compiled.

A scenario is a generator function that is given `compile`; it calls what that returns, changes
something, calls again, and yields what it sees. Compiled it must yield the same.
"""

import pytest
import torch

import stator

from .harness import Recording


class Scenarios(list):
    """Those of one file: `@scenarios(graphs=…)` adds the generator below it.

    `graphs` is how many are compiled for it: what did not change is served by what there is.
    """

    def __call__(self, graphs):
        return lambda play: self.append(pytest.param(play, graphs, id=play.__name__))


def play_scenario(play, graphs) -> None:
    expected = [plain(value) for value in play(lambda fn: fn)]
    backend = Recording()
    found = [plain(value) for value in play(lambda fn: stator.compile(fn, backend=backend))]
    assert found == expected
    assert len(backend.graphs) == graphs


@stator.disable
def a_break(*given):
    return given[0] if given else None


def plain(value):
    if isinstance(value, torch.Tensor):
        return value.dtype, value.tolist()
    if isinstance(value, tuple | list):
        return type(value), [plain(each) for each in value]
    return type(value), value


def x():
    return torch.arange(3.0, device="cpu")
