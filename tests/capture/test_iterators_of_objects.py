"""Iterators from before the call, of tensors, modules and containers.

Generated: each kind of iterator × each way to consume it, against eager: results, what is left of
the iterator, whether it is one graph; then with iterators of other kinds in the place of the first.
"""

# mypy: ignore-errors

import itertools

import pytest
import torch

import stator

from .harness import Recording


def t(n):
    return torch.full((2,), float(n))


class Scale(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.n = n
        self.w = torch.nn.Parameter(t(n))

    def forward(self, x):
        return x * self.w + self.n

    def __repr__(self):
        return f"Scale({self.n})"


def some():
    return [t(1), t(2), t(3)]


def begun(it, times=1):
    for _ in range(times):
        next(it)
    return it


def doubled(a):
    return a * 2


KINDS = {
    "list": lambda: iter(some()),
    "list, begun": lambda: begun(iter(some())),
    "reversed": lambda: reversed(some()),
    "tuple": lambda: iter(tuple(some())),
    "values": lambda: iter(dict(enumerate(some())).values()),
    "values, begun": lambda: begun(iter(dict(enumerate(some())).values())),
    "items": lambda: iter({"a": t(1), "b": t(2)}.items()),
    "enumerate": lambda: enumerate(some()),
    "zip": lambda: zip(some(), [1, 2, 3], strict=False),
    "strict": lambda: zip(some(), some(), strict=True),
    "uneven": lambda: zip(some(), [1, 2], strict=True),
    "nested": lambda: enumerate(zip(some(), "abc", strict=False), 5),
    "map": lambda: map(doubled, some()),
    "map of C": lambda: map(torch.neg, some()),
    "map of two": lambda: map(lambda a, b: a + b, some(), iter(some())),
    "filter": lambda: filter(lambda a: a.dim() == 1, some()),
    "filter of none": lambda: filter(None, [[1], [], (2,)]),
    "zip of map": lambda: zip(map(doubled, some()), range(3), strict=False),
    "starmap": lambda: itertools.starmap(lambda a, b: a * b, zip(some(), some(), strict=True)),
    "chain": lambda: itertools.chain(some(), some()),
    "chain, begun": lambda: begun(itertools.chain(some(), tuple(some()))),
    "from_iterable": lambda: itertools.chain.from_iterable([some(), some()]),
    "islice": lambda: itertools.islice(some(), 1, 3),
    "islice, begun": lambda: begun(itertools.islice(some() + some(), 0, None, 2)),
    "repeat": lambda: itertools.repeat(t(4), 3),
    "count": lambda: itertools.islice(itertools.count(3, 2), 3),
    "zip of count": lambda: zip(some(), itertools.count(2.5), strict=False),
    "zip of steps": lambda: zip(itertools.count(-3, 2), some(), strict=False),
    "zip of repeat": lambda: zip(some(), itertools.repeat("a"), strict=False),
    "large count": lambda: zip(itertools.count(1 << 70), some(), strict=False),
    "cycle": lambda: itertools.islice(itertools.cycle(some()), 5),
    "cycle, begun": lambda: itertools.islice(begun(itertools.cycle(some())), 5),
    "cycle, again": lambda: itertools.islice(begun(itertools.cycle(some()), 4), 5),
    "modules": lambda: iter([Scale(1), Scale(2), Scale(3)]),
    "lists": lambda: iter([[t(1)], [t(2), t(3)]]),
    "mixed": lambda: iter([t(1), 2, "s"]),
}
LEFT_ALONE = {"generator": lambda: (a for a in some())}
# Since 3.14, those of itertools don't tell what they hold: from before the call, they are a break,
# but for those two that show it in other ways.
UNTOLD = {
    kind
    for kind in KINDS
    if (made := type(KINDS[kind]())).__module__ == "itertools"
    and "__reduce__" not in vars(made)
    and made not in (itertools.repeat, itertools.count)
}


def first(x, it):
    return x + 1, next(it, None)


def two(x, it):
    return x * 2, next(it, None), next(it, None)


def loop(x, it):
    found = []
    for each in it:
        x = x + 1
        found.append(each)
    return x, found


def some_of(x, it):
    for number, each in enumerate(it):
        if isinstance(each, torch.Tensor):
            x = x + each
        elif callable(each):
            x = each(x)
        if number == 1:
            break
    return x, next(it, None)


def listed(x, it):
    return x + 1, list(it)


def extended(x, it):
    found = [0]
    found.extend(it)
    return x + 1, found


def unpacked(x, it):
    return x + 1, [*it], list(it)


def starred(x, it):
    return x + 1, (lambda *a: a)(*it)


def zipped(x, it):
    return x + 1, list(zip(it, [1, 2], strict=False)), next(it, None)


def yielded(x, it):
    return x + 1, list((lambda: (yield from it))())


def handed_back(x, it):
    next(it, None)
    return x + 1, it


def kept(x, it):
    return x + 1, zip(it, [1, 2, 3], strict=False)


def kept_and_advanced(x, it):
    pairs = zip(it, [1, 2, 3], strict=False)
    next(pairs, None)
    return x + 1, pairs, next(it, None)


WAYS = [
    *(first, two, loop, some_of, listed, extended, unpacked, starred, zipped, yielded),
    *(handed_back, kept, kept_and_advanced),
]


def taken(it):
    try:
        return [repr(each) for each, _ in zip(it, range(9), strict=False)]
    except Exception as error:
        return repr(error)


def outcome(function, it):
    try:
        found = function(torch.ones(2), it)
    except Exception as error:
        found = (repr(error),)
    if found[-1] is it:
        found = (*found[:-1], "the iterator")
    found = [taken(each) if hasattr(each, "__next__") else each for each in found]
    return repr(found), taken(it)


@pytest.mark.parametrize("kind", [*KINDS, *LEFT_ALONE])
@pytest.mark.parametrize("way", WAYS)
def test_as_in_eager(way, kind) -> None:
    make = {**KINDS, **LEFT_ALONE}
    stator.reset()
    compiled = stator.compile(way, backend="eager")
    for each in (kind, kind, "list", "map", kind):  # changed between the calls
        assert outcome(compiled, make[each]()) == outcome(way, make[each]())


@pytest.mark.parametrize("kind", sorted(UNTOLD))
def test_what_does_not_tell_is_a_break(kind) -> None:
    stator.reset()
    with pytest.raises(stator.CaptureError, match="reads an object of type"):
        stator.compile(first, backend="eager", fullgraph=True)(t(1), KINDS[kind]())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in {"uneven", *UNTOLD}])
