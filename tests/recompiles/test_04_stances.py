"""`set_stance`: every stance, as call, block and decorator; on hits and on misses."""

import itertools
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import stator
from stator._native import _core
from stator.driver import stance
from stator.driver.stance import STANCES
from stator.testing import compilations, count

from .tools import Counting, X, compiled, guarded, scaled, split


@pytest.fixture(autouse=True)
def default() -> Iterator[None]:
    yield
    stator.set_stance("default")


class Ran:
    """A function that can tell whether it runs as it is."""

    def __init__(self) -> None:
        self.eager = 0

    def function(self) -> Any:
        def tells(x: torch.Tensor, n: int) -> torch.Tensor:
            if not stator.is_compiling():
                note()
            return x * n

        @stator.disable
        def note() -> None:
            self.eager += 1

        return tells


class TestUse:
    def test_call(self) -> None:
        stator.set_stance("force_eager")
        assert stance.current().name == "force_eager"
        stator.set_stance()
        assert stance.current() == stance.DEFAULT

    def test_block(self) -> None:
        with stator.set_stance("force_eager"):
            with stator.set_stance("fail_on_recompile"):
                assert stance.current().name == "fail_on_recompile"
            assert stance.current().name == "force_eager"
        assert stance.current() == stance.DEFAULT

    def test_block_that_raises(self) -> None:
        with pytest.raises(KeyError), stator.set_stance("force_eager"):
            raise KeyError
        assert stance.current() == stance.DEFAULT

    def test_an_object_may_be_used_again(self) -> None:
        taken = stator.set_stance("force_eager")
        stator.set_stance("default")
        for _ in range(2):
            with taken:
                assert stance.current().name == "force_eager"
            assert stance.current() == stance.DEFAULT

    def test_decorator(self) -> None:
        def recursive(depth: int) -> list[str]:
            """What it says."""
            seen = [stance.current().name]
            return seen + outer(depth - 1) if depth else seen

        outer = stator.set_stance("force_eager")(recursive)
        assert stance.current() == stance.DEFAULT  # a decorator is about calls
        assert outer.__doc__ == "What it says."
        assert outer(2) == ["force_eager"] * 3
        assert stance.current() == stance.DEFAULT

    @pytest.mark.parametrize("name", ["eager", "", "Default"])
    def test_unknown(self, name: str) -> None:
        with pytest.raises(ValueError, match="There are: default, force_eager"):
            stator.set_stance(name)
        assert stance.current() == stance.DEFAULT

    def test_backends_are_checked(self) -> None:
        with pytest.raises(ValueError, match="force_backend is for the stance 'default'"):
            stator.set_stance("force_eager", force_backend="eager")
        with pytest.raises(stator.UnknownBackendError, match="inductr"):
            stator.set_stance(force_backend="inductr")
        assert stance.current() == stance.DEFAULT

    def test_there_is_no_way_to_skip_guards(self) -> None:
        skip: Any = {"skip_guard_eval_unsafe": True}
        with pytest.raises(TypeError):
            stator.set_stance("default", **skip)

    def test_only_what_needs_it_has_another_mode(self) -> None:
        """Hits look at the native mode anyway; the other stances are asked about at misses."""
        modes = {"force_eager": _core.MODE_EAGER}
        for name in STANCES:
            with stator.set_stance(name):
                assert _core.get_mode() == modes.get(name, _core.MODE_DISPATCH)
        with stator.set_stance(force_backend="eager"):
            assert _core.get_mode() == _core.MODE_MISS
        assert _core.get_mode() == _core.MODE_DISPATCH


