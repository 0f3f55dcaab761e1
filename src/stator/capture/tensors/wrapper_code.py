"""The code of a class of wrappers: what it may read and change, found before it is run.

In: a class with `__torch_dispatch__`. Out: guards on all that its code can reach by name, or a
`Break`. torch's dispatcher calls that code, while tracing on fakes and while a backend traces; so
it is not evaluated. It is read instead: which globals, variables of enclosing functions and
attributes of classes it names, and what these are (docs/subclasses.md has the rule).

Containers that it can reach are compared with what they were whenever it has run. If it has changed
one, that is undone, and the program is split at the operator. So it is where the call has changed,
before that, what the code reads: the change is made in the end, behind the graph.
"""

import builtins
import dis
import enum
import operator
import re
import sys
import types
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import contracts, objects
from stator._native._core import is_python_class
from stator.capture.calls.defaults import guard_function
from stator.capture.objects.changes import changes
from stator.contracts import Verdict
from stator.diagnostics.catalogue import TensorSubclass
from stator.guards import Callback, CellContents, Fixed, Is, Key
from stator.objects.types import module_of, of_torch, qualname_of, type_dict
from stator.world import MISSING, Record
from stator.world.kinds import CONSTANTS
from stator.world.store import ALL

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

_WRITES: Final = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF"})
# Functions that take the name of an attribute, and what holds all of them.
_BY_NAME: Final = frozenset(
    {"getattr", "hasattr", "setattr", "delattr", "vars", "attrgetter", "__dict__"}
)
_GLOBALS: Final = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"})
_C_FUNCTIONS: Final = objects.TypeSet(
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
)
_CONTAINERS: Final = objects.TypeSet(dict, list, set)
_VALUES: Final = objects.TypeSet(
    tuple, frozenset, re.Pattern, types.GenericAlias, types.UnionType, type(Ellipsis), range, slice
)
_RUNS: Final = frozenset({Verdict.PURE, Verdict.READS, Verdict.MUTATES, Verdict.CONSTANT})
# Which only compute with what they are given. (Others of Python's library are looked into.)
_COMPUTES: Final = frozenset(
    {
        *("abc", "collections", "contextlib", "copy", "dataclasses", "enum", "functools"),
        *("itertools", "math", "numbers", "operator", "types", "typing", "typing_extensions"),
    }
)
# What special methods of an object of the class are run by torch, or by what makes one.
ENTRIES: Final = (
    "__torch_dispatch__",
    "__tensor_flatten__",
    "__tensor_unflatten__",
    "__new__",
    "__init__",
)


