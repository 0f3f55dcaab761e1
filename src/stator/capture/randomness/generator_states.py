"""torch's generator, whose state the program asks for: draws between a state and its return.

Stage: capture. In: what `torch.rand` and the like draw behind `torch.get_rng_state()`, which also
`torch.random.fork_rng()` asks. Out: a step before the graph that draws it, an input of the graph.

A graph can't put its generator back to an earlier state in its middle; steps before it can, in
program order. So what needs no tensor is drawn there, as long as no operator of the graph has drawn
anything: that would come too late.
"""

import copy
from typing import TYPE_CHECKING, Any, Final

import torch

from stator.capture.autograd.autograd_leaves import user_call
from stator.contracts import Depth
from stator.torchlib.modes import disable_current_modes
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.randomness.draws import Draws
    from stator.capture.tensors.tensors import Tensors

_FACTORIES: Final = frozenset(map(id, (torch.rand, torch.randn, torch.randint, torch.randperm)))
_SETTINGS: Final = (torch.dtype, torch.layout, torch.Size)
_CPU: Final = torch.device("cpu")


class Forked:
    """The draws of one trace behind a state that was asked for."""

    def __init__(self, draws: "Draws", tensors: "Tensors") -> None:
        self._draws, self._tensors = draws, tensors
        self.asked = False

    def handles(self, target: Any, args: Any, kwargs: dict[str, Any]) -> bool:
        """Whether it can be drawn before the graph."""
        if not self.asked or id(target) not in _FACTORIES or self._draws.is_used():
            return False
        graph = self._tensors.graph
        if graph.default_device is not None or kwargs.get("device", _CPU) not in ("cpu", _CPU):
            return False
        if torch.get_default_device() != _CPU:
            return False
        self._tensors.ready((args, kwargs), Depth.DEEP)
        return all(map(_is_plain, (*args, *kwargs.values())))

    def draw(self, frame: Any, target: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        options = dict(kwargs)
        grad = options.pop("requires_grad", False)
        given = (target, *copy.deepcopy((tuple(args), options)))
        with disable_current_modes():
            real: torch.Tensor = user_call(_example, *given)
        fake = self._draws.drawn_before(_drawn, given, real)
        return self._tensors.own.requires_grad_(frame, fake) if grad is True else fake


def _is_plain(value: Any) -> bool:
    if type(value) in (list, tuple, torch.Size):
        return all(map(_is_plain, value))
    return CONSTANTS.holds(type(value)) or type(value) in (torch.device, *_SETTINGS)


def _drawn(target: Any, args: Any, options: dict[str, Any]) -> Any:
    return target(*args, **options)


def _example(target: Any, args: Any, options: dict[str, Any]) -> Any:
    """What it will be like."""
    return target(*args, generator=torch.Generator(), **options)