class TestStances:
    def test_force_eager(self) -> None:
        ran = Ran()
        function = ran.function()
        made = compiled(function)
        with stator.set_stance("force_eager"):
            assert torch.equal(made(X, 2), X * 2)
            assert (count(made), ran.eager) == ((0, 0), 1)
        made(X, 2)
        made(X, 2)
        assert (count(made), ran.eager) == ((1, 1), 1)
        with stator.set_stance("force_eager"):  # also where something fits
            assert torch.equal(made(X, 2), X * 2)
        assert (count(made), ran.eager) == ((1, 1), 2)

    def test_force_eager_in_the_middle(self) -> None:
        backend = Counting()

        def changes(x: torch.Tensor) -> torch.Tensor:
            x = x + 1
            with stator.set_stance("force_eager"):
                x = x * 2
            return x - 1

        made = compiled(changes, backend=backend)
        for _ in range(2):
            assert torch.equal(made(X), (X + 1) * 2 - 1)
            assert stance.current() == stance.DEFAULT
        assert backend.graphs == 1  # what is behind runs as it is

    def test_eager_on_recompile(self) -> None:
        ran = Ran()
        made = compiled(ran.function())
        with stator.set_stance("eager_on_recompile"):
            assert torch.equal(made(X, 1), X)
            assert (count(made), ran.eager) == ((0, 0), 1)
        made(X, 1)
        with stator.set_stance("eager_on_recompile"):
            made(X, 1)
            assert (count(made), ran.eager) == ((1, 1), 1)  # what fits runs
            assert torch.equal(made(X, 2), X * 2)
            assert (count(made), ran.eager) == ((1, 1), 2)
        made(X, 2)
        assert count(made).compiles == 2

    def test_eager_on_recompile_behind_a_break(self) -> None:
        backend = Counting()
        made = compiled(split, backend=backend)
        made(X, 1)
        with stator.set_stance("eager_on_recompile"):
            assert torch.equal(made(X, 2), (X + 1) * 2)
        assert backend.graphs == 2

    def test_fail_on_recompile(self) -> None:
        made = compiled(scaled)
        with (
            stator.set_stance("fail_on_recompile"),
            pytest.raises(stator.RecompileError, match=r"scaled .* is to be compiled, and"),
        ):
            made(X, 1)
        made(X, 1)
        with stator.set_stance("fail_on_recompile"):
            assert torch.equal(made(X, 1), X)
            with pytest.raises(stator.RecompileError, match="n: expected 1, got 2") as info:
                made(X, 2)
        assert info.value.why is not None
        assert info.value.why.closest is not None
        assert count(made) == (1, 1)
        assert torch.equal(made(X, 2), X * 2)

    def test_fail_on_recompile_behind_a_break(self) -> None:
        left: list[int] = []
        made = compiled(guarded(left))
        made(X, 1)
        with stator.set_stance("fail_on_recompile"):
            made(X, 1)
            with pytest.raises(stator.RecompileError, match="resumed in"):
                made(X, 2)
        assert left == [1, 1, 2]

    @pytest.mark.parametrize("name", ["eager_on_recompile", "fail_on_recompile"])
    def test_eager_paths_are_entries(self, name: str) -> None:
        def skips(x: torch.Tensor, skip: bool) -> torch.Tensor:
            if skip:
                stator.skip_frame()
            return x + 1

        made = compiled(skips)
        made(X, True)
        with stator.set_stance(name):
            assert torch.equal(made(X, True), X + 1)
        assert count(made) == (1, 1)


class TestThenCompile:
    @pytest.mark.parametrize("name", ["eager_then_compile", "aot_eager_then_compile"])
    def test_the_first_call_tells_what_changes(self, name: str) -> None:
        """One compile, with the size left open, where there would be two."""
        sizes = [3, 5, 7, 9]
        for taken, expected in (("default", 2), (name, 1)):
            stator.reset()
            backend = Counting()
            made = compiled(scaled, backend=backend, dynamic=None)
            with stator.set_stance(taken):
                for size in sizes:
                    x = torch.randn(size)
                    assert torch.equal(made(x, 2), x * 2)
            assert backend.graphs == expected == count(made).compiles

    def test_ints_and_containers(self) -> None:
        def sums(
            many: list[torch.Tensor], named: dict[str, torch.Tensor], n: int, *more: Any
        ) -> Any:
            return many[0].sum() + named["x"].sum() * n + more[0].sum()

        backend = Counting()
        made = compiled(sums, backend=backend, dynamic=None)
        with stator.set_stance("eager_then_compile"):
            for size in (3, 4, 5, 6):
                x = torch.randn(size)
                args = [x], {"x": x * 2}, size, x * 3
                assert torch.equal(made(*args), sums(*args))
        assert backend.graphs == 1

    def test_calls_that_are_alike_leave_nothing_open(self) -> None:
        made = compiled(scaled, dynamic=None)
        with stator.set_stance("eager_then_compile"):
            for _ in range(3):
                made(X, 2)
        (done,) = compilations(made)
        assert "x: Tensor(4) of torch.float32 on cpu" in [str(guard) for guard in done.guards]
        assert count(made) == (1, 1)

    def test_another_kind_of_call_says_nothing(self) -> None:
        made = compiled(scaled, dynamic=None)
        with stator.set_stance("eager_then_compile"):
            made(X.double(), 2)
            made(torch.ones(3), 2)
        (done,) = compilations(made)
        assert "x: Tensor(3) of torch.float32 on cpu" in [str(guard) for guard in done.guards]

    def test_each_function_has_a_first_call(self) -> None:
        first, second = compiled(scaled), compiled(split)
        own = compiled(scaled, isolate_recompiles=True)
        with stator.set_stance("eager_then_compile"):
            for made in (first, second, own):
                made(X, 2)
                assert count(made) == (0, 0)
            for made in (first, second):
                made(X, 2)
                assert count(made) == (1, 0)
            own(X, 2)  # what is shared fits
            assert count(own) == (0, 1)

    def test_what_was_compiled_before_serves(self) -> None:
        made = compiled(scaled)
        made(X, 1)
        with stator.set_stance("eager_then_compile"):
            made(X, 1)
            made(X, 2)
        assert count(made) == (2, 1)

    def test_reset_makes_it_the_first_again(self) -> None:
        made = compiled(scaled)
        with stator.set_stance("eager_then_compile"):
            made(X, 1)
            stator.reset()
            made(X, 1)
            assert count(made) == (0, 0)
            made(X, 1)
            assert count(made) == (1, 0)

    def test_nothing_of_the_call_is_kept(self) -> None:
        made = compiled(scaled)
        with stator.set_stance("eager_then_compile"):
            made(X, 1)
        ledger = stator.testing.function_of(made).miss.ledger  # type: ignore[attr-defined]
        assert [str(guard) for guard in ledger.noticed] == [
            "x: Tensor(4) of torch.float32 on cpu",
            "n: 1",
        ]