def test_one_graph(kind) -> None:
    for way in WAYS:
        stator.reset()
        backend = Recording()
        compiled = stator.compile(way, backend=backend, fullgraph=True)
        for _ in range(2):
            assert outcome(compiled, KINDS[kind]()) == outcome(way, KINDS[kind]())
        assert len(backend.graphs) <= 1, way.__name__  # none if no tensor is among the items


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("kind", [list, tuple])
def test_where_it_is_does_not_matter(kind, backend, dynamic) -> None:
    """One compilation goes through all batches."""

    class Loader:
        def __init__(self):
            self.batches = iter(kind(torch.full((3,), float(n)) for n in range(20)))

    def step(x, loader):
        return x * next(loader.batches)

    stator.reset()
    recorded = Recording() if backend == "eager" else backend
    compiled = stator.compile(step, backend=recorded, dynamic=dynamic, fullgraph=True)
    ours, theirs, x = Loader(), Loader(), torch.arange(3.0)
    for _ in range(20):
        assert torch.equal(compiled(x, ours), step(x, theirs))
    if recorded is not backend:
        assert len(recorded.graphs) == 1
    with pytest.raises(StopIteration):
        compiled(x, ours)


def test_what_it_goes_through_is_changed() -> None:
    def before(x, it, items):
        items.append(t(9))
        return x + next(it), len(items)

    def between(x, it, items):
        a = next(it)
        items[1] = t(9)
        return x + a, list(it)

    def kept(x, it, items):
        pairs = zip(it, [1, 2, 3, 4], strict=False)
        items.append(t(9))
        return x + 1, list(pairs)

    def behind(x, it, items):
        found = list(it)
        items.append(t(9))
        return x + len(found), list(it), items

    for program in (before, between, kept, behind):
        stator.reset()
        compiled = stator.compile(program, backend="eager")
        for mine in (True, False, True, False):
            results = []
            for function in (compiled, program):
                items, others = some(), some()
                it = iter(items if mine else others)
                results.append((repr(function(torch.ones(2), it, items)), taken(it), repr(items)))
            assert results[0] == results[1], (program, mine)