class WrapperCode:
    """The code that classes of one trace bring along."""

    def __init__(self, tensors: "Tensors") -> None:
        self._tensors = tensors
        self._world = tensors.world
        self._seen: dict[int, Any] = {}
        self._names: dict[int, frozenset[str]] = {}  # what the code of a class names, by its id
        self._watched: list[tuple[Any, Any, str]] = []
        self._names_read: list[tuple[Record, str]] = []
        self._cells_read: list[tuple[types.CellType, str]] = []
        self._looked_at: list[tuple[Any, str]] = []  # containers and instances
        self._of_classes: set[str] = set()  # names of attributes of classes

    # ------------------------------------------------------------------ reading

    def admit(self, cls: type) -> None:
        """All that is run for tensors of a class."""
        names: set[str] = set()
        for entry in ENTRIES:
            found = self._world.class_attribute(cls, entry)
            if found is not None and not of_torch(module_of(found.owner)):
                names |= self._member(cls, found.value)
        self._names[id(cls)] = frozenset(names)

    def named(self, cls: type) -> frozenset[str]:
        """The names in the code of a class of the program's."""
        return self._names.get(id(cls), frozenset())

    def _member(self, cls: type, value: Any) -> set[str]:
        """A method of a class, with what it reaches: the names in it."""
        kind = type(value)
        if kind is staticmethod or kind is classmethod:
            value = value.__func__
        if kind is property:
            return set().union(*(self._member(cls, f) for f in (value.fget, value.fset) if f))
        if type(value) is types.FunctionType:
            return self._function(value, cls)
        self._value(value, qualname_of(cls), set())
        return set()

    def _function(self, function: types.FunctionType, cls: type | None = None) -> set[str]:
        """A Python function: the names that it, and what it calls by name, mention."""
        if of_torch(function.__module__):
            return set()
        known = self._seen.get(id(function))
        if known is not None:
            return set(known[1])
        names: set[str] = set()
        self._seen[id(function)] = function, names
        self._world.know(function)
        guard_function(self._world, function)
        for each in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._value(each, f"a default of {function.__qualname__}", set())
        attributes, loaded = set[str](), set[str]()
        for code in _codes(function.__code__):
            attributes |= {*code.co_names}
            if not _BY_NAME.isdisjoint(code.co_names):
                attributes |= _words(code.co_consts)
            for step in dis.get_instructions(code):
                if step.opname in _WRITES and (
                    "GLOBAL" in step.opname or step.argval in function.__code__.co_freevars
                ):
                    self._refuse(function.__qualname__, f"assigns to {step.argval}")
                if step.opname in _GLOBALS:
                    loaded.add(str(step.argval))
        for imported in _imported(function):
            if imported is None:
                self._refuse(function.__qualname__, "imports a module that is not loaded yet")
            self._value(imported, imported.__name__, attributes)
        names |= attributes
        for name in sorted(loaded):
            self._global(function, name, attributes)
        for name, cell in zip(
            function.__code__.co_freevars, function.__closure__ or (), strict=True
        ):
            self._cell(function, name, cell, attributes)
        if cls is not None:
            for name in sorted(attributes):
                names |= self._attribute(cls, name)
        return names

    def _attribute(self, cls: type, name: str) -> set[str]:
        """A name that may be an attribute of the class: of `self`, or of `cls`."""
        found = objects.lookup(cls, name)
        if found is None or of_torch(module_of(found.owner)) or found.owner is object:
            return set()
        found = self._world.class_attribute(cls, name)
        assert found is not None
        self._watch_class(found.owner, name)
        self._of_classes.add(name)
        words = _words(found.value) if type(found.value) in (tuple, list) else set()
        return words | self._member(cls, found.value)

    def _global(self, function: types.FunctionType, name: str, attributes: set[str]) -> None:
        world = self._world
        for namespace in (function.__globals__, builtins.__dict__):
            if dict.__contains__(namespace, name):
                self._named(namespace, name, name, attributes)
                return
            world.lookup(world.namespace(namespace), name)  # guarded: it is not there

    def _named(
        self, namespace: dict[str, Any], name: str, shown: str, attributes: set[str]
    ) -> None:
        """A name that is in a namespace."""
        record, value = self._world.namespace(namespace), dict.__getitem__(namespace, name)
        self._names_read.append((record, name))
        stand_in = MISSING
        if _CONTAINERS.holds(type(value)):
            self._world.guard(Key(record.source, name), Is(value))
        else:
            stand_in = self._world.lookup(record, name)
        self._value(value, shown, attributes, stand_in)

    def _cell(
        self, function: types.FunctionType, name: str, cell: types.CellType, attributes: set[str]
    ) -> None:
        try:
            value = cell.cell_contents
        except ValueError:
            return
        self._world.guard(CellContents(Fixed(cell)), Is(value))
        self._cells_read.append((cell, name))
        self._value(value, name, attributes)

    def _value(self, value: Any, name: str, attributes: set[str], stand_in: Any = MISSING) -> None:
        """Something that the code names."""
        kind = type(value)
        if CONSTANTS.holds(kind):
            if self._tensors.is_symbol(stand_in):  # it was to be left open
                self._tensors.shapes.plain(None, stand_in)
            return
        if id(value) in self._seen:
            return
        if kind is types.FunctionType:
            self._function(value)
            return
        self._seen[id(value)] = value, ()
        if objects.is_subtype(kind, type):
            self._class(value, attributes)
        elif objects.is_subtype(kind, types.ModuleType):
            self._module(value, attributes)
        elif _C_FUNCTIONS.holds(kind):
            self._c_function(value, name)
        elif _CONTAINERS.holds(kind):
            self._container(value, name)
        elif kind in (tuple, frozenset):
            for item in value:
                self._value(item, name, attributes)
        elif kind is types.MethodType:
            self._value(value.__func__, name, attributes)
            self._value(value.__self__, name, attributes)
        elif kind in (staticmethod, classmethod):
            self._value(value.__func__, name, attributes)
        elif (
            _VALUES.holds(kind)
            or objects.is_subtype(kind, enum.Enum)
            or (of_torch(module_of(kind)) and not objects.is_subtype(kind, torch.Tensor))
        ):
            return
        elif module_of(kind) in ("typing", "functools"):
            if hasattr(value, "__wrapped__"):  # own: a function with a cache
                self._value(value.__wrapped__, name, attributes)
        else:
            self._refuse(name, f"reads {name}, an object of type {qualname_of(kind)}")

    def _class(self, cls: type, attributes: set[str]) -> None:
        if not is_python_class(cls) or of_torch(module_of(cls)) or _computes(module_of(cls)):
            return
        for name in sorted({*attributes, "__new__", "__init__"}):
            found = objects.lookup(cls, name)
            if found is not None and is_python_class(found.owner):
                self._attribute(cls, name)

    def _module(self, module: types.ModuleType, attributes: set[str]) -> None:
        names = objects.instance_dict(module) or {}
        name = dict.get(names, "__name__")
        if of_torch(name) or _computes(name):
            return
        for each in sorted(attributes):
            if dict.__contains__(names, each):
                self._named(names, each, f"{name}.{each}", attributes)

    def _c_function(self, function: Any, name: str) -> None:
        """One of C, which must not do anything that could be seen."""
        owner = getattr(function, "__module__", None) or getattr(function, "__objclass__", None)
        if of_torch(owner) or of_torch(getattr(owner, "__module__", None)):
            return
        contract = contracts.lookup(function)
        if contract is None or contract.verdict not in _RUNS:
            self._refuse(name, f"calls {name}")

    def _container(self, value: Any, name: str) -> None:
        check = Callback(partial(_is_same, before=_contents(value)), "holds the same")
        self._world.guard(Fixed(value, name), check)
        self.watch(value, name)
        items = [*value.keys(), *value.values()] if type(value) is dict else list(value)
        for item in items:
            self._value(item, name, set())

    # ------------------------------------------------------------------ what others change

    def begin(self, reached: Iterable[Any]) -> None:
        """The code is about to run, and reads objects as they were before the call."""
        world = self._world
        for record, name in self._names_read:
            if name in record.writes or ALL in record.writes:
                self._refuse_changed(name)
        for cell, name in self._cells_read:
            if (id(cell), ALL) in world.writes:
                self._refuse_changed(name)
        for _, name in world.class_writes:  # of the class, or of one that hides it
            if name in self._of_classes:
                self._refuse_changed(name)
        for value, name in self._looked_at:
            if self._is_changed(value):
                self._refuse_changed(name)
        for value in reached:
            if self._is_changed(value):
                self._refuse_changed(f"an object of type {qualname_of(type(value))}")

    def _is_changed(self, value: Any) -> bool:
        record = self._world.records.get(id(self._world.stand_ins.get(id(value))))
        return record is not None and next(changes(record), None) is not None

    def _refuse_changed(self, what: str) -> None:
        text = f"the code of a class with `__torch_dispatch__` reads {what}"
        raise TensorSubclass(f"{text}, which the call has changed")

    # ------------------------------------------------------------------ what it changes

    def watch(self, value: Any, name: str) -> None:
        """Something that can change, and that its code can reach."""
        self._looked_at.append((value, name))
        held = value if _CONTAINERS.holds(type(value)) else objects.instance_dict(value)
        self._watched.append((held, _contents(held), name))

    def _watch_class(self, owner: type, name: str) -> None:
        """An attribute of a class, which its code may assign to."""
        self._watched.append(
            (owner, (name, type_dict(owner)[name]), f"{owner.__qualname__}.{name}")
        )

    def check(self) -> None:
        """The code has run: what it can reach must be as it was."""
        changed = None
        for value, before, name in self._watched:
            if _is_same(value, before):
                continue
            changed = name
            _restore(value, before)
        if changed is not None:
            raise TensorSubclass(f"the code of a class with `__torch_dispatch__` changes {changed}")

    def _refuse(self, where: str, what: str) -> None:
        text = f"the code of a class with `__torch_dispatch__` {what}"
        raise TensorSubclass(text if where in what else f"{text} (in {where})")


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for each in code.co_consts:
        if type(each) is types.CodeType:
            yield from _codes(each)


