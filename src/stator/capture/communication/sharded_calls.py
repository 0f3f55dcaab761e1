"""Calls of sharded modules (`fully_shard`) in a trace.

In: a call of `Module._call_impl`. Out: for a sharded module what `stator.distributed.sharded` makes
of it, which leaves its hooks to Python; for any other one its code, evaluated as ever.
"""

from typing import TYPE_CHECKING, Any, Final

from stator import objects
from stator._native._core import Frame
from stator.capture.calls.builtin_calls import Handler
from stator.capture.calls.python_calls import evaluated, ours
from stator.capture.modules.module_calls import CALL
from stator.distributed import sharded
from stator.guards import Callback

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls


def _called(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`module(…)`: the hooks of a sharded module run outside of the graph."""
    if args and sharded.in_use():
        record = calls.world.records.get(id(args[0]))
        source = None if record is None else calls.world.origins.get(id(args[0]))
        if record is not None and source is not None and not record.writes:
            raw = record.raw
            if objects.instance_dict(raw) is not None and sharded.is_sharded(raw):
                calls.world.guard(source, Callback(sharded.is_sharded, "a sharded module"))
                ours(calls, sharded.call)
                return evaluated(calls, frame, sharded.call, args, kwargs)
    return evaluated(calls, frame, function, args, kwargs)


SHARDED: Final[dict[int, Handler]] = {id(CALL): _called}
