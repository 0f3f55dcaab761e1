"""Tensors of quiet trees, whose objects are not looked at any more; skipped without torch.

Each program changes one of them in a way that its impl alone, or the count of swaps, must tell.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch: Any = pytest.importorskip("torch")

from stator import guards as G  # noqa: E402, N812
from stator._native import _core  # noqa: E402
from stator.guards import reference  # noqa: E402
from stator.guards import tensors as T  # noqa: E402, N812

from .guard_versions import VERSIONS, noticing  # noqa: E402

X, Y = G.Local(0, "x"), G.Local(1, "y")
COUNT = 12


@pytest.fixture(params=VERSIONS, autouse=True)
def versions(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from noticing(request.param)


def held() -> int:
    """How many tensors are known to be the same: none where changes of dicts are not told."""
    return 0 if _core.guard_versions() == "nothing" else COUNT


class Holder:
    parameters: dict[str, Any]

    def __init__(self) -> None:
        self.parameters = {f"p{i}": torch.nn.Parameter(torch.randn(3, 4)) for i in range(COUNT)}


class Other(torch.nn.Parameter):  # type: ignore[misc]
    pass


def guards_of(holder: Holder) -> list[G.Guard]:
    place = G.Attr(X, "parameters")
    return [
        G.Guard(X, G.TypeIs(Holder)),
        *(
            G.Guard(G.Item(place, name), T.tensor_match(parameter))
            for name, parameter in holder.parameters.items()
        ),
    ]


def known(tree: G.GuardTree) -> int:
    return int(tree.statistics()["known"])


def settled(guards: list[G.Guard], *locals: Any) -> G.GuardTree:
    tree = G.compile(guards)
    for _ in range(10):
        assert tree.check(locals, None), tree.explain(locals, None)
    return tree


@pytest.fixture
def world() -> tuple[Holder, list[G.Guard], G.GuardTree]:
    holder = Holder()
    guards = guards_of(holder)
    tree = settled(guards, holder)
    assert known(tree) == held()
    return holder, guards, tree


def swapped(p: Any, other: Any) -> None:
    torch.utils.swap_tensors(p, other)


CHANGES: dict[str, Callable[[Any], object]] = {
    "another shape": lambda p: setattr(p, "data", torch.randn(4, 3)),
    "another dtype": lambda p: setattr(p, "data", torch.randn(3, 4).double()),
    "other strides": lambda p: setattr(p, "data", torch.randn(4, 3).t()),
    "another number of dimensions": lambda p: setattr(p, "data", torch.randn(12)),
    "another device": lambda p: swapped(p, torch.nn.Parameter(torch.empty(3, 4, device="meta"))),
    "more dimensions than lie in the impl": lambda p: setattr(
        p, "data", torch.randn(3, 1, 1, 1, 1, 1, 4)
    ),
    "resized": lambda p: p.requires_grad_(False).resize_(2, 6).requires_grad_(),
    "transposed in place": lambda p: p.requires_grad_(False).t_().requires_grad_(),
    "frozen": lambda p: p.requires_grad_(False),
    "swapped for another shape": lambda p: swapped(p, torch.nn.Parameter(torch.randn(5))),
    "swapped for another dtype": lambda p: swapped(
        p, torch.nn.Parameter(torch.randn(3, 4).double())
    ),
    "another class": lambda p: setattr(p, "__class__", Other),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("which", [0, 7, COUNT - 1])
def test_a_change_is_seen(world: Any, change: Callable[[Any], object], which: int) -> None:
    holder, guards, tree = world
    change(holder.parameters[f"p{which}"])
    assert not reference.check(guards, (holder,))
    assert [tree.check((holder,), None) for _ in range(3)] == [False] * 3
    failure = tree.explain((holder,), None)
    assert failure is not None
    assert f"p{which}" in str(failure)
    del holder.parameters[f"p{which}"]
    assert not tree.check((holder,), None)
    holder.parameters = Holder().parameters
    assert all(tree.check((holder,), None) for _ in range(10))


def test_a_swap_that_changes_nothing(world: Any) -> None:
    """The impl that is looked at from then on is the new one, and the old one may go."""
    holder, _, tree = world
    p = holder.parameters["p3"]
    for _ in range(3):
        swapped(p, torch.nn.Parameter(torch.randn(3, 4)))
        assert all(tree.check((holder,), None) for _ in range(10))
        assert known(tree) == held()
    p.data = torch.randn(1)
    assert not tree.check((holder,), None)


def test_swaps_are_counted() -> None:
    T.calibrate()
    before = _core.guard_rebindings()
    swapped(torch.randn(2), torch.randn(3))
    assert _core.guard_rebindings() != before
    with pytest.raises(TypeError):
        torch._C._swap_tensor_impl(1)


def test_a_parameter_that_is_replaced(world: Any) -> None:
    holder, _, tree = world
    holder.parameters["p5"] = torch.nn.Parameter(torch.randn(3, 4))
    assert all(tree.check((holder,), None) for _ in range(10))
    assert known(tree) == held()
    holder.parameters["p5"] = torch.nn.Parameter(torch.randn(4, 4))
    assert not tree.check((holder,), None)


def test_what_no_level_holds_is_looked_at() -> None:
    """An argument is another tensor each time, whatever its address."""
    holder = Holder()
    guards = [*guards_of(holder), G.Guard(Y, T.tensor_match(torch.randn(2)))]
    tree = settled(guards, holder, torch.randn(2))
    assert known(tree) == held()
    for _ in range(20):
        assert tree.check((holder, torch.randn(2)), None)
        assert not tree.check((holder, torch.randn(3)), None)
    assert known(tree) == held()


def test_one_that_changes_and_still_matches() -> None:
    """A size that may be any is not looked at."""
    holder = Holder()
    guards = guards_of(holder)
    guards[3] = G.Guard(guards[3].source, T.tensor_match(holder.parameters["p2"], dynamic=(0,)))
    tree = settled(guards, holder)
    assert known(tree) == held()
    for size in range(4, 9):
        holder.parameters["p2"].data = torch.randn(size, 4)
        assert all(tree.check((holder,), None) for _ in range(4))
        assert known(tree) == held()
    holder.parameters["p2"].data = torch.randn(3, 5)
    assert not tree.check((holder,), None)