def _words(value: Any) -> set[str]:
    """The names among constants."""
    found: set[str] = set()
    for each in value:
        if type(each) is str and each.isidentifier():
            found.add(each)
        elif type(each) in (tuple, list, frozenset):
            found |= _words(each)
    return found


def _imported(function: types.FunctionType) -> Iterator[Any]:
    """The modules that a function imports; None for one that is not loaded."""
    package = function.__globals__.get("__package__") or ""
    for code in _codes(function.__code__):
        before: list[Any] = [0, None]
        for step in dis.get_instructions(code):
            if step.opname == "IMPORT_NAME":
                name, level = step.argval, before[-2]
                if type(level) is int and level > 0:
                    parts = package.split(".")
                    name = ".".join([*parts[: len(parts) - level + 1], *filter(None, [name])])
                yield sys.modules.get(name)
                yield sys.modules.get(name.partition(".")[0])
            before.append(step.argval)


def _computes(module: object) -> bool:
    if type(module) is not str:
        return False
    root = module.partition(".")[0]
    return module in ("builtins", "_operator") or (
        root in _COMPUTES and root in sys.stdlib_module_names | {"typing_extensions"}
    )


def _contents(value: Any) -> Any:
    if type(value) is dict:
        return list(value), list(value.values())
    return list(value), []


def _is_same(value: Any, before: Any) -> bool:
    if objects.is_subtype(type(value), type):
        name, held = before
        return type_dict(value).get(name) is held
    keys, values = before
    if len(value) != len(keys) or not all(map(operator.is_, value, keys)):
        return False
    return not values or all(map(operator.is_, value.values(), values))


def _restore(value: Any, before: Any) -> None:
    if objects.is_subtype(type(value), type):
        name, held = before
        type.__setattr__(value, name, held)
        return
    keys, values = before
    value.clear()
    if type(value) is list:
        value += keys
    else:
        value.update(zip(keys, values, strict=True) if type(value) is dict else keys)
