"""`decimal` in a trace: the running context is part of the world, and must end as it began.

In: the first use of a Decimal, a Context or a function of the module. Out: a guard on the running
context, its flags included. C code works on the real context meanwhile. At the end of the trace the
context is put back as it was; if it was not the same by then, the trace is given up.
"""

import decimal
import types
from typing import TYPE_CHECKING, Any, Final

from stator import objects
from stator.diagnostics.catalogue import HiddenState
from stator.guards import Callback, Fixed, Source
from stator.objects.types import module_of

if TYPE_CHECKING:
    from stator.world import World

_FIELDS: Final = ("prec", "rounding", "Emin", "Emax", "capitals", "clamp")


class Decimals:
    """The running context during one trace."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self._context: decimal.Context | None = None
        self._shown = ""
        self._state: dict[str, Any] = {}
        world.special[id(decimal.Decimal)] = self._wrap

    def _wrap(self, raw: Any, source: Source) -> Any:
        self.begin()
        return self._world.wrap_instance(raw, source)

    def begin(self) -> None:
        """From now on the program may ask and change the running context."""
        if self._context is not None:
            return
        context = self._context = decimal.getcontext()
        shown = self._shown = repr(context)
        self._state = {name: getattr(context, name) for name in _FIELDS}
        self._state["flags"], self._state["traps"] = dict(context.flags), dict(context.traps)
        same = Callback(lambda running: repr(running()) == shown, f"the decimal context {shown}")
        self._world.guard(Fixed(decimal.getcontext), same)

    def end(self) -> bool:
        """Puts the context back; whether the program left it as it was."""
        if self._context is None:
            return True
        context, self._context = self._context, None
        if decimal.getcontext() is context and repr(context) == self._shown:
            return True
        decimal.setcontext(context)
        for name, value in self._state.items():
            setattr(context, name, value)
        return False

    def check(self) -> None:
        """The trace has ended well."""
        if not self.end():
            raise HiddenState("the decimal context is changed, or one of its flags is set")


def is_decimal(callable: Any) -> bool:
    """Whether a C callable belongs to `decimal`."""
    cls = type(callable)
    if objects.is_subtype(cls, type):
        return bool(module_of(objects.layout_base(callable)) == "decimal")
    owner = getattr(callable, "__objclass__", None)
    if owner is None and cls is types.BuiltinFunctionType:
        bound = callable.__self__
        if type(bound) is types.ModuleType:
            return bool(bound.__name__ in ("_decimal", "decimal"))
        owner = bound if objects.is_subtype(type(bound), type) else type(bound)
    if owner is None:
        owner = cls
    return bool(module_of(objects.layout_base(owner)) == "decimal")
