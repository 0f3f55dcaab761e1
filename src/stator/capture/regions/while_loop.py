"""`while_loop` in a trace: one operator, with the condition and the body as graphs.

In: a call of the operator, to which torch's Python code has come, with flat arguments. Out: a node.
Both functions are evaluated once, on stand-ins for what is carried: other tensors, and numbers that
nobody knows.
"""

from typing import TYPE_CHECKING, Any, Final

import torch

from stator._native._core import Frame
from stator.capture.regions.bodies import (
    Body,
    compare,
    differ,
    evaluate_body,
    part_like,
    translated,
)
from stator.contracts import Depth
from stator.diagnostics.catalogue import RegionContents
from stator.graph.recording.subgraph import unite
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.operators import WHILE_LOOP
from stator.torchlib.tensors import DisableTorchFunction
from stator.torchlib.transforms import pytree

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_NAME: Final = "while_loop"
_INTS: Final = (int, torch.SymInt)


def while_loop(
    calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """`torch.ops.higher_order.while_loop(cond_fn, body_fn, carried, additional)`."""
    if kwargs or len(args) != 4:
        raise RegionContents(f"{_NAME} with options")
    cond_fn, body_fn, carried, additional = args
    calls.values.ready((carried, additional), Depth.DEEP)
    for value in (*carried, *additional):
        if type(value) is not FakeTensor and type(value) not in _INTS:
            raise RegionContents(f"{_NAME} carries a value of type {type(value).__qualname__}")
    graph = calls.tensors.graph
    with DisableTorchFunction(), graph.fake_mode:
        parts = [_part(calls, value) for value in carried]
    given = [*parts, *additional]
    condition = evaluate_body(calls, frame, f"the condition of {_NAME}", cond_fn, given, parts)
    test = _test(condition)
    body = evaluate_body(calls, frame, f"the body of {_NAME}", body_fn, given, parts)
    _check(body, carried, parts)
    inputs = unite([condition.subgraph, body.subgraph])
    with translated(_NAME):
        results = graph.call_operator(
            WHILE_LOOP,
            (
                condition.subgraph.finish(test),
                body.subgraph.finish(tuple(body.leaves)),
                tuple(carried),
                tuple(inputs),
            ),
            names=("cond_fn", "body_fn"),
            stack_trace=calls.tracer.stack_trace(frame),
        )
    return pytree.tree_unflatten(list(results), body.spec)


def _part(calls: "Calls", value: Any) -> Any:
    if type(value) is FakeTensor:
        return part_like(value)
    shape_env = calls.tensors.graph.shape_env
    with shape_env.ignore_fresh_unbacked_symbols():
        return shape_env.create_unbacked_symint()


def _test(condition: Body) -> Any:
    """What the condition answers: one bool."""
    if len(condition.leaves) == 1:
        (answer,) = condition.leaves
        if type(answer) is torch.SymBool:
            return answer
        if type(answer) is FakeTensor:
            with DisableTorchFunction():
                if answer.dtype is torch.bool and answer.dim() == 0:
                    return answer
    raise RegionContents(f"{condition.title} does not return a tensor of one bool")


def _check(body: Body, carried: Any, parts: list[Any]) -> None:
    """What the body returns is what it is given the next time."""
    if len(body.leaves) != len(carried):
        given = f"{len(carried)} values, and returns {len(body.leaves)}"
        raise differ(body.title, f"is given {given}")
    for place, (result, part) in enumerate(zip(body.leaves, parts, strict=True)):
        if type(result) is FakeTensor and type(part) is FakeTensor:
            ours = f"result {place} of {body.title}"
            compare(ours, "what it is given", result, part, sizes=True)
        elif type(part) is FakeTensor or type(result) not in _INTS:
            kinds = (_kind(part), _kind(result))
            raise differ(body.title, "is given {} and returns {} in its place".format(*kinds))


def _kind(value: Any) -> str:
    if type(value) is FakeTensor:
        return "a tensor"
    return "an int" if type(value) in _INTS else f"a {type(value).__qualname__}"


LOOPS: Final = {id(WHILE_LOOP): while_loop}
