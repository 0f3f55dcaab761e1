# mypy: ignore-errors
"""What a program fills in its first call, while sizes change as well; and profilers that start."""

from typing import Any

import pytest
import torch

import stator


class Counted:
    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, module: Any, inputs: Any) -> Any:
        self.graphs += 1
        return module.forward


class Holder:
    flag: Any = None


@pytest.fixture(autouse=True)
def fresh() -> None:
    stator.reset()


FILLED = {
    "string": "set",
    "int": 3,
    "bool": True,
    "float": 1.5,
    "list": [1],
    "dict": {"a": 1},
    "tensor": torch.ones(1),
    "class": Holder,
}


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("name", FILLED)
def test_an_attribute(name: str, own: bool) -> None:
    """The second graph leaves the size open."""
    holder, backend = Holder(), Counted()
    if own:
        holder.flag = None

    @stator.compile(backend=backend)
    def program(holder: Holder, x: torch.Tensor) -> torch.Tensor:
        if holder.flag is None:
            holder.flag = FILLED[name]
        return x * 2

    for size in (5, 6, 7, 8):
        assert torch.equal(program(holder, torch.ones(size)), torch.ones(size) * 2)
        assert holder.flag is FILLED[name] or holder.flag == 1.5
    assert backend.graphs == 2


def test_a_cell_and_an_item() -> None:
    backend = Counted()
    last = None
    items: dict[str, Any] = {"last": None}

    @stator.compile(backend=backend)
    def program(x: torch.Tensor) -> torch.Tensor:
        nonlocal last
        result = x + (0 if last is None else 1) + (0 if items["last"] is None else 2)
        last, items["last"] = 1, 2
        return result

    found = [program(torch.zeros(size)) for size in (5, 6, 7, 8)]
    assert [each[0].item() for each in found] == [0, 3, 3, 3]
    assert backend.graphs == 2


def test_an_argument_is_another_kind_of_call() -> None:
    backend = Counted()

    @stator.compile(backend=backend)
    def program(x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        return x * 2 if mask is None else x * mask

    program(torch.ones(5))
    program(torch.ones(6), torch.ones(6))
    program(torch.ones(5))
    program(torch.ones(6), torch.ones(6))
    assert backend.graphs == 2
    program(torch.ones(7), torch.ones(7))
    assert backend.graphs == 3  # not left open before: a size of the other kind says nothing


# ------------------------------------------------------------------ profilers


def test_a_profiler_does_not_compile_anew() -> None:
    backend = Counted()

    @stator.compile(backend=backend)
    def program(x: torch.Tensor) -> torch.Tensor:
        with torch.profiler.record_function("first"):
            x = x.sin()
        with torch.profiler.record_function("second"):
            return x + 1

    x = torch.ones(3)
    expected = program(x)
    with torch.profiler.profile() as profiler:
        assert torch.equal(program(x), expected)
        assert torch.equal(program(x), expected)
    counts = {each.key: each.count for each in profiler.key_averages()}
    assert (counts["first"], counts["second"]) == (2, 2)
    assert torch.equal(program(x), expected)
    assert backend.graphs == 1


def test_compiled_while_a_profiler_is_active() -> None:
    backend = Counted()

    @stator.compile(backend=backend, fullgraph=True)
    def program(x: torch.Tensor) -> torch.Tensor:
        with torch.profiler.record_function("part"):
            return x.sin()

    with torch.profiler.profile() as profiler:
        program(torch.ones(3))
    assert "part" in {each.key for each in profiler.key_averages()}
    program(torch.ones(3))
    assert backend.graphs == 1


def test_a_range_without_a_graph() -> None:
    """There is no graph whose call would be the range."""

    def program(n: list[int]) -> int:
        with torch.profiler.record_function("part"):
            n.append(1)
        return len(n)

    compiled = stator.compile(program, backend="eager")
    assert compiled([]) == 1
    with torch.profiler.profile() as profiler:
        assert compiled([]) == 1
    assert "part" in {each.key for each in profiler.key_averages()}


MEMO: dict[Any, Any] = {}


@pytest.mark.parametrize("place", ["global", "attribute"])
def test_what_is_computed_once_for_each_key(place: str) -> None:
    """Programs keep what they have computed in a dict: the second graph leaves the size open."""
    holder, backend = Holder(), Counted()
    MEMO.clear()
    holder.flag = {}

    @stator.compile(backend=backend)
    def program(holder: Holder, x: torch.Tensor) -> torch.Tensor:
        memo = MEMO if place == "global" else holder.flag
        if not list(memo):
            memo[type(x)] = 2
        return x * memo[type(x)]

    for size in (5, 6, 7, 8):
        assert torch.equal(program(holder, torch.ones(size)), torch.ones(size) * 2)
    assert (MEMO if place == "global" else holder.flag) == {torch.Tensor: 2}
    assert backend.graphs == 2


def test_an_argument_with_more_keys_is_another_kind_of_call() -> None:
    backend = Counted()

    @stator.compile(backend=backend)
    def program(options: dict[str, float], x: torch.Tensor) -> torch.Tensor:
        for each in options.values():
            x = x * each
        return x

    for size, options in ((5, {"a": 2.0}), (6, {"a": 2.0, "b": 3.0}), (5, {"a": 2.0})):
        program(options, torch.ones(size))
    assert backend.graphs == 2
