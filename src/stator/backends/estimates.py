"""What can be told of a graph without running it: sizes, views, devices, operators by name.

In: a recorded graph, with its fake tensors. Out: numbers, of the call that is compiled, for
estimates of times (`worth.py`, `patience.py`).
"""

from collections.abc import Iterator
from typing import Any, Final

import torch
import torch.fx as fx

from stator.graph.fakes.recurrent import GATES, Call
from stator.torchlib.modes import is_any_autocast_enabled

BYTES: Final = 8e3  # that are written in a microsecond
NUMBERS: Final = 40e3  # multiplications in a microsecond
STEP: Final = {"lstm": 6.0, "gru": 20.0, "rnn_tanh": 6.0, "rnn_relu": 6.0}  # of one layer, in µs
FEW_STEPS: Final = 4  # of a recurrent layer, in all layers and directions: it is taken apart
VIEWS: Final = frozenset(
    [
        "T",
        "chunk",
        "detach",
        "expand",
        "expand_as",
        "flatten",
        "getattr",
        "getitem",
        "movedim",
        "mT",
        "narrow",
        "numel",
        "permute",
        "ravel",
        "select",
        "size",
        "split",
        "squeeze",
        "swapaxes",
        "sym_size",
        "sym_size.int",
        "t",
        "tensor_split",
        "transpose",
        "unbind",
        "unflatten",
        "unsqueeze",
        "view",
        "view_as",
    ]
)


def is_plain(module: fx.GraphModule) -> bool:
    """Whether estimates are for such a graph: on the CPU, without autocast and regions."""
    if is_any_autocast_enabled() or any(True for _ in module.children()):
        return False
    calls_modules = any(node.op == "call_module" for node in module.graph.nodes)
    return not calls_modules and all(each.device.type == "cpu" for each in _tensors(module))


def name_of(node: fx.Node) -> str:
    if node.op == "call_method":
        return str(node.target)
    return str(getattr(node.target, "__name__", "")).removesuffix(".default")


def is_item(node: fx.Node) -> bool:
    """Whether an item is asked for by numbers: by a tensor, it would be a lookup."""
    return not any(
        isinstance(each.meta.get("example_value"), torch.Tensor)
        for each in node.all_input_nodes[1:]
    )


def makes_tensors(node: fx.Node) -> bool:
    made = node.meta.get("example_value")
    return isinstance(made, torch.Tensor | tuple | list)


def steps_of(call: Call) -> int:
    """In all layers and directions; 0 if that is not known."""
    layers = call.layers
    given = value_of(call.batch_sizes if layers.packed else call.data)
    if given is None:
        return 0
    length = given.shape[1 if layers.batch_first and not layers.packed else 0]
    return number(length) * layers.num_layers * layers.directions


def multiplications(call: Call) -> float:
    """Of one step of one layer, at least."""
    state = value_of(call.states[0])
    if state is None:
        return 0.0
    batch, width = number(state.shape[1]), number(state.shape[2])
    return float(2 * batch * width * width * GATES[call.layers.kind])


def bytes_of(node: fx.Node) -> float:
    """What a node writes."""
    made = node.meta.get("example_value")
    found = made if isinstance(made, tuple | list) else (made,)
    return sum(
        _product(each.shape) * each.element_size()
        for each in found
        if isinstance(each, torch.Tensor) and each.layout is torch.strided
    )


def _product(sizes: Any) -> float:
    total = 1.0
    for size in sizes:
        total *= number(size)
    return total


def number(size: Any) -> int:
    """A size in the call that is compiled; some number, if only a run knows it."""
    if type(size) is int:
        return size
    hint = size.node.hint if size.node.has_hint() else None
    return hint if type(hint) is int else 64


def value_of(node: Any) -> torch.Tensor | None:
    found = node.meta.get("example_value") if isinstance(node, fx.Node) else None
    return found if isinstance(found, torch.Tensor) else None


def _tensors(module: fx.GraphModule) -> Iterator[torch.Tensor]:
    for node in module.graph.nodes:
        value = node.meta.get("example_value")
        for each in value if isinstance(value, tuple | list) else (value,):
            if isinstance(each, torch.Tensor):
                yield each


def is_trained(module: fx.GraphModule) -> bool:
    return torch.is_grad_enabled() and any(each.requires_grad for each in _tensors(module))


def inputs_of(module: fx.GraphModule) -> int:
    return sum(node.op == "placeholder" for node in module.graph.nodes)
