"""Values as rows of JSON, and values from such rows.

Stage: store. In: guards, plans, constants, objects of the program. Out: a table of rows, each of
which refers to earlier ones by number: what was one object is one again. `Reader` goes the other
way, row by row; it knows the call for which an entry is wanted, since objects without a name of
their own are found by the path through which the program reaches them.

What a row may say is fixed here and in `kinds.py`: constants, objects by name, our own data
classes. Nothing that is read is executed.
"""

import base64
import binascii
import re
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch

from stator import objects
from stator._native._core import CompiledFunction
from stator.guards import Fixed, Source
from stator.guards.layout import typed_equal
from stator.guards.reference import Call
from stator.guards.sources import Missing
from stator.guards.text import show
from stator.store import digests, things
from stator.store.reasons import Damaged, Reason, Stale, Unstorable

Row = list[Any]
_ADDRESS: Final = re.compile(r"\bat 0x[0-9a-fA-F]{6,}")
_SCALARS: Final = (bool, int, str, type(None))
_DEEP: Final = 400

Encode = Callable[["Writer", Any], Row]
Decode = Callable[["Reader", Row], Any]

ENCODERS: Final[dict[type, Encode]] = {}
"""By exact type; the rest is in `kinds.py`."""
DECODERS: Final[dict[str, Decode]] = {}
"""By the first item of a row."""


