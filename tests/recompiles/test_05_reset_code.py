"""`stator.reset_code`: what is compiled for one function is forgotten, and nothing else."""

import functools
import warnings
from typing import Any

import pytest
import torch
from torch import nn

import stator
from stator.testing import compilations, count, recompiles

from .tools import Counting, X, compiled, scaled, split


def other(x: torch.Tensor, n: int) -> torch.Tensor:
    return x + n


class Holder:
    def method(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3

    @staticmethod
    def static(x: torch.Tensor) -> torch.Tensor:
        return x * 4

    @classmethod
    def cls(cls, x: torch.Tensor) -> torch.Tensor:
        return x * 5


def test_all_wrappers_and_no_other_function() -> None:
    backend = Counting()
    wrappers = [
        compiled(scaled, backend=backend),
        compiled(scaled, backend=backend, dynamic=True),
        compiled(scaled, backend=backend, isolate_recompiles=True, fullgraph=True),
    ]
    untouched = compiled(other, backend=backend)
    for wrapper in (*wrappers, untouched):
        wrapper(X, 2)
        wrapper(X.double(), 2)
    graphs = backend.graphs
    assert [count(wrapper).compiles for wrapper in wrappers] == [2, 2, 2]
    stator.reset_code(scaled)
    for wrapper in wrappers:
        assert count(wrapper).compiles == 0
        assert compilations(wrapper) == ()
        assert recompiles(wrapper) == ()
    untouched(X, 2)
    assert backend.graphs == graphs
    for wrapper in wrappers:
        assert torch.equal(wrapper(X, 2), X * 2)
    assert backend.graphs == graphs + 3


def test_limits_begin_anew() -> None:
    made = compiled(scaled, recompile_limit=1)
    for _ in range(2):
        made(X, 1)
        with pytest.warns(UserWarning, match="recompile_limit"):  # and the user is told again
            made(X, 2)
        stator.reset_code(made)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            made(X, 2)
        stator.reset_code(made)


def test_what_is_behind_breaks() -> None:
    backend = Counting()
    made = compiled(split, backend=backend, recompile_limit=1)
    made(X, 1)
    assert backend.graphs == 2
    stator.reset_code(split)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of limits: the old continuation had reached its own
        assert torch.equal(made(X, 2), (X + 1) * 2)
    assert backend.graphs == 4


def test_what_was_learned_of_sizes() -> None:
    made = compiled(scaled, dynamic=None)
    made(torch.ones(3), 2)
    made(torch.ones(4), 2)
    assert "x: Tensor(any) of torch.float32 on cpu" in map(str, compilations(made)[-1].guards)
    stator.reset_code(scaled)
    made(torch.ones(5), 2)
    (done,) = compilations(made)
    assert "x: Tensor(5) of torch.float32 on cpu" in [str(guard) for guard in done.guards]


def test_what_others_have_inlined_stays() -> None:
    backend = Counting()

    def outer(x: torch.Tensor) -> Any:
        return scaled(x, 2) + 1

    made = compiled(outer, backend=backend)
    made(X)
    stator.reset_code(scaled)
    made(X)
    assert backend.graphs == 1


@pytest.mark.parametrize(
    "form", ["code", "function", "wrapper", "method", "bound", "static", "cls"]
)
def test_what_it_takes(form: str) -> None:
    holder = Holder()
    target: Any
    made, target, args = {
        "code": (compiled(scaled), scaled.__code__, (X, 2)),
        "function": (compiled(scaled), scaled, (X, 2)),
        "wrapper": (compiled(scaled), compiled(scaled), (X, 2)),
        "method": (compiled(holder.method), Holder.method, (X,)),
        "bound": (compiled(holder.method), holder.method, (X,)),
        "static": (compiled(Holder.static), Holder.__dict__["static"], (X,)),
        "cls": (compiled(Holder.cls), Holder.cls, (X,)),
    }[form]
    made(*args)
    assert count(made).compiles == 1
    stator.reset_code(target)
    assert count(made).compiles == 0
    made(*args)
    assert count(made).compiles == 1


def test_callables_that_are_no_functions() -> None:
    partial = functools.partial(scaled, n=2)
    made = compiled(partial)
    made(X)
    with pytest.raises(TypeError, match="needs a function, a method or a module"):
        stator.reset_code(partial)
    stator.reset_code(made)
    assert count(made).compiles == 0


@pytest.mark.parametrize("in_place", [False, True])
def test_modules(in_place: bool) -> None:
    """Those of one class share code, and what is compiled for it."""
    backend = Counting()
    modules = [nn.Linear(4, 4), nn.Linear(4, 4)]
    relu = nn.ReLU()
    calls: list[Any] = []
    for module in (*modules, relu):
        if in_place:
            stator.compile_module_(module, backend=backend)
            calls.append(module)
        else:
            calls.append(compiled(module, backend=backend))
    for call in calls:
        call(X)
    assert backend.graphs == 2
    stator.reset_code(calls[0])
    for call in calls:
        call(X)
    assert backend.graphs == 3
    stator.reset_code(modules[0])  # the module itself will do
    for call in calls:
        call(X)
    assert backend.graphs == 4


def test_a_function_with_another_code() -> None:
    def first(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    def second(x: torch.Tensor) -> torch.Tensor:
        return x + 2

    made = compiled(first)
    made(X)
    first.__code__ = second.__code__
    assert torch.equal(made(X), X + 2)
    assert count(made).compiles == 1
    stator.reset_code(first)
    assert count(made).compiles == 0
    assert torch.equal(made(X), X + 2)


def test_what_was_never_compiled() -> None:
    stator.reset_code(other)
    stator.reset_code(nn.Linear(1, 1))
