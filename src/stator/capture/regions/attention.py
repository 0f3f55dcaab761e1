"""`flex_attention` in a trace: one operator, with the functions of scores and masks as graphs.

In: a call of the operator, to which torch's Python code has come. Out: a node. Both functions are
evaluated once, on stand-ins: a score, and four positions. What they use from outside is given to
the operator, in the order of its use. In them, `bias[q_idx]` takes an element without reading the
index.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import torch

from stator._native._core import Frame
from stator.capture.regions.bodies import Body, evaluate_body, translated
from stator.contracts import Depth
from stator.diagnostics.catalogue import RegionContents
from stator.graph.fakes.attention import flex_attention
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.operators import FLEX_ATTENTION
from stator.torchlib.tensors import DisableTorchFunction
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_NAME: Final = "flex_attention"
_SCORES: Final = f"the score function of {_NAME}"
_MASK: Final = f"the mask function of {_NAME}"
_TRIES: Final = 3


def attention(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`torch.ops.higher_order.flex_attention(q, k, v, score_mod, block_mask, scale, …)`."""
    query, key, value, scores, block_mask, *others = _signature(*args, **kwargs)
    # Inductor writes these into its kernel; an open size among them is fixed.
    scale, options, score_buffers, mask_buffers = others
    calls.values.ready((block_mask[:-1], options, score_buffers, mask_buffers), Depth.DEEP)
    for each in (query, key, value):
        if type(each) is not FakeTensor:
            raise RegionContents(f"{_NAME} of a value of type {type(each).__qualname__}")
    plain = calls.tensors.shapes.plain
    scale = plain(None, scale)
    options = {name: plain(None, given) for name, given in options.items()}
    *blocks, mask = block_mask
    _check([*blocks, scale, *options.values()])
    graph = calls.tensors.graph
    with DisableTorchFunction(), graph.fake_mode:
        score = query.new_empty([], requires_grad=query.requires_grad)
        positions = [query.new_empty([], dtype=torch.int32) for _ in range(4)]
    if mask is None:
        mask = torch.nn.attention.flex_attention.noop_mask
    scored = _evaluated(calls, frame, _SCORES, scores, [score, *positions], score_buffers)
    masked = _evaluated(calls, frame, _MASK, mask, positions, mask_buffers)
    with translated(_NAME):
        result: Any = graph.call_operator(
            FLEX_ATTENTION,
            (
                query,
                key,
                value,
                scored.subgraph.finish(*scored.leaves),
                (*blocks, masked.subgraph.finish(*masked.leaves)),
                scale,
                options,
                tuple(scored.subgraph.inputs),
                tuple(masked.subgraph.inputs),
            ),
            names=("score_mod", "mask_fn"),
            rule=flex_attention,
            stack_trace=calls.tracer.stack_trace(frame),
        )
    return result


def _signature(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Any,
    block_mask: Any,
    scale: Any,
    kernel_options: Any,
    score_mod_other_buffers: Any = (),
    mask_mod_other_buffers: Any = (),
) -> tuple[Any, ...]:
    named = score_mod, block_mask, scale, kernel_options
    return query, key, value, *named, score_mod_other_buffers, mask_mod_other_buffers


def _check(values: list[Any]) -> None:
    for value in values:
        kind = type(value)
        if not (kind is FakeTensor or kind is torch.SymInt or CONSTANTS.holds(kind)):
            raise RegionContents(f"{_NAME} with an argument of type {kind.__qualname__}")


def _evaluated(
    calls: "Calls",
    frame: Frame,
    title: str,
    function: Any,
    own: list[torch.Tensor],
    buffers: Sequence[Any],
) -> Body:
    """One of the functions. The operator takes tensors and ints: floats are what they are now."""
    for _ in range(_TRIES):
        with calls.tensors.own.settings.indices_kept():
            body = evaluate_body(calls, frame, title, function, [*own, *buffers], own, fresh=False)
        if len(body.leaves) != 1 or type(body.leaves[0]) is not FakeTensor:
            raise RegionContents(f"{body.title} does not return a tensor")
        open_floats = [each for each in body.subgraph.inputs if type(each) is torch.SymFloat]
        if not open_floats:
            return body
        for each in open_floats:
            if type(calls.tensors.shapes.plain(None, each)) is not float:
                break
    raise RegionContents(f"{title} uses a float that is read from a tensor")


ATTENTION: Final = {id(FLEX_ATTENTION): attention}
