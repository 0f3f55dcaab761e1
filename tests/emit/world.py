"""A small world for the tests: what the tracer would tell, and a comparison of object graphs."""

from __future__ import annotations

import collections
import functools
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from stator.effects import Constant, Effect, Fetched, Output, Plan, Ref, plan
from stator.emit import Residual, residual
from stator.guards import Index, Local, Source


class World:
    """Which objects are not made by the trace: fetched ones, outputs, constants.

    `fetched[i]` is the item i of the list that is the one parameter of the function called.
    """

    def __init__(self, *constants: Any) -> None:
        self.refs: dict[int, Ref] = {}
        self.now: dict[int, Any] = {}
        """What stands for an object in a later call."""
        self.kept: list[Any] = []
        self.asked: collections.Counter[int] = collections.Counter()
        self.outputs: list[Any] = []
        self.items: list[Any] = []
        for value in constants:
            self.constant(value)

    def constant(self, value: Any) -> Any:
        return self._add(value, Constant(value), value)

    def output(self, value: Any, later: Any) -> Any:
        self.outputs.append(later)
        return self._add(value, Output(len(self.outputs) - 1), later)

    def fetched(self, value: Any, later: Any) -> Any:
        self.items.append(later)
        return self._add(value, Fetched(self.source(len(self.items) - 1)), later)

    def source(self, index: int) -> Source:
        return Index(Local(0, "items"), index)

    def _add(self, value: Any, ref: Ref, later: Any) -> Any:
        self.refs[id(value)] = ref
        self.now[id(value)] = later
        self.kept.append(value)
        return value

    def resolve(self, value: Any) -> Ref | None:
        self.asked[id(value)] += 1
        if id(value) in self.refs:  # first: other ways may ask the object
            return self.refs[id(value)]
        if issubclass(type(value), type) and value.__module__ != "made.while.tracing":
            return Constant(value)
        if type(value) is dict and "__builtins__" in value:
            return Constant(value)
        return None

    def plan(self, result: Any, effects: Sequence[Effect] = ()) -> Plan:
        return plan(result, effects, self.resolve)

    def residual(self, result: Any, effects: Sequence[Effect] = ()) -> Residual:
        graph = (lambda: self.outputs) if self.outputs else None
        return residual(
            self.plan(result, effects), code=called.__code__, inputs=(), graph=graph, name="called"
        )

    def run(self, made: Residual) -> Any:
        """One call, with the items fetched as the guards would."""
        values = [read(source, (self.items,)) for source in made.sources]
        return made.function(*([tuple(values)] if values else []), self.items)

    def again(self, result: Any) -> Any:
        """What a later call returns."""
        return self.run(self.residual(result))


def called(items: list[Any]) -> None:
    """The function whose calls are replaced."""


def read(source: Source, arguments: tuple[Any, ...]) -> Any:
    """The value at a source, by its slow meaning."""
    call = types.SimpleNamespace(locals=arguments, function=called)
    base = None if source.base is None else read(source.base, arguments)
    return source.read(base, call)


# -- comparison --

PLAIN = (int, float, str, bytes, bool, complex, range, type(None), type(...), type(NotImplemented))


DESCRIPTORS = (
    types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType,
)  # fmt: skip


class Comparison:
    """Are two object graphs the same but for the identity of their objects?

    The first is the trace's, the second a later call's. What the world knows must be what stands
    for it now; all other objects are paired, one to one.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.pairs: dict[int, int] = {}
        self.back: dict[int, int] = {}
        self.kept: list[Any] = []
        self.made: list[Any] = []
        """The objects of the second graph that are made anew."""

    def check(self, old: Any, new: Any) -> None:
        pending: list[tuple[Any, Any]] = [(old, new)]
        while pending:
            a, b = pending.pop()
            if id(a) in self.world.now:
                assert b is self.world.now[id(a)]
                continue
            assert type(a) is type(b)
            if is_plain(a):
                assert repr(a) == repr(b)
                continue
            if isinstance(a, type | types.CodeType | types.ModuleType) or is_shared(a):
                assert a is b
                continue
            if id(a) in self.pairs or id(b) in self.back:
                assert self.pairs.get(id(a)) == id(b), "an identity differs"
                assert self.back.get(id(b)) == id(a), "an identity differs"
                continue
            self.pairs[id(a)], self.back[id(b)] = id(b), id(a)
            self.made.append(b)
            parts_a, parts_b = parts(a), parts(b)
            self.kept += [parts_a, parts_b]  # some of them are made when read
            assert len(parts_a) == len(parts_b), (parts_a, parts_b)
            pending += zip(parts_a, parts_b, strict=True)


def is_plain(value: Any) -> bool:
    """A constant: one may stand for another, as in CPython's own code objects."""
    if type(value) is tuple:
        return all(map(is_plain, value))
    return type(value) in PLAIN


def is_shared(value: Any) -> bool:
    """Objects that are nobody's: globals, functions of modules, an empty tuple."""
    if type(value) is dict:
        return "__builtins__" in value
    if type(value) is types.BuiltinFunctionType:
        return isinstance(value.__self__, types.ModuleType) or value.__name__ == "__new__"
    return type(value) in DESCRIPTORS or (type(value) is tuple and not value)


