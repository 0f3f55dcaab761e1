"""`decimal` in a trace: the running context is part of the world, and so are others.

In: the first use of a Decimal, a Context or a function of the module. Out: a guard on the running
context, its flags included. C code works on the real context meanwhile. At the end of the trace the
context is put back as it was; what it was by then is set when the graph has run. If another one is
running by then, the trace is given up.

A context of the world that does not run is a shadow, filled at once and written as a whole.
"""

import decimal
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from stator import objects
from stator.diagnostics.catalogue import HiddenState
from stator.effects import Effect, Perform, StateSet
from stator.guards import Callback, Fixed, Is, Source
from stator.objects.types import module_of
from stator.world.records import Record

if TYPE_CHECKING:
    from stator.world import World

_KEPT: Final = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp", "_allcr")
_FIELDS: Final = tuple(name for name in _KEPT if hasattr(decimal.DefaultContext, name))
# (Of a context that lives: its dict of flags is a view of it.)
_SIGNALS: Final = tuple(decimal.DefaultContext.flags)
# Those of which `setcontext` takes a copy.
_TEMPLATES: Final = (decimal.DefaultContext, decimal.BasicContext, decimal.ExtendedContext)
_IN_C: Final = type(objects.type_dict(decimal.Context).get("prec")) is types.GetSetDescriptorType

State = tuple[Any, ...]


class Decimals:
    """The running context during one trace."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._context: decimal.Context | None = None
        self._before: State = ()
        self._after: State = ()
        world.special[id(decimal.Decimal)] = self._wrap
        if _IN_C:
            world.special[id(decimal.Context)] = self._wrap_context

    def _wrap(self, raw: Any, source: Source) -> Any:
        self.begin()
        return self._world.wrap_instance(raw, source)

    def _wrap_context(self, raw: Any, source: Source) -> Any:
        """A context that may be changed while it does not run."""
        if raw is (self._context or decimal.getcontext()):
            self._world.guard(source, Callback(_runs, "the decimal context that runs"))
            return self._world.wrap_opaque(raw, source)
        if not _is_plain(raw):
            self._world.guard(source, Is(raw))
            return self._world.wrap_opaque(raw, source)
        before = state_of(raw)
        self._world.guard(source, Callback(_Plain(before), f"{raw!r}, which does not run"))
        shadow = decimal.Context.copy(raw)
        record = self._world.records[id(shadow)] = Record(shadow, raw, source, decimal.Context)
        record.initial = before
        record.touched = True  # each operation may set a flag
        return self._world.remember(raw, shadow, source)

    def begin(self) -> None:
        """From now on the program may ask and change the running context."""
        if self._context is not None:
            return
        context = self._context = decimal.getcontext()
        before = self._before = self._after = state_of(context)
        same = Callback(lambda running: state_of(running()) == before, f"the decimal {context!r}")
        self._world.guard(Fixed(decimal.getcontext), same)

    def end(self) -> bool:
        """Puts the context back; whether the program left it as the one that is running."""
        if self._context is None:
            return True
        context, self._context = self._context, None
        self._after = state_of(context)
        runs = decimal.getcontext() is context
        if not runs:
            decimal.setcontext(context)
        if self._after != self._before:
            set_state(context, self._before)
        return runs

    def check(self) -> None:
        """The trace has ended well."""
        if not self.end():
            raise HiddenState("another decimal context is left running")

    def effects(self) -> Iterator[Effect]:
        """What has become of the running context."""
        if self._after != self._before:
            yield Perform(Fixed(_set_running, "set the decimal context"), (self._after,))


@dataclass(frozen=True)
class _Plain:
    """Whether a context is the same as another one, and does not run."""

    state: State

    def __call__(self, context: Any) -> bool:
        if type(context) is not decimal.Context or not _is_plain(context):
            return False
        return state_of(context) == self.state


def _runs(context: object) -> bool:
    return context is decimal.getcontext()


def _is_plain(context: decimal.Context) -> bool:
    return context is not decimal.getcontext() and all(context is not each for each in _TEMPLATES)


def state_of(context: decimal.Context) -> State:
    """All that a context holds, as constants."""
    flags, traps = context.flags, context.traps
    return (
        *(getattr(context, name) for name in _FIELDS),
        tuple(flags[signal] for signal in _SIGNALS),
        tuple(traps[signal] for signal in _SIGNALS),
    )


def set_state(context: decimal.Context, state: State) -> None:
    *fields, flags, traps = state
    for name, value in zip(_FIELDS, fields, strict=True):
        setattr(context, name, value)
    context.flags = dict(zip(_SIGNALS, flags, strict=True))
    context.traps = dict(zip(_SIGNALS, traps, strict=True))


def _set_running(state: State) -> None:
    set_state(decimal.getcontext(), state)


def changes_of(record: Record) -> Iterator[Effect]:
    """What the program has changed in a context of the world."""
    now = state_of(record.shadow)
    if now != record.initial:
        yield StateSet(record.source, set_state, now)


def is_decimal(callable: Any) -> bool:
    """Whether a C callable belongs to `decimal`."""
    cls = type(callable)
    if objects.is_subtype(cls, type):
        return bool(module_of(objects.layout_base(callable)) == "decimal")
    owner = getattr(callable, "__objclass__", None)
    if owner is None and objects.is_subtype(cls, types.BuiltinFunctionType):
        bound = callable.__self__
        if type(bound) is types.ModuleType:
            return bool(bound.__name__ in ("_decimal", "decimal"))
        owner = bound if objects.is_subtype(type(bound), type) else type(bound)
    if owner is None:
        owner = cls
    return bool(module_of(objects.layout_base(owner)) == "decimal")
