"""Seeing values in a graph: `stator.print`, `debug_grad_log`, `install_debug_prints`.

In: a format and tensors, or tensors whose gradients are to be shown. Out: in eager, text. In a
trace, nodes of the graph that show it when they run (`graph/recording/shown.py`), and effects
behind the graph that let the texts through where the program has shown them, among what `print`
has put off.
"""

import json
import weakref
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import nn

from stator._native._core import Frame
from stator.capture.calls.builtin_calls import Handler
from stator.contracts import Depth
from stator.diagnostics.catalogue import AutogradInside, Output
from stator.diagnostics.places import stack
from stator.effects import Perform
from stator.graph.recording import shown
from stator.guards import Fixed
from stator.torchlib.tensors import DisableTorchFunction

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_NUMBERS: Final = {
    torch.SymInt: torch.int64,
    torch.SymFloat: torch.float64,
    torch.SymBool: torch.bool,
}
_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
_NAMED: Final = frozenset({torch.dtype, torch.layout, torch.memory_format})
_SEQUENCES: Final[dict[Any, str]] = {list: "list", tuple: "tuple", torch.Size: "size"}

# ---------------------------------------------------------------------- what users call


def print_(
    text: str, /, *values: Any, ranks: int | Collection[int] | None = None, **named: Any
) -> None:
    """Prints `text.format(*values, **named)` when the graph runs; in eager, at once.

    Tensors are shown by their values. In a compiled function it is a node of the graph, which is
    not split, and comes in order with other output. Where torch.distributed is initialised, the
    rank of the process stands in front; `ranks` (one, or several) says which of them print.
    """
    if not isinstance(text, str):
        raise TypeError(f"stator.print() needs a format, not {type(text).__qualname__}")
    _show(text, values, named, _ranks(ranks))


def debug_grad_log(*tensors: Any, ranks: int | Collection[int] | None = None) -> None:
    """Prints the gradient of each tensor when a backward computes it.

    Tensors that require no grad are left out. A leaf has one such hook: a later call replaces it.
    """
    chosen = _ranks(ranks)
    for place, tensor in enumerate(tensors):
        if not isinstance(tensor, torch.Tensor):
            kind = type(tensor).__qualname__
            raise TypeError(f"stator.debug_grad_log() needs tensors, not an object of type {kind}")
        _log(tensor, f"gradient {place}", chosen, True)


def install_debug_prints(
    model: nn.Module, *, ranks: int | Collection[int] | None = None
) -> "DebugPrints":
    """Has every layer print what it gets and returns, and the gradients of both.

    Of each tensor: type, sizes, mean, standard deviation, minimum, maximum. Answers with a handle:
    `remove()` ends it, as does the end of a `with` block.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"stator.install_debug_prints() needs a module, not {type(model)}")
    return DebugPrints(model, _ranks(ranks))


class DebugPrints:
    """The hooks of `install_debug_prints`."""

    def __init__(self, model: nn.Module, ranks: tuple[int, ...] | None) -> None:
        self._handles: list[Any] = []
        for name, layer in model.named_modules():
            label = name or type(layer).__name__
            self._handles += (
                layer.register_forward_pre_hook(_Before(label, ranks), with_kwargs=True),
                layer.register_forward_hook(_After(label, ranks)),
            )

    def remove(self) -> None:
        """Takes the hooks away again."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def __enter__(self) -> "DebugPrints":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class _Before:
    """The hook before a layer."""

    def __init__(self, label: str, ranks: tuple[int, ...] | None) -> None:
        self.label = label
        self.ranks = ranks

    def __call__(self, layer: Any, args: Any, kwargs: Any) -> None:
        for name, value in _tensors_in([args, kwargs]):
            _tell(f"{self.label} input{name}", value, self.ranks)


class _After:
    """The hook behind a layer."""

    def __init__(self, label: str, ranks: tuple[int, ...] | None) -> None:
        self.label = label
        self.ranks = ranks

    def __call__(self, layer: Any, args: Any, result: Any) -> None:
        for name, value in _tensors_in([result]):
            _tell(f"{self.label} output{name}", value, self.ranks)


def _tell(text: str, value: torch.Tensor, ranks: tuple[int, ...] | None) -> None:
    """Shows what is to know of a tensor, now, and of its gradient, when it is computed."""
    with torch.no_grad():
        form, parts = shown.describe(value)
    _show(f"{shown.escaped(text)}: {form}", tuple(parts), {}, ranks)
    if value.requires_grad:
        _log(value, f"gradient of {text}", ranks, False)


def _tensors_in(values: list[Any]) -> list[tuple[str, torch.Tensor]]:
    """The tensors in containers, with a name of each if there are several."""
    found: list[torch.Tensor] = []
    waiting = list(values)
    while waiting:
        value = waiting.pop(0)
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, dict):
            waiting[:0] = list(value.values())
        elif isinstance(value, list | tuple):
            waiting[:0] = list(value)
    if len(found) == 1:
        return [("", found[0])]
    return [(f" {place}", value) for place, value in enumerate(found)]


