"""Random numbers: drawn anew in every call, before the graph, in program order.

In: calls of random number generators (`random`, numpy's, `torch.Generator`), and of torch's own
seed. Out: stand-ins for what they draw, which are inputs of the graph, and steps before the graph
(`graph.prologue`) that draw for real; or a `Break`.

A draw depends on the generator alone, as long as its arguments are constants, and nothing in a
graph touches these generators. So all draws of a trace can come first. torch's own generator is
different: operators of the graph use it. It can be seeded before the graph if no operator before
has used it, and after the graph if none does so behind.

While tracing, another generator of the same kind is asked: it tells types, shapes and errors.
"""

import copy
import functools
import random
import sys
import types
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import torch

from stator._native._core import Frame
from stator.capture.autograd.autograd_leaves import user_call
from stator.capture.randomness.drawing_functions import Drawn
from stator.capture.randomness.filled_tensors import drawn_into, fills, place_of
from stator.capture.randomness.generator_states import Forked
from stator.capture.randomness.known_generators import BEGINNINGS, DRAWS, PICKERS, KnownDraws
from stator.capture.randomness.seeds import MOST_BYTES, Seeded
from stator.capture.trace.causes import DRAWN
from stator.contracts import Depth
from stator.diagnostics.catalogue import RandomState, RegionContents
from stator.effects import Effect, Perform
from stator.graph.fakes.inputs import version_unseen
from stator.graph.passes.drawing import random_nodes
from stator.graph.passes.prologue import Given, Made, Step
from stator.guards import Callback, Fixed
from stator.torchlib.modes import disable_current_modes
from stator.torchlib.tensors import DisableTorchFunction
from stator.world import MISSING
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

_NUMPY: Final = frozenset(
    [
        "beta",
        "binomial",
        "chisquare",
        "choice",
        "dirichlet",
        "exponential",
        "f",
        "gamma",
        "geometric",
        "gumbel",
        "hypergeometric",
        "integers",
        "laplace",
        "logistic",
        "lognormal",
        "logseries",
        "multinomial",
        "multivariate_normal",
        "negative_binomial",
        "noncentral_chisquare",
        "noncentral_f",
        "normal",
        "pareto",
        "permutation",
        "poisson",
        "power",
        "rand",
        "randint",
        "randn",
        "random",
        "random_sample",
        "rayleigh",
        "standard_cauchy",
        "standard_exponential",
        "standard_gamma",
        "standard_normal",
        "standard_t",
        "triangular",
        "uniform",
        "vonmises",
        "wald",
        "weibull",
        "zipf",
    ]
)
_LARGEST: Final = 2**63 - 1


def is_generator_method(callable: Any) -> bool:
    """Whether a callable is a method of a random number generator, or makes one."""
    cls = type(callable)
    if cls is not types.MethodType and cls is not types.BuiltinFunctionType:
        if callable is torch.Generator:
            return True
        numpy = sys.modules.get("numpy.random")  # these are functions, the others methods
        if numpy is None or cls is not _cython():
            return False
        return callable is numpy.mtrand.seed or callable is numpy._generator.default_rng
    return _kind(type(callable.__self__)) is not None