class Writer:
    """A table in the making."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.blobs: list[bytes] = []
        """What is no text: native code."""
        self.paths: dict[int, Source] = {}
        """How the program reaches objects that have no name, by id."""
        self.members: dict[int, tuple[Any, str]] = {}
        """Which attribute of which class a function is, by id."""
        self.dicts: dict[int, tuple[types.FunctionType, str]] = {}
        """Which dict of which function it is, by id: its attributes, or its globals."""
        self.cells: dict[int, tuple[types.FunctionType, int]] = {}
        """Which variable of which function a cell is, by id."""
        self._known: dict[Any, int] = {}
        self._alive: list[Any] = []  # ids are keys
        self._open: set[int] = set()

    def add(self, row: Row) -> int:
        self.rows.append(row)
        return len(self.rows) - 1

    def of(self, value: Any) -> int:
        """The number of the row of a value."""
        kind = type(value)
        key: Any = id(value)
        if kind in _SCALARS:
            key = kind, value
        elif kind is float:
            key = kind, value.hex()
        found = self._known.get(key)
        if found is not None:
            return found
        if id(value) in self._open:
            raise Unstorable(Reason.OBJECT, f"{show(value)} is reached through itself")
        if len(self._open) > _DEEP:
            raise Unstorable(Reason.OBJECT, "it is too deep")
        self._open.add(id(value))
        try:
            row = self._row(kind, value)
        finally:
            self._open.discard(id(value))
        number = self._known[key] = self.add(row)
        self._alive.append(value)
        return number

    def all(self, values: Sequence[Any]) -> list[int]:
        return [self.of(value) for value in values]

    def blob(self, data: bytes) -> int:
        self.blobs.append(data)
        return len(self.blobs) - 1

    def _row(self, kind: type, value: Any) -> Row:
        encode = ENCODERS.get(kind)
        if encode is not None:
            return encode(self, value)
        if objects.is_subtype(kind, type):
            return _class(self, value)
        if objects.is_subtype(kind, types.ModuleType):
            return _module(self, value)
        member = things.enum_member(value)
        if member is not None:
            return ["member", self.of(kind), member, self.of(things.under_member(value))]
        place = things.single_place(value)
        if place is not None:
            return ["object", *place, self.of(kind)]
        raise Unstorable(Reason.OBJECT, show(value))

    def path(self, value: Any, what: str) -> int:
        """The source at which an object without a name is found."""
        source = self.paths.get(id(value))
        if source is None:
            raise Unstorable(Reason.OBJECT, f"{what} {show(value)}")
        return self.of(source)


class Reader:
    """A table that is read, for a call."""

    def __init__(self, rows: Sequence[Row], call: Call | None, blobs: Sequence[bytes] = ()) -> None:
        self._rows = rows
        self._call = call
        self.blobs = blobs
        self.values: list[Any] = []

    def read(self) -> list[Any]:
        """The values of all rows."""
        values, decoders = self.values, DECODERS
        for row in self._rows:
            try:
                values.append(decoders[row[0]](self, row))
            except Stale:
                raise
            except (Missing, ReferenceError):
                raise Stale("what the program reaches is not where it was") from None
            except Exception as error:
                raise Damaged(f"{type(error).__name__}: {error}") from error
        return values

    def at(self, number: int) -> Any:
        """The value of an earlier row."""
        if not 0 <= number < len(self.values):
            raise Damaged("a row refers to none")
        return self.values[number]

    def all(self, numbers: Sequence[int]) -> list[Any]:
        return [self.at(number) for number in numbers]

    def found(self, source: Source) -> Any:
        """What is at a source in the call."""
        if self._call is None:
            raise Stale("there is no call to find it in")
        return self._call.read(source)


def encodes(*kinds: type) -> Callable[[Encode], Encode]:
    def register(function: Encode) -> Encode:
        for kind in kinds:
            ENCODERS[kind] = function
        return function

    return register


def decodes(tag: str) -> Callable[[Decode], Decode]:
    def register(function: Decode) -> Decode:
        DECODERS[tag] = function
        return function

    return register


# ---------------------------------------------------------------------- constants


@encodes(type(None), bool, int)
def _plain(writer: Writer, value: Any) -> Row:
    return ["k", value]


@encodes(str)
def _text(writer: Writer, value: str) -> Row:
    if _ADDRESS.search(value):
        raise Unstorable(Reason.OBJECT, f"the address in {value!r}")
    return ["k", value]


@decodes("k")
def _read_plain(reader: Reader, row: Row) -> Any:
    if type(row[1]) not in _SCALARS:
        raise Damaged("not a constant")
    return row[1]


@encodes(float)
def _float(writer: Writer, value: float) -> Row:
    return ["float", value.hex()]


@decodes("float")
def _read_float(reader: Reader, row: Row) -> float:
    return float.fromhex(row[1])


@encodes(complex)
def _complex(writer: Writer, value: complex) -> Row:
    return ["complex", value.real.hex(), value.imag.hex()]


@decodes("complex")
def _read_complex(reader: Reader, row: Row) -> complex:
    return complex(float.fromhex(row[1]), float.fromhex(row[2]))


@encodes(bytes)
def _bytes(writer: Writer, value: bytes) -> Row:
    return ["bytes", base64.b64encode(value).decode()]


@decodes("bytes")
def _read_bytes(reader: Reader, row: Row) -> bytes:
    try:
        return base64.b64decode(row[1], validate=True)
    except binascii.Error as error:
        raise Damaged(str(error)) from None


_SINGLE: Final[dict[str, Any]] = {"...": ..., "NotImplemented": NotImplemented}


@encodes(type(...), type(NotImplemented))
def _single(writer: Writer, value: Any) -> Row:
    return ["single", "..." if value is ... else "NotImplemented"]


@decodes("single")
def _read_single(reader: Reader, row: Row) -> Any:
    return _SINGLE[row[1]]


def _sequence(kind: type, tag: str) -> None:
    """Containers of values, in their order."""

    @encodes(kind)
    def encode(writer: Writer, value: Any) -> Row:
        return [tag, *writer.all(list(value))]

    @decodes(tag)
    def decode(reader: Reader, row: Row) -> Any:
        return kind(reader.all(row[1:]))


_sequence(list, "list")
_sequence(tuple, "tuple")
_sequence(frozenset, "frozenset")
_sequence(torch.Size, "size")


@encodes(slice)
def _slice(writer: Writer, value: slice) -> Row:
    return ["slice", *writer.all((value.start, value.stop, value.step))]


@decodes("slice")
def _read_slice(reader: Reader, row: Row) -> slice:
    return slice(*reader.all(row[1:4]))


@encodes(range)
def _range(writer: Writer, value: range) -> Row:
    return ["range", value.start, value.stop, value.step]


@decodes("range")
def _read_range(reader: Reader, row: Row) -> range:
    return range(*row[1:4])


# ---------------------------------------------------------------------- torch's constants


@encodes(torch.dtype, torch.layout, torch.memory_format)
def _of_torch(writer: Writer, value: Any) -> Row:
    return ["torch", type(value).__name__, str(value).removeprefix("torch.")]


@decodes("torch")
def _read_of_torch(reader: Reader, row: Row) -> Any:
    kind = {"dtype": torch.dtype, "layout": torch.layout, "memory_format": torch.memory_format}
    found = torch.__dict__.get(row[2])
    if type(found) is not kind[row[1]]:
        raise Damaged(f"no {row[1]} {row[2]}")
    return found


@encodes(torch.device)
def _device(writer: Writer, value: torch.device) -> Row:
    return ["device", str(value)]


@decodes("device")
def _read_device(reader: Reader, row: Row) -> torch.device:
    return torch.device(row[1])


# ---------------------------------------------------------------------- objects by name


def _module(writer: Writer, value: types.ModuleType) -> Row:
    name = things.module_name(value)
    if name is None:
        raise Unstorable(Reason.OBJECT, show(value))
    return ["module", name]


@decodes("module")
def _read_module(reader: Reader, row: Row) -> types.ModuleType:
    return things.module_named(row[1])


def _class(writer: Writer, value: Any) -> Row:
    place = things.place_of(value)
    told = class_digest(value)
    if place is not None:
        return ["class", *place, told]
    if id(value) not in writer.paths:
        module = things.module_of_class(value)
        if module is not None:
            return ["class of module", module, told]
    return ["class at", writer.path(value, "the class"), told]


@decodes("class")
def _read_class(reader: Reader, row: Row) -> Any:
    return _same_class(things.follow(row[1], row[2]), row[3])


@decodes("class of module")
def _read_class_of_module(reader: Reader, row: Row) -> Any:
    return _same_class(type(things.module_named(row[1])), row[2])


@decodes("class at")
def _read_class_at(reader: Reader, row: Row) -> Any:
    return _same_class(reader.found(reader.at(row[1])), row[2])


def _same_class(found: Any, expected: str) -> Any:
    if not objects.is_subtype(type(found), type):
        raise Stale("something is not a class any more")
    if class_digest(found) != expected:
        raise Stale(f"the class {objects.types.qualname_of(found)} is written differently")
    return found


_MEMBERS: Final = (types.FunctionType, staticmethod, classmethod, property)
_UNTOLD: Final = frozenset(
    {
        *("__annotate_func__", "__annotations__", "__annotations_cache__", "__doc__"),
        *("__firstlineno__", "__static_attributes__", "__weakref__"),
    }
)


def class_digest(cls: type) -> str:
    """What an entry takes for granted of a class without a guard: its bases, its layout.

    And the code of its methods, and the names that it has: more than is needed, so that a class
    that was edited is never taken for the old one. Classes of torch and the standard library are
    as their versions are; what was read from them is guarded like everything else.
    """
    parts = [_name(each) for each in (type(cls), *objects.mro(cls))]
    parts.append(str(objects.types.flags_of(cls) & _LAYOUT))
    for each in objects.mro(cls):
        if _is_library(each):
            continue
        for name, value in objects.type_dict(each).items():
            if name not in _UNTOLD and type(name) is str:
                parts.append(f"{name} {member_digest(value)}")
    return digests.digest("\0".join(parts).encode("utf-8", "surrogatepass"))


_LAYOUT: Final = 0b1111_1111 << 24 | 1 << 9  # which builtin it extends; whether it is made by class


def _is_library(cls: type) -> bool:
    module = objects.types.module_of(cls)
    root = module.partition(".")[0] if type(module) is str else ""
    return root in ("torch", "stator", "builtins") or root in sys.stdlib_module_names


def _name(cls: type) -> str:
    return f"{objects.types.module_of(cls)}.{objects.types.qualname_of(cls)}"


def member_digest(value: Any) -> str:
    kind = type(value)
    if kind is types.FunctionType:
        return digests.of_code(value.__code__)
    if kind in things.INSIDE:
        parts = (member_digest(getattr(value, name)) for name in things.INSIDE[kind])
        return f"{kind.__name__} {' '.join(parts)}"
    if kind is things.TUPLE_FIELD:
        return f"field {value.__reduce__()[1][0]}"
    return _name(kind)


@encodes(types.FunctionType)
def _function(writer: Writer, value: types.FunctionType) -> Row:
    told = digests.of_code(value.__code__)
    place = things.place_of(value)
    if place is not None:
        return ["function", *place, told]
    held = writer.members.get(id(value))
    if held is not None and id(value) not in writer.paths:
        owner, path = held
        return ["function of", writer.of(owner), path, told]
    return ["function at", writer.path(value, "the function"), told]


@decodes("function")
def _read_function(reader: Reader, row: Row) -> types.FunctionType:
    return _same_function(things.follow(row[1], row[2]), row[3])


@decodes("function of")
def _read_function_of(reader: Reader, row: Row) -> types.FunctionType:
    return _same_function(things.followed(reader.at(row[1]), row[2]), row[3])


@decodes("function at")
def _read_function_at(reader: Reader, row: Row) -> types.FunctionType:
    return _same_function(reader.found(reader.at(row[1])), row[2])


def _same_function(found: Any, expected: str) -> types.FunctionType:
    if type(found) is not types.FunctionType:
        raise Stale("something is not a function any more")
    things.same_code(found.__code__, expected, found.__qualname__)
    return found


@encodes(things.TUPLE_FIELD, *things.INSIDE)
def _wrapped(writer: Writer, value: Any) -> Row:
    """What stands in a class around functions: by its path, if the functions are the same."""
    return ["wrapped at", writer.path(value, "the"), _name(type(value)), member_digest(value)]


@decodes("wrapped at")
def _read_wrapped(reader: Reader, row: Row) -> Any:
    found = reader.found(reader.at(row[1]))
    if _name(type(found)) != row[2] or member_digest(found) != row[3]:
        raise Stale(f"{reader.at(row[1])} is another one")
    return found


@encodes(types.CellType)
def _cell(writer: Writer, value: Any) -> Row:
    place = writer.cells.get(id(value))
    if place is None:
        raise Unstorable(Reason.OBJECT, "a variable that functions share")
    function, index = place
    return ["cell", writer.of(function), index]


@decodes("cell")
def _read_cell(reader: Reader, row: Row) -> Any:
    cells = reader.at(row[1]).__closure__ or ()
    if not 0 <= row[2] < len(cells):
        raise Stale("a function has other variables")
    return cells[row[2]]


@encodes(types.CodeType)
def _code(writer: Writer, value: types.CodeType) -> Row:
    """By a function that has it, or has the code it is in."""
    owner = writer.paths.get(id(value))
    if owner is not None:
        return ["code at", writer.of(owner), digests.of_code(value)]
    path = value.co_qualname.partition(".<locals>")[0]
    for module in list(sys.modules):
        namespace = sys.modules[module]
        file = getattr(namespace, "__file__", None) if namespace is not None else None
        if file != value.co_filename and module != "__main__":
            continue
        row = _code_in(value, module, path)
        if row is not None:
            return row
    raise Unstorable(Reason.CODE, value.co_qualname)


def _code_in(value: types.CodeType, module: str, path: str) -> Row | None:
    try:
        holder = things.follow(module, path)
    except Stale:
        return None
    function = plain_function(holder)
    if function is None:
        return None
    steps = things.inside(function.__code__, value)
    if steps is None:
        return None
    return ["code", module, path, list(steps), digests.of_code(value)]


def plain_function(holder: Any) -> types.FunctionType | None:
    """The function behind what stands in a class, or is compiled."""
    if type(holder) in (staticmethod, classmethod):
        holder = holder.__func__
    if type(holder) is property:
        holder = holder.fget
    wrapped = getattr(holder, "__wrapped__", None) if type(holder) in _COMPILED else None
    found = holder if wrapped is None else wrapped
    return found if type(found) is types.FunctionType else None


_COMPILED: Final = (CompiledFunction,)


@decodes("code")
def _read_code(reader: Reader, row: Row) -> types.CodeType:
    function = plain_function(things.follow(row[1], row[2]))
    if function is None:
        raise Stale(f"{row[1]}.{row[2]} is not a function any more")
    found = things.at(function.__code__, tuple(row[3]))
    things.same_code(found, row[4], row[2])
    return found


@decodes("code at")
def _read_code_at(reader: Reader, row: Row) -> types.CodeType:
    found = reader.found(reader.at(row[1]))
    if type(found) is not types.CodeType:
        raise Stale("a function is not where it was")
    things.same_code(found, row[2], found.co_qualname)
    return found


@encodes(*things.C_FUNCTIONS)
def _c_function(writer: Writer, value: Any) -> Row:
    kind = type(value)
    if kind is types.BuiltinFunctionType:
        place = things.place_of(value)
        if place is not None:
            return ["c", *place, value.__name__]
        owner = value.__self__
        if owner is not None and objects.is_subtype(type(owner), type):
            return ["c of", writer.of(owner), value.__name__]
        place = things.own_place(owner)
        if place is not None:
            return ["c of own", *place, value.__name__]
        raise Unstorable(Reason.OBJECT, show(value))
    if kind is types.MethodWrapperType:
        return ["slot of", writer.of(value.__self__), value.__name__]
    owner = value.__objclass__
    if things.attribute(owner, value.__name__) is not value:
        raise Unstorable(Reason.OBJECT, show(value))
    return ["member of", writer.of(owner), value.__name__, kind.__name__]


@decodes("c")
def _read_c(reader: Reader, row: Row) -> Any:
    found = things.follow(row[1], row[2])
    if type(found) is not types.BuiltinFunctionType or found.__name__ != row[3]:
        raise Stale(f"{row[1]}.{row[2]} is another function")
    return found


@decodes("c of")
def _read_c_of(reader: Reader, row: Row) -> Any:
    found = things.attribute(reader.at(row[1]), row[2])
    if type(found) in (staticmethod, classmethod):
        found = found.__func__
    if type(found) is types.ClassMethodDescriptorType:
        found = found.__get__(None, reader.at(row[1]))
    if type(found) is not types.BuiltinFunctionType:
        raise Stale(f"{row[2]} is another function")
    return found


@decodes("c of own")
def _read_c_of_own(reader: Reader, row: Row) -> Any:
    owner = things.own_named(row[1], row[2])
    found = things.attribute(type(owner), row[3])
    if type(found) is not types.MethodDescriptorType:
        raise Stale(f"{row[3]} is another function")
    return found.__get__(owner)


@decodes("slot of")
def _read_slot_of(reader: Reader, row: Row) -> Any:
    owner = reader.at(row[1])
    found = things.attribute(type(owner), row[2])
    if type(found) is not types.WrapperDescriptorType:
        raise Stale(f"{row[2]} is another function")
    return found.__get__(owner)


@decodes("member of")
def _read_member(reader: Reader, row: Row) -> Any:
    owner = reader.at(row[1])
    found = things.attribute(owner, row[2])
    if type(found) not in things.C_FUNCTIONS or type(found).__name__ != row[3]:
        raise Stale(f"{row[2]} of {owner.__qualname__} is another one")
    return found


@decodes("member")
def _read_enum_member(reader: Reader, row: Row) -> Any:
    found = things.member_named(reader.at(row[1]), row[2])
    try:
        under = things.under_member(found)
    except Unstorable as error:
        raise Stale(str(error)) from None
    if not typed_equal(under, reader.at(row[3])):
        raise Stale(f"{row[2]} of an enum has another value")
    return found


@decodes("object")
def _read_object(reader: Reader, row: Row) -> Any:
    found = things.follow(row[1], row[2])
    if type(found) is not reader.at(row[3]):
        raise Stale(f"{row[1]}.{row[2]} is of another type")
    return found


@encodes(dict)
def _namespace(writer: Writer, value: dict[str, Any]) -> Row:
    """The namespace of a module, or what a path leads to."""
    name = value.get("__name__") if "__name__" in value else None
    module = sys.modules.get(name) if type(name) is str else None
    if module is not None and module.__dict__ is value:
        return ["namespace", name]
    for key, each in list(sys.modules.items()):
        if getattr(each, "__dict__", None) is value:
            return ["namespace", key]
    if value is sys.modules:
        return ["modules"]
    operators = things.operators_in(value)
    if operators is not None:
        return ["dict of operators", operators]
    held = writer.dicts.get(id(value))
    if held is not None:
        return ["dict of", writer.of(held[0]), held[1]]
    place = things.own_place(value)
    if place is not None:
        return ["own", *place]
    if id(value) in writer.paths:
        return ["dict at", writer.of(writer.paths[id(value)])]
    raise Unstorable(Reason.OBJECT, "a dict from before the call")


@decodes("namespace")
def _read_namespace(reader: Reader, row: Row) -> dict[str, Any]:
    return things.module_named(row[1]).__dict__


@decodes("dict of operators")
def _read_dict_of_operators(reader: Reader, row: Row) -> dict[str, Any]:
    found: dict[str, Any] = things.operators_of(row[1]).__dict__
    return found


@decodes("dict of")
def _read_dict_of(reader: Reader, row: Row) -> dict[str, Any]:
    function: types.FunctionType = reader.at(row[1])
    return function.__dict__ if row[2] == "__dict__" else function.__globals__


@decodes("modules")
def _read_modules(reader: Reader, row: Row) -> dict[str, Any]:
    return sys.modules


@decodes("own")
def _read_own(reader: Reader, row: Row) -> Any:
    return things.own_named(row[1], row[2])


@decodes("dict at")
def _read_dict_at(reader: Reader, row: Row) -> Any:
    found = reader.found(reader.at(row[1]))
    if type(found) is not dict:
        raise Stale("a namespace is not where it was")
    return found


def root_of(source: Source) -> Any:
    """What a path begins with: an object that the guards hold; None of others."""
    step: Source = source
    while step.base is not None:
        step = step.base
    return step.value if type(step) is Fixed else None
