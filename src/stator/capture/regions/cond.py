"""`torch.cond` in a trace: one operator, with both branches as graphs.

In: a call of `torch.cond`, or of the operator behind it. Out: if the condition is known, the branch
that is taken, evaluated as any other function; else a node. Each branch is evaluated once, on the
operands themselves. What either uses is given to both.
"""

from typing import TYPE_CHECKING, Any, Final

import torch

from stator._native._core import Frame
from stator.capture.regions.bodies import Body, compare, differ, evaluate_body, translated
from stator.capture.regions.trees import Given
from stator.contracts import Depth
from stator.diagnostics.catalogue import RegionContents
from stator.graph.recording.subgraph import unite
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.operators import COND
from stator.torchlib.tensors import DisableTorchFunction
from stator.torchlib.transforms import pytree
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_NAME: Final = "torch.cond"
_KNOWN: Final = frozenset({bool, int, float})


def cond(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`torch.cond(pred, true_fn, false_fn, operands)`, or the operator of that name."""
    pred, true_fn, false_fn, operands = _signature(*args, **kwargs)
    calls.values.ready(operands, Depth.SHALLOW)
    if type(operands) not in (tuple, list):
        raise RegionContents(f"{_NAME} with operands in a {type(operands).__qualname__}")
    if type(pred) in _KNOWN or type(pred) in (torch.SymInt, torch.SymFloat):
        taken = true_fn if calls.tracer.truth(frame, pred) else false_fn
        return calls.call(frame, taken, list(operands), None)
    if type(pred) is not torch.SymBool and type(pred) is not FakeTensor:
        raise RegionContents(f"{_NAME} with a condition of type {type(pred).__qualname__}")
    if type(pred) is FakeTensor:
        with DisableTorchFunction():
            if pred.numel() != 1:
                raise RegionContents(f"{_NAME} with a condition of {pred.numel()} elements")
    given = Given(calls, operands, _NAME, RegionContents)
    if len(given.tensors) != len(given.leaves):
        raise RegionContents(f"{_NAME} with operands that are no tensors")
    bodies = [
        evaluate_body(calls, frame, f"the {side} branch of {_NAME}", branch, operands)
        for side, branch in (("true", true_fn), ("false", false_fn))
    ]
    places = _merged(*bodies)
    inputs = unite([each.subgraph for each in bodies])
    with translated(_NAME):
        graphs = [
            each.subgraph.finish(tuple(each.leaves[place] for place in places)) for each in bodies
        ]
        results = calls.tensors.graph.call_operator(
            COND,
            (pred, *graphs, tuple(inputs)),
            names=("cond_true", "cond_false"),
            stack_trace=calls.tracer.stack_trace(frame),
        )
    leaves = list(bodies[0].leaves)
    for place, result in zip(places, results, strict=True):
        leaves[place] = result
    return pytree.tree_unflatten(leaves, bodies[0].spec)


def _signature(pred: Any, true_fn: Any, false_fn: Any, operands: Any = ()) -> tuple[Any, ...]:
    return pred, true_fn, false_fn, operands


def _merged(first: Body, second: Body) -> list[int]:
    """Which of the results are the operator's: the others are the same constants on both sides."""
    if first.spec != second.spec:
        raise differ(first.title, f"returns {first.spec}, {second.title} {second.spec}")
    places: list[int] = []
    for place, (a, b) in enumerate(zip(first.leaves, second.leaves, strict=True)):
        if type(a) is FakeTensor and type(b) is FakeTensor:
            compare(f"the result of {first.title}", f"that of {second.title}", a, b, sizes=False)
        elif _are_equal(a, b):
            continue
        elif type(a) is not int or type(b) is not int:
            raise differ(first.title, f"returns {_shown(a)}, {second.title} {_shown(b)}")
        places.append(place)
    return places


def _are_equal(a: Any, b: Any) -> bool:
    """Whether both are the same constant."""
    kind = type(a)
    if a is b:
        return True
    return kind is type(b) and CONSTANTS.holds(kind) and repr(a) == repr(b)


def _shown(value: Any) -> str:
    kind = type(value)
    return repr(value) if CONSTANTS.holds(kind) else f"a {kind.__qualname__}"


CONDITIONALS: Final = {id(torch.cond): cond, id(COND): cond}
