"""Loops with a break: one graph for each iteration, and a few compiles for all of them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import stator

COUNT = 6


class Runs:
    """A backend that counts graphs, and how often they run."""

    def __init__(self) -> None:
        self.graphs = self.runs = 0

    def __call__(self, module: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        self.graphs += 1

        def run(*args: Any) -> Any:
            self.runs += 1
            return module.forward(*args)

        return run


def breaks(x: Tensor) -> Tensor:
    """An operator on either side of a break."""
    x = x.sin()
    stator.graph_break()
    return x * 2


def over_a_list(xs: list[Tensor]) -> Any:
    found = []
    for x in xs:
        found.append(breaks(x))
    return found


def in_a_comprehension(xs: list[Tensor]) -> Any:
    return [breaks(x) for x in xs]


def over_a_tuple(xs: list[Tensor]) -> Any:
    total: Any = 0
    for x in tuple(xs):
        total = breaks(x) + total
    return total


def over_a_range(xs: list[Tensor]) -> Any:
    x = xs[0]
    for _ in range(len(xs)):
        x = breaks(x)
    return x


def over_numbers(xs: list[Tensor]) -> Any:
    x = xs[0]
    for n in range(3, 3 + 2 * len(xs), 2):
        x = breaks(x) + n
    return x


def backwards(xs: list[Tensor]) -> Any:
    total: Any = 0
    for x in reversed(xs):
        total = breaks(x) - total
    return total


def numbered(xs: list[Tensor]) -> Any:
    total: Any = 0
    for n, x in enumerate(xs, 5):
        total = breaks(x) * n + total
    return total


def in_pairs(xs: list[Tensor]) -> Any:
    total: Any = 0
    for x, y in zip(xs, xs[1:] + xs[:1], strict=True):
        total = breaks(x) * y + total
    return total


def over_values(xs: list[Tensor]) -> Any:
    total: Any = 0
    for x in {f"k{n}": x for n, x in enumerate(xs)}.values():
        total = breaks(x) - total
    return total


def over_items(xs: list[Tensor]) -> Any:
    total: Any = 0
    for _key, x in {f"k{n}": x for n, x in enumerate(xs)}.items():
        total = breaks(x) - total
    return total


def given_before(xs: Any) -> Any:
    total: Any = 0
    for x in xs:
        total = breaks(x) - total
    return total


JOINED = [
    over_a_list,
    in_a_comprehension,
    over_a_tuple,
    over_a_range,
    over_numbers,
    backwards,
    numbered,
    in_pairs,
    over_values,
    over_items,
]


def tensors(count: int = COUNT) -> list[Tensor]:
    return [torch.full((3,), float(n + 1)) for n in range(count)]


def same(a: Any, b: Any) -> None:
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        assert type(a) is type(b)
        assert len(a) == len(b)
        for left, right in zip(a, b, strict=True):
            same(left, right)
    elif isinstance(a, Tensor):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    else:
        assert a == b


@pytest.mark.parametrize("function", JOINED, ids=lambda f: f.__name__)
def test_one_graph_for_each_iteration(function: Any) -> None:
    backend = Runs()
    compiled = stator.compile(function, backend=backend)
    for _ in range(3):
        before = backend.runs
        same(compiled(tensors()), function(tensors()))
        assert backend.runs - before == COUNT + 1
    assert backend.graphs <= 5


@pytest.mark.parametrize("function", JOINED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dynamic", [None, True])
def test_other_lengths(function: Any, dynamic: bool | None) -> None:
    compiled = stator.compile(function, backend="aot_eager", dynamic=dynamic, recompile_limit=64)
    for count in (3, 5, 1, 4, 2):
        same(compiled(tensors(count)), function(tensors(count)))


@pytest.mark.parametrize("make", [iter, tuple, enumerate, zip, reversed, list], ids=str)
def test_iterators_of_the_caller(make: Any) -> None:
    """They are where they would be, if the loop is left early too."""

    def some(xs: Any, count: int) -> Any:
        total: Any = 0.0
        for n, x in enumerate(xs):
            total = total + breaks(x[-1] if type(x) is tuple else x)
            if n == count:
                break
        return total

    compiled = stator.compile(some, backend="eager")
    for count in (2, 3, 9):
        found, expected = make(tensors()), make(tensors())
        same(compiled(found, count), some(expected, count))
        if make not in (tuple, list):
            same(len(list(found)), len(list(expected)))


def test_layers() -> None:
    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            x = self.linear(x)
            stator.graph_break()
            return x.relu()

    backend = Runs()
    model = nn.Sequential(*[Layer() for _ in range(COUNT)])
    compiled = stator.compile(model, backend=backend)
    for _ in range(3):
        before = backend.runs
        x = torch.randn(2, 3, requires_grad=True)
        same(compiled(x), model(x))
        assert backend.runs - before == COUNT + 1
    assert backend.graphs == 3


def test_nested_loops() -> None:
    def nested(x: Tensor) -> Tensor:
        for i in range(3, 8):
            x = x + i
            for j in range(3, 8):
                x = breaks(x) * j
        return x

    backend = Runs()
    compiled = stator.compile(nested, backend=backend, recompile_limit=6)
    for _ in range(2):
        before = backend.runs
        same(compiled(torch.ones(3)), nested(torch.ones(3)))
        assert backend.runs - before == 26
    assert backend.graphs <= 8


# ---- what is iterated over changes


def grows(xs: list[Any]) -> Any:
    seen = []
    for x in xs:
        seen.append(breaks(x))
        if len(xs) < 5:
            xs.append(x + 1)
    return seen, xs


def shrinks(xs: list[Any]) -> Any:
    seen = []
    for x in xs:
        seen.append(breaks(x))
        xs.pop()
    return seen, xs


def is_replaced(xs: list[Any]) -> Any:
    seen = []
    for n, x in enumerate(xs):
        seen.append(breaks(x))
        if n + 1 < len(xs):
            xs[n + 1] = xs[n + 1] * 2
    return seen, xs


def grows_before_the_break(xs: list[Any]) -> Any:
    seen = []
    for x in xs:
        if len(xs) < 5:
            xs.append(x + 1)
        seen.append(breaks(x))
    return seen, xs


def into_itself(xs: list[Any]) -> Any:
    for x in xs:
        y = breaks(x)
        if len(xs) < 6:
            xs.append(y)
    return xs


def a_dict(xs: list[Any]) -> Any:
    named = dict(enumerate(xs))
    seen = []
    try:
        for x in named.values():
            seen.append(breaks(x))
            named[len(named)] = x
    except RuntimeError as error:
        return seen, str(error)
    return seen


def values_of_a_dict(xs: list[Any]) -> Any:
    named = dict(enumerate(xs))
    seen = []
    for key, x in named.items():
        seen.append(breaks(x))
        if key + 1 in named:
            named[key + 1] = named[key + 1] * 3
    return seen


def attributes(xs: list[Any]) -> Any:
    class Holder:
        k0: Any
        k1: Any

    holder = Holder()
    holder.__dict__.update((f"k{n}", x) for n, x in enumerate(xs))
    seen = []
    for name in vars(holder):
        seen.append(breaks(getattr(holder, name)))
        holder.k1 = holder.k0 + 1
    return seen


def advanced_inside(xs: list[Any]) -> Any:
    iterator = iter(xs)
    seen = []
    for x in iterator:
        y = breaks(x)
        seen.append(y + next(iterator, 0))
    return seen


def two_of_one(xs: list[Any]) -> Any:
    iterator = iter(xs)
    return [breaks(x) + y for x, y in zip(iterator, iterator, strict=False)]


def one_longer(xs: list[Any]) -> Any:
    rest = iter(xs)
    seen = [breaks(x) + y for x, y in zip(rest, xs[:2], strict=False)]
    return seen, list(rest)


def not_as_long(xs: list[Any]) -> Any:
    seen = []
    try:
        for x, y in zip(xs, [*xs, xs[0]], strict=True):
            seen.append(breaks(x) + y)
    except ValueError as error:
        return seen, str(error)
    return seen


def by_a_disabled_function(xs: list[Any]) -> Any:
    @stator.disable
    def change(items: list[Any]) -> None:
        if len(items) < 6:
            items.insert(0, items[0] + 1)

    seen = []
    for x in xs:
        y = x.sin()
        change(xs)
        seen.append(y * 2)
    return seen, xs


def left_and_entered_again(xs: list[Any]) -> Any:
    iterator = iter(xs)
    for x in iterator:
        first = breaks(x)
        break
    for x in iterator:
        first = first + breaks(x)
    return first


def with_an_exception(xs: list[Any]) -> Any:
    seen = []
    for n, x in enumerate(xs):
        try:
            seen.append(breaks(x))
            if n == 1:
                raise ValueError(n)
        except ValueError as error:
            seen.append(x + error.args[0])
    return seen


CHANGING = [
    grows,
    shrinks,
    is_replaced,
    grows_before_the_break,
    into_itself,
    a_dict,
    values_of_a_dict,
    attributes,
    advanced_inside,
    two_of_one,
    one_longer,
    not_as_long,
    by_a_disabled_function,
    left_and_entered_again,
    with_an_exception,
]


@pytest.mark.parametrize("function", CHANGING, ids=lambda f: f.__name__)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_is_iterated_over_changes(function: Any, backend: str) -> None:
    compiled = stator.compile(function, backend=backend, recompile_limit=64)
    for count in (4, 4, 3, 5, 2):
        same(compiled(tensors(count)), function(tensors(count)))


def test_the_list_that_is_filled_is_the_one_that_is_iterated_over() -> None:
    """Compiled where they are two; called where they are one."""

    def filled(xs: list[Any], into: list[Any]) -> Any:
        for x in xs:
            y = breaks(x)
            if len(into) < 6:
                into.append(y)
        return into

    compiled = stator.compile(filled, backend="eager")
    for _ in range(2):
        same(compiled(tensors(3), []), filled(tensors(3), []))
    found, expected = tensors(3), tensors(3)
    same(compiled(found, found), filled(expected, expected))


def test_two_iterators_become_one() -> None:
    def turns(a: Iterator[Any], b: Iterator[Any]) -> Any:
        seen = []
        for x in a:
            y = breaks(x)
            seen.append(y + next(b, 0))
        return seen

    compiled = stator.compile(turns, backend="eager", recompile_limit=64)
    for _ in range(2):
        same(
            compiled(iter(tensors(4)), iter(tensors(4))), turns(iter(tensors(4)), iter(tensors(4)))
        )
    found, expected = iter(tensors(4)), iter(tensors(4))
    same(compiled(found, found), turns(expected, expected))
