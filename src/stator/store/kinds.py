"""Our own data as rows: sources, checks, expressions, plans, points, nodes of graphs.

Stage: store, beside `codec`. Data classes are their fields, in order. What would not mean the same
in another process is refused here: addresses that were told, functions that are closures of ours
over something that can't be written down.
"""

import types
from dataclasses import fields
from typing import Any, Final

from stator import guards, objects
from stator._native._core import NULL
from stator.effects import exits, instruction, model, steps, suspension
from stator.evaluator.points import Point, Slot
from stator.guards import checks, expressions, sources, state, tensors
from stator.guards.layout import typed_equal
from stator.guards.text import show
from stator.guards.tree import Guard
from stator.store import digests, things
from stator.store.codec import Reader, Row, Writer, decodes, encodes, plain_function, root_of
from stator.store.reasons import Damaged, Reason, Stale, Unstorable
from stator.torchlib.operators import OpNamespace, OpOverload, OpOverloadPacket
from stator.torchlib.settings import FLAGS

# ---------------------------------------------------------------------- data classes


def _data(kind: type, tag: str | None = None, names: tuple[str, ...] | None = None) -> None:
    own = names if names is not None else tuple(each.name for each in fields(kind))
    tag = tag or kind.__name__

    @encodes(kind)
    def encode(writer: Writer, value: Any) -> Row:
        return [tag, *[writer.of(getattr(value, name)) for name in own]]

    @decodes(tag)
    def decode(reader: Reader, row: Row) -> Any:
        if len(row) != len(own) + 1:
            raise Damaged(f"{tag} has other fields")
        values = reader.values
        return kind(*[values[number] for number in row[1:]])


_OWN_FIELDS: Final = {
    "GlobalsOf": sources.GlobalsOf,
    "BuiltinsOf": sources.BuiltinsOf,
    "Closure": sources.Closure,
    "Defaults": sources.Defaults,
    "KwDefaults": sources.KwDefaults,
    "Code": sources.Code,
    "MethodFunction": sources.MethodFunction,
    "MethodSelf": sources.MethodSelf,
}
_kind: Any
for _tag, _kind in _OWN_FIELDS.items():
    _data(_kind, _tag, ("of",))
for _kind in (
    sources.Local,
    sources.CellContents,
    sources.Referent,
    sources.TypeOf,
    sources.Attr,
    sources.ModuleAttr,
    sources.ClassAttr,
    sources.Slot,
    sources.Field,
    sources.Index,
    sources.CellAt,
    sources.Key,
    sources.DictKeyAt,
    sources.Held,
    sources.AheadOf,
):
    _data(_kind)
for _kind in (
    checks.TypeIs,
    checks.SubclassOf,
    checks.Equal,
    checks.Length,
    checks.Keys,
    checks.HasKey,
    checks.NoKey,
    checks.NoAttr,
    checks.NoClassAttr,
    checks.AttrKeys,
    checks.SlotEmpty,
    checks.Aliased,
    checks.NotAliased,
    checks.Holds,
    checks.Relation,
    tensors.NoOverlap,
    expressions.Constant,
    expressions.Real,
    expressions.Int,
    expressions.Float,
    expressions.LenOf,
    expressions.SizeOf,
    expressions.StrideOf,
    expressions.OffsetOf,
    expressions.Unary,
    expressions.Binary,
):
    _data(_kind, f"size {_kind.__name__}" if _kind is expressions.Constant else None)
_data(tensors.TensorMatch)
for _kind in (
    model.Fetched,
    model.Output,
    model.ListContents,
    model.ListExtended,
    model.DictContents,
    model.SetContents,
    model.DequeContents,
    model.ByteArrayContents,
    model.ArrayContents,
    model.AttrSet,
    model.AttrDel,
    model.SlotSet,
    model.SlotDel,
    model.StateSet,
    model.Passed,
    model.KeySet,
    model.KeyDel,
    model.CellSet,
    model.CellDel,
    model.ClassAttrSet,
    model.ClassAttrDel,
    model.Perform,
    model.Advanced,
    model.Ask,
    steps.Built,
    steps.Tuple,
    steps.List,
    steps.Set,
    steps.Dict,
    steps.Make,
    steps.Fill,
    steps.Apply,
    steps.Plan,
):
    _data(_kind)
_data(model.Constant, "constant")
_data(suspension.Exit)

# ---------------------------------------------------------------------- sources

