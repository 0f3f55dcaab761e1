"""Calls in which an optimizer makes its state: there is one for each optimizer.

Stage: driver. In: a trace, and the call it was made of. Out: why its graph is not worth compiling.
What is compiled for such a call fits no other of the same optimizer, since there is state from then
on; so it runs by the graph's own operators, and the next call is the first to be compiled. It would
be compiled again in any case.
"""

from typing import Final

import torch

from stator.capture import Trace
from stator.capture.trace.task import Task
from stator.effects.model import DictContents
from stator.effects.steps import Apply
from stator.guards import Attr, Source
from stator.guards.reference import Call
from stator.guards.sources import Missing

ONCE: Final = "it makes the state of an optimizer, which happens once"


def runs_once(trace: Trace, task: Task) -> str | None:
    """Why the graph of a trace will not run again, if an optimizer of the call has no state yet."""
    if trace.plan is None:
        return None
    call = Call(tuple(task.bound), task.function)
    written = (step.effect for step in trace.plan.effects if isinstance(step, Apply))
    fills = (each.target for each in written if type(each) is DictContents)
    return ONCE if any(_is_empty_state(target, call) for target in fills) else None


def _is_empty_state(target: object, call: Call) -> bool:
    if type(target) is not Attr or target.name != "state" or not isinstance(target.base, Source):
        return False
    try:
        owner, state = call.read(target.base), call.read(target)
    except Missing:
        return False
    if not issubclass(type(owner), torch.optim.Optimizer) or not issubclass(type(state), dict):
        return False
    return not dict.__len__(state)
