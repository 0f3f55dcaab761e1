"""The native tree says what the slow evaluation says, whatever happened in between.

Random object graphs, guards that hold for them, random changes; after each change the tree with
shortcuts (which has just been told several times that all is well), a tree without, and the Python
reference must agree, and an explanation must name a guard that indeed fails.
"""

import gc
import os
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stator import guards
from stator.guards import reference

from .guard_versions import VERSIONS, WALKED, noticing
from .guard_worlds import World

# More with STATOR_EXAMPLES=1000; these take a few seconds.
EXAMPLES = int(os.environ.get("STATOR_EXAMPLES", "250"))
relaxed = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
seeds = st.integers(0, 2**32)


@pytest.fixture(params=(*VERSIONS, *WALKED), autouse=True, scope="module")
def versions(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from noticing(request.param)


class Agreement:
    """One world, its guards and their three evaluations."""

    def __init__(self, random: Random) -> None:
        self.world = World(random)
        self.guards = self.world.guards()
        self.quick = guards.compile(self.guards)
        self.full = guards.compile(self.guards, shortcuts=False)

    def now(self) -> bool:
        """All evaluations agree; what they say."""
        call = self.world.locals, self.world.function
        failing = reference.failing(self.guards, *call)
        for _ in range(5):  # the last ones are quiet
            assert self.quick.check(*call) == (not failing), self.said(failing)
        assert self.full.check(*call) == (not failing), self.said(failing)
        return not failing

    def said(self, failing: list[int]) -> str:
        return f"reference: {[str(self.guards[i]) for i in failing] or 'all hold'}"

    def explained(self) -> None:
        call = self.world.locals, self.world.function
        failing = reference.failing(self.guards, *call)
        failure = self.quick.explain(*call)
        assert (failure is None) == (not failing)
        if failure is not None:
            assert failure.index in failing
            assert str(failure)


@relaxed
@given(seeds)
def test_changes_are_seen(seed: int) -> None:
    random = Random(seed)
    pair = Agreement(random)
    assert pair.now(), pair.quick.explain(pair.world.locals, pair.world.function)
    for step in range(random.randint(1, 12)):
        undo = pair.world.change()
        if not pair.now() and step % 3 == 0:
            pair.explained()
        if random.random() < 0.6:
            undo()
            pair.now()


@relaxed
@given(seeds)
def test_other_arguments_are_seen(seed: int) -> None:
    """The same tree, called with other objects in between."""
    random = Random(seed)
    pair = Agreement(random)
    world = pair.world
    usual = world.locals
    for _ in range(10):
        world.locals = tuple(world.pick() for _ in range(2)) if random.random() < 0.5 else usual
        pair.now()
        if random.random() < 0.3:
            world.change()
            pair.now()


@relaxed
@given(seeds)
def test_objects_that_die_are_seen(seed: int) -> None:
    """Objects die and others take their place, often at the same address."""
    random = Random(seed)
    pair = Agreement(random)
    world = pair.world
    pair.now()
    for _ in range(6):
        if world.objects:
            world.objects.pop(random.randrange(len(world.objects)))
        world.locals = tuple(world.pick() for _ in range(2))
        gc.collect(0)
        world.objects.append(world.make())
        pair.now()
