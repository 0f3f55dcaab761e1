"""Calling Inductor's code without the layers around it, where that is provably the same.

In: what `compile_graph` returned for Inductor. Out: a callable that, after one official call, goes
straight to the generated code; or the reason why it must not, and the official callable.

What the layers do (AOTAutograd's runtime wrapper, dynamo's `disable`) is nothing for a graph
without mutated inputs, aliased outputs, tokens, functionalized random numbers and subclasses,
compiled for inference with autocast off. Each of that is checked; a layer that isn't known refuses.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.fx as fx

from stator.graph.passes.drawing import nodes_of
from stator.graph.passes.purity import is_torch_function
from stator.torchlib.modes import is_any_autocast_enabled
from stator.torchlib.modes import set_grad_enabled as torch_set_grad_enabled

from .compile import CompiledGraph
from .registry import Compiled

# Inductor's own checks of its inputs and of what kernels return. The shape guards imply the first;
# the second catch wrong fake kernels, which only custom operators are suspected of.
NO_ASSERTS: Final[dict[str, Any]] = {"size_asserts": False, "alignment_asserts": False}

# A layer by the function it is: (name of the code object, end of its file's name).
_DISABLE: Final = ("_fn", "torch/_dynamo/eval_frame.py")
_FORWARD: Final = ("forward", "torch/_functorch/aot_autograd.py")
_RUNTIME: Final = ("runtime_wrapper", "torch/_functorch/_aot_autograd/runtime_wrappers.py")
_SERIALIZABLE: Final = "SerializableCompiledFunction"
_INNERMOST: Final = "CompiledFxGraph"
# AOTAutograd's cache puts the serializable layer outside of the runtime wrapper on a hit.
_KNOWN_CHAINS: Final = (
    [_DISABLE, _FORWARD, _RUNTIME, _SERIALIZABLE, _INNERMOST],
    [_DISABLE, _FORWARD, _SERIALIZABLE, _RUNTIME, _INNERMOST],
    [_DISABLE, _FORWARD, _RUNTIME, _INNERMOST],
)


@dataclass(frozen=True)
class Shortcut:
    """`call` takes the graph's inputs; `refusal` says why it is the official callable, if it is."""

    call: Compiled
    refusal: str | None
    innermost: Any = None
    """What is called, if nothing is refused: Inductor's compiled graph."""


def only_torch_operators(module: fx.GraphModule) -> bool:
    """Whether Inductor's asserts may be switched off: no custom operator is in the graph."""
    return all(
        node.op == "call_method" or is_torch_function(node.target)
        for node in nodes_of(module)
        if node.op.startswith("call_")
    )


def shortcut(compiled: CompiledGraph) -> Shortcut:
    """The direct way, if there is one. Ask in the grad mode and autocast of the compilation."""
    refusal = _refusal(compiled)
    if refusal is not None:
        return Shortcut(compiled.function, refusal)
    *_, innermost = _layers(compiled.function)
    call = _direct(compiled.function, innermost, torch.is_grad_enabled())
    return Shortcut(call, None, innermost)


def _direct(official: Compiled, innermost: Any, grad: bool) -> Compiled:
    """The official callable once (it finishes autotuning and the like), then the inner one.

    A function, not an object with `__call__`: this is called every time.
    """
    inner: Callable[[list[Any]], Any] | None = None

    def first(args: tuple[Any, ...]) -> Any:
        nonlocal inner
        result = official(*args)
        inner = innermost.current_callable
        return result

    def call(*args: Any) -> Any:
        return first(args) if inner is None else inner(list(args))

    def call_without_grad(*args: Any) -> Any:
        if inner is None:
            return first(args)
        set_grad_enabled(False)  # the graph computes no gradients
        try:
            return inner(list(args))
        finally:
            set_grad_enabled(True)

    set_grad_enabled = torch_set_grad_enabled
    return call_without_grad if grad else call


def _refusal(compiled: CompiledGraph) -> str | None:
    """Why the layers around Inductor's code are needed; None if they are not."""
    if is_any_autocast_enabled():
        return "autocast was on when the graph was compiled"
    layers = list(_layers(compiled.function))
    if [_kind(layer) for layer in layers] not in _KNOWN_CHAINS:
        return f"unknown layers: {', '.join(map(str, map(_kind, layers)))}"
    if _captured(layers[1], "params_buffers_flat"):
        return "the graph module has tensors of its own"
    innermost = layers[-1]
    if innermost.cudagraph_info is not None:
        return "CUDA graphs are in use"
    if innermost.mutated_input_idxs:
        return "it changes its inputs"
    metadata = metadata_of(compiled)
    return "no metadata" if metadata is None else _metadata_refusal(metadata)


def metadata_of(compiled: CompiledGraph) -> Any:
    """AOTAutograd's description of the graph, if there is one."""
    metadata = compiled.context.fw_metadata
    if metadata is None:  # it was found in AOTAutograd's cache
        serialize = getattr(compiled.function, "serialize", None)
        metadata = getattr(None if serialize is None else serialize(), "runtime_metadata", None)
    return metadata


def _metadata_refusal(metadata: Any) -> str | None:
    """What AOTAutograd's description of the graph says against the shortcut."""
    plain = all(
        type(meta).__name__ == "PlainTensorMeta"
        for meta in (*metadata.subclass_inp_meta, *metadata.subclass_fw_graph_out_meta)
    )
    for needed, why in (
        (
            any(i.mutates_data or i.mutates_metadata for i in metadata.input_info),
            "it changes its inputs",
        ),
        (
            any(o.output_type.name != "non_alias" for o in metadata.output_info),
            "an output is an alias",
        ),
        (any(o.dynamic_dims for o in metadata.output_info), "an output has dynamic sizes"),
        (any(o.requires_grad for o in metadata.output_info), "an output requires grad"),
        (metadata.num_intermediate_bases, "outputs share memory"),
        (metadata.tokens, "it has ordered effects"),
        (metadata.is_rng_op_functionalized, "random numbers are functionalized"),
        (metadata.num_graphsafe_rng_states, "it takes random number generators"),
        (metadata.grad_enabled_mutation is not None, "it changes grad mode"),
        (not plain, "tensor subclasses take part"),
    ):
        if needed:
            return why
    return None


def _layers(function: Any) -> Iterator[Any]:
    while function is not None:
        yield function
        function = getattr(function, "__wrapped__", None)


def _kind(layer: Any) -> object:
    code = getattr(layer, "__code__", None)
    if code is None:
        return type(layer).__name__
    file = code.co_filename.replace("\\", "/")
    for name, end in (_DISABLE, _FORWARD, _RUNTIME):
        if code.co_name == name and file.endswith(end):
            return (name, end)
    return f"{code.co_name} in {file}"


def _captured(function: Any, name: str) -> Any:
    """The value of a closure variable; a true value if there is none of this name."""
    names = function.__code__.co_freevars
    return function.__closure__[names.index(name)].cell_contents if name in names else "unknown"
