"""Operators that change the tensors of a list, which torch's fake kernels don't count.

In: a call that has run on fake tensors. Out: versions of the tensors in its lists as the real call
leaves them. All that asks whether a graph changes something looks at versions: what is copied
before a graph is tried, texts made before a change, memory that is written and read.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import torch

from stator.graph.fakes.inputs import tensors_in, version


@cache
def _written(name: str) -> tuple[tuple[int, str], ...]:
    """Where an operator of this name has lists that it changes: positions, and their names."""
    if not hasattr(torch.ops.aten, name):
        return ()
    packet = getattr(torch.ops.aten, name)
    found: dict[tuple[int, str], None] = {}
    for overload in packet.overloads():
        for position, each in enumerate(getattr(packet, overload)._schema.arguments):
            info = each.alias_info
            if info is not None and info.is_write and str(each.type) == "List[Tensor]":
                found[-1 if each.kwarg_only else position, each.name] = None
    return tuple(found)


def may_change_lists(name: str) -> bool:
    return name.startswith(("_foreach_", "_fused_", "_amp_foreach_")) and name.endswith("_")


def count_changes(
    name: str, args: Sequence[Any], kwargs: dict[str, Any], before: dict[int, int | None]
) -> None:
    """Counts the change of each tensor that has the version it had before, by id."""
    changed = {
        id(each): each
        for each in changed_lists(name, args, kwargs)
        if not each.is_inference() and version(each) == before.get(id(each))
    }
    torch.autograd.graph.increment_version(list(changed.values()))


def changed_lists(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors in the lists that the operator changes, one after the other."""
    if not may_change_lists(name):
        return []
    lists = [
        args[position] if 0 <= position < len(args) else kwargs.get(argument)
        for position, argument in _written(name)
    ]
    return list(tensors_in(lists))
