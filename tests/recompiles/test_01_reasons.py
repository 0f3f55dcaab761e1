"""Why a function is compiled again: which guard of which entry, whose line, what to do."""

import enum
import inspect
import logging
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import stator
from stator.diagnostics.recompiles import REMEDIES, Cause
from stator.driver.ledger import Misfit
from stator.testing import compilations, recompiles

from .tools import X, compiled, scaled


def line_of(function: Callable[..., Any], text: str) -> str:
    """`file:line` of the first line of a function that has a text."""
    lines, first = inspect.getsourcelines(function)
    index = next(i for i, line in enumerate(lines) if text in line)
    return f"{inspect.getsourcefile(function)}:{first + index}"


def misfit(
    function: Any, first: tuple[Any, ...], second: tuple[Any, ...], **options: Any
) -> Misfit:
    """Why what was compiled for one call does not fit another; both are checked against eager."""
    made = compiled(function, **options)
    for args in (first, second):
        assert torch.equal(made(*args), function(*args))
    (why,) = recompiles(made)
    (found,) = why.misfits
    assert why.closest is found
    assert str(found) in str(why)
    assert found.number == compilations(made)[0].number
    assert found.guards == len(compilations(made)[0].guards) >= found.failing >= 1
    assert found.guard in [str(guard) for guard in compilations(made)[0].guards]
    return found


