"""What another process answers otherwise, with nothing changed: such an entry is not stored.

Stage: capture. In: what the program asks: the order of a set that it has made of strings or of
objects, a hash, a text with an address. Out: a note in the world, which `Trace` has. Within this
process the answers stay as they are; of sets from before the call, the order is guarded.
"""

import re
from typing import Any, Final

from stator import objects
from stator.capture.objects.values import held
from stator.contracts import Contract, Verdict
from stator.objects import TypeSet
from stator.objects.sets import elements_of
from stator.world import World
from stator.world.kinds import CONSTANTS

_SETS: Final = TypeSet(set, frozenset)
_NUMBERS: Final = TypeSet(int, bool, float, complex)
"""Whose hashes are the same everywhere."""
_ANY_ORDER: Final = frozenset(map(id, (set, frozenset, sorted, any, all, len)))
_ADDRESS: Final = re.compile(r"\bat 0x[0-9a-fA-F]{6,}")
_MOST: Final = 1000


def has_order(world: World, value: Any) -> bool:
    """Whether it is a set whose order another process need not have, and that nobody guards."""
    if not _SETS.holds(objects.layout_base(type(value))):
        return False
    record = world.records.get(id(value))
    if record is not None and not record.touched:
        return False
    elements = list(elements_of(value))
    return len(elements) > 1 and not all(map(_is_number, elements))


def _is_number(value: Any) -> bool:
    if type(value) is tuple:
        return all(map(_is_number, value))
    return _NUMBERS.holds(type(value))


def iterated(world: World, value: Any) -> None:
    """The program goes through a value, now or later."""
    if world.of_process is None and not CONSTANTS.holds(type(value)) and has_order(world, value):
        world.only_here("the order of a set")


def combined(world: World, left: Any, right: Any) -> None:
    """An operator: `list += set` goes through the set; of two sets, the result is one again."""
    if not _SETS.holds(type(left)):
        iterated(world, right)


def shown(world: World, value: Any) -> None:
    """The program gets a text of a value, and of all that is in it."""
    pending, seen = [value], set[int]()
    while pending and world.of_process is None and len(seen) < _MOST:
        each = pending.pop()
        if CONSTANTS.holds(type(each)) or id(each) in seen:
            continue
        seen.add(id(each))
        iterated(world, each)
        pending += held(each, objects.layout_base(type(each)))


def called(
    world: World, function: Any, contract: Contract, bound: tuple[Any, ...], args: list[Any]
) -> None:
    """C code runs; what it is called is for the reader of the note."""
    if world.of_process is not None or id(function) in _ANY_ORDER:
        return
    name = getattr(function, "__name__", "")
    if contract.verdict is Verdict.CONSTANT:
        world.only_here(f"what {name} answers")
    elif name == "__hash__":
        if not all(map(_is_number, (*bound, *args))):
            world.only_here("a hash")
    elif _is_of_set(function, bound):
        if name in ("__iter__", "pop", "__reduce__", "__reduce_ex__"):
            iterated(world, (*bound, *args)[0])
        elif name in ("__repr__", "__str__", "__format__"):
            shown(world, (*bound, *args)[0])
    elif contract.identity:
        for value in (*bound, *args):
            shown(world, value)
    else:
        for index, value in enumerate((*bound, *args)):
            if contract.argument(index).iterated:
                iterated(world, value)


def _is_of_set(function: Any, bound: tuple[Any, ...]) -> bool:
    owner = getattr(function, "__objclass__", None) if not bound else type(bound[0])
    return owner is not None and _SETS.holds(objects.layout_base(owner))


def answered(world: World, result: Any) -> None:
    """C code has answered."""
    if type(result) is str and world.of_process is None and _ADDRESS.search(result):
        world.only_here("a text with an address")
