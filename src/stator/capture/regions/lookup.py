"""A further call of a region: whether a record fits it, and what it comes to then.

Stage: capture. In: the arguments of the call, and the records of the function. Out: the call's
result, with a node that calls the body that is there already, and with all facts of the record as
guards of this call's own arguments. Where a fact can't be checked, the
record does not fit.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from stator._native._core import Frame
from stator.capture.regions.given import Given
from stator.capture.regions.records import Made, RegionRecord
from stator.capture.regions.repeats import Repeat
from stator.graph.fakes.inputs import empty_fake
from stator.graph.recording import nested
from stator.torchlib.fakes import FakeTensorMode
from stator.torchlib.tensors import DisableTorchFunction
from stator.world.store import ALL

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls


def raw_arguments(calls: "Calls", given: Given) -> tuple[Any, ...]:
    """The objects behind the stand-ins that are arguments."""
    return tuple(_raw(calls, each) for each in given.world)


def _raw(calls: "Calls", value: Any) -> Any:
    record = calls.world.records.get(id(value))
    if record is not None:
        return record.raw
    known = calls.tensors.inputs.get(id(value))
    return value if known is None else known[0]


def fit(
    calls: "Calls", record: RegionRecord, given: Given, raws: tuple[Any, ...], state: Any
) -> Sequence[Any] | str:
    """What is at the ways of a record, if it is for a call; else why it is not."""
    if record.key != given.key:
        return "its arguments are others (structure, constants, kinds of tensors)"
    if record.state != state:
        return "torch's state is another (grad mode, autocast …)"
    if record.bare is not None and record.bare != given.bare:
        return "its tensors come from elsewhere, which it asks for"
    if record.repeat is None:
        record.repeat = Repeat(calls, record)
    values = record.repeat.values(raws)
    if values is None:
        return str(record.repeat.tree.explain(raws, None))
    if calls.world.written != record.written and _is_written(calls, record, values):
        return "the call has written to what it reads"
    return values


def _is_written(calls: "Calls", record: RegionRecord, values: Sequence[Any]) -> bool:
    world = calls.world
    touched: dict[object, set[Any]] = {}
    for (whose, part), when in world.writes.items():
        touched.setdefault(whose, set()).add(part)
        if when > record.written and _meet({part}, record.reads.get(whose)):
            return True
    for path, value in zip(record.paths, values, strict=True):
        shadow = world.stand_ins.get(id(value))
        written = None if shadow is None else touched.get(id(shadow))
        if written is not None and _meet(written, record.names.get(id(path), {ALL})):
            return True
    return False


def _meet(written: set[Any], read: set[Any] | None) -> bool:
    """Whether anything is both written and read."""
    if not read:
        return False
    return ALL in written or ALL in read or not written.isdisjoint(read)


def apply(
    calls: "Calls",
    frame: Frame,
    record: RegionRecord,
    given: Given,
    values: Sequence[Any],
    trace: str | None,
) -> Any:
    """The result of a call for which the record fits."""
    world, tensors, repeat = calls.world, calls.tensors, record.repeat
    assert repeat is not None
    roots = tuple(world.origins[id(each)] for each in given.world)
    sources, made = repeat.guarded(roots)
    world.guards += made
    wrapped: dict[int, torch.Tensor] = {}
    for place, fact, model in repeat.tensors:
        wrapped[place] = tensors.wrap_like(values[place], sources[place], fact, model)
    world.reached += zip(values, sources, strict=True)
    if world.reads is not None:  # a region around this one reads what this one has read
        _note_reads(calls, record, values)
    operands: list[Any] = []
    for operand in record.operands:
        if operand.tensor is not None:
            operands.append(given.tensors[operand.tensor])
        elif operand.path is not None:
            place = repeat.place(operand.path)
            known = wrapped.get(place)
            operands.append(world.wrap(values[place], sources[place]) if known is None else known)
        else:
            operands.append(operand.value)
    with DisableTorchFunction():
        outputs = _computed(tensors.graph.fake_mode, record.outputs, operands)
    node = nested.call(tensors.graph, record.name, operands, outputs, stack_trace=trace)
    body: Any = tensors.graph.regions[record.name]
    tensors.handled.region(frame, node, body.graph)
    record.uses += 1
    return _made(record.result, given, operands, outputs)


def _note_reads(calls: "Calls", record: RegionRecord, values: Sequence[Any]) -> None:
    world = calls.world
    for value in values:
        shadow = world.stand_ins.get(id(value))
        world.read(id(value) if shadow is None else id(shadow), ALL)
    for whose, parts in record.reads.items():
        for part in parts:
            world.read(whose, part)


class _Computed(torch.autograd.Function):
    """Fakes as a body has computed them, which come from its operands for autograd."""

    @staticmethod
    def forward(
        ctx: Any, mode: FakeTensorMode, like: Sequence[torch.Tensor], *operands: Any
    ) -> Any:
        made = [_like(mode, each) for each in like]
        ctx.mark_non_differentiable(
            *(each for each, model in zip(made, like, strict=True) if not model.requires_grad)
        )
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise AssertionError("the gradient of a fake is asked for")


def _computed(
    mode: FakeTensorMode, like: Sequence[torch.Tensor], operands: Sequence[Any]
) -> list[torch.Tensor]:
    if any(each.requires_grad for each in like):
        with mode:
            return list(_Computed.apply(mode, like, *operands))  # type: ignore[no-untyped-call]
    return [_like(mode, each) for each in like]


def _like(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    made = empty_fake(mode, tensor)
    if made is not None:
        return made
    with mode:
        return torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
        )


def _made(
    part: Made, given: Given, operands: Sequence[Any], outputs: Sequence[torch.Tensor]
) -> Any:
    match part.kind:
        case "constant":
            return part.value
        case "output":
            return outputs[part.value]
        case "tensor":
            return given.tensors[part.value]
        case "operand":
            return operands[part.value]
        case "container":
            return given.containers[part.value]
        case "world":
            return given.world[part.value]
    parts = [_made(each, given, operands, outputs) for each in part.parts]
    if part.kind == "dict":
        return dict(zip(part.value, parts, strict=True))
    return parts if part.kind == "list" else tuple(parts)
