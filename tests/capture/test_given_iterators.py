"""Iterators that existed before the call: advanced by exactly what the program has taken.

Generated: each kind of iterator × each way to consume it, twice with the same iterator and with
others, against eager: results, what is left of the iterator, graphs where capture is claimed.
"""

# mypy: ignore-errors

import collections
import itertools
import operator

import pytest
import torch

import stator

from .harness import Recording

X = torch.arange(3.0)


class Items(tuple):
    """Has its own idea of iteration, which an iterator made by `tuple.__iter__` does not ask."""

    def __iter__(self):
        raise AssertionError("nobody asks for it")


KINDS = {
    "range": lambda: iter(range(1, 6)),
    "long range": lambda: iter(range(1 << 70, (1 << 70) + 3)),
    "list": lambda: iter([3, 1, 2]),
    "list, begun": lambda: _begun(iter([3, 1, 2])),
    "reversed": lambda: reversed([3, 1, 2]),
    "tuple": lambda: iter((2, 3)),
    "subclass": lambda: tuple.__iter__(Items((2, 3))),
    "text": lambda: iter("abc"),
    "wide text": lambda: iter("a\u20ac"),
    "bytes": lambda: iter(b"ab"),
    "keys": lambda: iter({1: 2, 3: 4}),
    "values": lambda: iter({1: 2, 3: 4}.values()),
    "items": lambda: iter({1: 2, 3: 4}.items()),
    "set": lambda: iter({1, 2, 3}),
    "enumerate": lambda: enumerate([5, 6]),
    "zip": lambda: zip([1, 2, 3], "ab", strict=False),
    "nested": lambda: enumerate(zip(range(3), [4, 5], strict=False), 1),
    "strict": lambda: zip([1], [2], strict=True),
    "map": lambda: map(abs, [1, 2]),
    "empty": lambda: iter([]),
    "ended": lambda: _ended(iter([1])),
}
LEFT_ALONE = {  # which nobody can look into: a break
    "generator": lambda: (n for n in (1, 2)),
    "callable": lambda: iter([3, 1, 2].pop, 1),
}


def _begun(iterator):
    next(iterator)
    return iterator


def _ended(iterator):
    list(iterator)
    return iterator


def first(x, it):
    return x + 1, next(it, None)


def first_or_raise(x, it):
    try:
        return x + 1, next(it)
    except StopIteration:
        return x - 1, "nothing"


def two(x, it):
    a, b = next(it, 0), next(it, 0)
    return x * 2, a, b


def loop(x, it):
    found = []
    for each in it:
        x = x + 1
        found.append(each)
    return x, found


def some_of(x, it):
    for each in it:
        x = x + 1
        if each != 3:
            break
    return x, next(it, "the end")


def listed(x, it):
    return x + 1, list(it)


def into_a_set(x, it):
    seen = {0}
    seen.update(it)
    return x * len(seen), seen


def extended(x, it):
    found = [0]
    found.extend(it)
    return x + 1, found


def contained(x, it):
    return x + 1, 3 in tuple(it)


def any_of(x, it):
    return x + 1, any(it)


def by_iter(x, it):
    return x + 1, iter(it) is it, [each for each in iter(it)]


def raised(x, it):
    for each in it:
        x = x + 1
        raise ValueError(str(each))
    return x


def behind_a_break(x, it):
    y = x + next(it, (0,)).__sizeof__() * 0
    stator.graph_break()
    return y + 1, list(it)


def handed_back(x, it):
    next(it, None)
    return x + 1, it


