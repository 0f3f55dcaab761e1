"""What changes between calls of a function: it is left open when the function is compiled again.

Stage: driver. In: the guards of the entries that don't fit a call, and the call. Out: `Wanted`, the
sizes, strides and ints by which it differs from calls before, and from then on these are symbols.
Each ledger has its own memory. It knows sources by their texts: nothing is kept alive, and that two
sources read the same means no more than that both are left open.
"""

import fnmatch
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from stator import config
from stator.capture.shapes import LARGEST, Wanted
from stator.driver.options import Options
from stator.guards import Equal, Guard, Holds
from stator.guards.reference import Call, holds
from stator.guards.sources import Missing
from stator.guards.tensors import TensorMatch, tensor_match


class Dynamics:
    """What was seen to change."""

    def __init__(self) -> None:
        self.ints: set[str] = set()
        self.sizes: dict[str, set[int]] = {}
        self.strides: dict[str, set[int]] = {}
        self.closed = False
        """Nothing is left open, since the program can't be compiled so."""
        self.in_use = False
        """Something is left open in what is being compiled, and the user does not insist on it."""

    def clear(self) -> None:
        self.ints.clear()
        self.sizes.clear()
        self.strides.clear()
        self.closed = False

    def wanted(self, options: Options) -> Wanted:
        """What the next trace is to leave open."""
        return Wanted(
            frozenset(self.ints),
            {text: frozenset(dims) for text, dims in self.sizes.items()},
            {text: frozenset(dims) for text, dims in self.strides.items()},
            every=options.dynamic is True,
            never=options.dynamic is False or self.closed,
            named=_named(config.dynamic_sources),
        )

    def learn(
        self, guards: Iterable[Guard], bound: tuple[Any, ...], function: FunctionType
    ) -> list[str]:
        """Why an entry does not fit a call, if it is because of sizes and ints; what is new of it.

        An entry that differs in anything else says nothing: it is for another kind of call.
        """
        call = Call(bound, function)
        found: list[tuple[str, Any]] = []
        for guard in guards:
            if holds(guard, call):
                continue
            why = _difference(guard, call)
            if why is None:
                return []
            found += why
        return [
            text if place is None else f"{text}.{place[0]}({place[1]})"
            for text, place in found
            if self._add(text, place)
        ]

    def _add(self, text: str, place: tuple[str, int] | None) -> bool:
        if place is None:
            known = text in self.ints
            self.ints.add(text)
            return not known
        kind, dim = place
        dims = (self.sizes if kind == "size" else self.strides).setdefault(text, set())
        known = dim in dims
        dims.add(dim)
        return not known


def _difference(guard: Guard, call: Call) -> list[tuple[str, Any]] | None:
    """In which sizes, strides or ints a call differs from what a guard expects; None if in more."""
    check = guard.check
    if isinstance(check, Holds):
        return []  # of what is left open already
    if guard.source is None:
        return None
    try:
        value = call.read(guard.source)
    except Missing:
        return None
    text = str(guard.source)
    if type(check) is Equal:
        ints = type(check.constant) is int and type(value) is int
        if not ints or abs(value) > LARGEST:
            return None
        return [(text, None)]
    if type(check) is not TensorMatch or type(value) is not check.type:
        return None
    tensor: Any = value
    found = tensor_match(tensor)
    same = (
        found.keys == check.keys
        and found.requires_grad == check.requires_grad
        and found.dtype == check.dtype
        and found.device == check.device
        and len(found.sizes) == len(check.sizes)
        and (found.strides is None) == (check.strides is None)
    )
    if not same:
        return None
    sizes = _differing(check.sizes, found.sizes)
    strides = _differing(check.strides or (), found.strides or ())
    if sizes:
        # Strides follow from the sizes, or become symbols with them.
        return [(text, ("size", dim)) for dim in sizes]
    return [(text, ("stride", dim)) for dim in strides]


def _differing(expected: tuple[Any, ...], actual: tuple[Any, ...]) -> list[int]:
    pairs = enumerate(zip(expected, actual, strict=True))
    return [dim for dim, (a, b) in pairs if a is not None and a != b]


def _named(patterns: str) -> Callable[[str], bool] | None:
    wanted = [each.strip() for each in patterns.split(",") if each.strip()]
    if not wanted:
        return None
    return lambda text: any(fnmatch.fnmatchcase(text, each) for each in wanted)
