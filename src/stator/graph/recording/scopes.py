"""Scopes of torch inside of a graph: what becomes of them when the graph raises in the middle.

In: the nodes of a graph that change torch's modes and flags. Out: `Scopes`, which makes of the
compiled graph a function that leaves them as they were before the call, also when it raises. What a
graph does not change is not looked at: it may be otherwise in each call.
"""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

import torch
import torch.fx as fx

from stator.graph.recording.state import autocast_nesting, restore_nesting
from stator.torchlib.modes import enter_autocast, enter_inference_mode, set_grad_enabled
from stator.torchlib.settings import FLAGS, Flag

_GRAD: Final = Flag(torch.is_grad_enabled, set_grad_enabled)
_CACHE: Final = Flag(torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled)
_NESTING: Final = Flag(autocast_nesting, lambda value: restore_nesting(autocast_nesting(), value))


@dataclass(frozen=True)
class Scopes:
    """What a graph changes of torch's state, at least for a while."""

    flags: tuple[Flag, ...] = ()
    inference: bool = False

    def __bool__(self) -> bool:
        return self.inference or bool(self.flags)

    @property
    def of_grad(self) -> bool:
        """Whether it changes grad mode at most, which anybody can put back."""
        return not self.inference and all(each is _GRAD for each in self.flags)

    def around(self, graph: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
        """The compiled graph, as a function that puts everything back if it raises."""
        if not self:
            return graph
        flags = self.flags

        def scoped_graph(*args: Any) -> Sequence[Any]:
            before = [flag.read() for flag in flags]
            inference = torch.is_inference_mode_enabled()
            try:
                return graph(*args)
            except BaseException as error:
                if torch.is_inference_mode_enabled() != inference:
                    drop_frames(error.__traceback__)
                for flag, value in zip(flags, before, strict=True):
                    if flag.read() != value:
                        flag.write(value)
                raise

        return scoped_graph


def scopes_of(nodes: Iterable[fx.Node]) -> Scopes:
    """What some nodes change."""
    flags: dict[Any, Flag] = {}
    inference = False
    for node in nodes:
        target: Any = node.target
        if target is set_grad_enabled:
            flags["grad"] = _GRAD
        elif target is enter_autocast:
            device = node.args[0]
            flags["autocast", device] = _autocast(str(device))
            flags["cache"], flags["nesting"] = _CACHE, _NESTING
        elif target is enter_inference_mode:
            inference = True
        elif str(getattr(target, "__name__", "")).startswith("_set_"):
            flags.update(_set_by(target))
    return Scopes(tuple(flags.values()), inference)


def _autocast(device: str) -> Flag:
    def write(value: tuple[bool, torch.dtype]) -> None:
        torch.set_autocast_enabled(device, value[0])
        torch.set_autocast_dtype(device, value[1])

    return Flag(
        lambda: (torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)), write
    )


def _set_by(setter: Any) -> dict[str, Flag]:
    """The flags that one of torch's setters may change: all, if it is unknown which."""
    return {name: each for name, each in FLAGS.items() if each.write is setter} or FLAGS


def drop_frames(traceback: TracebackType | None) -> None:
    """Ends scopes that have no setter: with the frames of the graph, what holds them goes.

    Frames that are still running are not the graph's: the exception may be an old one.
    """
    for step in _steps(traceback):
        with contextlib.suppress(RuntimeError):
            step.tb_frame.clear()


def _steps(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next
