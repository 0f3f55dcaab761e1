"""Python's random number generators whose state is known: what they draw are constants.

In: calls of `random.Random` objects that were seeded in the call, or made in it with a constant
seed. Out: what another generator in the same state (a twin) answers; where the
generator is one of the world, one step before the graph brings it to where the twin ends.

What is picked or put in another order may be anything: the twin does it with positions.
"""

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from stator.capture.autograd.autograd_leaves import user_call
from stator.contracts import Depth
from stator.diagnostics.catalogue import RandomState
from stator.graph.passes.prologue import Step
from stator.objects import TypeSet
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

DRAWS: Final = frozenset(
    [
        "random",
        "uniform",
        "randint",
        "randrange",
        "gauss",
        "normalvariate",
        "lognormvariate",
        "expovariate",
        "vonmisesvariate",
        "gammavariate",
        "betavariate",
        "paretovariate",
        "weibullvariate",
        "triangular",
        "getrandbits",
        "choice",
        "choices",
        "sample",
    ]
)
PICKERS: Final = frozenset({"choice", "choices", "sample"})
_ALL: Final = DRAWS | {"seed", "shuffle", "randbytes", "binomialvariate", "getstate", "setstate"}
BEGINNINGS: Final = frozenset({"seed", "setstate"})  # it goes on from a constant
_SEQUENCES: Final = TypeSet(list, tuple)


class KnownDraws:
    """The generators of one trace whose state is known."""

    def __init__(self, tensors: "Tensors", constants: Callable[[Any], Any]) -> None:
        self._tensors = tensors
        self._constants = constants
        self._twins: dict[int, random.Random] = {}
        self.missed = False
        """The program has used a generator whose state is not known."""

    def holds(self, owner: random.Random) -> bool:
        """Whether the state of a generator of the world is known."""
        return id(owner) in self._twins

    def use(self, owner: random.Random, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a generator of the world answers; MISSING if its state is not known."""
        twin = self._twins.get(id(owner))
        if twin is not None:
            return self.call(twin, name, args, kwargs)
        twin = random.Random(0)
        if name in BEGINNINGS:
            answer = self.call(twin, name, args, kwargs)  # what raises has changed nothing
            self._begin(owner, twin)
            return answer
        self.missed = True
        return MISSING

    def _begin(self, owner: random.Random, twin: random.Random) -> None:
        self._twins[id(owner)] = twin
        own = self._tensors.own
        where = own.world_object(self._tensors.world.origins[id(owner)])
        own.steps.append((Step(bring, (where, twin), saved=saved), None))

    def call(self, twin: random.Random, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """What a generator in a known state answers."""
        if name not in _ALL:
            raise RandomState(f"Random.{name} of a random number generator is called")
        if name == "seed" and _seeds_by_system(args, kwargs):
            raise RandomState("a random number generator is seeded by the system")
        if name == "shuffle":
            return self._shuffle(twin, args, kwargs)
        if name in PICKERS and args and _SEQUENCES.holds(type(args[0])):
            population, *rest = args
            self._tensors.ready(population, Depth.SHALLOW)
            rest, kwargs = self._constants((rest, kwargs))
            places = user_call(call, twin, name, [range(len(population)), *rest], kwargs)
            if name == "choice":
                return population[places]
            return [population[place] for place in places]
        args, kwargs = self._constants((args, kwargs))
        if name == "setstate":
            return self._set_state(twin, args, kwargs)
        return user_call(call, twin, name, args, kwargs)

    def _set_state(self, twin: random.Random, args: list[Any], kwargs: dict[str, Any]) -> None:
        try:
            twin.setstate(*args, **kwargs)
        except Exception as error:  # some of it may be set
            raise RandomState("a random number generator gets a state that is none") from error

    def _shuffle(self, twin: random.Random, args: list[Any], kwargs: dict[str, Any]) -> None:
        if kwargs or len(args) != 1 or type(args[0]) is not list:
            raise RandomState("something is shuffled that is not a list")
        (items,) = args
        self._tensors.ready(items, Depth.SHALLOW)
        order = list(range(len(items)))
        twin.shuffle(order)
        items[:] = [items[place] for place in order]


def _seeds_by_system(args: list[Any], kwargs: dict[str, Any]) -> bool:
    given = args[0] if args else kwargs.get("a")
    return given is None


# ---------------------------------------------------------------------------- at run time


def call(generator: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return getattr(generator, name)(*args, **kwargs)


def bring(generator: random.Random, twin: random.Random) -> None:
    """Draws what the program draws, all at once."""
    generator.setstate(twin.getstate())


def saved(generator: random.Random, _: Any) -> Callable[[], Any]:
    state = generator.getstate()
    return lambda: generator.setstate(state)
