"""torch's global state: what a trace reads, may change, and must leave as it was.

`State` is a snapshot that can be compared and restored; `preserved()` guarantees restoration.
`StateRecorder` changes grad mode, inference mode and autocast for a trace: each change is recorded
as a graph node *and* applied to the fake tensors, as torch itself does at run time.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

import torch
import torch.fx as fx
from torch.utils.hooks import RemovableHandle

from stator.graph.recording.output import OutputGraph
from stator.torchlib.modes import (
    DisableFunctorch,
    default_device,
    disable_current_modes,
    exit_autocast,
    exit_inference_mode,
)
from stator.torchlib.modes import enter_autocast as _enter_autocast
from stator.torchlib.modes import enter_inference_mode as _enter_inference_mode
from stator.torchlib.modes import set_grad_enabled as torch_set_grad_enabled
from stator.torchlib.settings import FLAGS
from stator.torchlib.tensors import DisableTorchFunction

_AUTOCAST_DEVICES: Final = ("cpu", "cuda", "xpu", "mps", "hpu", "mtia", "maia", "xla", "ipu")


@dataclass(frozen=True)
class Autocast:
    """Autocast on one device type."""

    enabled: bool
    dtype: torch.dtype


def _call(untyped: Callable[..., Any], *args: Any) -> Any:
    """A call of a torch function that has no annotations."""
    return untyped(*args)


def _rng_states() -> tuple[bytes, ...]:
    """The CPU generator's state and, once CUDA is in use, those of its devices."""
    with DisableFunctorch():  # transforms would wrap them
        states = [torch.get_rng_state()]
        if _call(torch.cuda.is_initialized):
            states += torch.cuda.get_rng_state_all()
        return tuple(map(_content, states))


def _content(state: torch.Tensor) -> bytes:
    try:
        return bytes(state.numpy())
    except RecursionError:
        raise
    except RuntimeError:  # there is no numpy
        return bytes(state.tolist())


def autocast_nesting() -> int:
    """How many scopes of autocast are open."""
    torch.autocast_increment_nesting()
    return int(torch.autocast_decrement_nesting())


@dataclass(frozen=True)
class State:
    """A snapshot of torch's global state (of this thread, where it is per thread)."""

    grad: bool
    inference: bool
    autocast: dict[str, Autocast]
    autocast_cache: bool
    autocast_nesting: int
    default_dtype: torch.dtype
    default_device: torch.device | None
    flags: dict[str, Any]
    rng: tuple[bytes, ...] | None  # None: not captured

    @classmethod
    def capture(cls, *, rng: bool = True) -> "State":
        state: State = _untraced(cls._capture, rng)
        return state

    @classmethod
    def _capture(cls, rng: bool) -> "State":
        return cls(
            grad=torch.is_grad_enabled(),
            inference=torch.is_inference_mode_enabled(),
            autocast={
                device: Autocast(
                    torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
                )
                for device in _AUTOCAST_DEVICES
            },
            autocast_cache=torch.is_autocast_cache_enabled(),
            autocast_nesting=autocast_nesting(),
            default_dtype=torch.get_default_dtype(),
            default_device=default_device(),
            flags={name: flag.read() for name, flag in FLAGS.items()},
            rng=_rng_states() if rng else None,
        )

    def diff(self, other: "State") -> dict[str, tuple[Any, Any]]:
        """What differs: `{name: (here, there)}`; flags and autocast devices one by one."""
        found: dict[str, tuple[Any, Any]] = {}
        for field in fields(self):
            mine, theirs = getattr(self, field.name), getattr(other, field.name)
            if field.name == "rng":
                if None in (mine, theirs):
                    continue
                # Generators that were made in between, when CUDA was first used, are nobody's.
                both = min(len(mine), len(theirs))
                mine, theirs = mine[:both], theirs[:both]
            if isinstance(mine, dict):
                found.update(
                    (f"{field.name}.{key}", (mine[key], theirs[key]))
                    for key in mine
                    if mine[key] != theirs[key]
                )
            elif mine != theirs:
                found[field.name] = (mine, theirs)
        return found

    def restore(self) -> None:
        """Makes torch's state this one.

        Inference mode has no setter, only a scope: whoever enters it leaves it (`preserved` does,
        for changes made by a `StateRecorder`).
        """
        _untraced(self._restore)

    def _restore(self) -> None:
        now = State.capture(rng=self.rng is not None)
        changed = self.diff(now)
        if "inference" in changed:
            raise RuntimeError("inference mode was entered or left, and its scope is still open")
        for device, autocast in self.autocast.items():
            if f"autocast.{device}" in changed:
                torch.set_autocast_enabled(device, autocast.enabled)
                torch.set_autocast_dtype(device, autocast.dtype)
        torch.set_autocast_cache_enabled(self.autocast_cache)
        restore_nesting(now.autocast_nesting, self.autocast_nesting)
        if "grad" in changed:
            torch_set_grad_enabled(self.grad)
        if "default_dtype" in changed:
            torch.set_default_dtype(self.default_dtype)
        if "default_device" in changed:
            torch.set_default_device(self.default_device)
        for name, flag in FLAGS.items():
            if f"flags.{name}" in changed:
                flag.write(self.flags[name])
        if "rng" in changed and self.rng is not None:
            _restore_rng(self.rng)