_STATES: Final = {
    (id(function), arguments): name for name, (function, arguments) in state.STATES.items()
}


@encodes(sources.Function)
def _called(writer: Writer, value: sources.Function) -> Row:
    return ["called"]


@decodes("called")
def _read_called(reader: Reader, row: Row) -> sources.Source:
    return guards.FUNCTION


@encodes(sources.Fixed)
def _fixed(writer: Writer, value: sources.Fixed) -> Row:
    return ["Fixed", writer.of(value.value), value.name]


@decodes("Fixed")
def _read_fixed(reader: Reader, row: Row) -> sources.Fixed:
    return sources.Fixed(reader.at(row[1]), str(row[2]))


@encodes(sources.State)
def _state(writer: Writer, value: sources.State) -> Row:
    try:
        name = _STATES.get((id(value.function), value.arguments))
    except TypeError:
        name = None
    if name is not None:
        return ["torch state", name, value.name]
    for name, flag in FLAGS.items():
        if flag.read is value.function and not value.arguments and value.probe is None:
            return ["torch flag", name, value.name]
    function: Any = value.function
    bound = type(function) is types.BuiltinFunctionType and not value.arguments
    if bound and things.own_place(function.__self__) is not None:
        return ["own state", writer.of(function), value.name]
    raise Unstorable(Reason.CHECK, str(value))


@decodes("torch state")
def _read_state(reader: Reader, row: Row) -> sources.State:
    found = state.TorchState(row[1])
    return sources.State(found.function, found.arguments, str(row[2]), found.probe)


@decodes("own state")
def _read_own_state(reader: Reader, row: Row) -> sources.State:
    return sources.State(reader.at(row[1]), (), str(row[2]))


@decodes("torch flag")
def _read_flag(reader: Reader, row: Row) -> sources.State:
    return sources.State(FLAGS[row[1]].read, (), str(row[2]))


# ---------------------------------------------------------------------- checks

_PINNED: Final = (
    type(None),
    types.FunctionType,
    types.ModuleType,
    types.CodeType,
    types.CellType,
    bool,
    things.TUPLE_FIELD,
    *things.INSIDE,
    *things.C_FUNCTIONS,
)
_OF_PROCESS: Final = (id, hash)
"""Builtins whose answers are another process's: they are constants of the trace."""


@encodes(checks.Is, checks.IsNot)
def _is(writer: Writer, value: checks.Is) -> Row:
    held = value.object
    if any(held is each for each in _OF_PROCESS):
        raise Unstorable(Reason.CHECK, f"{held.__name__}() answers differently in each process")
    known = type(held) in _PINNED or type(held) is dict or things.enum_member(held) is not None
    known = known or _is_of_torch(held) or things.single_place(held) is not None
    named = any(objects.is_subtype(type(held), each) for each in (type, types.ModuleType))
    if not known and not named:
        raise Unstorable(Reason.OBJECT, show(held))
    return [type(value).__name__, writer.of(held)]


def _is_of_torch(held: Any) -> bool:
    if type(held) is OpNamespace:
        return held.name in things.OPERATORS
    if type(held) is OpOverload:
        return held.namespace in things.OPERATORS
    return type(held) is OpOverloadPacket and held._qualified_op_name.startswith(
        tuple(f"{name}::" for name in things.OPERATORS)
    )


@encodes(OpNamespace)
def _operators(writer: Writer, value: Any) -> Row:
    return ["operators", value.name]


@decodes("operators")
def _read_operators(reader: Reader, row: Row) -> Any:
    return things.operators_of(row[1])


@decodes("Is")
def _read_is(reader: Reader, row: Row) -> checks.Is:
    return checks.Is(reader.at(row[1]))


@decodes("IsNot")
def _read_is_not(reader: Reader, row: Row) -> checks.IsNot:
    return checks.IsNot(reader.at(row[1]))


@encodes(checks.IsWeak)
def _is_weak(writer: Writer, value: checks.IsWeak) -> Row:
    raise Unstorable(Reason.OBJECT, f"the address of {value.shown} matters")


@encodes(checks.Callback)
def _callback(writer: Writer, value: checks.Callback) -> Row:
    function = value.function
    if type(function) is not types.FunctionType or not _is_ours(function):
        raise Unstorable(Reason.CHECK, value.text())
    return ["Callback", writer.of(value.description), *closure(writer, function, value.text())]


def _is_ours(function: types.FunctionType) -> bool:
    return str(function.__module__).partition(".")[0] == "stator"


