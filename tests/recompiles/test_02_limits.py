"""Limits: per bucket and accumulated, whose they are, what happens at them."""

import itertools
from typing import Any

import pytest
import torch
from torch import nn

import stator
from stator import config
from stator.testing import count

from .tools import Counting, X, compiled, guarded, scaled, split

pytestmark = pytest.mark.usefixtures("no_warnings")


class TestRecompileLimit:
    @pytest.mark.parametrize("limit", [1, 3, 8])
    def test_per_compile(self, limit: int) -> None:
        backend = Counting()
        made = compiled(scaled, backend=backend, recompile_limit=limit)
        for n in range(limit):
            made(X, n)
        with pytest.warns(UserWarning, match=rf"recompile_limit \({limit}\) reached") as caught:
            for n in range(limit + 3):
                assert torch.equal(made(X, n), X * n)
        assert len(caught) == 1
        assert backend.graphs == limit == count(made).compiles

    def test_of_the_process(self) -> None:
        made = compiled(scaled)
        with config.patch(recompile_limit=2):
            made(X, 1)
            made(X, 2)
            with pytest.warns(UserWarning, match=r"recompile_limit \(2\) reached"):
                made(X, 3)
            made(X, 4)
        made(X, 4)  # the limit is looked at when it matters
        assert count(made).compiles == 3

    def test_wrappers_with_other_options_have_their_own(self) -> None:
        first = compiled(scaled, recompile_limit=1)
        second = compiled(scaled, recompile_limit=2)
        first(X, 1)
        second(X, 2)
        second(X, 3)
        with pytest.warns(UserWarning, match=r"recompile_limit \(1\)"):
            first(X, 2)
        with pytest.warns(UserWarning, match=r"recompile_limit \(2\)"):
            second(X, 4)

    def test_wrappers_with_the_same_options_share_one(self) -> None:
        first, second = (compiled(scaled, recompile_limit=2) for _ in range(2))
        first(X, 1)
        second(X, 2)
        with pytest.warns(UserWarning, match=r"recompile_limit \(2\)"):
            first(X, 3)
        assert torch.equal(second(X, 3), X * 3)  # told once
        assert torch.equal(second(X, 1), X)
        assert count(second) == (2, 1)

    def test_what_is_compiled_serves_on(self) -> None:
        made = compiled(scaled, recompile_limit=1)
        made(X, 1)
        with pytest.warns(UserWarning):
            made(X, 2)
        before = count(made)
        made(X, 1)
        assert count(made) == (before.compiles, before.hits + 1)


class TestContinuations:
    def test_each_has_a_limit_of_its_own(self) -> None:
        """What is behind a break is compiled for `n`; the part before it, once."""
        backend = Counting()
        made = compiled(split, backend=backend, recompile_limit=2)
        made(X, 1)
        made(X, 2)
        assert (backend.graphs, count(made).compiles) == (3, 1)
        with pytest.warns(UserWarning, match=r"split, resumed in split .*compiled 2 times"):
            assert torch.equal(made(X, 3), (X + 1) * 3)
        assert torch.equal(made(X, 4), (X + 1) * 4)
        assert backend.graphs == 3
        made(X.double(), 1)  # the part before has not reached its own
        assert count(made).compiles == 2

    def test_a_limit_behind_a_break_leaves_the_program(self) -> None:
        """An error there: the part before has run, so the program is left as by an exception."""
        left: list[int] = []
        made = compiled(guarded(left), recompile_limit=1)
        made(X, 1)
        with (
            config.patch(fail_on_recompile_limit_hit=True),
            pytest.raises(stator.RecompileLimitError, match="resumed in"),
        ):
            made(X, 2)
        assert left == [1, 2]


class TestAccumulated:
    def test_over_all_options(self) -> None:
        wrappers = [compiled(scaled, dynamic=dynamic) for dynamic in (False, True, None)]
        with config.patch(accumulated_recompile_limit=2):
            wrappers[0](X, 1)
            wrappers[1](X, 2)
            with pytest.warns(UserWarning, match=r"accumulated_recompile_limit \(2\) reached"):
                assert torch.equal(wrappers[2](X, 3), X * 3)
        assert [count(each).compiles for each in wrappers] == [1, 1, 0]

    def test_over_modules_of_a_class(self) -> None:
        blocks = [nn.Linear(4, n) for n in (2, 3, 5)]
        made = [compiled(block) for block in blocks]
        with config.patch(accumulated_recompile_limit=2):
            made[0](X)
            made[1](X)
            with pytest.warns(UserWarning, match="accumulated_recompile_limit"):
                assert torch.equal(made[2](X), blocks[2](X))

    def test_what_is_gone_does_not_count(self) -> None:
        kept = compiled(scaled, dynamic=True)
        with config.patch(accumulated_recompile_limit=3):
            kept(X, 5)
            for n in range(10):
                compiled(scaled, backend=Counting())(X, n)
            kept(X.double(), 5)
        assert count(kept).compiles == 2

    def test_isolated_wrappers_have_one_each(self) -> None:
        wrappers = [compiled(scaled, isolate_recompiles=True) for _ in range(3)]
        with config.patch(accumulated_recompile_limit=2):
            for made in wrappers:
                for n in range(2):
                    made(X, n)
                assert count(made).compiles == 2
                with pytest.warns(UserWarning, match="accumulated_recompile_limit"):
                    made(X, 9)


class TestErrors:
    @pytest.mark.parametrize("options", [{"fullgraph": True}, {}], ids=["fullgraph", "setting"])
    def test_at_the_limit(self, options: dict[str, Any]) -> None:
        made = compiled(scaled, recompile_limit=2, **options)
        with config.patch(fail_on_recompile_limit_hit=not options):
            made(X, 1)
            made(X, 2)
            for _ in range(2):
                with pytest.raises(
                    stator.RecompileLimitError, match=r"limit \(2\) reached: scaled"
                ):
                    made(X, 3)
            assert torch.equal(made(X, 2), X * 2)
        assert count(made).compiles == 2

    def test_at_any_recompile(self) -> None:
        made = compiled(scaled)
        with config.patch(error_on_recompile=True):
            made(X, 1)
            for _ in range(2):
                with pytest.raises(stator.RecompileError, match="n: expected 1, got 2") as info:
                    made(X, 2)
                assert not isinstance(info.value, stator.RecompileLimitError)
            made(X, 1)
        assert count(made).compiles == 1
        made(X, 2)
        assert count(made).compiles == 2

    def test_a_failing_backend_does_not_count(self) -> None:
        backend = Counting()
        made = compiled(scaled, backend=backend, recompile_limit=2)
        made(X, 1)
        backend.fails = True
        for _ in range(5):
            with pytest.raises(stator.BackendError, match="the backend is broken"):
                made(X, 2)
        backend.fails = False
        assert torch.equal(made(X, 2), X * 2)
        assert (backend.graphs, count(made).compiles) == (2, 2)


def test_the_order_of_calls_does_not_matter() -> None:
    """Any three of the values fit in a limit of three, whichever comes first."""
    for order in itertools.permutations([1, 2, 3]):
        stator.reset()
        backend = Counting()
        made = compiled(scaled, backend=backend, recompile_limit=3)
        for n in (*order, *reversed(order)):
            assert torch.equal(made(X, n), X * n)
        assert backend.graphs == 3
        assert count(made) == (3, 3)