class TestForceBackend:
    def test_it_compiles_with_that_backend_and_for_itself(self) -> None:
        """What was compiled before, or is then, serves only with its own backend."""
        for order in itertools.product([False, True], repeat=4):
            stator.reset()
            own, forced = Counting(), Counting()
            made = compiled(scaled, backend=own)
            for force in order:
                if force:
                    with stator.set_stance(force_backend=forced):
                        assert torch.equal(made(X, 2), X * 2)
                else:
                    assert torch.equal(made(X, 2), X * 2)
            assert own.graphs == (False in order)
            assert forced.graphs == (True in order)

    def test_the_same_backend_is_no_other(self) -> None:
        made = compiled(scaled, backend="eager")
        made(X, 2)
        with stator.set_stance(force_backend="eager"):
            assert torch.equal(made(X, 2), X * 2)
        assert count(made).compiles == 1

    def test_continuations_have_it_too(self) -> None:
        own, forced = Counting(), Counting()
        made = compiled(split, backend=own)
        with stator.set_stance(force_backend=forced):
            for _ in range(2):
                assert torch.equal(made(X, 2), (X + 1) * 2)
        assert (own.graphs, forced.graphs) == (0, 2)

    def test_options_are_the_backends_own(self) -> None:
        """They were given for the other one."""
        made = stator.compile(scaled, backend="inductor", options={"max_autotune": False})
        with stator.set_stance(force_backend="eager"):
            assert torch.equal(made(X, 2), X * 2)

    @pytest.mark.parametrize("isolate", [False, True])
    def test_modules(self, isolate: bool) -> None:
        module = torch.nn.Linear(4, 4)
        own, forced = Counting(), Counting()
        made = compiled(module, backend=own, isolate_recompiles=isolate)
        with stator.set_stance(force_backend=forced):
            for _ in range(2):
                assert torch.equal(made(X), module(X))
        assert (own.graphs, forced.graphs) == (0, 1)


class TestInPrograms:
    @pytest.mark.parametrize("form", ["call", "block", "decorator"])
    def test_a_compiled_program_is_split_there(self, form: str) -> None:
        @stator.set_stance("eager_on_recompile")
        def decorated(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        def program(x: torch.Tensor) -> torch.Tensor:
            x = x + 1
            if form == "call":
                stator.set_stance("eager_on_recompile")
                x = x * 2
                stator.set_stance("default")
            elif form == "block":
                with stator.set_stance("eager_on_recompile"):
                    x = x * 2
            else:
                x = decorated(x)
            return x - 1

        made = compiled(program)
        for _ in range(2):
            assert torch.equal(made(X), (X + 1) * 2 - 1)
            assert stance.current() == stance.DEFAULT
        assert compilations(made)[0].broken is not None
        with pytest.raises(stator.CaptureError, match="it is about the whole process"):
            compiled(program, fullgraph=True)(X)
        assert stance.current() == stance.DEFAULT

    def test_it_is_for_all_threads(self) -> None:
        made = compiled(scaled)
        made(X, 1)
        results: list[Any] = []

        def call() -> None:
            try:
                results.append(made(X, 2))
            except stator.RecompileError as error:
                results.append(error)

        with stator.set_stance("fail_on_recompile"):
            thread = threading.Thread(target=call)
            thread.start()
            thread.join()
        assert isinstance(results[0], stator.RecompileError)

    def test_calls_go_on_while_it_changes(self) -> None:
        made = compiled(scaled, recompile_limit=4)
        stop = threading.Event()
        wrong: list[Any] = []

        def call() -> None:
            n = 0
            while not stop.is_set():
                n = (n + 1) % 4
                if not torch.equal(made(X, n), X * n):
                    wrong.append(n)

        threads = [threading.Thread(target=call) for _ in range(2)]
        for thread in threads:
            thread.start()
        for name in ("force_eager", "eager_on_recompile", "eager_then_compile") * 10:
            with stator.set_stance(name):
                time.sleep(0.002)
        with stator.set_stance(force_backend="eager"):
            time.sleep(0.01)
        stop.set()
        for thread in threads:
            thread.join()
        assert wrong == []
        assert count(made).compiles <= 4
