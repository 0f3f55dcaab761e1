"""The tables, resolved to the objects of the running Python.

Comes in: the tables. Goes out: the contract of an object by its id, and the C members of a type
by name. Tables of modules that are not loaded wait: nothing is imported for their sake.
"""

import sys
import types
from typing import Any, Final

from stator.objects.types import module_of, qualname_of, type_dict

from .contract import Contract
from .notation import parse
from .tables import ALL_FUNCTIONS, ALL_TYPES, UNNAMED, WHOLE_MODULES
from .tables.rows import ATTRIBUTE, COMMON, Rows, present, spread

MEMBER_KINDS: Final = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.BuiltinFunctionType,
)
ATTRIBUTE_KINDS: Final = (types.GetSetDescriptorType, types.MemberDescriptorType)
FUNCTION_KINDS: Final = (types.BuiltinFunctionType, types.FunctionType)


def own_members(cls: type) -> dict[str, object]:
    """The C callables and attributes that a type itself defines."""
    found = {}
    for name, value in type_dict(cls).items():
        if type(value) in (staticmethod, classmethod):
            value = value.__func__
        # `__dict__` and `__weakref__` of all classes made by Python are one object each since 3.15.
        shared = type(value) is types.GetSetDescriptorType and value.__objclass__ is not cls
        if type(value) in MEMBER_KINDS and not shared:
            found[name] = value
    return found


class Registry:
    """Contracts by the id of the callable; the registry keeps what it knows alive."""

    def __init__(self) -> None:
        self.contracts: dict[int, Contract] = {}
        self.members: dict[int, dict[str, object]] = {}  # by id of the type
        self.types: list[type] = []
        self._kept: list[object] = []
        self._functions: dict[tuple[str | None, str], str] = {}  # by module and name
        self._waiting: dict[str, list[tuple[str, Rows | str]]] = {}
        for owner, rows in ALL_TYPES.items():
            if isinstance(owner, type):
                self._add_type(owner, rows)
            elif present(owner):
                module, _, name = owner.partition("@")[0].partition(":")
                self._waiting.setdefault(module, []).append((name, rows))
        for module, rows in ALL_FUNCTIONS.items():
            self._waiting.setdefault(module, []).append(("", rows))
        for module, contract in WHOLE_MODULES.items():
            self._waiting.setdefault(module, []).append(("", contract))
        self.catch_up()

    def catch_up(self) -> bool:
        """Take in the tables of modules that were loaded meanwhile; whether there were any."""
        # One step each, so that two threads may do it at the same time.
        ready = [name for name in tuple(self._waiting) if name in sys.modules]
        for module_name in ready:
            module = sys.modules[module_name]
            namespace = vars(module)
            for name, rows in self._waiting.get(module_name, ()):
                if isinstance(rows, str):
                    self._add_whole_module(namespace, rows)
                elif not name:
                    self._add_functions(namespace, rows)
                elif (find := UNNAMED.get(f"{module_name}:{name}")) is not None:
                    self._add_type(find(module), rows)
                elif type(cls := namespace.get(name)) is type:
                    self._add_type(cls, rows)
            self._waiting.pop(module_name, None)
        return bool(ready)

    def _add(self, thing: object, contract: str) -> None:
        self._kept.append(thing)
        self.contracts[id(thing)] = parse(contract)

    def _add_functions(self, namespace: dict[str, object], rows: Rows) -> None:
        for name, contract in spread(rows):
            # Somebody may have put another object in its place: that one is not ours to judge.
            if type(function := namespace.get(name)) in FUNCTION_KINDS:
                self._add(function, contract)
                if type(function) is types.BuiltinFunctionType:
                    self._functions[function.__module__, name] = contract

    def _add_type(self, cls: type, rows: Rows) -> None:
        members = own_members(cls)
        self.members[id(cls)] = members
        self.types.append(cls)
        named = dict(spread(COMMON)) | dict(spread(rows))
        if "()" in named:
            self._add(cls, named["()"])
        for name, member in members.items():
            if contract := named.get(name, named.get("*")):
                self._add(member, contract)
            elif type(member) in ATTRIBUTE_KINDS:
                self._add(member, ATTRIBUTE)

    def adopt_function(self, function: Any) -> bool:
        """The same for a function of such a module."""
        contract = self._functions.get((function.__module__, function.__name__))
        if contract is not None:
            self._add(function, contract)
        return contract is not None

    def adopt(self, cls: type) -> bool:
        """Whether a C type is a listed one, made again by a second import of its module."""
        for known in self.types:
            if known.__qualname__ == qualname_of(cls) and known.__module__ == module_of(cls):
                mine, its = self.members[id(known)], own_members(cls)
                if known is cls or mine.keys() != its.keys():
                    continue
                self.members[id(cls)] = its
                self._kept.append(cls)
                for old, new in [(known, cls), *((mine[name], its[name]) for name in its)]:
                    if (contract := self.contracts.get(id(old))) is not None:
                        self._kept.append(new)
                        self.contracts[id(new)] = contract
                return True
        return False

    def _add_whole_module(self, namespace: dict[str, object], contract: str) -> None:
        """Functions, types and their methods, except what has rows of its own."""
        for thing in list(namespace.values()):
            if id(thing) in self.contracts or id(thing) in self.members:
                continue
            if type(thing) is types.BuiltinFunctionType:
                self._add(thing, contract)
            elif isinstance(thing, type) and not issubclass(thing, BaseException):
                self._add_type(thing, {contract: " ".join(["()", *own_members(thing)])})
