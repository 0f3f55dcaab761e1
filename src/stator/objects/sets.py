"""The order of sets: a set that stands for another one has its elements at the same places.

In: a set. Out: another with the same order; of constants also after both are changed in the same
way. Elements that are hashed by their address lie elsewhere once they are other objects. They get
into the order of the other set by what lies in their way: a set is walked from the first place of
its table to the last, and CPython's `set_add_entry` puts an element into the first free place of
those that its hash leads to. So places are taken by numbers first, which are removed in the end.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from stator._native import _core as core
from stator.objects.types import TypeSet, is_subtype

_CONSTANTS: Final = TypeSet(str, int, bool, float, bytes, type(None))


def elements_of(given: Any) -> Iterator[Any]:
    """Those of a set or a frozenset, in its order."""
    return set.__iter__(given) if is_subtype(type(given), set) else frozenset.__iter__(given)


def fill_like(target: Any, like: Any, elements: Sequence[Any]) -> None:
    """What stands for the elements of a set, in their order, comes into another one.

    A frozenset has them already, but for their places.
    """
    if all(a is b for a, b in zip(elements, elements_of(like), strict=True)):
        core.set_take_over(target, like)
        return
    arranged = _arranged(elements)
    if arranged is not None:
        core.set_take_over(target, arranged)
    elif is_subtype(type(target), set):
        set.update(target, elements)


_SIZES: Final = {32: 5, 128: 19, 512: 77, 2048: 307, 8192: 1229, 32768: 4915}
"""Of tables, and how many elements make a new set's that large."""
_APART: Final = 1 << 44  # numbers from here on are nobody's elements
_NEIGHBOURS: Final = 10  # places that are tried one after the other
_MOST: Final = 24  # of more elements, each would have too many places in its way
_WORD: Final = (1 << 64) - 1


def _arranged(elements: Sequence[Any]) -> set[Any] | None:
    """A set with this order; None if that can't be made."""
    if _in_order(made := set(elements), elements):
        return made
    total = len(elements)  # own: a list of the tracer's
    for size, count in _SIZES.items() if total <= _MOST else ():
        made = set(range(_APART + size - count, _APART + size))
        taken = set(range(size - count, size))
        last, room = -1, size * 3 // 5 - count - total - 1
        for left, element in zip(range(total, 0, -1), elements, strict=True):
            # Half-way to the limit, on average: that leaves as much for each of the others.
            limit = min(last + 1 + 2 * (size - count - last) // (left + 1), size - count - left + 1)
            for place in _places(hash(element), size):  # own: not defined by the program
                if place in taken:
                    continue
                taken.add(place)
                if last < place < limit or room <= 0:
                    break
                made.add(_APART + place)
                room -= 1
            made.add(element)
            last = place
        made.difference_update(range(_APART, _APART + size))
        if _in_order(made, elements):
            return made
    return None


def _in_order(found: set[Any], elements: Sequence[Any]) -> bool:
    return all(a is b for a, b in zip(found, elements, strict=False))


def _places(hashed: int, size: int) -> Iterator[int]:
    """Where an element may lie, in the order in which it is looked for there."""
    rest = hashed & _WORD
    place = rest % size
    while True:
        near = _NEIGHBOURS if place + _NEIGHBOURS <= size else 1
        yield from range(place, place + near)
        rest >>= 5
        place = (place * 5 + 1 + rest) % size


def _is_constant(element: Any) -> bool:
    if type(element) is tuple:
        return all(map(_is_constant, element))
    return _CONSTANTS.holds(type(element))


def layout(given: Any) -> set[Any] | None:
    """A copy of a set, to be taken over; None if its order is not a matter of its elements."""
    if not all(_is_constant(element) for element in elements_of(given)):
        return None
    made: set[Any] = set()
    core.set_take_over(made, given)
    return made
