"""What changes between calls of a function: it is left open when the function is compiled again.

Stage: driver. In: the guards of the entries that don't fit a call, and the call. Out: `Wanted`, the
sizes, strides and numbers by which it differs from calls before; from then on these are symbols.
Each ledger has its own memory. It knows sources by their texts: nothing is kept alive, and that two
sources read the same means no more than that both are left open.
"""

import fnmatch
import itertools
from collections.abc import Callable, Iterable, Mapping
from types import FunctionType
from typing import Any, Final, NamedTuple

import torch

from stator import config, objects
from stator.capture.modules.module_hooks import BESIDE, HOOKS
from stator.capture.trace.wanted import LARGEST, Wanted
from stator.driver.options import Options
from stator.guards import Attr, Equal, Guard, Holds, Is, Keys, Local, NoAttr, NoKey, Source
from stator.guards.layout import typed_equal
from stator.guards.reference import Call, holds
from stator.guards.sources import Missing
from stator.guards.tensors import TensorMatch


class Dynamics:
    """What was seen to change."""

    def __init__(self) -> None:
        self.ints: set[str] = set()
        self.floats: set[str] = set()
        self.strings: set[str] = set()
        self.hooks: set[str] = set()
        self.looked: set[str] = set()
        """Strings, and numbers of hooks, at which the program looks: they are not left open."""
        self.used: set[str] = set()
        """Strings and numbers that the program does not only pass on (`driver.passed_on`)."""
        self.sizes: dict[str, set[int]] = {}
        self.strides: dict[str, set[int]] = {}
        self.changes: dict[str, str] = {}
        """How they have changed, in words."""
        self.closed = False
        """Nothing is left open, since the program can't be compiled so."""
        self.fixed_floats = False
        """No float is left open, since the program decides something by one."""
        self.in_use = False
        """Something is left open in what is being compiled, and the user does not insist on it."""

    def clear(self) -> None:
        self.ints.clear()
        self.floats.clear()
        self.strings.clear()
        self.hooks.clear()
        self.looked.clear()
        self.used.clear()
        self.sizes.clear()
        self.strides.clear()
        self.changes.clear()
        self.closed = self.fixed_floats = False

    def wanted(self, options: Options) -> Wanted:
        """What the next trace is to leave open."""
        return Wanted(
            frozenset(self.ints),
            frozenset(() if self.fixed_floats else self.floats),
            frozenset(() if self.closed else self.strings - self.looked),
            frozenset(() if self.closed else self.hooks - self.looked),
            {text: frozenset(dims) for text, dims in self.sizes.items()},
            {text: frozenset(dims) for text, dims in self.strides.items()},
            every=options.dynamic is True,
            never=options.dynamic is False or self.closed,
            named=_named(config.dynamic_sources),
            changes=dict(self.changes),
        )

    def learn(
        self, guards: Iterable[Guard], bound: tuple[Any, ...], function: FunctionType
    ) -> None:
        """Why an entry does not fit a call, if only because of sizes, numbers and strings.

        None may be a string now, in an attribute or the like anything, a number there a tensor, and
        attributes be there that were not; an argument may be another function or member of an enum.
        An entry that differs in anything else says nothing: it is for another kind of call.
        """
        call = Call(bound, function)
        found: list[_Change] = []
        for guard in guards:
            if holds(guard, call):
                continue
            why = _difference(guard, call)
            if why is None:
                return
            found += why
        for change in found:
            self._add(change)

    def open_also(self, sizes: Mapping[str, Iterable[int]]) -> bool:
        """Leaves sizes open that have changed on another rank; whether any was not open here."""
        new = False
        for text, dims in () if self.closed else sizes.items():
            known = self.sizes.setdefault(text, set())
            new = new or not known.issuperset(dims)
            known.update(dims)
            for dim in dims:
                self.changes.setdefault(f"{text}.size({dim})", "it has changed on another rank")
        return new

    def _add(self, change: "_Change") -> None:
        """Notes a size or stride, or an int or float if that is the place."""
        text, place, before, now = change
        name = text
        if place is Keys:
            self.hooks.add(text)
        elif type(place) is type:
            {int: self.ints, float: self.floats, str: self.strings}[place].add(text)
        else:
            kind, dim = place
            (self.sizes if kind == "size" else self.strides).setdefault(text, set()).add(dim)
            name = f"{text}.{kind}({dim})"
        self.changes.setdefault(name, f"it has changed from {before} to {now}")