def drop_cast_weights(left: int) -> None:
    """A node of a graph: so many scopes are left in it, of which each but the last is entered anew.

    As torch does, when the outermost one is left.
    """
    if autocast_nesting() == 2 * left - 1:
        torch.clear_autocast_cache()


def restore_nesting(now: int, wanted: int) -> None:
    """Makes it another number; the outermost scope drops the cache."""
    for _ in range(now, wanted):
        torch.autocast_increment_nesting()
    for _ in range(wanted, now):
        torch.autocast_decrement_nesting()
    if now != wanted == 0:
        torch.clear_autocast_cache()


def _restore_rng(states: tuple[bytes, ...]) -> None:
    with DisableFunctorch():
        cpu, *cuda = (torch.frombuffer(bytearray(s), dtype=torch.uint8) for s in states)
        torch.set_rng_state(cpu)
        for device, state in enumerate(cuda):
            torch.cuda.set_rng_state(state, device)


def _untraced(function: Callable[..., Any], *args: Any) -> Any:
    """Runs with no torch function mode and no fake mode in the way: the generator's state is a
    real tensor."""
    with DisableTorchFunction(), disable_current_modes():
        return function(*args)


@contextlib.contextmanager
def preserved(*, rng: bool = True) -> Iterator[State]:
    """Whatever happens inside, torch's global state is the same afterwards.

    Autocast's cache of cast weights is off inside: it would keep fake tensors. Handles of hooks are
    numbered: programs that register hooks see the number, and AOTAutograd uses some.
    """
    before = State.capture(rng=rng)
    handles = RemovableHandle.next_id
    torch.set_autocast_cache_enabled(False)
    try:
        yield before
    finally:
        RemovableHandle.next_id = handles
        before.restore()


@dataclass
class Scope:
    """An open autocast or inference-mode scope: the node that enters it, and torch's own guard."""

    kind: str
    node: fx.Node
    guard: Any
    holder: Any = None
    """The context manager that the program uses for it."""
    caching: bool | None = None
    """Whether autocast keeps cast weights inside, if it says so."""
    sets_grad: bool | None = None
    """What grad mode is when it has been entered, if that depends on it alone."""
    leaves: bool = False
    """The holder was entered before the call, and left in it: inside, all is as it was before."""


_EXIT: Final[dict[str, Callable[[Any], None]]] = {
    "autocast": exit_autocast,
    "inference": exit_inference_mode,
}


class Leftover(NamedTuple):
    """What a program has changed for good: grad mode, scopes entered then, grad mode again."""

    grad: bool | None
    scopes: list[Scope]
    inner_grad: bool | None