def _ranks(ranks: Any) -> tuple[int, ...] | None:
    if ranks is None:
        return None
    return (ranks,) if isinstance(ranks, int) else tuple(ranks)


# ---------------------------------------------------------------------- eager


def _show(text: str, values: tuple[Any, ...], named: dict[str, Any], ranks: Any) -> None:
    """In a trace, a node of the graph."""
    if shown.wanted(ranks):
        given = [shown.plain(each) for each in values]
        others = {name: shown.plain(each) for name, each in named.items()}
        shown.show(shown.line(text.format(*given, **others)))


def _log(tensor: torch.Tensor, text: str, ranks: Any, whole: bool) -> None:
    """In a trace, a node of the graph, or an effect for a tensor from before the call."""
    if not tensor.requires_grad:
        return
    if not tensor.is_leaf:
        shown.log_gradient(tensor, text, _encoded(ranks), whole)
        return
    key = id(tensor), text
    known = _leaves.get(key)
    if known is not None:
        known[1].remove()

    def hook(gradient: torch.Tensor) -> None:
        form, parts = ("{}", [gradient]) if whole else shown.describe(gradient)
        _show(f"{shown.escaped(text)}: {form}", tuple(parts), {}, ranks)

    def forget(_: object) -> None:
        _leaves.pop(key, None)

    register: Any = tensor.register_hook
    _leaves[key] = weakref.ref(tensor, forget), register(hook)


_leaves: Final[dict[tuple[int, str], tuple[Any, Any]]] = {}
"""The hooks of tensors that outlive a call, by id and text: a second one replaces the first."""


def _encoded(ranks: tuple[int, ...] | None) -> str:
    return "" if ranks is None else json.dumps(list(ranks))


# ---------------------------------------------------------------------- in a trace


def _shown(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    text, values, named, ranks = args
    calls.tensors.inside.refuse("stator.print")
    if calls.once:
        raise Output("stator.print in a function with a cache, which may not be called")
    if type(text) is not str:
        raise Output("stator.print of a text that is not known while tracing")
    calls.values.ready((values, named, ranks), Depth.DEEP)
    fields = shown.Fields()
    positional = [_field(calls, frame, fields, each) for each in tuple(values)]
    keywords = {name: _field(calls, frame, fields, each) for name, each in dict.items(named)}
    others = shown.written(positional, keywords, len(fields.tensors))
    number = shown.ANYWHERE
    if not calls.later:
        calls.shows += 1
        number = calls.shows
    given = (text, fields.tensors, others, _encoded(ranks), number)
    calls.tensors.record(frame, shown.SHOW, given)
    if not calls.later:
        until = Perform(Fixed(shown.until, "show"), (number,))
        calls.tracer.performed.append(until)


def _field(calls: "Calls", frame: Frame, fields: shown.Fields, value: Any) -> Any:
    cls = type(value)
    if calls.tensors.holds(cls):
        return fields.tensor(value)
    if cls in _PLAIN:
        return value
    if cls in _NUMBERS:
        made = calls.tensors.record(frame, torch.scalar_tensor, (value,), {"dtype": _NUMBERS[cls]})
        return fields.number(made)
    if cls in _NAMED:
        return {"name": str(value).removeprefix("torch.")}
    if cls in _SEQUENCES:
        return {_SEQUENCES[cls]: [_field(calls, frame, fields, each) for each in value]}
    raise Output(f"stator.print of an object of type {cls.__qualname__}")


def _logged(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    tensor, text, ranks, whole = args
    tensors = calls.tensors
    tensors.inside.refuse("stator.debug_grad_log")
    with DisableTorchFunction():
        if not tensor.requires_grad:
            return
    calls.values.ready(ranks, Depth.DEEP)
    given = tensor, text, _encoded(ranks), whole
    if id(tensor) not in tensors.inputs:
        calls.logs = True
        calls.watched.append((tensor, frame.ops.steps - 1, stack(frame)))
        tensors.record(frame, shown.LOG_GRADIENT, given)
    elif not calls.later:
        # Its gradient is computed outside of the graph, and may come from elsewhere, too.
        calls.tracer.performed.append(
            Perform(Fixed(_log, "debug_grad_log"), (tensor, text, ranks, whole))
        )


def check_watched(calls: "Calls", outputs: Sequence[Any]) -> None:
    """A view that leaves the graph is made again by AOTAutograd, outside: no hook sees that."""
    left = set(map(id, outputs))
    for tensor, step, places in calls.watched:
        with DisableTorchFunction():
            if id(tensor) not in left or not tensor._is_view():
                continue
        calls.tracer.before = step
        signal = AutogradInside("the gradient of a view that leaves the graph is to be shown")
        signal.places = places
        raise signal


SHOWING: Final[dict[int, Handler]] = {id(_show): _shown, id(_log): _logged}