OTHERS = {  # captured or not
    "sum": lambda x, it: (x, sum(it)),
    "sorted": lambda x, it: (x + 1, sorted(it)),
    "max": lambda x, it: (x + 1, max(it, default=0)),
    "dict": lambda x, it: (x + 1, dict(it)),
    "join": lambda x, it: (x + 1, "".join(it)),
    "zip": lambda x, it: (x + 1, list(zip([0], it, strict=False))),
    "enumerate": lambda x, it: (x + 1, next(enumerate(it), None), next(it, None)),
    "map": lambda x, it: (x + 1, list(map(str, it))),
    "unpacked": lambda x, it: (x + 1, [*it]),
    "starred": lambda x, it: (x + 1, max(0, 0, *it)),
    "two names": lambda x, it: (x + 1, [(a, b) for a, b in [it]]),
    "in": lambda x, it: (x + 1, 3 in it),
    "method": lambda x, it: (x + 1, it.__next__()),
    "hint": lambda x, it: (x + 1, it.__length_hint__(), next(it)),
    "yielded": lambda x, it: (x + 1, list((lambda: (yield from it))())),
    "an error": lambda x, it: (x + 1, [0].__iadd__(it), sum(it, [])),
    "a slice": lambda x, it: (x + 1, list(__import__("itertools").islice(it, 2))),
}
WAYS = [
    *(first, first_or_raise, two, loop, some_of, listed, into_a_set, extended, contained, any_of),
    *(by_iter, raised, handed_back),
]


def outcome(function, it):
    try:
        found = function(X.clone(), it)
    except Exception as error:
        found = type(error), str(error)
    if isinstance(found, tuple) and found[-1] is it:
        found = (*found[:-1], "the iterator")
    try:
        left = [each for each, _ in zip(it, range(20), strict=False)]
    except RuntimeError as error:  # the container has another size than before
        left = str(error)
    return repr(found), repr(left)


@pytest.mark.parametrize("kind", [*KINDS, *LEFT_ALONE])
@pytest.mark.parametrize("way", [*WAYS, behind_a_break])
def test_as_in_eager(way, kind) -> None:
    stator.reset()
    make = {**KINDS, **LEFT_ALONE}[kind]
    compiled = stator.compile(way, backend="eager")
    for _ in range(2):
        assert outcome(compiled, make()) == outcome(way, make())
    for other in ("range", kind, "empty", "list", "items", kind):  # changed between the calls
        make = {**KINDS, **LEFT_ALONE}[other]
        assert outcome(compiled, make()) == outcome(way, make())


@pytest.mark.parametrize("kind", ["range", "list", "text", "items", "enumerate", "generator"])
@pytest.mark.parametrize("way", OTHERS)
def test_other_ways(way, kind) -> None:
    stator.reset()
    make, program = {**KINDS, **LEFT_ALONE}[kind], OTHERS[way]
    compiled = stator.compile(program, backend="eager")
    for _ in range(2):
        assert outcome(compiled, make()) == outcome(program, make())


@pytest.mark.parametrize("kind", ["range", "list", "values", "set", "nested", "text", "empty"])
@pytest.mark.parametrize("way", WAYS)
def test_one_graph(way, kind) -> None:
    stator.reset()
    backend = Recording()
    compiled = stator.compile(way, backend=backend, fullgraph=True)
    for _ in range(3):
        assert outcome(compiled, KINDS[kind]()) == outcome(way, KINDS[kind]())
    assert len(backend.graphs) <= 1  # none if nothing is computed before it raises


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
def test_the_same_iterator_again_and_again(backend, dynamic) -> None:
    def step(x, it):
        return x * next(it, -1)

    stator.reset()
    compiled = stator.compile(step, backend=backend, dynamic=dynamic)
    ours, theirs = iter(range(40)), iter(range(40))
    for size in (*range(2, 12), *range(2, 40)):
        x = torch.arange(float(size))
        assert torch.equal(compiled(x, ours), step(x, theirs))
    assert list(ours) == list(theirs)


CHANGES = {
    "list": (lambda: [1, 2, 3], lambda c: c.append(9)),
    "dict": (lambda: {1: 2, 3: 4}, lambda c: c.__setitem__(1, 9)),
    "set": (lambda: {1, 2, 3}, lambda c: c.discard(3)),
}


@pytest.mark.parametrize("kind", CHANGES)
@pytest.mark.parametrize("of_it", [True, False])
def test_containers_that_the_program_changes(kind, of_it) -> None:
    make, change = CHANGES[kind]

    def before(x, it, container):
        change(container)
        return x + 1, next(it, None), list(it)

    def between(x, it, container):
        a = next(it, None)
        change(container)
        return x + 1, a, list(it)

    def behind(x, it, container):
        found = list(it)
        change(container)
        return x + 1, found, list(it)

    def world(mine):
        container = make()
        return iter(container if mine else make()), container

    for program in (before, between, behind):
        stator.reset()
        compiled = stator.compile(program, backend="eager")
        for mine in (of_it, not of_it, of_it):
            ours, theirs = world(mine), world(mine)
            found = outcome(lambda x, it, f=compiled, c=ours[1]: f(x, it, c), ours[0])
            wanted = outcome(lambda x, it, f=program, c=theirs[1]: f(x, it, c), theirs[0])
            assert found == wanted
            assert repr(ours[1]) == repr(theirs[1])