# What a program sets in its first call, and looks at in the others. A bool is a mode.
_FLAGS: Final = frozenset({str, type(None)})
_NUMBERS: Final = frozenset({int, float})
_ABSENT: Final = frozenset({NoAttr, NoKey})


class _Change(NamedTuple):
    """What differs: the text of its source, which part of it, and the two numbers."""

    text: str
    place: Any
    before: Any
    now: Any


def _difference(guard: Guard, call: Call) -> list[_Change] | None:
    """In which sizes, strides or numbers a call differs from what a guard expects.

    None if in more than that.
    """
    check = guard.check
    if isinstance(check, Holds):
        return []  # of what is left open already
    if guard.source is None:
        return None
    text = str(guard.source)
    held = hooks_of(guard.source)
    if held is not None:
        return [_Change(str(held), Keys, "some numbers", "others")]
    try:
        value = call.read(guard.source)
    except Missing:
        return None
    if type(check) in _ABSENT or (type(check) is Is and type(guard.source) is Local):
        return []
    if type(check) is Equal:
        kind = type(value)
        if type(check.constant) is not kind or kind not in (int, float, str):
            if {kind, type(check.constant)} <= _FLAGS or _is_filled(guard.source, check, value):
                return []
            return None
        if kind is int and abs(value) > LARGEST:
            return None
        return [_Change(text, kind, check.constant, value)]
    if type(check) is Keys:
        return [] if _has_grown(guard.source, check, value) else None
    if type(check) is not TensorMatch or (found := check.alike(value)) is None:
        return None
    sizes = _differing(check.sizes, found.sizes)
    strides = _differing(check.strides or (), found.strides or ())
    if sizes:
        # Strides follow from the sizes, or become symbols with them.
        return [_Change(text, ("size", dim), a, b) for dim, a, b in sizes]
    return [_Change(text, ("stride", dim), a, b) for dim, a, b in strides]


def _is_filled(source: Source, check: Equal, value: Any) -> bool:
    """Whether there was nothing at a place, which a program may fill in its first call.

    Or a number, to which it adds tensors (`total = 0.0`). An argument that is None, or a number,
    says that the call is of another kind.
    """
    if type(source) is Local:
        return False
    before = check.constant
    return before is None or (
        type(before) in _NUMBERS and objects.is_subtype(type(value), torch.Tensor)
    )


def _has_grown(source: Source, check: Keys, value: Any) -> bool:
    """Whether there are more keys in a dict than before: the program may keep what it has computed.

    An argument with other keys says that the call is of another kind.
    """
    if type(source) is Local or not objects.is_subtype(type(value), dict):
        return False
    first = itertools.islice(dict.__iter__(value), len(check.keys))
    return dict.__len__(value) > len(check.keys) and all(map(typed_equal, check.keys, first))


def hooks_of(source: Source | None) -> Source | None:
    """The dict with hooks of a module, or beside it, that a source leads through."""
    while source is not None:
        if type(source) is Attr and (source.name in HOOKS or source.name in BESIDE):
            return source
        source = source.base
    return None


def _differing(expected: tuple[Any, ...], actual: tuple[Any, ...]) -> list[tuple[int, int, int]]:
    pairs = enumerate(zip(expected, actual, strict=True))
    return [(dim, a, b) for dim, (a, b) in pairs if a is not None and a != b]


def _named(patterns: str) -> Callable[[str], bool] | None:
    wanted = [each.strip() for each in patterns.split(",") if each.strip()]
    if not wanted:
        return None
    return lambda text: any(fnmatch.fnmatchcase(text, each) for each in wanted)