def test_two_that_are_one() -> None:
    def both(x, a, b):
        return x + next(a), next(b, None), next(a, None), list(b)

    stator.reset()
    compiled = stator.compile(both, backend="eager")
    makes = [
        lambda: [iter(some()), iter(some())],
        lambda: [iter(some())] * 2,
        lambda: (lambda it: [it, map(doubled, it)])(iter(some())),
        lambda: (lambda it: [map(doubled, it), it])(iter(some())),
        lambda: (lambda it: [map(doubled, it), map(doubled, it)])(iter(some())),
        lambda: (lambda it: [map(doubled, it), enumerate(it)])(iter(some())),
        lambda: (lambda it: [map(doubled, it), zip(it, it, strict=False)])(iter(some())),
    ]
    for make in [*makes, *reversed(makes)]:
        results = []
        for function in (compiled, both):
            a, b = make()
            try:
                found = repr(function(torch.ones(2), a, b))
            except StopIteration:
                found = "the end"
            results.append((found, taken(a), taken(b)))
        assert results[0] == results[1]


def test_functions_change_what_is_iterated_over() -> None:
    items = []

    def growing(a):
        if len(items) < 6:
            items.append(t(len(items)))
        return a + 1

    def listed(x, it):
        return x + 1, list(it)

    def unpacked(x, it):
        return x + 1, [*it]

    def looped(x, it):
        for each in it:
            x = x + each
        return x

    def until(x, it):
        return x + 1, sum(1 for _ in it), len(items)

    for program in (listed, unpacked, looped, until):
        for make in (map, lambda f, it: zip(map(f, it), it, strict=False)):
            stator.reset()
            compiled = stator.compile(program, backend="eager")
            for size in (3, 3, 6, 2):
                results = []
                for function in (compiled, program):
                    items[:] = [t(n) for n in range(size)]
                    it = make(growing, iter(items))
                    try:
                        found = repr(function(torch.ones(2), it))
                    except TypeError as error:
                        found = str(error)
                    results.append((found, taken(it), repr(items)))
                assert results[0] == results[1]


def test_functions_that_are_mapped_run_once() -> None:
    log = []

    def noted(a):
        log.append(a.shape)
        return a + len(log)

    def total(x, it):
        for each in it:
            x = x + each
        return x

    stator.reset()
    compiled = stator.compile(total, backend="eager", fullgraph=True)
    for _ in range(3):
        results = []
        for function in (compiled, total):
            log.clear()
            results.append((function(torch.ones(2), map(noted, some())).tolist(), list(log)))
        assert results[0] == results[1]


LOOPS = {
    "list": iter,
    "reversed": reversed,
    "values": lambda items: iter(dict(enumerate(items)).values()),
    "map": lambda items: map(lambda m: m, items),
    "filter": lambda items: filter(callable, items),
    "filter of map": lambda items: filter(None, map(lambda m: m, items)),
    "zip of one": lambda items: (each for (each,) in zip(items, strict=True)),
    "chain": lambda items: itertools.chain(items[:3], items[3:]),
    "islice": lambda items: itertools.islice(items, 12),
    "generator": lambda items: (m for m in items),
}


@pytest.mark.parametrize("kind", LOOPS)
def test_a_loop_with_a_break_is_one_graph_for_each_iteration(kind) -> None:
    def loop(x, it):
        for layer in it:
            x = layer(x)
            stator.graph_break()
        return x

    layers = [torch.nn.Linear(2, 2) for _ in range(12)]
    stator.reset()
    backend = Recording()
    compiled = stator.compile(loop, backend=backend)
    for _ in range(2):
        expected = loop(torch.ones(2), LOOPS[kind](layers))
        assert torch.equal(compiled(torch.ones(2), LOOPS[kind](layers)), expected)
    # The first iteration, those behind a break; where a chain goes on with another list, one more.
    assert len(backend.graphs) <= 2 + 2 * (kind == "chain")
    assert all(graph == ["linear"] for graph in backend.graphs)
