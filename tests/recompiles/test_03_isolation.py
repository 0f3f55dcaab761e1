"""`isolate_recompiles=True`: own entries, own limit, nothing given, freed with the wrapper."""

import itertools
import time
import warnings
import weakref
from typing import Any

import pytest
import torch
from torch import nn

import stator
from stator.testing import compilations, count, function_of

from .tools import Counting, X, are_freed, compiled, scaled

pytestmark = pytest.mark.usefixtures("no_warnings")


def split(x: torch.Tensor, n: int) -> torch.Tensor:
    x = x + 1
    time.sleep(0)
    x = x * n
    time.sleep(0)
    return x - 1


def eager_split(x: torch.Tensor, n: int) -> torch.Tensor:
    return (x + 1) * n - 1


class TestBuckets:
    def test_fifty_wrappers_of_one_function(self) -> None:
        """Each with six variants: more than any limit, were it one for all."""
        backend = Counting()
        wrappers = [
            compiled(scaled, backend=backend, isolate_recompiles=True, recompile_limit=6)
            for _ in range(50)
        ]
        for n in range(6):
            for wrapper in wrappers:
                assert torch.equal(wrapper(X, n), X * n)
        assert backend.graphs == 300
        for wrapper in wrappers:
            assert count(wrapper) == (6, 0)
            for n in range(6):
                wrapper(X, n)
            assert count(wrapper) == (6, 6)
        assert backend.graphs == 300
        with pytest.warns(UserWarning, match=r"recompile_limit \(6\) reached"):
            wrappers[0](X, 6)
        with pytest.warns(UserWarning, match=r"recompile_limit \(6\) reached"):
            wrappers[1](X, 6)

    def test_without_it_they_share_a_limit(self) -> None:
        """The same, as it is otherwise: this is what isolation is for."""
        backend = Counting()
        wrappers = [compiled(scaled, backend=backend) for _ in range(50)]
        with pytest.warns(UserWarning, match=r"recompile_limit \(8\) reached"):
            for n, wrapper in enumerate(wrappers):
                assert torch.equal(wrapper(X, n), X * n)
        assert backend.graphs == 8

    def test_factories(self) -> None:
        """Functions of one code that differ in what they close over."""

        def make(factor: float, **options: Any) -> Any:
            def times(x: torch.Tensor) -> torch.Tensor:
                return x * factor

            return compiled(times, **options)

        for isolate in (False, True):
            stator.reset()
            backend = Counting()
            made = [
                make(float(n), backend=backend, isolate_recompiles=isolate, recompile_limit=8)
                for n in range(20)
            ]
            with warnings.catch_warnings():
                warnings.simplefilter("error" if isolate else "ignore")
                for _ in range(2):
                    for n, function in enumerate(made):
                        assert torch.equal(function(X), X * n)
            assert backend.graphs == (20 if isolate else 8)
            if isolate:
                assert [count(function) for function in made] == [(1, 1)] * 20

    def test_static_beside_dynamic(self) -> None:
        """Neither serves the other, whichever comes first."""
        for order in itertools.permutations([True, False]):
            stator.reset()
            backend = Counting()
            wrappers = {
                dynamic: compiled(
                    scaled, backend=backend, dynamic=dynamic, isolate_recompiles=isolate
                )
                for dynamic, isolate in zip(order, (True, False), strict=True)
            }
            for size in (2, 3, 4):
                for dynamic in order:
                    x = torch.ones(size)
                    assert torch.equal(wrappers[dynamic](x, 2), x * 2)
            assert count(wrappers[False]) == (3, 0)
            assert count(wrappers[True]) == (1, 2)
            assert backend.graphs == 4

    def test_it_reads_what_is_shared_and_writes_its_own(self) -> None:
        for calls in itertools.permutations([("shared", 1), ("own", 1), ("shared", 2), ("own", 2)]):
            stator.reset()
            backend = Counting()
            wrappers = {
                "shared": compiled(scaled, backend=backend),
                "own": compiled(scaled, backend=backend, isolate_recompiles=True),
            }
            seen: set[int] = set()
            graphs = 0
            for who, n in calls:
                assert torch.equal(wrappers[who](X, n), X * n)
                # A graph is made, except for the isolated one where the shared one has it.
                graphs += who == "shared" or n not in seen
                seen |= {n} if who == "shared" else set()
                assert backend.graphs == graphs, (calls, who, n)
            shared = function_of(wrappers["shared"]).bucket
            assert len(shared.entries()) == 2 == count(wrappers["shared"]).compiles

    def test_reading_does_not_change_the_order_of_the_shared_ones(self) -> None:
        shared, own = compiled(scaled), compiled(scaled, isolate_recompiles=True)
        shared(X, 1)
        shared(X, 2)
        before = function_of(shared).bucket.entries()
        own(X, 1)
        assert count(own).compiles == 0
        assert function_of(shared).bucket.entries() == before

    def test_modules(self) -> None:
        backend = Counting()
        modules = [nn.Linear(4, 4) for _ in range(3)]
        made = [compiled(m, backend=backend, isolate_recompiles=True) for m in modules]
        for module, wrapper in zip(modules, made, strict=True):
            assert torch.equal(wrapper(X), module(X))
        assert backend.graphs == 3
        shared = [compiled(m, backend=backend) for m in modules]
        for module, wrapper in zip(modules, shared, strict=True):
            assert torch.equal(wrapper(X), module(X))
        assert backend.graphs == 4


