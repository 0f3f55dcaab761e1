"""`scan`, `map` and `associative_scan` in a trace: operators that run a graph for each slice.

In: a call of the operator, to which torch's Python code has come, with flat arguments. Out: a node.
The function is evaluated once, on stand-ins for one slice of each tensor, and for what is carried.
"""

import functools
from collections.abc import Sequence
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
from stator.torchlib.operators import ASSOCIATIVE_SCAN, MAP, SCAN
from stator.torchlib.tensors import DisableTorchFunction
from stator.torchlib.transforms import pytree
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls


def scan(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`torch.ops.higher_order.scan(combine_fn, init, xs, additional_inputs)`."""
    function, init, xs, additional = _signature(*args, **kwargs)
    init, xs, additional = _tensors(calls, "scan", init, xs, additional)
    # What is carried lies in memory as a new tensor does, in each run.
    init = [calls.tensors.record(frame, ("method", "contiguous"), (each,)) for each in init]
    carried, slices = _parts(calls, init, part_like), _parts(calls, xs, _slice)
    own = [*carried, *slices]
    title = "the function of scan"
    body = evaluate_body(calls, frame, title, function, [*own, *additional], own)
    _check_results(body)
    count = _carries(body, function, len(init))
    for place, (result, part) in enumerate(zip(body.leaves[:count], carried, strict=True)):
        ours = f"carry {place} that is returned by {body.title}"
        compare(ours, "the one that it is given", result, part, sizes=True)
    return _called(calls, frame, SCAN, "scan_combine_fn", body, [init, xs])


def map_(calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """`torch.ops.higher_order.map_impl(f, xs, args)`."""
    function, xs, additional = _map_signature(*args, **kwargs)
    (xs,) = _tensors(calls, "map", xs)
    calls.values.ready(additional, Depth.DEEP)
    for value in additional:
        kind = type(value)
        if not (kind is FakeTensor or kind is torch.SymInt or CONSTANTS.holds(kind)):
            raise RegionContents(f"map with an argument of type {kind.__qualname__}")
    slices = _parts(calls, xs, _slice)
    body = evaluate_body(
        calls, frame, "the function of map", function, [*slices, *additional], slices
    )
    _check_results(body)
    return _called(calls, frame, MAP, "map_body", body, [xs])


def associative_scan(
    calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """`torch.ops.higher_order.associative_scan(combine_fn, xs, additional_inputs)`."""
    function, xs, additional = _map_signature(*args, **kwargs)
    xs, additional = _tensors(calls, "associative_scan", xs, additional)
    left, right = _parts(calls, xs, _slice), _parts(calls, xs, _slice)
    title = "the function of associative_scan"
    given = [*left, *right, *additional]
    body = evaluate_body(calls, frame, title, function, given, [*left, *right])
    _check_results(body)
    if len(body.leaves) != len(xs):
        raise differ(body.title, f"is given {len(xs)} tensors, and returns {len(body.leaves)}")
    for place, (result, part) in enumerate(zip(body.leaves, left, strict=True)):
        ours = f"result {place} of {body.title}"
        compare(ours, "what it is given", result, part, sizes=True)
    return _called(calls, frame, ASSOCIATIVE_SCAN, "associative_scan_combine_fn", body, [xs])


def _signature(combine_fn: Any, init: Any, xs: Any, additional_inputs: Any = ()) -> tuple[Any, ...]:
    return combine_fn, init, xs, additional_inputs


def _map_signature(f: Any, xs: Any, additional_inputs: Any = ()) -> tuple[Any, ...]:
    return f, xs, additional_inputs


def _tensors(calls: "Calls", name: str, *lists: Any) -> list[list[Any]]:
    """Lists of tensors, and of nothing else."""
    calls.values.ready(lists, Depth.DEEP)
    for value in (value for each in lists for value in each):
        if type(value) is not FakeTensor:
            raise RegionContents(f"{name} of a value of type {type(value).__qualname__}")
    return [list(each) for each in lists]


def _parts(calls: "Calls", tensors: Sequence[torch.Tensor], part: Any) -> list[torch.Tensor]:
    with DisableTorchFunction(), calls.tensors.graph.fake_mode:
        return list(map(part, tensors))


def _slice(tensor: torch.Tensor) -> torch.Tensor:
    return part_like(tensor.select(0, 0).detach().requires_grad_(tensor.requires_grad))


def _check_results(body: Body) -> None:
    for value in body.leaves:
        if type(value) is not FakeTensor:
            kind = type(value).__qualname__
            raise RegionContents(f"{body.title} returns a value of type {kind}, which is no tensor")


def _carries(body: Body, function: Any, given: int) -> int:
    """How many of the results are carried on: the function returns a pair."""
    spec = body.spec
    children = spec.children()
    if len(children) != 2:
        raise differ(body.title, "does not return a pair, of what is carried on and a result")
    wanted = function.keywords.get("spec_init") if type(function) is functools.partial else None
    if children[0].num_leaves != given or (wanted is not None and children[0] != wanted):
        raise differ(body.title, f"is given {wanted} to carry on, and returns {children[0]}")
    return given


def _called(
    calls: "Calls", frame: Frame, operator: Any, name: str, body: Body, given: list[list[Any]]
) -> Any:
    inputs = unite([body.subgraph])
    with translated(body.title):
        results = calls.tensors.graph.call_operator(
            operator,
            (body.subgraph.finish(tuple(body.leaves)), *given, tuple(inputs)),
            names=(name,),
            stack_trace=calls.tracer.stack_trace(frame),
        )
    return pytree.tree_unflatten(list(results), body.spec)


SCANS: Final = {id(ASSOCIATIVE_SCAN): associative_scan, id(MAP): map_, id(SCAN): scan}
