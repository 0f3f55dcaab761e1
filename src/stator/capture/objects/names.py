"""Names and cells of a traced program: globals, namespaces of modules and class bodies, closures.

In: a name and the raw dict or cell behind it. Out: its value, wrapped and guarded. Writes go into
the shadow of the dict, or into a table of cells: the world is written to when the trace has ended.
"""

import types
from typing import Any, Final, NamedTuple

from stator._native import _core as core
from stator._native._core import NULL, Frame, is_python_class
from stator.capture.objects.values import Values
from stator.capture.tensors.tensors import Tensors
from stator.diagnostics.catalogue import OddNamespace
from stator.guards import CellContents, Fixed, Source
from stator.world import MISSING, Record, World
from stator.world.store import ALL

_UNREAD: Final = object()


class Waiting(NamedTuple):
    """A constant that the program has in a variable, and has not looked at: it is not guarded."""

    raw: Any
    source: Source


def store_name(world: World, record: Record, name: str, value: Any) -> None:
    """Sets a name in a dict of the world; NULL deletes it."""
    world.write(id(record.shadow), name)
    if world.watch is not None:
        world.watch(id(record.shadow), name)
    if value is NULL or record.filled or not world.store_item(record, name, value):
        world.fill(record)
        if value is NULL:
            dict.pop(record.shadow, name, None)
        else:
            dict.__setitem__(record.shadow, name, value)


