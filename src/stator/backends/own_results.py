"""Results of CUDA graphs that torch records are the program's to keep.

In: what Inductor made of a graph, whose kernels torch records and replays. Out: the same, with
results and gradients in memory of their own.

torch hands out the memory of the recording, and gives it to a later call as soon as a new step
begins, whoever still looks at it; and where no step begins, whatever is kept makes each call record
anew. What is copied out is nobody's: torch finds all results dead, and replays.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch

from stator.torchlib import inductor as torch_inductor
from stator.torchlib.operators import foreach_copy_

from .inductor_settings import config_patches
from .registry import Backend, Compiled

_SETTING: Final = "triton.cudagraphs"
# Of AOTAutograd's description of a result: it shares memory neither with an input nor with another.
_ALONE: Final = frozenset({"non_alias", "unsafe_view_alias", "custom_function_view"})


def may_record(
    backend: str | Backend, options: Mapping[str, Any], example_inputs: Sequence[Any]
) -> bool:
    """Whether torch may record CUDA graphs of what a backend made."""
    if backend != "inductor" or not any(map(_is_on_gpu, example_inputs)):
        return False
    asked = config_patches(options.get("mode"), options.get("options")).get(_SETTING)
    return bool(torch_inductor.config().triton.cudagraphs if asked is None else asked)


def _is_on_gpu(given: Any) -> bool:
    return isinstance(given, torch.Tensor) and given.is_cuda


def with_own_results(function: Compiled, metadata: Any) -> Compiled:
    """The same, with copies. `metadata` is AOTAutograd's description of the graph."""
    if metadata is None:
        return function
    alone = [
        place
        for place, output in enumerate(metadata.output_info)
        if output.output_type.name in _ALONE
    ]

    def call(*args: Any) -> Any:
        results = list(function(*args))
        node: Any = None
        for place in alone:
            result = results[place]
            if isinstance(result, torch.Tensor):
                node = result.grad_fn if node is None else node
                results[place] = result.clone()
        if node is not None:
            node.register_hook(_copied)
        return tuple(results)

    return call


def _copied(grads: Sequence[Any], of_results: object) -> tuple[Any, ...]:
    """Gradients as a hook of the graph's backward hands them on."""
    if torch.is_grad_enabled():  # they may be differentiated again
        return tuple([each if each is None else each.clone() for each in grads])
    given = [each for each in grads if each is not None]
    made = [torch.empty_like(each) for each in given]
    if made:
        foreach_copy_(made, given)
    copies = iter(made)
    return tuple([each if each is None else next(copies) for each in grads])
