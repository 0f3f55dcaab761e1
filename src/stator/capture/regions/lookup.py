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
from stator.capture.regions.records import Argument, Made, RegionRecord, step
from stator.graph.recording import nested
from stator.guards import Aliased, Guard, Source
from stator.guards.sources import Missing
from stator.guards.tensors import TensorMatch
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


def misfit(
    calls: "Calls", record: RegionRecord, given: Given, raws: tuple[Any, ...], state: Any
) -> str | None:
    """Why a record is not for a call; None if it is."""
    if record.key != given.key:
        return "its arguments are others (structure, constants, kinds of tensors)"
    if record.state != state:
        return "torch's state is another (grad mode, autocast …)"
    if record.bare is not None and record.bare != given.bare:
        return "its tensors come from elsewhere, which it asks for"
    if not record.tree.check(raws, None):
        return str(record.tree.explain(raws, None))
    if calls.world.written != record.written and _is_written(calls, record, raws):
        return "the call has written to what it reads"
    return None


def _is_written(calls: "Calls", record: RegionRecord, raws: tuple[Any, ...]) -> bool:
    world = calls.world
    touched: dict[object, set[Any]] = {}
    for (whose, part), when in world.writes.items():
        touched.setdefault(whose, set()).add(part)
        if when > record.written and _meet({part}, record.reads.get(whose)):
            return True
    for path, value in _values(record, raws).items():
        shadow = world.stand_ins.get(id(value))
        written = None if shadow is None else touched.get(id(shadow))
        if written is not None and _meet(written, record.names.get(path, {ALL})):
            return True
    return False


def _meet(written: set[Any], read: set[Any] | None) -> bool:
    """Whether anything is both written and read."""
    if not read:
        return False
    return ALL in written or ALL in read or not written.isdisjoint(read)


def _values(record: RegionRecord, raws: tuple[Any, ...]) -> dict[int, Any]:
    """What is at each of the ways that the record has read, by id of the source."""
    found: dict[int, Any] = {}
    for source in record.paths:
        if type(source) is Argument:
            found[id(source)] = raws[source.index]
            continue
        base = None if source.base is None else found.get(id(source.base), _NOTHING)
        try:
            found[id(source)] = _NOTHING if base is _NOTHING else source.read(base, _CALL)
        except Missing:
            found[id(source)] = _NOTHING
    return found


class _Call:
    locals = ()
    function = None


_CALL: Any = _Call()
_NOTHING: Any = object()


class _Rebase:
    """Ways from an argument, as ways from the call that is traced."""

    def __init__(self, roots: Sequence[Source]) -> None:
        self._roots = roots
        self._known: dict[int, Source] = {}

    def of(self, source: Source) -> Source:
        if type(source) is Argument:
            return self._roots[source.index]
        found = self._known.get(id(source))
        if found is None:
            base = source.base
            if base is None:
                return source
            under = self.of(base)
            if under is base:  # of the whole trace
                return source
            found = self._known[id(source)] = step(source, under)
        return found


def apply(
    calls: "Calls",
    frame: Frame,
    record: RegionRecord,
    given: Given,
    raws: tuple[Any, ...],
    trace: str | None,
) -> Any:
    """The result of a call for which the record fits."""
    world, tensors = calls.world, calls.tensors
    rebase = _Rebase([world.origins[id(each)] for each in given.world])
    values = _values(record, raws)
    for fact in record.facts:
        assert fact.source is not None
        source = rebase.of(fact.source)
        check: Any = fact.check
        if isinstance(check, TensorMatch):
            world.wrap(values[id(fact.source)], source)
            continue
        if isinstance(check, Aliased):
            check = type(check)(tuple(map(rebase.of, check.others)))
        world.guards.append(Guard(source, check, fact.code, fact.unit))
    for path in record.paths:
        value = values[id(path)]
        if value is not _NOTHING:
            world.reached.append((value, rebase.of(path)))
            if world.reads is not None:  # a region around this one reads what this one has read
                shadow = world.stand_ins.get(id(value))
                world.read(id(value) if shadow is None else id(shadow), ALL)
    for whose, parts in record.reads.items() if world.reads is not None else ():
        for part in parts:
            world.read(whose, part)
    operands: list[Any] = []
    for operand in record.operands:
        if operand.tensor is not None:
            operands.append(given.tensors[operand.tensor])
        elif operand.path is not None:
            operands.append(world.wrap(values[id(operand.path)], rebase.of(operand.path)))
        else:
            operands.append(operand.value)
    with DisableTorchFunction(), tensors.graph.fake_mode:
        outputs = _computed(record.outputs, operands)
    node = nested.call(tensors.graph, record.name, operands, outputs, stack_trace=trace)
    body: Any = tensors.graph.regions[record.name]
    tensors.handled.region(frame, node, body.graph)
    record.uses += 1
    return _made(record.result, given, operands, outputs)


class _Computed(torch.autograd.Function):
    """Fakes as a body has computed them, which come from its operands for autograd."""

    @staticmethod
    def forward(ctx: Any, like: Sequence[torch.Tensor], *operands: Any) -> Any:
        made = [_like(each) for each in like]
        ctx.mark_non_differentiable(
            *(each for each, model in zip(made, like, strict=True) if not model.requires_grad)
        )
        return tuple(made)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise AssertionError("the gradient of a fake is asked for")


def _computed(like: Sequence[torch.Tensor], operands: Sequence[Any]) -> list[torch.Tensor]:
    if any(each.requires_grad for each in like):
        return list(_Computed.apply(like, *operands))  # type: ignore[no-untyped-call]
    return [_like(each) for each in like]


def _like(tensor: torch.Tensor) -> torch.Tensor:
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