class StateRecorder:
    """Records changes of state in a graph and applies them.

    Use it as a context manager around the trace: scopes left open by an aborted trace are closed
    without being recorded.
    """

    def __init__(self, graph: OutputGraph, start: State | None = None) -> None:
        self._graph = graph
        self._open: list[Scope] = []
        self.switched = 0  # how often grad mode was set, to whatever it was
        self.start = State.capture(rng=False) if start is None else start

    @property
    def open(self) -> int:
        """How many scopes of autocast and inference mode are open."""
        return len(self._open)

    @property
    def caching(self) -> bool:
        """Whether autocast keeps cast weights at this moment, but for the trace's own sake."""
        said = [scope.caching for scope in self._open if scope.caching is not None]
        return said[-1] if said else self.start.autocast_cache

    def __enter__(self) -> "StateRecorder":
        self._grad = torch.is_grad_enabled()
        return self

    def __exit__(self, *_: object) -> None:
        while self._open:
            scope = self._open.pop()
            _EXIT[scope.kind](scope.guard)
        torch_set_grad_enabled(self._grad)

    def set_grad_enabled(self, mode: bool) -> None:
        """`torch.set_grad_enabled`, `no_grad` and `enable_grad` come down to this."""
        self.switched += 1
        if mode != torch.is_grad_enabled():
            self._graph.effect(torch_set_grad_enabled, mode)
            torch_set_grad_enabled(mode)

    def enter_autocast(
        self,
        device_type: str,
        dtype: torch.dtype | None = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,
    ) -> Scope:
        args = (device_type, dtype, enabled, cache_enabled)
        guard = _call(_enter_autocast, *args)
        torch.set_autocast_cache_enabled(False)  # see `preserved`
        node = self._graph.effect(_enter_autocast, *args)
        return self._opened(Scope("autocast", node, guard, caching=cache_enabled))

    def leave_autocast(
        self, device_type: str, dtype: torch.dtype, enabled: bool, cache_enabled: bool
    ) -> Scope:
        """One is left that was entered before the call: the rest is in a scope like around it.

        When the graph has run, it is left for real.
        """
        scopes = [scope for scope in self._open if scope.leaves]
        self._graph.effect(drop_cast_weights, len(scopes) + 1)
        scope = self.enter_autocast(device_type, dtype, enabled, cache_enabled)
        scope.leaves = True
        return scope

    @property
    def inside(self) -> bool:
        """Whether there is a scope that was entered in the call, and is open."""
        return not all(scope.leaves for scope in self._open)

    def enter_inference_mode(self, mode: bool = True) -> Scope:
        guard = _call(_enter_inference_mode, mode)
        node = self._graph.effect(_enter_inference_mode, mode)
        return self._opened(Scope("inference", node, guard, sets_grad=not mode))

    def _opened(self, scope: Scope) -> Scope:
        self._open.append(scope)
        return scope

    def balance(self) -> "Leftover":
        """Records that the graph leaves everything as it found it; answers what it would not."""
        scopes = list(self._open)
        inner = torch.is_grad_enabled()
        for scope in reversed(scopes):
            self.exit(scope)
        outer = torch.is_grad_enabled()
        self.set_grad_enabled(self._grad)
        sets = [scope.sets_grad for scope in scopes if scope.sets_grad is not None]
        entered = sets[-1] if sets else outer
        return Leftover(
            outer if outer != self._grad else None, scopes, inner if inner != entered else None
        )

    def exit(self, scope: Scope) -> None:
        """Leaves a scope; they nest, so it must be the innermost."""
        if not self._open or self._open[-1] is not scope:
            raise ValueError(f"this {scope.kind} scope is not the innermost open one")
        self._open.pop()
        leave = _EXIT[scope.kind]
        leave(scope.guard)
        node = self._graph.graph.call_function(leave, (scope.node,))
        self._graph.keep(node)