class Block(nn.Module):
    """Reads attributes of all kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.steps = 1
        self.kind = "relu"
        self.extra: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x) * self.steps
        x = torch.relu(x) if self.kind == "relu" else torch.tanh(x)
        if self.training:
            x = x + 1
        return x + len(self.extra)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


def coloured(x: torch.Tensor, colour: Colour) -> torch.Tensor:
    return x + 1 if colour is Colour.RED else x - 1


def applied(x: torch.Tensor, function: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    return function(x)


def summed(x: torch.Tensor, many: Any) -> torch.Tensor:
    for each in many:
        x = x + each
    return x


def added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x = x + 0
    return x.add_(y) if x is y else x + y


def branching(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 5:
        return x + 1
    return x - 1


class TestMisfits:
    def test_a_number(self) -> None:
        found = misfit(scaled, (X, 2), (X, 3))
        assert (found.source, found.expected, found.actual) == ("n", "2", "3")
        assert found.guard == "n: 2"
        assert found.cause is Cause.NUMBER
        assert found.where == line_of(scaled, "x * n")
        assert str(found) == f"n: expected 2, got 3 ({found.where})"

    def test_sizes(self) -> None:
        found = misfit(scaled, (X, 2), (torch.ones(5), 2))
        assert found.source == "x"
        assert found.expected == "Tensor(4) of torch.float32 on cpu"
        assert found.actual == "Tensor(5) of torch.float32 on cpu"
        assert found.cause is Cause.SIZES
        assert found.where == ""  # an argument is one from the start

    @pytest.mark.parametrize(
        "other",
        [X.double(), X[None], X.clone().requires_grad_(), nn.Parameter(X.clone())],
        ids=["dtype", "dimensions", "requires_grad", "class"],
    )
    def test_another_kind_of_tensor(self, other: torch.Tensor) -> None:
        assert misfit(scaled, (X, 2), (other, 2)).cause is Cause.TENSOR

    def test_strides_are_sizes(self) -> None:
        x = torch.arange(6.0).reshape(2, 3)
        assert misfit(scaled, (x, 2), (torch.ones(3, 2).t(), 2)).cause is Cause.SIZES

    def test_a_condition_on_sizes(self) -> None:
        found = misfit(branching, (torch.ones(3),), (torch.ones(8),), dynamic=True)
        assert found.cause is Cause.CONDITION
        assert (found.source, found.expected) == ("x.size(0)", "(x.size(0) <= 5)")
        assert found.actual == "8"
        assert found.where == line_of(branching, "shape[0] > 5")

    def test_values(self) -> None:
        assert misfit(scaled, (X, True), (X, False)).cause is Cause.VALUE
        assert misfit(coloured, (X, Colour.RED), (X, Colour.BLUE)).cause is Cause.IDENTITY

    def test_types(self) -> None:
        found = misfit(summed, (X, [1, 2]), (X, (1, 2)))
        assert (found.source, found.cause) == ("many", Cause.TYPE)

    def test_contents(self) -> None:
        found = misfit(summed, (X, [1, 2]), (X, [1, 2, 3]))
        assert (found.source, found.cause) == ("many", Cause.CONTENTS)

    def test_identity(self) -> None:
        found = misfit(applied, (X, torch.sin), (X, torch.cos))
        assert (found.source, found.cause) == ("function", Cause.IDENTITY)

    def test_aliases(self) -> None:
        found = misfit(added, (X, X), (X, X.clone()))
        assert found.cause is Cause.ALIASES

    def test_torchs_state(self) -> None:
        made = compiled(scaled)
        made(X, 2)
        with torch.no_grad():
            made(X, 2)
        (why,) = recompiles(made)
        assert why.closest is not None
        assert why.closest.cause is Cause.STATE
        assert why.closest.where == ""  # no line reads it: each trace depends on it

    @pytest.mark.parametrize(
        ("change", "source", "cause", "text"),
        [
            (lambda m: m.eval(), "self.training", Cause.MODE, "if self.training"),
            (lambda m: setattr(m, "steps", 2), "self.steps", Cause.NUMBER, "self.steps"),
            (lambda m: setattr(m, "kind", "tanh"), "self.kind", Cause.VALUE, "self.kind"),
            (lambda m: m.extra.append(1), "self.extra", Cause.CONTENTS, "self.extra"),
            (lambda m: m.double(), "self.linear.weight", Cause.TENSOR, "self.linear"),
        ],
        ids=["training", "int", "str", "list", "dtype"],
    )
    def test_attributes_of_modules(
        self, change: Callable[[Any], Any], source: str, cause: Cause, text: str
    ) -> None:
        module = Block()
        made = compiled(module)
        x = torch.ones(2, 4)
        assert torch.equal(made(x), module(x))
        change(module)
        x = x.to(module.linear.weight.dtype)
        assert torch.equal(made(x), module(x))
        (why,) = recompiles(made)
        (found,) = why.misfits
        if cause is Cause.TENSOR:
            assert found.cause is Cause.TENSOR
            return  # several fail; which of them is checked first is not said here
        assert (found.source, found.cause) == (source, cause)
        assert found.where == line_of(Block.forward, text)

    def test_lines_in_called_functions(self) -> None:
        def inner(x: torch.Tensor, many: list[int]) -> torch.Tensor:
            x = x + 1
            return x * many[0]

        def outer(x: torch.Tensor, many: list[int]) -> torch.Tensor:
            return inner(x, many) + 1

        assert misfit(outer, (X, [2]), (X, [3])).where == line_of(inner, "many[0]")

    def test_lines_behind_a_break(self) -> None:
        def split(x: torch.Tensor, many: list[int]) -> torch.Tensor:
            x = x + 1
            time.sleep(0)
            return x * many[0]

        explained = stator.explain(split, dynamic=False)
        explained(X, [2])
        (why,) = explained(X, [3]).recompiles
        assert "many[0]: expected 2, got 3" in why
        assert line_of(split, "many[0]") in why

    def test_lines_that_c_code_calls(self) -> None:
        """The key of a sort is called by C code: its line is found all the same."""
        limits = {"low": 1}

        def key(n: int) -> int:
            return n * limits["low"]

        def by_key(x: torch.Tensor) -> torch.Tensor:
            return x + sorted([2, 1], key=key)[0]

        made = compiled(by_key)
        made(X)
        limits["low"] = -1
        assert torch.equal(made(X), X + 2)
        (why,) = recompiles(made)
        assert why.closest is not None
        assert why.closest.where == line_of(key, "limits")

    def test_lines_of_libraries_are_those_that_led_there(self) -> None:
        """`nn.Module.__getattr__` reads the parameter; the user's line asked for it."""
        module = Block()
        made = compiled(module)
        made(torch.ones(2, 4))
        wheres = {guard.where for guard in compilations(made)[0].guards if guard.where}
        users = {where for where in wheres if where.startswith(f"{__file__}:")}
        assert line_of(Block.forward, "self.linear") in users
        (weight,) = (
            guard
            for guard in compilations(made)[0].guards
            if str(guard).startswith("self.linear.weight:")
        )
        assert weight.where == line_of(Block.forward, "self.linear")