def closure(writer: Writer, function: types.FunctionType, what: str) -> Row:
    """A function of ours: its code by name, what it closes over as data."""
    if function.__defaults__ or function.__kwdefaults__:
        raise Unstorable(Reason.CHECK, what)
    code = function.__code__
    module, path = function.__module__, code.co_qualname.partition(".<locals>")[0]
    try:
        holder = plain_function(things.follow(module, path))
    except Stale:
        holder = None
    inside = None if holder is None else things.inside(holder.__code__, code)
    if inside is None:
        raise Unstorable(Reason.CHECK, what)
    try:
        held = [writer.of(cell.cell_contents) for cell in function.__closure__ or ()]
    except Unstorable as error:
        raise Unstorable(Reason.CHECK, f"{what}: {error.what}") from None
    return [module, path, list(inside), digests.of_code(code), *held]


@decodes("Callback")
def _read_callback(reader: Reader, row: Row) -> checks.Callback:
    _, description, module, path, inside, expected, *held = row
    if str(module).partition(".")[0] != "stator":
        raise Damaged("a check that is not stator's")
    holder = plain_function(things.follow(module, path))
    if holder is None:
        raise Stale(f"there is no {module}.{path}")
    code = things.at(holder.__code__, tuple(inside))
    things.same_code(code, expected, f"{module}.{path}")
    cells = tuple(types.CellType(each) for each in reader.all(held))
    if len(cells) != len(code.co_freevars):
        raise Damaged("a check with other variables")
    namespace = things.module_named(module).__dict__
    function = types.FunctionType(code, namespace, code.co_name, None, cells or None)
    return checks.Callback(function, reader.at(description))


# ---------------------------------------------------------------------- guards


@encodes(Guard)
def _guard(writer: Writer, value: Guard) -> Row:
    check, source = value.check, value.source
    where = -1, 0
    if value.code is not None:
        try:
            where = writer.of(value.code), value.unit
        except Unstorable:
            where = -1, 0  # it is for messages only
    if type(check) is checks.Is and type(check.object) is tuple and source is not None:
        return ["parts", writer.of(source), *where, *writer.all(check.object)]
    number = writer.of(None) if source is None else writer.of(source)
    return ["guard", number, writer.of(check), *where]


@decodes("guard")
def _read_guard(reader: Reader, row: Row) -> Guard:
    _, source, check, code, unit = row
    values = reader.values
    return Guard(values[source], values[check], values[code] if code >= 0 else None, unit)


@decodes("parts")
def _read_parts(reader: Reader, row: Row) -> Guard:
    """A tuple that must be this very one, such as the bases of a class: by what is in it."""
    _, number, code, unit, *parts = row
    source = reader.at(number)
    found, expected = reader.found(source), reader.all(parts)
    same = type(found) is tuple and len(found) == len(expected)
    if not same or not all(map(_alike, found, expected)):
        raise Stale(f"{source} is another one")
    return Guard(source, checks.Is(found), reader.at(code) if code >= 0 else None, unit)


def _alike(found: Any, expected: Any) -> bool:
    return found is expected or typed_equal(expected, found)


def cells_of(found: tuple[Guard, ...]) -> dict[int, tuple[types.FunctionType, int]]:
    """Which variables cells are, of the functions that guards are about."""
    cells: dict[int, tuple[types.FunctionType, int]] = {}

    def add(value: Any) -> None:
        if type(value) is types.FunctionType:
            for index, cell in enumerate(value.__closure__ or ()):
                cells.setdefault(id(cell), (value, index))

    for guard in found:
        if type(guard.check) is checks.Is:
            add(guard.check.object)
        if guard.source is not None:
            add(root_of(guard.source))
    return cells


def names_of(writer: Writer, found: tuple[Guard, ...]) -> None:
    """Functions that only the classes say where they are, and those that have attributes."""
    for guard in found:
        held: list[Any] = []
        if type(guard.check) is checks.Is:
            held.append(guard.check.object)
        elif type(guard.check) is checks.TypeIs:
            held.append(guard.check.cls)
        if guard.source is not None:
            held.append(root_of(guard.source))
        for each in held:
            if type(each) is types.FunctionType:
                writer.dicts.setdefault(id(each.__dict__), (each, "__dict__"))
            elif objects.is_subtype(type(each), type):
                for function, path in things.members_of(each):
                    writer.members.setdefault(id(function), (each, path))
                    writer.dicts.setdefault(id(function.__globals__), (function, "__globals__"))


