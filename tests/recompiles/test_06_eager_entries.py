"""Decisions to run a path as it is are entries: limits, isolation, order, forgetting hold."""

import itertools
import warnings
from typing import Any

import pytest
import torch

import stator
from stator import config
from stator.testing import compilations, count, recompiles

from .tools import Counting, X, compiled


def skips(x: torch.Tensor, skip: bool, n: int = 1) -> torch.Tensor:
    if skip:
        stator.skip_frame()
    return x * n


class Ends:
    def __del__(self) -> None: ...


def ends(x: torch.Tensor, end: bool) -> torch.Tensor:
    if end:
        Ends()  # can't be split around
    return x + 1


@pytest.mark.parametrize("function", [skips, ends])
def test_the_order_of_paths_does_not_matter(function: Any) -> None:
    for order in itertools.permutations([True, True, False, False]):
        stator.reset()
        backend = Counting()
        made = compiled(function, backend=backend)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for path in order:
                assert torch.equal(made(X, path), function(X, path))
        assert backend.graphs == 1
        assert count(made) == (2, 2)
        assert sorted(done.eager is None for done in compilations(made)) == [False, True]


def test_they_count_towards_limits() -> None:
    made = compiled(skips, recompile_limit=2)
    made(X, True)
    made(X, False)
    with pytest.warns(UserWarning, match=r"recompile_limit \(2\) reached"):
        assert torch.equal(made(X, False, 2), X * 2)
    before = count(made).hits
    made(X, True)
    made(X, False)
    assert count(made) == (2, before + 2)


def test_they_are_named_among_the_reasons() -> None:
    made = compiled(skips)
    made(X, True)
    made(X, False)
    (why,) = recompiles(made)
    assert why.closest is not None
    assert (why.closest.source, why.closest.expected) == ("skip", "True")


def test_error_on_recompile() -> None:
    made = compiled(skips)
    made(X, True)
    with config.patch(error_on_recompile=True):
        made(X, True)
        with pytest.raises(stator.RecompileError, match="skip: expected True, got False"):
            made(X, False)


def test_isolation() -> None:
    """An isolated wrapper takes the decision of the others, and keeps its own to itself."""
    shared, own = compiled(skips), compiled(skips, isolate_recompiles=True)
    shared(X, True)
    assert torch.equal(own(X, True), X)
    assert count(own) == (0, 1)
    own(X.double(), True)
    assert count(own).compiles == 1
    shared(X.double(), True)
    assert count(shared).compiles == 2


def test_factories_do_not_share_functions() -> None:
    """The entry calls the function that is called, not the one it was made for."""

    def make(n: int, **options: Any) -> Any:
        def closes(x: torch.Tensor) -> torch.Tensor:
            stator.skip_frame()
            return x * n

        return compiled(closes, **options)

    for isolate in (False, True):
        made = [make(n, isolate_recompiles=isolate) for n in range(4)]
        for _ in range(2):
            for n, function in enumerate(made):
                assert torch.equal(function(X), X * n)


@pytest.mark.parametrize("forget", [stator.reset, lambda: stator.reset_code(skips)])
def test_they_are_forgotten(forget: Any) -> None:
    made = compiled(skips)
    made(X, True)
    forget()
    assert count(made).compiles == 0
    made(X, True)
    assert count(made).compiles == 1
    assert compilations(made)[0].eager is not None


def test_stances() -> None:
    made = compiled(skips)
    with stator.set_stance("eager_then_compile"):
        made(X, True)
        assert count(made) == (0, 0)
        made(X, True)
        assert count(made) == (1, 0)
    with stator.set_stance("fail_on_recompile"):
        assert torch.equal(made(X, True), X)
        with pytest.raises(stator.RecompileError):
            made(X, False)
    with stator.set_stance("force_eager"):
        assert torch.equal(made(X, False), X)
    assert count(made).compiles == 1


def test_what_fails_with_errors_suppressed() -> None:
    """No entry: nothing is known of the path. It is tried as often as the limit says."""
    backend = Counting()
    backend.fails = True
    made = compiled(skips, backend=backend, recompile_limit=2)
    with config.patch(suppress_errors=True), pytest.warns(UserWarning) as caught:
        for _ in range(4):
            assert torch.equal(made(X, False), X)
    assert count(made).compiles == 2
    assert ["recompile_limit (2) reached" in str(each.message) for each in caught] == [False, True]
    backend.fails = False
    stator.reset_code(skips)
    assert torch.equal(made(X, False), X)
    assert backend.graphs == 1