def parts(value: Any) -> list[Any]:
    """What an object consists of, by any means available: tests may ask."""
    found: list[Any] = []
    found += state(value)
    for kind, read_parts in READERS:
        if issubclass(type(value), kind):
            return found + list(read_parts(value))
    return found


def state(value: Any) -> list[Any]:
    """The instance dict and the slots."""
    found: list[Any] = []
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        attributes = None
    if type(attributes) is dict and not issubclass(type(value), staticmethod | classmethod):
        found += [attributes]
    for cls in type(value).__mro__:
        names = cls.__dict__.get("__slots__", ())
        for name in [names] if isinstance(names, str) else names:
            if name.startswith("__") and not name.endswith("__"):
                name = f"_{cls.__name__}{name}"
            if isinstance(descriptor := cls.__dict__.get(name), types.MemberDescriptorType):
                try:
                    found += [name, descriptor.__get__(value)]
                except AttributeError:
                    found += [name, "empty"]
    return found


def _annotations(f: Any) -> dict[str, Any]:
    """Made anew where a function makes them (3.14+), or it would be another one from now on."""
    annotate = getattr(f, "__annotate__", None)
    return dict(f.__annotations__) if annotate is None else annotate(1)


def function_parts(f: Any) -> list[Any]:
    found = [f.__code__, f.__globals__, f.__name__, f.__qualname__, f.__module__, f.__doc__]
    found += [f.__defaults__, f.__kwdefaults__, _annotations(f)]
    return found + list(f.__closure__ or ())


def cell_parts(cell: types.CellType) -> list[Any]:
    try:
        return [cell.cell_contents]
    except ValueError:
        return []


def exception_parts(e: BaseException) -> list[Any]:
    found: list[Any] = [e.args, e.__cause__, e.__context__, e.__suppress_context__]
    for name in ("errno", "strerror", "filename", "filename2", "value", "code", "msg", "name"):
        found.append(getattr(e, name, None))
    for name in ("path", "encoding", "object", "start", "end", "reason", "exceptions", "lineno"):
        found.append(getattr(e, name, None))
    return [*found, str(e) if is_plain(e.args) else None]


def dict_parts(value: Any) -> list[Any]:
    order = collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict
    return [x for key in order.__iter__(value) for x in (key, dict.__getitem__(value, key))]


def unordered(elements: list[Any]) -> list[Any]:
    """Elements of a set in an order of ours: that of a set depends on how it came about."""
    return sorted(elements, key=lambda v: (type(v).__name__, repr(v) if is_plain(v) else ""))


Reader = Callable[[Any], Sequence[Any]]
READERS: list[tuple[type | types.UnionType, Reader]] = [
    (tuple, lambda v: list(tuple.__iter__(v))),
    (list, lambda v: list(list.__iter__(v))),
    (collections.defaultdict, lambda v: [v.default_factory, *dict_parts(v)]),
    (dict, dict_parts),
    (set, lambda v: unordered(list(set.__iter__(v)))),
    (frozenset, lambda v: unordered(list(frozenset.__iter__(v)))),
    (collections.deque, lambda v: [v.maxlen, *collections.deque.__iter__(v)]),
    (bytearray, lambda v: [bytes(v)]),
    (int, lambda v: [int.__int__(v)]),
    (str, lambda v: [str.__str__(v)]),
    (float, lambda v: [float.__float__(v)]),
    (bytes, lambda v: [bytes.__getitem__(v, slice(None))]),
    (slice, lambda v: [v.start, v.stop, v.step]),
    (types.CellType, cell_parts),
    (types.FunctionType, function_parts),
    (types.MethodType, lambda v: [v.__func__, v.__self__]),
    (types.BuiltinFunctionType | types.MethodWrapperType, lambda v: [v.__name__, v.__self__]),
    (functools.partial, lambda v: [v.func, v.args, v.keywords]),
    (staticmethod | classmethod, lambda v: [v.__func__]),
    (property, lambda v: [v.fget, v.fset, v.fdel, v.__doc__]),
    (BaseException, exception_parts),
    (weakref.ref, lambda v: [v(), v.__callback__]),
    (types.MappingProxyType, lambda v: [dict(v)]),
    (types.GenericAlias | types.UnionType, lambda v: [*v.__args__, repr(v)]),
    (type({}.keys()) | type({}.values()) | type({}.items()), lambda v: [list(v)]),
]


def same(world: World, old: Any, new: Any) -> list[Any]:
    """Asserts that two graphs are the same; the objects of the second that were made anew."""
    comparison = Comparison(world)
    comparison.check(old, new)
    return comparison.made


IMMUTABLE = (tuple, frozenset, slice, types.GenericAlias, types.UnionType, weakref.ref)


def check_rebuilt(result: Any, world: World | None = None) -> Any:
    """Two later calls give the same as the trace, each made of objects of its own."""
    world = world or World()
    made = world.residual(result)
    first, second = world.run(made), world.run(made)
    ours = same(world, result, first), same(world, result, second)
    fresh = [{id(v) for v in o if not issubclass(type(v), IMMUTABLE)} for o in ours]
    assert not fresh[0] & fresh[1], "two calls share an object"
    return first
