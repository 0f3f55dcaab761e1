"""What the world's objects are to a trace that takes them as they are.

Stage: under the tracer. In: functions, classes, modules, C methods, and objects of which the
program asks which they are. Out: themselves, guarded by identity, or by what makes another one the
same; and the guards that keep different objects different.
"""

import re
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

from stator import objects
from stator.guards import (
    Aliased,
    Callback,
    CellAt,
    Closure,
    Code,
    Field,
    Fixed,
    GlobalsOf,
    Is,
    IsWeak,
    Length,
    NotAliased,
    Source,
    TypeIs,
)
from stator.objects.types import module_of, name_of
from stator.world.kinds import BUILTIN_METHOD, is_frozen_class
from stator.world.records import dict_source
from stator.world.store import Store

_PYBIND: Final = "pybind11_builtins"
_BOUND_TO: Final[Any] = types.BuiltinFunctionType.__dict__["__self__"]
_HOLDERS: Final = objects.TypeSet(list, set, frozenset, dict)


def variables(function: types.FunctionType) -> Iterator[tuple[str, types.CellType]]:
    """The variables of enclosing functions that a function uses, and their cells."""
    return zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)


class Identity(Store):
    """The part of a `World` that knows which object is which."""

    def wrap_identity(self, raw: Any, source: Source) -> Any:
        if type(raw) is types.BuiltinFunctionType:
            bound_to = raw.__self__
            if bound_to is not None and not _is_module_or_class(bound_to):
                if module_of(type(bound_to)) == _PYBIND:  # a function of C++, bound to nothing
                    self.guard(source, Is(raw))
                    return self.know(raw)
                return self._wrap_bound(raw, bound_to, source)
        if type(raw) is BUILTIN_METHOD and type(raw.__self__) is not re.Pattern:
            return self.wrap_opaque(raw, source)
        nested = type(raw) is types.FunctionType and (
            raw.__closure__ or "<locals>" in raw.__qualname__
        )
        if nested and not is_fixed(source):
            return self._wrap_nested(raw, source)
        self.guard(source, Is(raw))
        return self.know(raw)

    def _wrap_nested(self, raw: Any, source: Source) -> Any:
        """A function that a program makes again and again: its code and cells say what it is."""
        self.guard(source, TypeIs(types.FunctionType))
        self.guard(Code(source), Is(raw.__code__))
        self.guard(GlobalsOf(source), Is(raw.__globals__))
        if raw.__closure__:
            self.guard(Closure(source), Length(len(raw.__closure__)))
        for index, (name, cell) in enumerate(variables(raw)):
            self.remember_cell(cell, CellAt(Closure(source), index, name))
        return self.remember(raw, raw, source)

    def remember_cell(self, cell: Any, source: Source) -> None:
        if id(cell) in self.stand_ins:
            first = self.origins[id(cell)]
            self.guard(source, Aliased((first,)) if not is_fixed(first) else Is(cell))
        else:
            self.remember(cell, cell, source)

    def _wrap_bound(self, raw: Any, bound_to: Any, source: Source) -> Any:
        """A C method that was bound before the call, such as `items.append`."""
        member = objects.lookup(type(bound_to), raw.__name__)
        if member is None or type(member.value) is not types.MethodDescriptorType:
            return self.wrap_opaque(raw, source)
        if is_fixed(source):
            self.guard(source, Is(raw))  # which pins what it is bound to
            stand_in = self.wrap(bound_to, Fixed(bound_to))
        else:
            self.guard(source, TypeIs(types.BuiltinFunctionType))
            self.guard(source, Callback(_named(raw.__name__), f"the method {raw.__name__}"))
            stand_in = self.wrap_closed(bound_to, Field(source, _BOUND_TO))
        if id(stand_in) in self.opaque:
            return self.wrap_opaque(raw, source)
        return self.remember(raw, member.value.__get__(stand_in, type(stand_in)), source)

    def know(self, raw: Any) -> Any:
        """Takes a world object as it is: its identity is guarded, or follows from other guards."""
        made = id(raw) in self.made or id(raw) in self.made_classes
        if id(raw) not in self.stand_ins and not made:
            self.remember(raw, raw, Fixed(raw))
            if type(raw) is types.FunctionType:
                for name, cell in variables(raw):
                    if id(cell) not in self.stand_ins:
                        self.remember(cell, cell, Fixed(cell, f"{name} of {raw.__qualname__}"))
        return raw

    def pin(self, value: Any) -> Any:
        """From now on it must be this very object, which is answered: what follows relies on it."""
        source = self.origins[id(value)]
        record = self.records.get(id(value))
        raw = value if record is None else record.raw
        if type(source) is not Fixed and id(value) not in self._pinned:
            self._pinned.add(id(value))
            try:
                self.guard(source, IsWeak(raw))
            except TypeError:  # it can't be referred to weakly
                self.guard(source, Is(raw))
        return raw

    def is_world(self, value: Any) -> bool:
        """Whether an object existed before the trace, or stands for one that did.

        C code hands out classes and functions that nobody has asked for yet: the class that a
        class method is bound to.
        """
        if id(value) in self.origins:
            return True
        cls = type(value)
        if cls is types.FunctionType:
            found = id(value) not in self.made
        else:
            found = objects.is_subtype(cls, type) and not self.is_made(value)
        if found:
            self.know(value)
        return found

    def is_made(self, cls: type) -> bool:
        """Whether the program has made a class, or is just making it."""
        if id(cls) in self.made_classes:
            return True
        if not self.making or id(cls) in self.origins or name_of(cls) not in self.making:
            return False
        if is_frozen_class(cls):
            return False
        # Hooks such as `__init_subclass__` see a class before the call that makes it returns.
        self.made_classes.add(id(cls))
        self._alive.append(cls)
        return True

    # ------------------------------------------------------------------ which are the same

    def hashed(self, value: Any) -> None:
        """A value, or what a container holds, goes into a set or dict, or is looked for in one:
        which of them are the same object may decide what happens."""
        items = list(value) if _HOLDERS.holds(type(value)) else [value]
        for item in items:
            parts = item if type(item) is tuple else (item,)
            for part in parts:
                source = self.origins.get(id(part))
                if source is not None and type(source) is not Fixed:
                    self._hashed[id(part)] = part

    def guard_hashed(self) -> None:
        """What was hashed stays as many objects as it was."""
        by_type: dict[int, list[Source]] = {}
        for value in self._hashed.values():
            by_type.setdefault(id(type(value)), []).append(self.origins[id(value)])
        for key, value in self._keys.items():
            if key not in self._hashed and id(type(value)) in by_type:
                by_type[id(type(value))].append(self.origins[key])
        for first, *others in by_type.values():
            if others:
                self.guard(first, NotAliased(tuple(others)))

    def compared(self, value: Any) -> None:
        """C code compares an object with others: with itself, it is equal without a question."""
        if id(value) in self.origins:
            self._compared[id(value)] = value

    def guard_compared(self) -> None:
        """What was compared stays as many objects as it was."""
        by_type: dict[int, list[Source]] = {}
        for value in self._compared.values():
            by_type.setdefault(id(type(value)), []).append(self.origins[id(value)])
        for sources in by_type.values():
            free = [source for source in sources if type(source) is not Fixed]
            if free and len(sources) > 1:
                fixed = [source for source in sources if type(source) is Fixed]
                self.guard(free[0], NotAliased((*free[1:], *fixed)))

    def _place(self, value: Any) -> Source | None:
        """Where a world object is; the dict of an object's attributes is there, too."""
        record = self.records.get(id(value))
        if record is not None and record.owner is not None:
            return dict_source(record.owner)
        return self.origins.get(id(value))

    def distinct(self, a: Any, b: Any) -> None:
        """The program saw that two world objects are not the same one."""
        first, second = self._place(a), self._place(b)
        if first is None or second is None or (type(first) is Fixed and type(second) is Fixed):
            return
        if type(a) is not type(b):
            return  # guarded by their types
        key = (id(a), id(b)) if id(a) < id(b) else (id(b), id(a))
        if key not in self._distinct:
            self._distinct.add(key)
            self.guard(first, NotAliased((second,)))


def is_fixed(source: Source) -> bool:
    """Whether a path starts at an object that the guards hold, not at the call."""
    step: Source | None = source
    while step is not None:
        if type(step) is Fixed:
            return True
        step = step.base
    return False


def _is_module_or_class(value: Any) -> bool:
    cls = type(value)
    return objects.is_subtype(cls, types.ModuleType) or objects.is_subtype(cls, type)


def _named(name: str) -> Callable[[Any], bool]:
    return lambda method: bool(method.__name__ == name)