def test_two_that_are_one() -> None:
    def both(x, a, b):
        return x + 1, next(a, None), next(b, None), next(a, None)

    stator.reset()
    compiled = stator.compile(both, backend="eager")
    for same in (False, True, False, True):
        for function in (compiled, both):
            a = iter([1, 2, 3])
            b = a if same else iter([1, 2, 3])
            found = function(X, a, b)[1:], list(a), list(b)
            if function is compiled:
                ours = found
        assert ours == found


def test_one_that_another_holds() -> None:
    def both(x, a, b):
        return x + 1, next(a, None), next(b, None), next(a, None)

    stator.reset()
    compiled = stator.compile(both, backend="eager")
    for shared in (False, True, False, True):
        results = []
        for function in (compiled, both):
            b = iter([1, 2, 3, 4])
            a = zip(b if shared else iter([1, 2, 3, 4]), "xyz", strict=False)
            results.append((function(X, a, b)[1:], list(a), list(b)))
        assert results[0] == results[1]


def test_an_iterator_that_is_an_attribute() -> None:
    class Loader:
        def __init__(self):
            self.numbers = iter([1, 2, 3])

    def step(x, loader):
        return x * next(loader.numbers)

    stator.reset()
    compiled = stator.compile(step, backend="eager", fullgraph=True)
    ours = Loader()
    assert [compiled(X, ours).sum().item() for _ in range(3)] == [3.0, 6.0, 9.0]
    with pytest.raises(StopIteration):
        compiled(X, ours)


LENGTHS = {
    "list": lambda n: iter(list(range(n))),
    "reversed": lambda n: reversed(list(range(n))),
    "tuple": lambda n: iter(tuple(range(n))),
    "range": lambda n: iter(range(n)),
    "dict": lambda n: iter(dict.fromkeys(range(n))),
    "items": lambda n: iter(dict.fromkeys(range(n)).items()),
    "set": lambda n: iter(set(range(n))),
    "deque": lambda n: iter(collections.deque(range(n))),
    "repeat": lambda n: itertools.repeat("a", n),
    "zip": lambda n: zip(range(n), range(n), strict=False),
    "enumerate": lambda n: enumerate(range(n)),
}


@pytest.mark.parametrize("kind", LENGTHS)
def test_how_many_are_left(kind) -> None:
    def program(x, it):
        first = operator.length_hint(it, 7)
        next(it, None)
        second = operator.length_hint(it, 7)
        rest = list(it)
        return x + first, first, second, rest, operator.length_hint(it, 7)

    told = kind not in ("zip", "enumerate", "deque")
    stator.reset()
    compiled = stator.compile(program, backend="eager", fullgraph=told)
    for n in (3, 3, 5, 1, 0):
        ours, theirs = LENGTHS[kind](n), LENGTHS[kind](n)
        assert repr(compiled(X, ours)) == repr(program(X, theirs))
        assert list(ours) == list(theirs)


def test_how_many_are_left_of_what_is_changed() -> None:
    def program(x, items, it):
        next(it)
        items.append(4)
        return x + operator.length_hint(it), list(it)

    stator.reset()
    compiled = stator.compile(program, backend="eager")
    for items in ([1, 2], [1, 2], [1, 2, 3]):
        other = list(items)
        assert repr(compiled(X, items, iter(items))) == repr(program(X, other, iter(other)))
        assert items == other


def test_only_the_number_is_asked() -> None:
    def program(x, it):
        return x + operator.length_hint(it)

    stator.reset()
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for items in ([1, 2], [3, 4], [1, 2, 3]):
        it = iter(items)
        assert compiled(X, it).tolist() == program(X, it).tolist()
        assert list(it) == items
