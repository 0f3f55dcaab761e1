"""Recurrent layers, as AOTAutograd must see them.

In: a graph for AOTAutograd. Out: the same graph, in which calls of `torch.lstm`, `torch.gru` and
the like are made layer by layer, where torch's own decomposition is wrong: it leaves out dropout
between layers, and for an LSTM that is trained on data without gradients it takes oneDNN's kernel,
which makes nothing for the backward there. Without that kernel, each step of the sequence is a few
nodes: a long one is refused.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import torch
import torch.fx as fx

_KINDS: Final[dict[Any, str]] = {
    target: name
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
    for packet in [getattr(torch.ops.aten, name)]
    for target in (getattr(torch, name), packet, packet.input, packet.data)
}
_INPUT: Final = ("input", "hx", "params")
_DATA: Final = ("data", "batch_sizes", "hx", "params")  # of a packed sequence
_REST: Final = ("has_biases", "num_layers", "dropout", "train", "bidirectional", "batch_first")
_MOST: Final = 128  # steps of an LSTM, in all layers
_LONG: Final = "to compile it would take very long"
_WRONG: Final = "torch's decomposition of it is wrong"
# Before 2.13, the states of an LSTM have a dimension too many, unless oneDNN's kernel makes them.
_STACKED: Final = tuple(map(int, torch.__version__.split(".")[:2])) < (2, 13)


class NotCompiledError(RuntimeError):
    """A layer that should run as it is; `reason` says why."""

    def __init__(self, text: str, reason: str) -> None:
        super().__init__(text)
        self.reason = reason


def layer_by_layer(module: fx.GraphModule) -> None:
    """Changes the calls that torch's decomposition would get wrong."""
    for each in module.modules():
        if not isinstance(each, fx.GraphModule):
            continue
        changed = False
        for node in each.graph.nodes:
            kind = _KINDS.get(node.target) if node.op == "call_function" else None
            if kind is not None and _is_wrong(kind, node):
                node.args = (kind, *node.args)
                node.target = layered
                changed = True
        if changed:
            each.recompile()


def _is_wrong(kind: str, node: fx.Node) -> bool:
    given = _bound(node.args, node.kwargs)
    results = node.meta.get("example_value", ())
    trained = any(isinstance(each, torch.Tensor) and each.requires_grad for each in results)
    data = given["input"].meta.get("example_value") if "input" in given else None
    if kind == "lstm" and _STACKED and (trained or data is None or data.requires_grad):
        raise NotCompiledError("torch gives the states of this LSTM another shape", _WRONG)
    if kind == "lstm" and trained and data is not None and not data.requires_grad:
        length = int(data.shape[1 if given["batch_first"] else 0])
        steps = length * given["num_layers"] * (2 if given["bidirectional"] else 1)
        if steps > _MOST and data.device.type == "cpu":
            raise NotCompiledError(f"an LSTM with {steps} steps is trained", _LONG)
        return True
    return bool(given["num_layers"] > 1 and given["train"] and given["dropout"])


def _bound(args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by their names."""
    packed = "batch_sizes" in kwargs or (len(args) > 3 and not isinstance(args[3], bool))
    names = (*_DATA, *_REST[:-1]) if packed else (*_INPUT, *_REST)
    return {**dict(zip(names, args, strict=False)), **kwargs}


def layered(kind: str, *args: Any, **kwargs: Any) -> Any:
    """`torch.lstm` and the like, in calls for one layer each."""
    given = _bound(args, kwargs)
    packed = "batch_sizes" in given
    states = list(given["hx"]) if kind == "lstm" else [given["hx"]]
    directions = 2 if given["bidirectional"] else 1
    layers = given["num_layers"]
    weights = len(given["params"]) // layers  # of one layer, both directions
    values = given["data" if packed else "input"]
    last: list[Sequence[torch.Tensor]] = []
    with _without_kernel([values, *states, *given["params"]]):
        for layer in range(layers):
            own = [each[layer * directions : (layer + 1) * directions] for each in states]
            values, *found = getattr(torch, kind)(
                values,
                *((given["batch_sizes"],) if packed else ()),
                own if kind == "lstm" else own[0],
                given["params"][layer * weights : (layer + 1) * weights],
                given["has_biases"],
                1,
                0.0,
                given["train"],
                given["bidirectional"],
                *(() if packed else (given["batch_first"],)),
            )
            last.append(found)
            if given["dropout"] and given["train"] and layer < layers - 1:
                values = torch.dropout(values, given["dropout"], True)
    return (values, *(torch.cat(each) for each in zip(*last, strict=True)))


@contextlib.contextmanager
def _without_kernel(tensors: Sequence[torch.Tensor]) -> Iterator[None]:
    """Keeps torch from oneDNN's kernel, if there will be gradients."""
    before = torch._C._get_mkldnn_enabled()
    trained = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
    try:
        torch._C._set_mkldnn_enabled(before and not trained)
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)
