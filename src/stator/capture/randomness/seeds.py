"""torch's generator, seeded with a constant in the middle of a graph.

In: `torch.manual_seed(n)` behind operators of the graph that use the generator, and what is drawn
from then on. Out: tensors with known values, constants of the graph, which another generator with
the same seed has drawn; behind the graph, torch's own is left as the program would have left it.

Only factories are drawn this way. An operator that draws and works on tensors (dropout) stays in
the graph, where the generator is not in the right state: then the caller breaks.
"""

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import torch

from stator._native._core import Frame
from stator.capture.autograd.autograd_leaves import user_call
from stator.contracts import Depth
from stator.diagnostics.catalogue import RandomState, RegionContents
from stator.torchlib.modes import disable_current_modes
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

FACTORIES: Final = frozenset({"rand", "randint", "randn", "randperm"})
_FACTORIES: Final = frozenset(id(getattr(torch, name)) for name in FACTORIES)
_OPTIONS: Final = frozenset({"size", "low", "high", "n", "dtype", "device", "layout"})
MOST_BYTES: Final = 1 << 24  # of one constant
_CPU: Final = torch.device("cpu")


def is_factory(target: Any) -> bool:
    """Whether what it draws can be drawn by another generator, before the graph."""
    return id(target) in _FACTORIES


class Seeded:
    """What is drawn behind the last seed of one trace."""

    def __init__(self, tensors: "Tensors") -> None:
        self._tensors = tensors
        self._twin: torch.Generator | None = None
        self._drawn = False

    def begin(self, seed: int) -> None:
        self._twin = torch.Generator().manual_seed(seed)
        self._drawn = False

    def end(self) -> None:
        """What the generator draws is not known any longer."""
        self._twin = None

    def handles(self, target: Any) -> bool:
        return self._twin is not None and id(target) in _FACTORIES

    def draw(self, frame: Frame | None, target: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        tensors = self._tensors
        tensors.ready((args, kwargs), Depth.DEEP)
        options = dict(kwargs)
        grad = options.pop("requires_grad", False)
        plain = all(map(_is_plain, (*args, *options.values())))
        if not plain or not _OPTIONS.issuperset(options) or type(grad) is not bool:
            raise RandomState("random numbers are drawn behind a seed, by more than constants")
        device = options.get("device") or tensors.graph.default_device or torch.get_default_device()
        if torch.device(device) != _CPU:
            raise RandomState("random numbers are drawn behind a seed, on another device")
        if tensors.graph.graph is not tensors.graph.symbols.graph:
            raise RegionContents("torch's generator is used inside of a region of the graph")
        with disable_current_modes():
            real: torch.Tensor = user_call(_draw, target, args, options, self._twin)
        if real.nbytes > MOST_BYTES:
            raise RandomState("very many random numbers are drawn behind a seed")
        self._drawn = True
        fake = tensors.graph.constant(real)
        return tensors.own.requires_grad_(frame, fake) if grad else fake

    def effects(self) -> Iterator[Callable[[], Any]]:
        """What brings torch's generator, once it is seeded, to where it is in the program."""
        if self._twin is not None and self._drawn:
            yield functools.partial(_set_state, self._twin.get_state())


def _is_plain(value: Any) -> bool:
    if type(value) in (list, tuple, torch.Size):
        return all(map(_is_plain, value))
    return CONSTANTS.holds(type(value)) or type(value) in (torch.dtype, torch.device, torch.layout)


def _draw(target: Any, args: Any, options: dict[str, Any], twin: torch.Generator) -> Any:
    return target(*args, generator=twin, **options)


def _set_state(state: torch.Tensor) -> None:
    torch.random.set_rng_state(state)
