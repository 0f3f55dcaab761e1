# mypy: ignore-errors
"""Python's random number generators whose state is known, and programs for one state of them.

What such a generator draws may decide anything. As one graph, a program is compiled for the state
in which its generators are in the first call; in another state it is none.
"""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

import stator
from stator.testing import count

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
OWN = random.Random()


class Picked:
    def __eq__(self, other):
        raise AssertionError("nobody compares it")

    __hash__ = None


PICKED = [Picked(), Picked(), Picked()]


def branches(x, items):
    return x + 1 if random.random() < 0.5 else x - 1


def shuffles(x, items):
    random.shuffle(items)
    return x * 2, items[0]


def shuffles_a_new_one(x, items):
    made = [*items, x]
    OWN.shuffle(made)
    return made, x * 2


def picks(x, items):
    return (
        random.choice(items),
        random.sample(items, 2),
        random.choices(items, [3, 1, 1], k=4),
        x + 1,
    )


def picks_objects(x, items):
    found = random.choice(PICKED)
    return [each is found for each in PICKED], random.sample(PICKED, 2) is PICKED, x + 1


def sets(x, items):
    a = {random.randrange(50) for _ in range(20)}
    b = frozenset(OWN.randint(0, 50) for _ in range(20))
    return a & b, a | b, sorted(a ^ b), x + len(a)


def texts(x, items):
    return f"{random.random():.3f}", str(random.getrandbits(100)), random.randbytes(5), x + 1


def loops(x, items):
    while random.random() < 0.7:
        x = x + random.randrange(3)
    return x


def raises(x, items):
    items.append(OWN.randrange(100))
    raise ValueError(str(random.random()))


def raises_by_chance(x, items):
    if random.random() < 0.5:
        raise KeyError(random.choice(items))
    return x.sum()


def goes_back(x, items):
    state = random.getstate()
    first = random.random()
    random.setstate(state)
    return first == random.random(), hash(first), x * 2


def refused_arguments(x, items):
    said = []
    for wrong in (
        lambda: random.choice([]),
        lambda: random.sample([1], 2),
        lambda: random.seed([]),
    ):
        try:
            wrong()
        except (IndexError, ValueError, TypeError) as error:
            said.append(str(error))
    return said, hash(random.random()), x + 1


def both(x, items):
    random.shuffle(items)
    return x * torch.rand(3), random.random(), items


PROGRAMS = [
    branches,
    shuffles,
    shuffles_a_new_one,
    picks,
    picks_objects,
    sets,
    texts,
    loops,
    raises,
    raises_by_chance,
    goes_back,
    refused_arguments,
    both,
]


# A branch has a graph for each side; a text of a number is made behind the graph.
IN_ANY_STATE = (branches, loops, raises, raises_by_chance)


def seeded(x, items):
    random.seed(5)
    random.shuffle(items)
    return x * random.random(), items, random.choice("abc")


def seeded_behind_a_draw(x, items):
    first = random.random()
    random.seed("text")
    return x * first, random.sample(items, 2), random.gauss(0, 1)


def seeded_twice(x, items):
    made = []
    for number in (3, 4, 3):
        OWN.seed(number)
        made.append(OWN.randrange(1 << 70))
    return made, x + 1


def seeded_in_vain(x, items):
    try:
        random.seed([])
    except TypeError:
        return x * random.random()


def made(x, items):
    generator = random.Random(7)
    generator.shuffle(items)
    return generator.choice(items), generator.random() < 0.5, x + generator.randrange(9)


def set_back(x, items):
    generator = random.Random(7)
    state = generator.getstate()
    first = generator.random()
    generator.setstate(state)
    return first == generator.random(), x + 1


ALWAYS = [seeded, seeded_behind_a_draw, seeded_twice, seeded_in_vain, made, set_back]


def outcome(function: Callable[..., Any], seed: int) -> Any:
    random.seed(seed)
    OWN.seed(seed + 1)
    torch.manual_seed(seed)
    items = ["a", 2, None]
    x = torch.arange(3.0)
    try:
        result = function(x, items)
    except (KeyError, ValueError) as error:
        result = type(error), error.args
    return (
        str(result),
        str(items),
        random.getstate(),
        OWN.getstate(),
        torch.get_rng_state().tolist(),
    )


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda fn: fn.__name__)
def test_one_graph_for_any_state_or_none(program: Callable[..., Any]) -> None:
    """The state that a generator happens to be in is not taken for granted."""
    compiled = stator.compile(program, backend="eager", fullgraph=True)
    if program in IN_ANY_STATE:
        for seed in (3, 4, 5, 4):
            assert outcome(compiled, seed) == outcome(program, seed)
        return
    random.seed(8)
    OWN.seed(8)
    before = random.getstate(), OWN.getstate()
    items = ["a", 2, None]
    with pytest.raises(stator.CaptureError):
        compiled(torch.arange(3.0), items)
    assert (random.getstate(), OWN.getstate(), items) == (*before, ["a", 2, None])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [*PROGRAMS, *ALWAYS], ids=lambda fn: fn.__name__)
def test_in_parts(program: Callable[..., Any], backend: str) -> None:
    compiled = stator.compile(program, backend=backend)
    for seed in (3, 3, 4, 5, 3):
        assert outcome(compiled, seed) == outcome(program, seed)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", ALWAYS, ids=lambda fn: fn.__name__)
def test_known_in_every_call(program: Callable[..., Any], dynamic: bool | None) -> None:
    compiled = stator.compile(program, backend="eager", fullgraph=True, dynamic=dynamic)
    for seed in (3, 4, 5):
        assert outcome(compiled, seed) == outcome(program, seed)
    assert count(compiled) == (1, 2)


def test_two_names_of_one_generator() -> None:
    def program(x, a, b):
        items = [a.randrange(100), b.randrange(100), a.randrange(100)]
        return x + 1, sorted(items)

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    for _ in range(2):
        one, other = random.Random(3), random.Random(3)
        assert str(compiled(torch.ones(1), one, one)) == str(program(torch.ones(1), other, other))
        assert one.getstate() == other.getstate()
    one, other, third, fourth = (random.Random(3) for _ in range(4))
    plain = stator.compile(program, backend="eager")
    plain(torch.ones(1), random.Random(3), random.Random(3))
    assert str(plain(torch.ones(1), one, other)) == str(program(torch.ones(1), third, fourth))
    assert one.getstate() == third.getstate() and other.getstate() == fourth.getstate()