def paths_of(found: tuple[Guard, ...]) -> dict[int, sources.Source]:
    """How the program reaches functions, classes and namespaces that may have no name."""
    paths: dict[int, sources.Source] = {}
    for guard in found:
        check, source = guard.check, guard.source
        if source is None or type(source) is sources.Fixed:
            continue
        if type(check) is checks.Is:
            paths.setdefault(id(check.object), source)
        elif type(check) is checks.TypeIs:
            paths.setdefault(id(check.cls), sources.TypeOf(source))
    return paths


# ---------------------------------------------------------------------- plans

_HELPERS: Final = {each.name: each for each in steps.Helper}


@encodes(steps.Helper)
def _helper(writer: Writer, value: steps.Helper) -> Row:
    return ["helper", value.name]


@decodes("helper")
def _read_helper(reader: Reader, row: Row) -> steps.Helper:
    return _HELPERS[row[1]]


@encodes(steps.Call)
def _call(writer: Writer, value: steps.Call) -> Row:
    if type(value.function) is not steps.Helper and not _is_type(value.function):
        things.check_callable(value.function)
    return ["Call", writer.of(value.function), value.name, *writer.all(value.args)]


def _is_type(value: Any) -> bool:
    return bool(objects.is_subtype(type(value), type))


@decodes("Call")
def _read_call(reader: Reader, row: Row) -> steps.Call:
    function = reader.at(row[1])
    if type(function) is not steps.Helper and not _is_type(function):
        _allowed(function)
    return steps.Call(function, tuple(reader.all(row[3:])), str(row[2]))


def _allowed(function: Any) -> None:
    try:
        things.check_callable(function)
    except Unstorable as error:
        raise Damaged(str(error)) from None


@encodes(exits.Entry)
def _entry(writer: Writer, value: exits.Entry) -> Row:
    columns = None if value.columns is None else list(value.columns)
    module = things.module_in(value.file)
    return ["entry", value.file, module, value.line, value.name, value.qualname, columns]


@decodes("entry")
def _read_entry(reader: Reader, row: Row) -> exits.Entry:
    _, file, module, line, name, qualname, given = row
    if module is not None:  # the program may lie elsewhere now
        file = things.file_of(things.module_named(module)) or file
    columns = None if given is None else tuple(given)
    return exits.Entry(str(file), int(line), str(name), str(qualname), columns)


# ---------------------------------------------------------------------- points

_SLOTS: Final = {each.name: each for each in Slot}


@encodes(Slot)
def _slot(writer: Writer, value: Slot) -> Row:
    return ["slot", value.name]


@decodes("slot")
def _read_slot(reader: Reader, row: Row) -> Slot:
    return _SLOTS[row[1]]


@encodes(Point)
def _point(writer: Writer, value: Point) -> Row:
    code, namespace = writer.of(value.code), writer.of(value.globals)
    kinds = writer.all(value.stack)
    return ["point", code, namespace, value.unit, list(value.locals), kinds, value.behind]


@decodes("point")
def _read_point(reader: Reader, row: Row) -> Point:
    _, code, namespace, unit, bound, kinds, behind = row
    stack = tuple(reader.all(kinds))
    return Point(reader.at(code), reader.at(namespace), unit, tuple(bound), stack, behind)


@encodes(instruction.Result)
def _result(writer: Writer, value: instruction.Result) -> Row:
    return ["result", value.item]


@decodes("result")
def _read_result(reader: Reader, row: Row) -> instruction.Result:
    return instruction.Result(row[1])


@encodes(suspension.Caught)
def _caught(writer: Writer, value: suspension.Caught) -> Row:
    return ["caught"]


@decodes("caught")
def _read_caught(reader: Reader, row: Row) -> suspension.Caught:
    return suspension.CAUGHT


@encodes(suspension.Upcoming)
def _upcoming(writer: Writer, value: suspension.Upcoming) -> Row:
    return ["upcoming", value.number]


@decodes("upcoming")
def _read_upcoming(reader: Reader, row: Row) -> suspension.Upcoming:
    return suspension.Upcoming(row[1])


@encodes(type(NULL))
def _null(writer: Writer, value: Any) -> Row:
    if value is not NULL:
        raise Unstorable(Reason.OBJECT, show(value))
    return ["null"]


@decodes("null")
def _read_null(reader: Reader, row: Row) -> Any:
    return NULL
