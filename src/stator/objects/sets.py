"""The order of sets: a set that stands for another one has its elements at the same places.

In: a set. Out: another with the same order, also after both are changed in the same way. Only for
constants: elements that are hashed by their address lie elsewhere once they are other objects.
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
    elif is_subtype(type(target), set):
        set.update(target, elements)


def layout(given: Any) -> set[Any] | None:
    """A copy of a set, to be taken over; None if its order is not a matter of its elements."""
    if not all(_CONSTANTS.holds(type(element)) for element in elements_of(given)):
        return None
    made: set[Any] = set()
    core.set_take_over(made, given)
    return made
