"""Recurrent layers, as AOTAutograd must see them.

In: a graph for AOTAutograd. Out: the same graph, in which calls of `torch.lstm`, `torch.gru` and
the like are one operator each (`recurrent_operator`). torch's own decomposition makes a few nodes
of each step of the sequence, which takes long to compile and is no faster than eager's kernels,
unless there are few steps; it fixes the length, too.

Where it is left to torch to take a call apart, that is done layer by layer if torch's decomposition
is wrong: it leaves out dropout between layers, and for an LSTM that is trained on data without
gradients it takes oneDNN's kernel, which makes nothing for the backward there.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch
import torch.fx as fx

from stator.graph.fakes.recurrent import KINDS, Call, bound
from stator.torchlib.settings import mkldnn_enabled, set_mkldnn_enabled
from stator.torchlib.versions import STACKED_STATES

from .errors import NotCompiledError
from .estimates import FEW_STEPS
from .recurrent_operator import RECURRENT, name_of

_LONG: Final = "to compile it would take very long"
_WRONG: Final = "torch's decomposition of it is wrong"
_MOST: Final = 128  # steps that are taken apart where there is no other way


def as_operators(module: fx.GraphModule) -> None:
    """Changes the calls of recurrent layers in a graph and in its regions."""
    twice = any(_is_differentiable(node) for each in _graphs(module) for node in each.graph.nodes)
    inside = set(_transformed(module))
    for each in _graphs(module):
        changed = False
        for node in each.graph.nodes:
            if node.op != "call_function" or node.target not in KINDS:
                continue
            call = bound(node.target, node.args, node.kwargs)
            if call is not None:
                whole = not twice and each not in inside
                changed |= _change(node, call, whole=whole, outermost=each is module)
        if changed:
            each.recompile()


def _graphs(module: torch.nn.Module) -> Iterator[fx.GraphModule]:
    return (each for each in module.modules() if isinstance(each, fx.GraphModule))


def _transformed(module: torch.nn.Module) -> Iterator[fx.GraphModule]:
    """The graphs to which `torch.vmap` or the like is applied: the operator knows none of these."""
    for each in module.modules():
        if getattr(each, "transforms", False):
            yield from _graphs(each)


def _is_differentiable(node: fx.Node) -> bool:
    """Whether gradients are computed in the graph that are differentiated in turn."""
    return node.target is torch.autograd.grad and bool(node.kwargs.get("create_graph"))


def _change(node: fx.Node, call: Call, *, whole: bool, outermost: bool) -> bool:
    layers = call.layers
    results = node.meta.get("example_value", ())
    data = call.data.meta.get("example_value")
    steps = _steps(call, data)
    if whole and (steps is None or steps > FEW_STEPS):
        dtypes = [name_of(each.dtype) for each in results]
        tensors = (call.data, call.batch_sizes, list(call.states), list(call.params))
        rest = (layers.has_biases, layers.num_layers, layers.dropout, layers.train)
        lasting = outermost and all(each.op == "placeholder" for each in call.params)
        more = (layers.bidirectional, layers.batch_first, dtypes, lasting)
        node.args, node.kwargs = (layers.kind, *tensors, *rest, *more), {}
        node.target = RECURRENT
        return True
    trained = any(isinstance(each, torch.Tensor) and each.requires_grad for each in results)
    wrong = layers.draws
    if layers.kind == "lstm":
        if STACKED_STATES and (trained or data is None or data.requires_grad):
            raise NotCompiledError("torch gives the states of this LSTM another shape", _WRONG)
        if trained and data is not None and not data.requires_grad and not layers.packed:
            wrong = True
            if steps is not None and steps > _MOST and data.device.type == "cpu":
                raise NotCompiledError(f"an LSTM with {steps} steps is trained", _LONG)
    if wrong:
        node.args, node.kwargs = (layers.kind, *node.args), dict(node.kwargs)
        node.target = layered
    return wrong


def _steps(call: Call, data: Any) -> int | None:
    """In all layers and directions; None if it is not fixed."""
    if call.layers.packed or data is None:
        return None
    length = data.shape[1 if call.layers.batch_first else 0]
    if type(length) is not int:
        return None
    return length * call.layers.num_layers * call.layers.directions


def layered(kind: str, *args: Any, **kwargs: Any) -> Any:
    """`torch.lstm` and the like, in calls for one layer each."""
    call = bound(getattr(torch, kind), args, kwargs)
    assert call is not None  # as when it was recorded
    layers = call.layers
    weights = len(call.params) // layers.num_layers  # of one layer, both directions
    values = call.data
    last: list[Sequence[torch.Tensor]] = []
    with _without_kernel([values, *call.states, *call.params]):
        for layer in range(layers.num_layers):
            first = layer * layers.directions
            own = [each[first : first + layers.directions] for each in call.states]
            values, *found = layers.function(
                values,
                *((call.batch_sizes,) if layers.packed else ()),
                own if kind == "lstm" else own[0],
                list(call.params[layer * weights : (layer + 1) * weights]),
                layers.has_biases,
                1,
                0.0,
                layers.train,
                layers.bidirectional,
                *(() if layers.packed else (layers.batch_first,)),
            )
            last.append(found)
            if layers.draws and layer < layers.num_layers - 1:
                values = torch.dropout(values, layers.dropout, True)
    return (values, *(torch.cat(each) for each in zip(*last, strict=True)))


@contextlib.contextmanager
def _without_kernel(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Keeps torch from oneDNN's kernel, if there will be gradients."""
    before = mkldnn_enabled()
    trained = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
    try:
        set_mkldnn_enabled(before and not trained)
        yield
    finally:
        set_mkldnn_enabled(before)
