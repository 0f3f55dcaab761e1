"""A traced `torch.autograd.Function` inside of a function that `torch.func` transforms.

Stage: capture, for `autograd`. In: the graphs of its forward and backward. Out: a function of torch
that the transform can take: each level of it sets up a context of its own, and derivatives of the
backward go through what was saved, if that is an input or an output.

Torch asks more of such functions than of others. Where the program's own does not have it, eager
raises; where its rule for `vmap` is code of its own, that would have to be traced as well.
"""

from typing import TYPE_CHECKING, Any

import torch

from stator._native._core import Frame
from stator.diagnostics.catalogue import Transform

if TYPE_CHECKING:
    from stator.capture.autograd.function_regions import FunctionRegion
    from stator.capture.calls.calls import Calls

INPUT, OUTPUT, MADE = "input", "output", "made"


def check(calls: "Calls", frame: Frame, cls: Any) -> None:
    """Refuses what the transforms around it would do otherwise than a region does."""
    inside, read = calls.tensors.inside, calls.tracer.getattr
    plain = torch.autograd.Function
    if read(frame, cls, "setup_context") is plain.setup_context:
        raise Transform("a torch.autograd.Function without setup_context inside of torch.func")
    if inside.forward_mode:
        raise Transform("a torch.autograd.Function inside of torch.func.jvp")
    if inside.maps and (
        read(frame, cls, "generate_vmap_rule") is not True or read(frame, cls, "vmap") != plain.vmap
    ):
        raise Transform("a torch.autograd.Function with a rule of its own inside of torch.vmap")


def placed(saved: list[Any], inputs: list[Any], outputs: tuple[Any, ...]) -> list[Any]:
    """Where each saved value is found: (INPUT, position), (OUTPUT, position), or (MADE, None)."""
    places: list[Any] = []
    for value in saved:
        if not isinstance(value, torch.Tensor):
            raise Transform("a torch.autograd.Function with open sizes inside of torch.func")
        found = [(INPUT, i) for i, each in enumerate(inputs) if each is value]
        found += [(OUTPUT, i) for i, each in enumerate(outputs) if each is value]
        places.append(found[0] if found else (MADE, None))
    return places


def applied(region: "FunctionRegion", places: list[Any], inputs: tuple[Any, ...]) -> Any:
    """Calls the region's graphs, at each level of the transforms that are active.

    What is saved and is neither an input nor an output becomes an output: nothing else may reach
    the backward. No derivative goes through that, as in eager.
    """
    kept = [place for place, (kind, _) in enumerate(places) if kind == MADE]

    class Inside(torch.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(*inputs: Any) -> Any:
            outputs, saved, _ = region.forward_graph(*inputs)
            return *outputs, *(saved[place] for place in kept)

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            count = len(output) - len(kept)
            rest = iter(output[count:])
            found = {INPUT: inputs, OUTPUT: output}
            saved = [next(rest) if kind == MADE else found[kind][place] for kind, place in places]
            ctx.save_for_backward(*saved)
            ctx.count = count
            apart = (output[place] for place in region.results.not_differentiable)
            ctx.mark_non_differentiable(*apart, *output[count:])

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return tuple(region.gradients(gradients[: ctx.count], ctx.saved_tensors))

    Inside.__name__ = Inside.__qualname__ = region.name
    made: Any = Inside  # `apply` has no annotations
    outputs = made.apply(*inputs)
    return outputs[: len(outputs) - len(kept)]
