"""Process groups in a trace: they are constants, as long as they exist.

In: a `ProcessGroup` of the world, or a question about one. Out: the group itself, guarded by
identity without keeping it alive; and one guard for each group that the graph names: that it still
is the group of this name. A group that was destroyed and made again is another one, whatever its
name, its size and its address.
"""

import weakref
from typing import TYPE_CHECKING, Any, Final

from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.calls.builtin_calls import Handler
from stator.diagnostics.catalogue import Communication
from stator.guards import Callback, Fixed, IsWeak, Source, TypeIs
from stator.torchlib import distributed
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls
    from stator.world import World

# Questions about groups, which ranks are in them and what they are called.
_ASKED: Final = (
    "get_rank",
    "get_world_size",
    "get_backend",
    "get_group_rank",
    "get_global_rank",
    "get_process_group_ranks",
    "get_node_local_rank",
    "_get_default_group",
    "_get_group_size",
    "_get_group_tag",
    "_get_process_group_name",
    "_get_pg_default_device",
    "_rank_not_in_group",
    "_resolve_process_group",
    "_resolve_group_name_by_ranks_and_tag",
)


class SameGroup:
    """Whether a group is what it was: there, of this name, and the default one if it was that."""

    def __init__(self, group: Any, name: str) -> None:
        self._group = weakref.ref(group)
        self._name = name
        self._default = distributed.default_group() is group

    def __call__(self, _: object) -> bool:
        group = self._group()
        if group is None or distributed.name_of(group) != self._name:
            return False
        if self._default and distributed.default_group() is not group:
            return False
        return not distributed.is_coalescing(group)


class Groups:
    """The process groups that one trace has to do with."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._class = distributed.c10d.ProcessGroup if distributed.AVAILABLE else None
        self.used: dict[str, Any] = {}
        """Those that the graph depends on, by name."""
        if distributed.AVAILABLE:
            world.special[id(self._class)] = self._wrap
            for each in (distributed.c10d.ReduceOp.RedOpType, distributed.c10d.ReduceOp):
                world.special[id(each)] = world.wrap_identity
            world.special[id(distributed.c10d.Work)] = self._wrap_work

    def _wrap(self, raw: Any, source: Source) -> Any:
        self._world.guard(source, IsWeak(raw))
        return self._world.know(raw)

    def _wrap_work(self, raw: Any, source: Source) -> Any:
        """The handle of a collective that was begun outside: each call has another one."""
        self._world.guard(source, TypeIs(type(raw)))
        return self._world.remember(raw, raw, source)

    def holds(self, value: Any) -> bool:
        """Whether a value is a process group."""
        return type(value) is self._class

    def use(self, group: Any) -> tuple[Any, str]:
        """The group that is meant by an argument, and its name in the graph."""
        if group is None or group is distributed.c10d.GroupMember.NON_GROUP_MEMBER:
            found = None if group is not None else distributed.default_group()
        else:
            found = group if self.holds(group) else None
        name = None if found is None else distributed.name_of(found)
        if name is None:
            raise Communication("a collective without a process group, or outside of it")
        if distributed.is_coalescing(found):
            raise Communication("collectives are collected, to be run together")
        if name not in self.used:
            self.used[name] = found
            self._world.keep(found)
            same = SameGroup(found, name)
            self._world.guard(
                Fixed(distributed.c10d, "torch.distributed"),
                Callback(same, f"process group {name!r} is the same"),
            )
        return found, name


def _ask(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """A question about process groups: its answer stays the same as long as they do."""
    groups = calls.groups
    given = [*args, *kwargs.values()]
    for value in given:
        if groups.holds(value):
            if distributed.name_of(value) is not None:
                groups.use(value)
        elif not CONSTANTS.holds(type(value)):
            raise Communication(f"{function.__name__} of an object of type {type(value).__name__}")
    if distributed.default_group() is not None:
        groups.use(None)
    try:
        answer = function(*args, **kwargs)
    except Exception as error:
        if distributed.default_group() is None:
            raise Communication(f"{function.__name__} without a process group") from None
        core.raise_user(error)
    if groups.holds(answer):
        if distributed.name_of(answer) is not None:
            groups.use(answer)
        return calls.world.know(answer)
    if type(answer) is list:
        return list(answer)  # the program may change it
    if not CONSTANTS.holds(type(answer)):
        raise Communication(f"{function.__name__} answers with a {type(answer).__name__}")
    return answer


def _asked() -> dict[int, Handler]:
    if not distributed.AVAILABLE:
        return {}
    found = map(distributed.function_of, _ASKED)
    return {id(each): _ask for each in found if each is not None}


GROUPS: Final[dict[int, Handler]] = _asked()
