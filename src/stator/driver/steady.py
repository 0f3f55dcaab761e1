"""Entries behind which torch's state is known.

Stage: driver. In: a trace that ends in the middle, and how it ends. Out: whether torch's state is,
when the next function is called, still what the guards of this entry found. Dispatch then doesn't
ask for it again (docs/dispatch.md, "Tail calls").
"""

from stator.capture import Trace
from stator.effects.model import Output
from stator.effects.suspension import Suspension
from stator.torchlib.fakes import FakeTensor


def is_steady(trace: Trace) -> bool:
    """Whether the graph leaves torch's state alone and none of the program's code runs after it."""
    plan, found, changes = trace.plan, trace.suspension, trace.changes
    if plan is None or found is None or plan.effects or trace.prologue or trace.retry is not None:
        return False
    if changes is not None and (changes.scopes or changes.others):
        return False
    return not found.step.text or _asks_a_tensor(trace, found)


def _asks_a_tensor(trace: Trace, found: Suspension) -> bool:
    """Whether the step is a branch on a tensor of the graph, one without code of its own."""
    if found.other is None or found.step.iterates or len(found.operands) != 1:
        return False
    number = found.operands[0]
    if number is None or trace.plan is None or type(trace.plan.values[number]) is not Output:
        return False
    return type(found.values[number]) is FakeTensor
