"""What a program notes on the operations that it calls: `torch.fx.traceback.annotate`.

In: the dict in which torch holds it, as the trace has it. Out: `custom` in the meta of nodes, where
torch's own tools look for it.
"""

from collections.abc import Callable
from typing import Any

from stator.torchlib.tracers import annotations
from stator.world import World
from stator.world.kinds import CONSTANTS


def noted(world: World) -> Callable[[], dict[str, Any]]:
    """Tells what is noted at this moment: what blocks of the trace have put there."""
    held = annotations()

    def now() -> dict[str, Any]:
        record = world.records.get(id(world.stand_ins.get(id(held))))
        if record is None:
            return {}
        contents = record.shadow if record.filled else record.items
        found = _plain(dict.get(contents, "custom"))
        return found if type(found) is dict else {}

    return now


def _plain(value: Any) -> Any:
    """A copy of what tools can read: constants in lists, tuples and dicts."""
    kind = type(value)
    if kind is dict:
        items = dict.items(value)
        return {_plain(key): _plain(part) for key, part in items if CONSTANTS.holds(type(key))}
    if kind is list or kind is tuple:
        return kind(_plain(part) for part in value)
    return value if CONSTANTS.holds(kind) else None
