"""Where a wrapper has what it holds: in its own dict, or in a slot of its class.

In: an object, and a name. Out: what it holds there, and the source of that.
"""

import types
from typing import Any

from stator import objects
from stator.guards import Attr, Slot, Source
from stator.world.records import MISSING


def own_value(raw: Any, name: str) -> Any:
    """What an object holds itself under a name; MISSING if nothing."""
    held = objects.instance_dict(raw)
    if held is not None and name in held:
        return held[name]
    slot = _slot(raw, name)
    if slot is None:
        return MISSING
    try:
        return slot.__get__(raw)
    except AttributeError:
        return MISSING


def place(raw: Any, source: Source, name: str) -> Source:
    """Where it is."""
    slot = _slot(raw, name)
    return Attr(source, name) if slot is None else Slot(source, slot)


def _slot(raw: Any, name: str) -> Any:
    found = objects.lookup(type(raw), name)
    member = found is not None and type(found.value) is types.MemberDescriptorType
    return found.value if found is not None and member else None
