"""Guards for a graph that changes its inputs: which of them share memory, and which don't.

Stage: capture, at the end of a trace. In: the inputs, and what was written to. Out: guards, and the
inputs that lie in one memory (`graph.shared`), or a `Break`. A graph is right for inputs that lie
as those of the trace did.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import torch

from stator.diagnostics.catalogue import AutogradInside, SharedMemory
from stator.graph import Recorded
from stator.graph.fakes.inputs import FakeInput
from stator.graph.fakes.memory import storage_of
from stator.graph.passes.shared import Group, Place, SharedInputs
from stator.guards import Aliased, Callback, Field, IsNot, NotAliased, Source
from stator.guards.tensors import NoOverlap
from stator.torchlib.operators import has_internal_overlap
from stator.torchlib.tensors import DisableTorchFunction, TensorBase

if TYPE_CHECKING:
    from stator.capture.trace.tracer import Tracer

_BASE: Final = TensorBase.__dict__["_base"]
_OVERLAPS: Final = 1  # as torch says it of strides that are 0
_WRAPPED: Final = "one of them is in a tensor with `__torch_dispatch__`"
_SHARED: Final = "an input is changed that shares its memory with another input"


def _guard_unkept(tracer: "Tracer", given: FakeInput) -> None:
    """Nobody keeps its gradient: a tensor that AOTAutograd writes to gets none."""
    if not _is_unkept(given.real):
        raise AutogradInside("an input whose gradient is kept (`retain_grad`) is changed in place")
    source = tracer.tensors.sources[id(given.real)]
    tracer.world.guard(source, Callback(_is_unkept, "without a gradient that is kept"))


def _is_unkept(tensor: torch.Tensor) -> bool:
    return not tensor.retains_grad


def guard_changed(tracer: "Tracer", given: Sequence[FakeInput]) -> list[list[FakeInput]]:
    """Guards the memory of these inputs; those that share it with one that is changed, which
    comes first.
    """
    sources = tracer.tensors.sources
    with DisableTorchFunction():
        written = tracer.tensors.graph.overwritten  # also through `.data`, which counts no version
        for each in given:
            follows = each.real.requires_grad and not each.real.is_leaf
            if each.parts and follows and not each.untouched():
                tracer.tensors.own.guard_leaf(each.fake)
        parts = [part for each in given for part in each.in_memory()]
        given = list({id(part.fake): part for part in parts}.values())
        changed = [
            each for each in given if not each.untouched() or storage_of(each.fake) in written
        ]
        if len(given) < len(parts):
            counts = Counter(id(part.fake) for part in parts)
            if any(counts[id(each.fake)] > 1 for each in changed):
                raise SharedMemory(f"{_SHARED}: {_WRAPPED}")
        if any(has_internal_overlap(each.real) == _OVERLAPS for each in changed):
            raise SharedMemory("an input is changed whose elements share memory (expand)")
        for each in changed:
            # AOTAutograd hides from autograd what it writes to a leaf, and not for others.
            if each.real.requires_grad and not each.real.is_leaf:
                tracer.tensors.own.guard_leaf(each.fake)
                _guard_unkept(tracer, each)
        if not changed or len(given) < 2:
            return []
        by_memory: dict[int, list[FakeInput]] = defaultdict(list)
        known = {id(each) for each in changed}
        for each in sorted(given, key=lambda each: id(each) not in known):
            by_memory[storage_of(each.fake)].append(each)
        first = [each for each in changed if by_memory[storage_of(each.fake)][0] is each]
        groups = [by_memory[storage_of(each.fake)] for each in first]
        groups = [group for group in groups if len(group) > 1]
        inside = {id(each) for group in groups for each in group}
        rest = [
            each
            for each in given
            if id(each) not in known | inside and each.real.layout is torch.strided
        ]
        for group in groups:
            _guard_group(tracer, group)
    own, *others = (sources[id(each.real)] for each in given)
    tracer.world.guard(own, NotAliased(tuple(others)))
    own, *others = (sources[id(each.real)] for each in first)
    if others or rest:
        apart = tuple(sources[id(each.real)] for each in rest)
        tracer.world.guard(own, NoOverlap(apart, tuple(others)))
    return groups


def _guard_group(tracer: "Tracer", group: Sequence[FakeInput]) -> None:
    """They share their memory in later calls, too, and lie there where they do now."""
    tensors, guard = tracer.tensors, tracer.world.guard
    kinds = {(each.real.dtype, each.real.device) for each in group}
    for each in group:
        grown = not each.lies_as_made() or each.fake.requires_grad or each.real.requires_grad
        if grown or len(kinds) > 1 or not _is_plain(each.real):
            raise SharedMemory(_SHARED)
        if id(each.real) in tensors.subclasses.inputs or id(each.real) in tensors.arrays.inputs:
            raise SharedMemory(_SHARED)
        if tensors.wrappers.is_part(each.real):
            raise SharedMemory(f"{_SHARED}: {_WRAPPED}")
        for number in (*each.fake.shape, *each.fake.stride()):
            tensors.shapes.plain(None, number)
        tensors.shapes.begins(each.real, tensors.sources[id(each.real)])
    bases = [(each.real if each.real._base is None else each.real._base) for each in group]
    if any(base is not bases[0] for base in bases):
        raise SharedMemory(f"{_SHARED}, and is no view of the same tensor")
    held = [_base_of(each.real, tensors.sources[id(each.real)]) for each in group]
    for each, source in zip(group, held, strict=True):
        if each.real._base is not None:
            guard(source, IsNot(None))
    guard(held[0], Aliased(tuple(held[1:])))


def _base_of(tensor: torch.Tensor, source: Source) -> Source:
    return source if tensor._base is None else Field(source, _BASE)


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.is_conj() and not tensor.is_neg()


def _are_apart(places: Sequence[Place]) -> bool:
    """Whether they lie one behind the other."""
    ordered = sorted(places, key=lambda place: place.offset)
    return all(a.end <= b.offset for a, b in pairwise(ordered))


def shared_inputs(recorded: Recorded, groups: Sequence[Sequence[FakeInput]]) -> SharedInputs:
    """The groups, by position among the inputs that the graph has."""
    where = {id(each.value): i for i, each in enumerate(recorded.inputs)}
    found = []
    for group in groups:
        members = [each for each in group if id(each.real) in where]
        places = tuple(
            Place(
                where[id(each.real)],
                tuple(each.real.shape),
                each.real.stride(),
                int(each.real.storage_offset()),
            )
            for each in members
            if each.real.numel()
        )
        if _are_apart(places):
            continue  # to a graph that is as if they were in different memory
        if not all(place.is_dense for place in places):
            raise SharedMemory(f"{_SHARED}, with gaps between its elements")
        found.append(Group(places))
    return SharedInputs(tuple(found))