class Draws:
    """The random numbers of one trace."""

    def __init__(self, tensors: "Tensors") -> None:
        self._tensors = tensors
        self._world = tensors.world
        self._after: list[tuple[Any, tuple[Any, ...]]] = []  # calls behind the graph
        self._used_before = 0  # random operators in the graph when the first of them was made
        self.seeded = Seeded(tensors)
        self.forked = Forked(self, tensors)
        self.drawn = Drawn(self, tensors.arrays)
        self.known = KnownDraws(tensors, self._constants)
        self._seeded: dict[int, Any] = {}  # twins of generators seeded in the call, by their id
        self._seeds: dict[int, int | None] = {}  # of torch's generators of the world, if known
        self._made: dict[int, Made] = {}  # what steps have made, by id of the stand-in
        self._versions: dict[int, int | None] = {}  # of those

    # ------------------------------------------------------------------ generators

    def method(self, generator: Any, found: Any) -> Any:
        """A method of a generator of the world, from what its class has; None if it is none."""
        cls = type(generator)
        if _kind(cls) is None or type(found) not in (types.MethodDescriptorType, _cython()):
            return None
        return found.__get__(generator, cls)

    def call(self, frame: Frame, method: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        if method is torch.Generator or method.__name__ == "default_rng":
            return self._new(method, args, kwargs)
        owner, name = getattr(method, "__self__", None), method.__name__
        kind = _kind(type(owner))
        if kind is None:  # np.random.seed
            owner, kind = self._world.know(sys.modules["numpy.random"].mtrand._rand), "numpy"
        if not self._world.is_world(owner):
            return self._of_new(owner, kind, name, args, kwargs)
        if kind == "torch":
            return self._torch_method(frame, owner, name, args, kwargs)
        if kind == "python" and owner is not None:
            known = self.known.use(owner, name, args, kwargs)
            if known is not MISSING:
                return known
        names = DRAWS if kind == "python" else _NUMPY
        if name not in names and name != "seed":
            raise RandomState(
                f"{type(owner).__name__}.{name} of a random number generator is called"
            )
        args, kwargs = self._constants((args, kwargs))
        if name == "seed" and (not args or args[0] is None):
            raise RandomState("a random number generator is seeded by the system")
        where = self._generator(owner)
        seeded = self._seeded.pop(id(owner), None)
        twin = _twin(owner) if seeded is None else seeded
        if name == "seed" or seeded is not None:
            # From here on, what it draws is the same in every call.
            known = user_call(_call, twin, name, args, kwargs)
            self._seeded[id(owner)] = twin
            self._step(_call, (where, name, args, kwargs), None)
            return known
        if name in PICKERS and kind == "python":
            _check_population(args, kwargs)
        example = user_call(_call, twin, name, args, kwargs)
        if type(example) is int and not -_LARGEST <= _bound(name, args, example) <= _LARGEST:
            raise RandomState("a random integer of more than 63 bits is drawn")
        return self._stand_in(frame, _call, (where, name, args, kwargs), example)

    def _new(self, maker: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """A generator that begins as it does in every call: it is asked in the trace."""
        args, kwargs = self._constants((args, kwargs))
        if maker is torch.Generator:
            made = user_call(maker, *args, **kwargs)
            if made.device.type != "cpu":
                raise RandomState("a random number generator is made on a device")
        else:
            if kwargs or len(args) != 1 or type(args[0]) is not int:
                raise RandomState("a random number generator is seeded by more than an int")
            made = user_call(maker, *args)
        self._world.keep(made)
        self._seeded[id(made)] = made
        return made

    def _of_new(
        self, owner: Any, kind: str, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """A generator made in the call: with a constant seed it draws the same in every call."""
        if id(owner) in self._seeded and kind == "torch":
            if name == "manual_seed" and len(args) == 1 and not kwargs and type(args[0]) is int:
                return user_call(owner.manual_seed, args[0])
            if name == "initial_seed" and not args and not kwargs:
                return owner.initial_seed()
        if id(owner) in self._seeded and kind == "numpy" and name in _NUMPY:
            args, kwargs = self._constants((args, kwargs))
            return self._tensors.arrays.native(_call, (owner, name, args, kwargs), {})
        if kind == "python" and (name in BEGINNINGS or id(owner) in self._seeded):
            answer = self.known.call(owner, name, args, kwargs)
            self._seeded[id(owner)] = owner
            return answer
        raise RandomState("a random number generator made in the call is used")

    def _generator(self, owner: Any) -> Given:
        return self._tensors.own.world_object(self._world.origins[id(owner)])

    def _constants(self, value: Any) -> Any:
        """The arguments, as they are now: the step has a copy of its own."""
        self._tensors.ready(value, Depth.DEEP)
        for part in _parts(value):
            if not (CONSTANTS.holds(type(part)) or self._is_known_array(part)):
                raise RandomState(
                    f"random numbers are drawn by an object of type {type(part).__name__}"
                )
        return copy.deepcopy(value)

    def _is_known_array(self, value: Any) -> bool:
        arrays = self._tensors.arrays
        if arrays.tables is None or not arrays.holds(type(value)):
            return type(value) is type and value in (int, float, bool)
        return not arrays.is_symbolic(value) and arrays.is_plain_dtype(value.dtype)

    def _step(self, run: Callable[..., Any], args: tuple[Any, ...], real: Any) -> Made:
        steps = self._tensors.own.steps
        steps.append((Step(run, args, saved=_saved), real))
        return Made(len(steps) - 1)

    def _stand_in(
        self, frame: Frame, draw: Callable[..., Any], args: tuple[Any, ...], example: Any
    ) -> Any:
        """What stands for a value like the example, which a step before the graph draws."""
        cls = type(example)
        arrays = self._tensors.arrays
        if cls is float or cls is int:
            real = _number(example)
            fake = self._input(real)
            self._step(functools.partial(_draw_number, draw), args, real)
            return self._tensors.scalars.item(frame, fake)
        if cls is list and example and {type(item) for item in example} in ({int}, {float}):
            real = _number(example)
            fake = self._input(real)
            self._step(functools.partial(_draw_number, draw), args, real)
            return self._tensors.scalars.tolist(frame, fake)
        if arrays.tables is not None and cls is arrays.tables.array:
            arrays.torch_dtype(example.dtype)
            with disable_current_modes(), DisableTorchFunction():
                real = torch.from_numpy(example)
            fake = self._input(real)
            arrays.inputs.add(id(real))
            self._step(draw, args, real)
            return arrays.add(arrays.model(example.shape, example.dtype, example.strides), fake)
        if arrays.tables is not None and arrays.tables.numbers.holds(cls):
            real = _scalar(example)
            fake = self._input(real)
            self._step(functools.partial(_draw_scalar, draw), args, real)
            return arrays.add(cls(example), fake)
        raise RandomState(f"a random {cls.__name__} is drawn")

    # ------------------------------------------------------------------ whole functions

    def owner(self, method: Any) -> Any:
        """The generator of the world that a method draws from; None if it is no such method."""
        bound = type(method) in (types.MethodType, types.BuiltinFunctionType)
        owner = method.__self__ if bound else None
        kind = _kind(type(owner))
        names = {"python": DRAWS, "numpy": _NUMPY}.get(kind or "", frozenset())
        if not bound or method.__name__ not in names | {"shuffle"} or id(owner) in self._seeded:
            return None
        if kind == "python" and owner is not None and self.known.holds(owner):
            return None
        return owner

    def made_by(
        self, frame: Frame, owner: Any, draw: Callable[..., Any], args: Any, example: Any
    ) -> Any:
        """A stand-in for what a function has made that draws from a generator."""
        if _kind(type(owner)) == "python":
            self.known.missed = True
        return self._stand_in(frame, draw, (self._generator(owner), *args), example)

    def saved(self, owner: Any) -> Callable[[], Any]:
        return _saved(owner)

    def _input(self, real: torch.Tensor) -> torch.Tensor:
        self._world.keep(real)
        made: torch.Tensor = self._tensors.graph.add_input(DRAWN, real)
        return made

    # ------------------------------------------------------------------ torch.Generator

    def _torch_method(
        self, frame: Frame, owner: Any, name: str, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        if owner is torch.default_generator:
            raise RandomState("torch's default generator is used as an object")
        if name == "manual_seed" and len(args) == 1 and not kwargs and type(args[0]) is int:
            self._seeds[id(owner)] = user_call(_twin(owner).manual_seed, args[0]).initial_seed()
            self._step(_call, (self._generator(owner), name, args, kwargs), None)
            return owner
        if name == "initial_seed" and not args and not kwargs:
            if id(owner) not in self._seeds:
                seed = self._seeds[id(owner)] = owner.initial_seed()
                check = Callback(lambda g: g.initial_seed() == seed, f"seeded with {seed}")
                self._world.guard(self._world.origins[id(owner)], check)
            if self._seeds[id(owner)] is not None:
                return self._seeds[id(owner)]
        if name == "get_state" and not args and not kwargs:
            with disable_current_modes(), DisableTorchFunction():
                real = _twin(owner).get_state()
            state = self._input(real)
            where = self._generator(owner)
            self._made[id(state)] = self._step(_call, (where, name, [], {}), real)
            self._versions[id(state)] = version_unseen(state)
            return state
        if name == "set_state" and len(args) == 1 and not kwargs and self._is_made(args[0]):
            made = self._made[id(args[0])]
            self._step(_set_state, (self._generator(owner), made), None)
            self._seeds[id(owner)] = None
            return owner
        raise RandomState(f"Generator.{name} of a random number generator is called")

    def _is_made(self, state: Any) -> bool:
        """Whether it is a state that was asked for in the call, unchanged since."""
        known = id(state) in self._made
        return known and version_unseen(state) == self._versions[id(state)]

    def operator(self, frame: Frame | None, target: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """A torch function that draws from a generator of the program's: before the graph."""
        owner = kwargs["generator"]
        options = {key: value for key, value in kwargs.items() if key != "generator"}
        mine = id(owner) in self._seeded and not self._world.is_world(owner)
        if (not mine and not self._world.is_world(owner)) or owner is torch.default_generator:
            raise RandomState(
                "a generator made in the call, or torch's own, is passed to an operator"
            )
        if fills(target, args):
            return self._fill(frame, owner, target[1], args, options, mine=mine)
        if isinstance(target, tuple) or getattr(target, "__name__", "") not in _FACTORIES:
            raise RandomState("an operator draws from a generator and works on tensors")
        if self._tensors.graph.default_device is not None:
            raise RandomState("an operator draws from a generator under a default device")
        self._tensors.ready((args, options), Depth.DEEP)
        parts = list(_parts((args, options)))
        if not all(CONSTANTS.holds(type(part)) or _is_setting(part) for part in parts):
            raise RandomState("an operator draws from a generator and works on tensors")
        grad = options.pop("requires_grad", False)
        given = (target, *copy.deepcopy((tuple(args), options)))
        fake = self._before(owner, _operator, given, mine=mine)
        return self._tensors.own.requires_grad_(frame, fake) if grad is True else fake

    def _fill(
        self, frame: Frame | None, owner: Any, name: str, args: Any, options: Any, *, mine: bool
    ) -> Any:
        """A method that fills a tensor."""
        tensor, *rest = args
        parts = list(_parts((rest, options)))
        if not all(CONSTANTS.holds(type(part)) for part in parts):
            raise RandomState("an operator draws from a generator and works on tensors")
        place = place_of(self._tensors, tensor, owner.device)
        given = (*place, name, *copy.deepcopy((rest, options)))
        fake = self._before(owner, drawn_into, given, mine=mine)
        return self._tensors.record(frame, ("method", "copy_"), (tensor, fake))

    def _before(self, owner: Any, draw: Any, args: tuple[Any, ...], *, mine: bool) -> Any:
        """What an operator draws, before the graph; a constant if the generator was made here."""
        if mine:
            return self._constant(owner, draw, args)
        device = owner.device
        check = Callback(lambda g: g.device == device, f"a generator on {device}")
        self._world.guard(self._world.origins[id(owner)], check)
        with disable_current_modes():
            real = user_call(draw, _twin(owner), *args)
        fake = self._input(real)
        self._step(draw, (self._generator(owner), *args), real)
        return fake

    def _constant(self, owner: Any, draw: Any, args: tuple[Any, ...]) -> Any:
        """What a generator made in the call draws: the same in every call."""
        if self._tensors.graph.graph is not self._tensors.graph.symbols.graph:
            raise RegionContents("a generator is used inside of a region of the graph")
        with disable_current_modes():
            real = user_call(draw, owner, *args)
        if real.nbytes > MOST_BYTES:
            raise RandomState("very many random numbers are drawn by a generator made in the call")
        return self._tensors.graph.constant(real)

    # ------------------------------------------------------------------ torch's own generator

    def manual_seed(self, frame: Frame | None, seed: Any) -> Any:
        """`torch.manual_seed`. A seed that is left open is taken from where it is."""
        shapes = self._tensors.shapes
        source = shapes.source_of(seed) if type(seed) is torch.SymInt else None
        if source is not None and not self._after and not self._is_random():
            given = self._tensors.own.world_object(source)
            self._seed(torch.random.manual_seed, (given,), _saved_torch)
            return self._world.know(torch.default_generator)
        seed = shapes.plain(frame, seed)
        if type(seed) is not int:
            raise RandomState("torch.manual_seed with more than an int")
        user_call(torch.Generator().manual_seed, seed)
        self._seed(torch.random.manual_seed, (seed,), _saved_torch)
        if self._after:
            self.seeded.begin(seed)
        return self._world.know(torch.default_generator)

    def get_rng_state(self, frame: Frame | None) -> torch.Tensor:
        """`torch.get_rng_state`, before the graph."""
        if self.is_used():
            raise RandomState("torch.get_rng_state after random numbers were drawn")
        with disable_current_modes(), DisableTorchFunction():
            real = torch.random.get_rng_state()
        fake = self._input(real)
        self._made[id(fake)] = self._step(torch.random.get_rng_state, (), real)
        self.forked.asked = True
        self._versions[id(fake)] = version_unseen(fake)
        return fake

    def set_rng_state(self, frame: Frame | None, state: Any) -> None:
        """`torch.set_rng_state` to a state that was asked for in the same call."""
        if not self._is_made(state):
            raise RandomState("torch.set_rng_state with a state that is not asked for in the call")
        made = self._made[id(state)]
        if self.is_used():
            self._behind(torch.random.set_rng_state, (state,))
            self.seeded.end()
        else:
            self._step(torch.random.set_rng_state, (made,), None)

    def _seed(self, run: Any, args: tuple[Any, ...], saved: Any) -> None:
        if self.is_used():
            self._behind(run, args)
            return
        self._tensors.own.steps.append((Step(run, args, saved=saved), None))

    def _behind(self, run: Any, args: tuple[Any, ...]) -> None:
        if not self._after:
            self._used_before = self._random_nodes()
        elif self._random_nodes() != self._used_before:
            raise RandomState("torch's generator is used, seeded, used and seeded again")
        self._after.append((run, args))

    def effects(self) -> Iterator[Effect]:
        """What happens to torch's generator behind the graph."""
        if self._after and self._random_nodes() != self._used_before:
            raise RandomState("torch's generator is seeded between random operators")
        for run, args in self._after:
            yield Perform(Fixed(run), args)
        for last in self.seeded.effects():
            yield Perform(Fixed(last), ())

    def is_used(self) -> bool:
        """Whether operators of the graph have drawn from torch's generator, or it was seeded."""
        return bool(self._after) or self._is_random()

    def drawn_before(self, draw: Any, args: tuple[Any, ...], real: torch.Tensor) -> torch.Tensor:
        """What torch's generator draws, before the graph."""
        fake = self._input(real)
        self._tensors.own.steps.append((Step(draw, args, saved=_saved_torch), real))
        return fake

    def _is_random(self) -> bool:
        return self._random_nodes() > 0

    def _random_nodes(self) -> int:
        graph = self._tensors.graph
        if graph.graph is not graph.symbols.graph:
            raise RegionContents("torch's generator is used inside of a region of the graph")
        return random_nodes(graph.graph)


_FACTORIES: Final = frozenset({"rand", "randn", "randint", "randperm", "normal"})


def _is_setting(value: Any) -> bool:
    return type(value) in (torch.dtype, torch.device, torch.layout, torch.Size)


def _cython() -> type:
    """The type of numpy's own methods; asked late, since numpy.random may be loaded late."""
    return type(getattr(sys.modules.get("numpy.random.mtrand"), "seed", None))


def _kind(cls: type) -> str | None:
    """Which library a class of random number generators is of; exact types only."""
    if cls is random.Random:
        return "python"
    if cls is torch.Generator:
        return "torch"
    numpy = sys.modules.get("numpy.random")
    if numpy is not None and (cls is numpy.RandomState or cls is numpy.Generator):
        return "numpy"
    return None


def _twin(owner: Any) -> Any:
    """Another generator of the same kind."""
    cls = type(owner)
    if cls is random.Random:
        return random.Random(0)
    if cls is torch.Generator:
        return torch.Generator(owner.device)
    numpy = sys.modules["numpy.random"]
    return numpy.RandomState(0) if cls is numpy.RandomState else numpy.default_rng(0)


def _parts(value: Any) -> Iterator[Any]:
    if type(value) in (list, tuple, torch.Size):
        for item in value:
            yield from _parts(item)
    elif type(value) is dict:
        for item in value.values():
            yield from _parts(item)
    elif type(value) is range:
        yield from (value.start, value.stop, value.step)
    else:
        yield value


def _check_population(args: list[Any], kwargs: dict[str, Any]) -> None:
    """What is picked must be of one type, whichever it is."""
    population: Any = args[0] if args else kwargs.get("population", kwargs.get("seq"))
    if type(population) is range:
        return
    if type(population) not in (list, tuple):
        raise RandomState("something is picked at random from more than a list of numbers")
    kinds = {type(item) for item in population}
    if not population or kinds not in ({int}, {float}):
        raise RandomState("something is picked at random that is not a number")
    if kinds == {int} and max(map(abs, population)) > _LARGEST:
        raise RandomState("a random integer of more than 63 bits is drawn")


def _bound(name: str, args: list[Any], example: int) -> int:
    """An integer at least as large as any that may be drawn."""
    if name == "getrandbits":
        return (1 << args[0]) - 1 if type(args[0]) is int and args[0] < 128 else _LARGEST + 1
    numbers = [abs(arg) for arg in args if type(arg) is int]
    return max([abs(example), *numbers])


# ---------------------------------------------------------------------------- at run time


def _call(generator: Any, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    return getattr(generator, name)(*args, **kwargs)


def _set_state(generator: Any, state: torch.Tensor) -> None:
    generator.set_state(state)


def _number(value: Any) -> torch.Tensor:
    """A number or a list of numbers, exactly."""
    first = value[0] if type(value) is list else value
    with disable_current_modes(), DisableTorchFunction():
        dtype = torch.float64 if type(first) is float else torch.int64
        return torch.tensor(value, dtype=dtype, device="cpu")


def _draw_number(draw: Callable[..., Any], *args: Any) -> Any:
    return _number(draw(*args))


def _scalar(value: Any) -> torch.Tensor:
    """A scalar of numpy as a tensor of its dtype."""
    with disable_current_modes(), DisableTorchFunction():
        return torch.from_numpy(value.reshape(1).copy())[0]


def _draw_scalar(draw: Callable[..., Any], *args: Any) -> torch.Tensor:
    return _scalar(draw(*args))


def _operator(generator: Any, target: Any, args: Any, kwargs: dict[str, Any]) -> torch.Tensor:
    made: torch.Tensor = target(*args, generator=generator, **kwargs)
    return made


def _saved(*args: Any) -> Callable[[], Any]:
    """The state of a generator, to go back to."""
    generator: Any = args[0] if args else None
    match _kind(type(generator)):
        case "python":
            state = generator.getstate()
            return lambda: generator.setstate(state)
        case "torch":
            saved = generator.get_state()
            return lambda: generator.set_state(saved)
        case "numpy" if hasattr(generator, "bit_generator"):
            bits = generator.bit_generator
            held = bits.state
            return lambda: setattr(bits, "state", held)
        case "numpy":
            known = generator.get_state(legacy=False)
            return lambda: generator.set_state(known)
    return _saved_torch()


def _saved_torch(*_: Any) -> Callable[[], Any]:
    state = torch.random.get_rng_state()
    is_initialized: Callable[[], bool] = torch.cuda.is_initialized
    cuda = torch.cuda.get_rng_state_all() if is_initialized() else []

    def restore() -> None:
        torch.random.set_rng_state(state)
        if cuda:
            torch.cuda.set_rng_state_all(cuda)

    return restore
