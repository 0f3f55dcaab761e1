"""The backend that records the kernels of a graph, and starts all of them at once (CUDA graphs).

Stage: backends. In: a graph. Out: a callable that runs what AOTAutograd makes of it: forward and
backward graphs that change none of their inputs. Each of them that a CUDA graph can hold is
recorded; the others run as they are, and a warning says why.
"""

import operator
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Final

import torch
import torch.fx as fx

from stator.torchlib.aot import aot_module_simplified, make_boxed_func
from stator.torchlib.operators import OpOverload

from . import certain_dropout, packed_operator, recurrent, reshaped
from .recording import Recorder
from .static_inputs import in_forward

_SYMBOLIC: Final = (torch.SymInt, torch.SymFloat, torch.SymBool)
_OPEN: Final = "sizes or numbers are left open, or depend on the values in tensors"
_OWN: Final = frozenset({"aten", "prims"})  # of their operators it is known that kernels are all


def cudagraphs(module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Functionalized forward and backward graphs, recorded as CUDA graphs and replayed."""
    recurrent.as_operators(module)
    packed_operator.as_operators(module)
    reshaped.as_views(module)
    certain_dropout.as_products(module)
    compiled: Callable[..., Any] = aot_module_simplified(
        module, list(example_inputs), fw_compiler=_forward, bw_compiler=_recorded
    )
    return compiled


def _forward(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    return _recorded(gm, example_inputs, in_forward())


def _recorded(
    gm: fx.GraphModule, example_inputs: Sequence[Any], stay: Collection[int] = ()
) -> Callable[..., Any]:
    run: Callable[..., Any] = gm.forward
    found = device_of(gm)
    if isinstance(found, str):
        warnings.warn(f"a graph runs without CUDA graphs: {found}", stacklevel=2)
    else:
        run = Recorder(run, found, stay)
    boxed: Callable[..., Any] = make_boxed_func(run)
    return boxed


def device_of(module: fx.GraphModule) -> torch.device | str:
    """The device that all of a graph runs on; a text says why a CUDA graph can't hold it."""
    devices: set[torch.device] = set()
    for node in module.graph.nodes:
        if node.op == "call_function" and (reason := _does_more(node.target)) is not None:
            return reason
        for value in _values(module, node):
            if isinstance(value, _SYMBOLIC):
                return _OPEN
            if node.op == "placeholder" and not isinstance(value, torch.Tensor):
                return f"the input {node.name} is no tensor"
            if isinstance(value, torch.Tensor):
                if value._has_symbolic_sizes_strides:
                    return _OPEN
                if value.layout is not torch.strided or value.is_conj() or value.is_neg():
                    return f"{node.name} is no plain tensor"
                devices.add(value.device)
    if not devices:
        return "it has no tensors"
    if other := [each for each in devices if each.type != "cuda"]:
        return f"tensors are on {other[0]}"
    if len(devices) > 1:
        return f"tensors are on several devices: {', '.join(sorted(map(str, devices)))}"
    (device,) = devices
    return device


def _values(module: fx.GraphModule, node: fx.Node) -> Iterator[Any]:
    if node.op == "get_attr":
        yield operator.attrgetter(str(node.target))(module)
    elif node.op != "output":
        value = node.meta.get("val")
        yield from value if isinstance(value, list | tuple) else (value,)


def _does_more(target: Any) -> str | None:
    """Why calling a function is more than to start kernels: a replay would leave the rest out."""
    if target is operator.getitem:
        return None
    if not isinstance(target, OpOverload):
        return f"{getattr(target, '__name__', target)} is no operator"
    if target.namespace not in _OWN:
        return f"{target} is not an operator of torch's: it may do more than start kernels"
    if target._schema.is_mutable or not target._schema.returns:
        return f"{target} has an effect"
    if torch.Tag.cudagraph_unsafe in target.tags:
        return f"torch says that {target} can't be recorded"
    return None
