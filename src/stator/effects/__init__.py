"""What a trace leaves behind, as a plan: values to make again, changes to write back.

Stage: after tracing, before emit. In: the result (real objects), net effects, and `resolve`, which
tells what stands for an object of the world, a graph output or a constant. Out: a `Plan`, pure
data. docs/emit.md has the whole path.
"""

from stator.effects.model import (
    Advanced,
    ArrayContents,
    Ask,
    AttrDel,
    AttrSet,
    ByteArrayContents,
    CannotRebuild,
    CellDel,
    CellSet,
    ClassAttrDel,
    ClassAttrSet,
    Constant,
    DequeContents,
    DictContents,
    Effect,
    Fetched,
    KeyDel,
    KeySet,
    ListContents,
    ListExtended,
    Output,
    Passed,
    Perform,
    Ref,
    Resolve,
    SetContents,
    SlotDel,
    SlotSet,
    StateSet,
)
from stator.effects.plan import plan
from stator.effects.steps import Plan

__all__ = [
    "Advanced",
    "ArrayContents",
    "Ask",
    "AttrDel",
    "AttrSet",
    "ByteArrayContents",
    "CannotRebuild",
    "CellDel",
    "CellSet",
    "ClassAttrDel",
    "ClassAttrSet",
    "Constant",
    "DequeContents",
    "DictContents",
    "Effect",
    "Fetched",
    "KeyDel",
    "KeySet",
    "ListContents",
    "ListExtended",
    "Output",
    "Passed",
    "Perform",
    "Plan",
    "Ref",
    "Resolve",
    "SetContents",
    "SlotDel",
    "SlotSet",
    "StateSet",
    "plan",
]