class TestSplit:
    def test_continuations_are_isolated_too(self) -> None:
        """Behind a break the wrappers share nothing either, and each has its limit."""
        backend = Counting()
        wrappers = [
            compiled(split, backend=backend, isolate_recompiles=True, recompile_limit=2)
            for _ in range(3)
        ]
        for wrapper in wrappers:
            for n in (1, 2, 1, 2):
                assert torch.equal(wrapper(X, n), eager_split(X, n))
        # Once before the first break, for each n behind it, and once behind the second.
        assert backend.graphs == 3 * 4

    def test_what_is_compiled_behind_a_shared_break_is_its_own(self) -> None:
        """The isolated one takes nothing whose rest others would have to be given."""
        for n in (1, 2):
            stator.reset()
            backend = Counting()
            shared = compiled(split, backend=backend)
            own = compiled(split, backend=backend, isolate_recompiles=True)
            shared(X, 1)
            rest = compilations(shared)[0]
            before = backend.graphs
            assert torch.equal(own(X, n), eager_split(X, n))
            assert backend.graphs == before + 3
            assert compilations(shared) == (rest,)
            graphs = backend.graphs
            shared(X, 1)
            assert backend.graphs == graphs  # nothing was lost there
            shared(X, 2)
            assert backend.graphs == graphs + 1  # nor given

    def test_variants_that_take_nothing_for_granted(self) -> None:
        """A speculated branch that goes the other way: what runs then is isolated, too."""

        def branches(x: torch.Tensor) -> torch.Tensor:
            if x.sum() > 0:
                return x + 1
            return x - 1

        backend = Counting()
        wrappers = [compiled(branches, backend=backend, isolate_recompiles=True) for _ in range(2)]
        for x in (X, -X, X, -X, -X):
            for wrapper in wrappers:
                assert torch.equal(wrapper(x), branches(x))
        each = backend.graphs / 2
        assert each == int(each)
        stator.reset()
        alone = Counting()
        wrapper = compiled(branches, backend=alone, isolate_recompiles=True)
        for x in (X, -X, X, -X, -X):
            wrapper(x)
        assert alone.graphs == each

    def test_compiled_functions_called_inside_keep_theirs(self) -> None:
        """What is inlined belongs to the caller; what runs by itself has its own bucket."""
        backend = Counting()
        inner = compiled(scaled, backend=backend, isolate_recompiles=True)

        def outer(x: torch.Tensor, n: int) -> Any:
            return inner(x, n) + 1

        first, second = (
            compiled(outer, backend=backend, isolate_recompiles=True) for _ in range(2)
        )
        for n in (1, 2):
            assert torch.equal(first(X, n), X * n + 1)
            assert torch.equal(second(X, n), X * n + 1)
        assert backend.graphs == 4
        assert count(inner) == (0, 0)


class TestLife:
    @pytest.mark.parametrize("function", [scaled, split], ids=["whole", "split"])
    def test_all_is_freed_with_the_wrapper(self, function: Any) -> None:
        backend = Counting()
        shared = compiled(function, backend=backend)
        shared(X, 5)
        own = compiled(function, backend=backend, isolate_recompiles=True)
        own(X, 1)
        own(X, 2)
        found = function_of(own)
        ledger = found.miss.ledger  # type: ignore[attr-defined]
        gone: list[Any] = [weakref.ref(found), weakref.ref(found.bucket), weakref.ref(ledger)]
        gone += [weakref.ref(each.bucket) for each in ledger.continuations.all()]
        gone += [
            weakref.ref(each.entry.target)
            for each in ledger.compilations
            if type(each.entry.target).__name__ == "function"
        ]
        del own, found, ledger
        assert are_freed(*gone)
        graphs = backend.graphs
        shared(X, 5)
        assert backend.graphs == graphs

    def test_shared_entries_live_with_those_who_share(self) -> None:
        shared = compiled(scaled, backend=(backend := Counting()))
        shared(X, 1)
        own = compiled(scaled, backend=backend, isolate_recompiles=True)
        del shared
        assert torch.equal(own(X, 1), X)
        assert backend.graphs == 1
        bucket = weakref.ref(function_of(own).shared)
        assert bucket() is not None
        del own
        assert are_freed(bucket)

    def test_a_wrapper_dropped_while_it_runs(self) -> None:
        held: list[Any] = []

        def drops(x: torch.Tensor, n: int) -> torch.Tensor:
            x = x + 1
            held.clear()
            time.sleep(0)
            return x * n

        for isolate in (False, True):
            for n in (1, 2):
                held.append(compiled(drops, isolate_recompiles=isolate))
                reference = weakref.ref(held[0])
                assert torch.equal(held[0](X, n), (X + 1) * n)
                assert are_freed(reference)

    def test_functions_of_refused_graphs_are_freed(self) -> None:
        def make() -> Any:
            def branches(x: torch.Tensor) -> torch.Tensor:
                return x + 1 if x.sum() > 0 else x - 1

            return branches

        kept = compiled(make())
        kept(X)
        function = make()
        other = compiled(function)
        for x in (X, -X):
            assert torch.equal(other(x), function(x))
        reference = weakref.ref(function)
        del function, other
        assert are_freed(reference)
        kept(X)
