"""Strongly connected components, against the definition."""

from hypothesis import given
from hypothesis import strategies as st

from stator.effects.schedule import components

graphs = st.integers(1, 8).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=4), min_size=n, max_size=n)
)


def reachable(graph: list[list[int]], start: int) -> set[int]:
    """The nodes some path leads to, the start included."""
    found, pending = {start}, [start]
    while pending:
        for target in graph[pending.pop()]:
            if target not in found:
                found.add(target)
                pending.append(target)
    return found


@given(graph=graphs)
def test_components(graph: list[list[int]]) -> None:
    found = list(components(range(len(graph)), graph.__getitem__))
    assert sorted(n for component in found for n in component) == list(range(len(graph)))
    reach = [reachable(graph, n) for n in range(len(graph))]
    for component in found:
        for n in component:
            assert set(component) == {m for m in reach[n] if n in reach[m]}


@given(graph=graphs)
def test_what_is_referred_to_comes_first(graph: list[list[int]]) -> None:
    found = list(components(range(len(graph)), graph.__getitem__))
    place = {n: i for i, component in enumerate(found) for n in component}
    assert all(place[m] <= place[n] for n, targets in enumerate(graph) for m in targets)


def test_deep_graph() -> None:
    size = 20_000
    found = list(components([0], lambda n: [n + 1] if n < size else []))
    assert found == [[n] for n in range(size, -1, -1)]


def test_long_cycle() -> None:
    size = 20_000
    (found,) = components([0], lambda n: [(n + 1) % size])
    assert len(found) == size