class TestClosest:
    def test_the_fewest_failing_guards(self) -> None:
        def many(x: torch.Tensor, a: int, b: int, c: int) -> torch.Tensor:
            return x * a + b - c

        calls = [(1, 1, 1), (2, 2, 2), (1, 5, 5)]
        for order in (calls, [calls[1], calls[0], calls[2]]):
            stator.reset()
            made = compiled(many)
            for numbers in order:
                made(X, *numbers)
            why = recompiles(made)[-1]
            assert [each.failing for each in why.misfits] == [2, 3]
            assert why.closest is why.misfits[0]
            assert (why.misfits[0].source, why.misfits[0].expected) == ("b", "1")

    def test_one_line_for_what_is_the_same(self) -> None:
        def both(x: torch.Tensor, a: int, b: int) -> torch.Tensor:
            return x * a + b

        made = compiled(both)
        for n in range(3):
            made(X, 1, n)
        made(X, 2, 9)
        why = recompiles(made)[-1]
        assert [each.actual for each in why.misfits] == ["2"] * 3
        assert len({each.number for each in why.misfits}) == 3
        assert str(why).count("a: expected 1, got 2") == 1

    def test_long_lists_are_cut(self) -> None:
        made = compiled(scaled)
        for n in range(8):
            made(X, n)
        why = recompiles(made)[-1]
        assert len(why.misfits) == 7
        assert str(why).count("\n") == 6  # with the number of the reason
        assert "\n  - and 3 more\n" in str(why)

    def test_an_isolated_wrapper_tells_of_shared_entries_too(self) -> None:
        shared, own = compiled(scaled), compiled(scaled, isolate_recompiles=True)
        shared(X, 1)
        own(X, 2)
        own(X, 3)
        (why,) = recompiles(own)
        assert {each.expected for each in why.misfits} == {"1", "2"}
        assert all(each.number for each in why.misfits)


class TestTold:
    def test_remedies(self) -> None:
        assert set(REMEDIES) == set(Cause)
        assert all(REMEDIES[cause] for cause in Cause if cause is not Cause.OTHER)

    @pytest.mark.parametrize(
        ("calls", "remedy"),
        [
            ([(torch.ones(n), 1) for n in (2, 3)], "mark_dynamic"),
            ([(X, 1), (X, 2)], "dynamic=True"),
            ([(X, "a"), (X, "b")], "isolate_recompiles=True"),
        ],
        ids=["sizes", "number", "value"],
    )
    def test_the_warning_at_a_limit(self, calls: list[Any], remedy: str) -> None:
        def named(x: torch.Tensor, n: Any) -> torch.Tensor:
            return x * (n if type(n) is int else len(n))

        made = compiled(named, recompile_limit=1)
        made(*calls[0])
        with pytest.warns(UserWarning) as caught:
            made(*calls[1])
        text = str(caught[0].message)
        first, *rest = text.splitlines()
        assert first.startswith("recompile_limit (1) reached: TestTold.test_the_warning_at_a_limit")
        assert f"({__file__}:" in first
        assert rest[0].startswith("  - ")
        assert line_of(named, "x * (n") in rest[0] or "Tensor" in rest[0]
        assert rest[1].startswith("  fix: ")
        assert remedy in rest[1]
        assert rest[2] == "  From now on, calls that none fits run eagerly."

    def test_errors_carry_the_reasons(self) -> None:
        made = compiled(scaled, fullgraph=True, recompile_limit=1)
        made(X, 1)
        with pytest.raises(stator.RecompileLimitError, match="fix: pass the number") as info:
            made(X, 2)
        assert info.value.why is not None
        assert info.value.why.closest is not None
        assert info.value.why.closest.source == "n"

    def test_explain_and_the_log(self, caplog: pytest.LogCaptureFixture) -> None:
        explained = stator.explain(scaled, dynamic=False)
        with caplog.at_level(logging.INFO, "stator.recompiles"):
            explained(X, 1)
            (why,) = explained(X, 2).recompiles
        assert line_of(scaled, "x * n") in why
        assert line_of(scaled, "x * n") in caplog.text

    def test_nothing_is_kept_alive(self) -> None:
        made = compiled(scaled)
        made(X, 1)
        x = torch.ones(17)
        made(x, 1)
        (why,) = recompiles(made)
        assert all(type(value) in (str, int, Cause) for value in vars(why.misfits[0]).values())