class Names:
    """The part of a tracer that knows names and cells."""

    def __init__(self, tensors: Tensors, world: World) -> None:
        self.world = world
        self.tensors = tensors
        self.arrays = tensors.arrays
        self.values = Values(world, tensors.types, tensors.arrays.types, tensors.arrays.lend)
        self._namespaces: dict[int, Record] = {}  # by id of the raw dict
        self.own_namespaces: set[int] = set()  # ids of those that the program made
        self.cells: dict[int, Any] = {}  # contents of world cells, read or written
        self.written_cells: dict[int, types.CellType] = {}
        # By id of the frame, which is kept alive, and index.
        self._waiting: dict[int, tuple[Frame, dict[int, Waiting]]] = {}

    # ------------------------------------------------------------------ variables

    def put(self, frame: Frame, index: int, value: Any) -> None:
        """Gives a variable its first value."""
        if type(value) is Waiting:
            self._waiting.setdefault(id(frame), (frame, {}))[1][index] = value
            value = NULL
        frame[index] = value

    def pending(self, frame: Frame, index: int) -> Any:
        known = self._waiting.get(id(frame))
        found = None if known is None else known[1].pop(index, None)
        return NULL if found is None else self.world.wrap(found.raw, found.source)

    def variable(self, frame: Frame, index: int) -> Any:
        """What a variable holds when the trace is interrupted."""
        value = frame[index]
        known = self._waiting.get(id(frame))
        return known[1].get(index, NULL) if value is NULL and known is not None else value

    # ------------------------------------------------------------------ names

    def namespace(self, raw: dict[str, Any]) -> Record:
        """The record of a dict that is held by a module, a function or the like."""
        record = self._namespaces.get(id(raw))
        if record is None:
            if type(raw) is not dict:
                raise OddNamespace("the globals of a function are not a plain dict")
            record = self._namespaces[id(raw)] = self.world.namespace(raw)
        return record

    def known_namespace(self, raw: dict[str, Any]) -> Record | None:
        """The record of such a dict, if the program has used it."""
        return self._namespaces.get(id(raw))

    def own_namespace(self, made: Any) -> None:
        """A dict that the program made, and runs code in: it is used as it is."""
        if type(made) is not dict or id(made) in self._namespaces:
            return
        if id(made) in self.world.records or self.world.is_world(made):
            return
        record = Record(made, made, Fixed(made), dict)
        record.filled = True
        self._namespaces[id(made)] = record
        self.own_namespaces.add(id(made))
        self.world.keep(made)

    def namespace_value(self, raw: dict[str, Any], name: str) -> Any:
        """A name in such a dict; MISSING if it is not there."""
        return self.world.lookup(self.namespace(raw), name)

    def store_namespace(self, raw: dict[str, Any], name: str, value: Any) -> None:
        store_name(self.world, self.namespace(raw), name, value)

    def load_global(self, frame: Frame, name: str) -> Any:
        namespace: Any = frame.globals
        if type(namespace) is not dict:
            raise OddNamespace("the globals of a function are not a plain dict").at(frame)
        value = self.namespace_value(namespace, name)
        if value is not MISSING:
            return value
        builtins: Any = frame.builtins
        if type(builtins) is not dict:
            return core.load_global(frame, name)
        value = self.namespace_value(builtins, name)
        if value is MISSING:  # CPython would find what the program has deleted
            core.raise_user(NameError(f"name '{name}' is not defined", name=name))
        return value

    def store_global(self, frame: Frame, name: str, value: Any) -> None:
        self.store_namespace(frame.globals, name, value)

    def delete_global(self, frame: Frame, name: str) -> None:
        if self.namespace_value(frame.globals, name) is MISSING:
            core.raise_user(NameError(f"name '{name}' is not defined"))
        self.store_namespace(frame.globals, name, NULL)

    def load_name(self, frame: Frame, namespace: Any, name: str) -> Any:
        if namespace is frame.globals:
            return self.load_global(frame, name)
        self._ready_namespace(namespace)
        value = core.lookup_name(frame, namespace, name)
        return self.load_global(frame, name) if value is NULL else value

    def lookup_name(self, frame: Frame, mapping: Any, name: str) -> Any:
        if mapping is frame.globals or (mapping is frame.builtins and type(mapping) is dict):
            value = self.namespace_value(mapping, name)
            return NULL if value is MISSING else value
        self._ready_namespace(mapping)
        return core.lookup_name(frame, mapping, name)

    def store_name(self, frame: Frame, name: str, value: Any) -> None:
        if frame.namespace is frame.globals:
            self.store_namespace(frame.globals, name, value)
        else:
            self._ready_namespace(frame.namespace)
            if is_python_class(type(frame.namespace)):
                self.world.protocol(type(frame.namespace), ("__setitem__",))
            if is_python_class(type(value)):  # the body of a class: it may hear of its name
                self.world.protocol(type(value), ("__set_name__",))
            core.store_name(frame, name, value)

    def delete_name(self, frame: Frame, name: str) -> None:
        if frame.namespace is frame.globals:
            self.delete_global(frame, name)
        else:
            self._ready_namespace(frame.namespace)
            core.delete_name(frame, name)

    def _ready_namespace(self, namespace: Any) -> None:
        record = self.world.records.get(id(namespace))
        if record is not None:
            self.world.fill(record)
        elif id(namespace) in self.world.opaque:
            raise OddNamespace("a namespace is an object that can't be followed")

    # ------------------------------------------------------------------ cells

    def load_cell(self, frame: Frame, cell: types.CellType) -> Any:
        if id(cell) not in self.world.origins:
            return core.load_cell(frame, cell)
        self.world.read(id(cell), ALL)
        value = self.cells.get(id(cell), _UNREAD)
        if value is _UNREAD:
            raw = core.load_cell(frame, cell)
            source = self.world.origins[id(cell)]
            if raw is NULL:
                raise OddNamespace("a variable of an enclosing function is not set")
            value = self.world.wrap(raw, CellContents(source))
            self.cells[id(cell)] = value
        return value

    def store_cell(self, frame: Frame, cell: types.CellType, value: Any) -> None:
        if id(cell) in self.world.origins:
            self.store_cell_value(cell, value)
        else:
            core.store_cell(frame, cell, value)

    def store_cell_value(self, cell: types.CellType, value: Any) -> None:
        self.world.write(id(cell), ALL)
        if self.world.watch is not None:
            self.world.watch(id(cell))
        self.cells[id(cell)] = value
        self.written_cells[id(cell)] = cell
