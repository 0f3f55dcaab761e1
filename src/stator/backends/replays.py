"""CUDA graphs of our own for what Inductor compiled for inference.

In: a graph that `reduce-overhead`, or an option, wants recorded. Out: how Inductor's code is
recorded and replayed by `recording.Recorder`, whose results are the program's to keep. Other graphs
are torch's to record, which reuses the memory of results at the next step.

Torch's way is made for graphs that follow each other, forward and backward, and costs more per call
than a small model takes on a GPU.
"""

import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import torch
import torch.fx as fx

from .compile import CompiledGraph
from .recording import Recorder
from .registry import Compiled
from .shortcut import metadata_of, only_torch_operators
from .static_inputs import staying

WITHOUT: Final[Mapping[str, Any]] = {"triton.cudagraphs": False}
_RESULTS: Final = 16  # each is copied out in each call


def wanted(module: fx.GraphModule, examples: Sequence[Any]) -> bool:
    """Whether a graph may be recorded by us: kernels on one GPU, of fixed sizes, no gradients."""
    tensors = [each for each in examples if isinstance(each, torch.Tensor)]
    return (
        len(tensors) == len(examples) > 0
        and all(map(_is_plain, tensors))
        and len({each.device for each in tensors}) == 1
        and not (torch.is_grad_enabled() and any(each.requires_grad for each in tensors))
        and only_torch_operators(module)
        and not any("unbacked_bindings" in node.meta for node in module.graph.nodes)
        and _results(module) <= _RESULTS
    )


def _results(module: fx.GraphModule) -> int:
    (results,) = module.graph.output_node().args
    return len(results) if isinstance(results, list | tuple) else 1


def recorded(
    made: CompiledGraph, call: Compiled, device: torch.device, stay: Collection[int]
) -> Compiled:
    """What replays a compiled graph, or runs it if that is more than to start kernels.

    `call` runs it; `stay` are the inputs that are expected where they were.
    """
    metadata = metadata_of(made)
    refusal = "nothing is known of it" if metadata is None else _refusal(metadata, stay)
    if refusal is not None:
        warnings.warn(f"a graph runs without CUDA graphs: {refusal}", stacklevel=2)
        return call
    changed = [i for i, each in enumerate(metadata.input_info) if each.mutates_data]
    return Recorder(call, device, stay, changed)


def _refusal(metadata: Any, stay: Collection[int]) -> str | None:
    """What AOTAutograd's description of the graph says against a recording."""
    plain = all(
        type(meta).__name__ == "PlainTensorMeta"
        for meta in (*metadata.subclass_inp_meta, *metadata.subclass_fw_graph_out_meta)
    )
    inputs = metadata.input_info
    for found, why in (
        (not plain, "tensor subclasses take part"),
        (
            any(i.mutates_data and n not in stay for n, i in enumerate(inputs)),
            "it changes an input that may be elsewhere in the next call (mark_static_address)",
        ),
        (
            any(i.mutates_metadata or i.mutates_storage_metadata for i in inputs),
            "it changes what an input is",
        ),
        (any(o.requires_grad for o in metadata.output_info), "a result requires grad"),
        (metadata.tokens, "it has ordered effects"),
        (metadata.is_rng_op_functionalized, "random numbers are functionalized"),
        (metadata.num_graphsafe_rng_states, "it takes random number generators"),
        (metadata.grad_enabled_mutation is not None, "it changes grad mode"),
    ):
        if found:
            return why
    return None


def stay(module: fx.GraphModule) -> list[int]:
    """The inputs of a recorded graph that are expected where they were."""
    return list(staying(module))


def _is_plain(tensor: torch.Tensor) -> bool:
    return (
        tensor.is_cuda
        and tensor.layout is torch.strided
        and not tensor._has_symbolic_sizes_strides
        and not tensor.is_conj()
        and not tensor.is_neg()
    )
