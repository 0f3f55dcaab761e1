"""torch.distributed: which process groups there are, and collectives as operators of a graph."""

from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

import torch

from .door import needed, optional
from .loading import loaded

AVAILABLE: Final = torch.distributed.is_available()
"""Whether this build of torch has more than one process in mind."""

c10d: Final[Any] = optional(
    "torch.distributed.distributed_c10d", "process groups", "there is one process"
)
ddp: Final[Any] = optional(
    "torch.nn.parallel.distributed.DistributedDataParallel",
    "recognises models whose gradients are averaged over processes",
    "there is one process",
)
_world: Final[Any] = optional(
    "torch.distributed.distributed_c10d._world",
    "the process groups that exist",
    "collectives are not captured",
)
_rank_in: Final[Any] = optional(
    "torch.distributed.distributed_c10d._canonicalize_group_rank",
    "which member of a group a broadcast comes from",
    "broadcasts are not captured",
)

with needed("collectives that return their result, as nodes of a graph"):
    OPERATORS: Final[Any] = torch.ops._c10d_functional


def functional() -> ModuleType:
    """What says of these operators what they return and how they are differentiated: loaded late,
    since programs of one process have no use for it."""
    return loaded("torch.distributed._functional_collectives")


def default_group() -> Any:
    """The process group of all processes, if there is one."""
    return None if _world is None else _world.default_pg


def name_of(group: Any) -> str | None:
    """The name by which a graph finds a process group; None once it is destroyed."""
    return None if _world is None else _world.pg_names.get(group)


def is_coalescing(group: Any) -> bool:
    """Whether collectives of the group are only collected, to be run together."""
    return group in _world.pg_coalesce_state


def rank_in(group: Any, rank: Any, group_rank: Any) -> int:
    """Which member of a group is meant by a rank, or by one in the group; or an error."""
    found: int = _rank_in(group, rank, group_rank, return_global=False)
    return found


def members(group: Any) -> list[int]:
    """The ranks in a group, in its order."""
    return list(_world.pg_group_ranks[group])


def function_of(name: str) -> Callable[..., Any] | None:
    """A function of torch.distributed, public or not, below what is wrapped around it."""
    found = getattr(c10d, name, None)
    while found is not None and hasattr(found, "__wrapped__"):
        found = found.__wrapped__
    return found


def group_of(name: str) -> Any:
    """The process group of that name; None if there is none."""
    for group, known in ({} if _world is None else _world.pg_names).items():
        if known == name:
            return group
    return None


def members_of(name: str) -> list[int] | None:
    """The ranks in the group of that name; None if there is none."""
    group = group_of(name)
    return None if group is None else members(group)


def store_between_processes(group: Any) -> Any:
    """The store by which the processes of a group have found each other, to meet there.

    None if there is none, or no longer: nobody may hold it longer than the group does, since a
    server goes with it.
    """
    known = {} if group is None or _world is None else _world.pg_map
    store = known[group][1] if group in known else None
    inner: Any = store
    prefixed = getattr(torch.distributed, "PrefixStore", ())
    while isinstance(inner, prefixed):
        inner = inner.underlying_store
    kinds = [
        getattr(torch.distributed, name, None) for name in ("TCPStore", "FileStore", "HashStore")
    ]
    return store if any(kind is not None and isinstance(inner, kind) for kind in kinds) else None
