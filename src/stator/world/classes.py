"""Classes of the world: what is read of them, and what the program writes.

Stage: under the tracer. In: a class, and the name of an attribute. Out: the attribute, guarded once
for each class and name; what the program has set itself comes first. The class is not changed.
"""

import functools
import types
from typing import Any, Final

from stator import contracts, objects
from stator.diagnostics.catalogue import ClassChanged, OpaqueObject
from stator.guards import ClassAttr, Equal, Fixed, Is, NoClassAttr
from stator.objects.attributes import is_descriptor
from stator.objects.types import Attribute, name_of, qualname_of
from stator.world.identity import Identity
from stator.world.kinds import CONSTANTS, is_frozen_class, is_torch_value
from stator.world.records import MISSING

# Functions of C that are bound to a module or an object: not the methods that a C class has.
_BOUND_C: Final = objects.TypeSet(types.BuiltinFunctionType, types.MethodWrapperType)


class Classes(Identity):
    """The part of a `World` that knows its classes."""

    def class_attribute(self, cls: type, name: str) -> Attribute | None:
        """As `_PyType_Lookup`, guarded; what the program has set comes first."""
        if self.reads is not None:
            self.reads.add((type, name))
        if name in self._written_names:
            for owner in objects.mro(cls):
                if (id(owner), name) in self.class_writes:
                    return Attribute(owner, self.class_writes[id(owner), name])
                if name in objects.type_dict(owner):
                    break
        if self.is_made(cls):
            return objects.lookup(cls, name)
        key = id(cls), name
        found = self._class_attributes.get(key, MISSING)
        if found is MISSING:
            found = objects.lookup(cls, name)
            self._alive.append(cls)
            if not is_frozen_class(cls):
                found = self._opened(cls, name, found)
            self._class_attributes[key] = found
        return found  # type: ignore[return-value]

    def _opened(self, cls: type, name: str, found: Attribute | None) -> Attribute | None:
        """The attribute, guarded; a number that changes from call to call is left open."""
        opened = None if found is None else self.symbolic.get(type(found.value))
        if found is not None and opened is not None:
            number = opened(found.value, ClassAttr(Fixed(cls), name))
            if number is not MISSING:
                self._class_numbers[id(number)] = number
                return Attribute(found.owner, number)
        self._guard_class(cls, name, found)
        return found

    def _guard_class(self, cls: type, name: str, found: Attribute | None) -> None:
        if found is None:
            self.guard(Fixed(cls), NoClassAttr(name))
        elif CONSTANTS.holds(type(found.value)):
            self.guard(ClassAttr(Fixed(cls), name), Equal(found.value))
        else:
            self.guard(ClassAttr(Fixed(cls), name), Is(found.value))

    def write_class(self, cls: type, name: str, value: Any) -> None:
        """An attribute of a class that existed before; only values that are no descriptors."""
        found = objects.lookup(cls, name)
        if name.startswith("__") or is_descriptor(value) or (found and is_descriptor(found.value)):
            raise ClassChanged(f"the method or property {name} of a class is replaced")
        self.write(type, name)
        if self.watch is not None:
            self.watch(id(cls), name)
        self.class_writes[id(cls), name] = value
        self.written_classes[id(cls), name] = cls
        self._written_names.add(name)

    def protocol(self, cls: type, names: tuple[str, ...]) -> None:
        """An operation uses these special methods of a class, as far as it has them."""
        if is_frozen_class(cls) or is_torch_value(cls):
            return
        if id(cls) in self.made_classes:
            odd = self._odd_methods(cls)
            for name in names if odd else ():
                if name in odd:
                    refuse_odd(cls, name, objects.lookup(cls, name))
            return
        for name in names:
            refuse_odd(cls, name, self.class_attribute(cls, name))

    def _odd_methods(self, cls: type) -> frozenset[str]:
        """The names by which a class of the program's has functions of C that are bound."""
        found = self._odd.get(id(cls))
        if found is None:
            found = frozenset(
                name
                for owner in objects.mro(cls)
                if not is_frozen_class(owner)
                for name, value in objects.type_dict(owner).items()
                if type(name) is str and _BOUND_C.holds(type(_code_behind(value)))
            )
            self._odd[id(cls)] = found
        return found

    def class_changed(self) -> None:
        """The program has set an attribute of a class that it has made."""
        self._odd.clear()

    def class_value(self, cls: type, name: str, value: Any) -> Any:
        """What stands for a plain attribute of a class (guarded by `class_attribute`)."""
        if CONSTANTS.holds(type(value)) or id(value) in self._class_numbers:
            return value
        if id(cls) in self.made_classes or self.is_world(value):
            return value
        key = id(cls), name
        if key in self.class_writes:
            return value
        if key not in self._class_values:
            if id(value) in self.stand_ins:
                self._class_values[key] = self.stand_ins[id(value)]
            else:
                source = Fixed(value, f"{qualname_of(cls)}.{name}")
                self._class_values[key] = self.wrap(value, source)
        return self._class_values[key]


def _code_behind(value: Any) -> Any:
    """What a method runs, without its wrappers."""
    while True:
        cls = type(value)
        if cls is staticmethod or cls is classmethod:
            value = value.__func__
        elif cls is functools.partial:
            value = value.func
        else:
            return value


def refuse_odd(cls: type, name: str, found: Attribute | None) -> None:
    """A special method that is a bound function of C: C code calls it, and nobody asks what it
    does.
    """
    if found is None:
        return
    code = _code_behind(found.value)
    if not _BOUND_C.holds(type(code)):
        return
    if name == "__new__" and code.__name__ == name:
        return  # of a C type: the contract of the class is that of its C base
    contract = contracts.lookup(code)
    if contract is None or contract.verdict is not contracts.Verdict.PURE:
        raise OpaqueObject(f"the method {name} of class {name_of(cls)} is a C function")
