"""Random object graphs, guards that hold for them, and ways to change them.

A world is what a call sees: locals, and a function with globals, a closure and defaults. All
randomness comes from one generator, so that a seed is enough to replay an example.
"""

import contextlib
import math
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from stator import guards as G  # noqa: N812
from stator.guards.layout import class_attributes

CONSTANTS: Final = (
    0, 1, True, False, 1.0, 0.0, -0.0, math.nan, -1, 2**70, "a", "b", "", b"a", None, ..., 1j,
    complex(0.0, -0.0), (1, 2), (1, True), (1.0, -0.0), frozenset({1, 2}), frozenset({True, 2}),
    range(3), slice(1), slice(None, 1, -0.0),
)  # fmt: skip
NAMES: Final = ("a", "b", "c", "d")
KEYS: Final = ("a", "b", 1, True, 2.5, None, (1, 2))


class Plain:
    shared: Any = 1

    def method(self) -> None: ...


class Derived(Plain):
    pass


class Slotted:
    __slots__ = ("a", "b")


class SlottedWithDict(Slotted):
    pass


class MyDict(dict[Any, Any]):
    pass


class MyList(list[Any]):
    pass


class MyTuple(tuple[Any, ...]):
    pass


class World:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.objects: list[Any] = []
        self.classes = self.make_classes()
        for _ in range(random.randint(3, 12)):
            self.objects.append(self.make())
        self.locals = tuple(self.pick() for _ in range(2))
        self.function = self.make_function()
        self.roots = [G.Local(0), G.Local(1), G.FUNCTION]
        self.guarded: list[Any] = []

    def make_classes(self) -> list[type]:
        """Fresh classes, so that examples don't share state."""
        plain = type("Plain", (Plain,), {"shared": 1, "other": "x"})
        derived = type("Derived", (plain,), {})
        other = type("Other", (Plain,), {"shared": 2})
        slotted = type("SlottedWithDict", (Slotted,), {})
        return [plain, derived, other, slotted]

    # -- objects --

    def pick(self) -> Any:
        """An object made before, or a constant."""
        if self.objects and self.random.random() < 0.7:
            return self.random.choice(self.objects)
        return self.random.choice(CONSTANTS)

    def make(self) -> Any:
        r = self.random
        match r.choice([0, 0, 0, 0, 0, 0, 4, 4, 6, 7, 8, 9, 10, 11, 12, 13]):
            case 0:
                obj = r.choice(self.classes)()
                for name in r.sample(NAMES, r.randint(0, 4)):
                    setattr(obj, name, self.pick())
                return obj
            case 4:
                return {k: self.pick() for k in r.sample(KEYS, r.randint(0, 4))}
            case 6:
                return MyDict({k: self.pick() for k in r.sample(KEYS, r.randint(0, 3))})
            case 7:
                return OrderedDict((k, self.pick()) for k in r.sample(KEYS, r.randint(0, 3)))
            case 8:
                return [self.pick() for _ in range(r.randint(0, 3))]
            case 9:
                return r.choice([tuple, MyTuple])(self.pick() for _ in range(r.randint(0, 3)))
            case 10:
                return r.choice([set, frozenset])(r.sample(KEYS, r.randint(0, 3)))
            case 11:
                module = types.ModuleType("module")
                module.a = self.pick()  # type: ignore[attr-defined]
                return module
            case 13:
                return deque(self.pick() for _ in range(r.randint(0, 3)))
            case _:
                targets = [o for o in self.objects if type(o) in self.classes]
                return weakref.ref(r.choice(targets)) if targets else MyList([self.pick()])

    def make_function(self) -> types.FunctionType:
        x = self.pick()

        def function(p: Any = None, *, q: Any = None) -> Any:
            return x

        namespace = {"g": self.pick(), "h": self.pick(), "__builtins__": {"len": len}}
        made = types.FunctionType(
            function.__code__, namespace, "f", (self.pick(),), function.__closure__
        )
        made.__kwdefaults__ = {"q": self.pick()}
        return made

    # -- paths and guards --

    def steps(self, source: G.Source, value: Any) -> Iterator[tuple[G.Source, Any]]:
        """The sources one step further, with their values."""
        kind = type(value)
        if kind in self.classes or kind is types.ModuleType:
            for name, found in list(vars(value).items()):
                step = G.ModuleAttr if kind is types.ModuleType else G.Attr
                yield step(source, name), found
            yield G.TypeOf(source), kind
        if Slotted in kind.__mro__:
            for name in Slotted.__slots__:
                if hasattr(value, name):
                    yield G.Slot(source, Slotted.__dict__[name]), getattr(value, name)
        if isinstance(value, dict):
            for i, (key, found) in enumerate(list(dict.items(value))):
                yield G.Key(source, key), found
                if not isinstance(value, OrderedDict):
                    yield G.DictKeyAt(source, i), key
        if isinstance(value, (list, tuple, deque)):
            for i, found in enumerate(list(value)):
                yield G.Index(source, i if self.random.random() < 0.8 else i - len(value)), found
        if isinstance(value, type) and value in self.classes:
            for name in ("shared", "method"):
                for found in class_attributes(value, name):
                    yield G.ClassAttr(source, name), found
                    break
        if isinstance(value, weakref.ref):
            yield G.Referent(source), value()
        if value is self.function:  # others belong to real modules
            yield G.sources.GlobalsOf(source), value.__globals__
            yield G.Defaults(source), value.__defaults__
            yield G.KwDefaults(source), value.__kwdefaults__
            yield G.Code(source), value.__code__
            yield G.Closure(source), value.__closure__
        if kind is types.CellType:
            yield G.CellContents(source), value.cell_contents

    def paths(self, limit: int = 40) -> list[tuple[G.Source, Any]]:
        """Random paths that lead somewhere now."""
        found: list[tuple[G.Source, Any]] = [
            (self.roots[0], self.locals[0]),
            (self.roots[1], self.locals[1]),
            (self.roots[2], self.function),
        ]
        frontier = list(found)
        while frontier and len(found) < limit:
            source, value = frontier.pop(self.random.randrange(len(frontier)))
            for step in self.steps(source, value):
                if self.random.random() < 0.7:
                    found.append(step)
                    frontier.append(step)
        return found

    def checks(self, value: Any) -> Iterator[G.Check]:
        """Checks that hold for a value now."""
        kind = type(value)
        yield G.TypeIs(kind)
        yield G.Is(value)
        yield G.IsNot(object())
        yield G.SubclassOf(self.random.choice(kind.__mro__))
        if any(value is c for c in CONSTANTS):
            yield G.Equal(value)
        if isinstance(value, (list, tuple, dict, set, frozenset, str, bytes, deque)):
            yield G.Length(len(value))
        if isinstance(value, dict):
            yield G.Keys(tuple(value))
        if isinstance(value, (set, frozenset)):
            yield G.Keys(tuple(value))
        if isinstance(value, (dict, set, frozenset)):
            key = self.random.choice(KEYS)
            yield G.HasKey(key) if key in value else G.NoKey(key)
        if isinstance(value, type):
            yield G.NoClassAttr("nothing")
            if value in self.classes and not hasattr(value, "d"):
                yield G.NoClassAttr("d")
        elif kind in self.classes:
            yield from (G.NoAttr(name) for name in NAMES if name not in vars(value))
            yield G.AttrKeys(tuple(vars(value)))
            yield G.IsWeak(value)
            if Slotted in kind.__mro__:
                for name in Slotted.__slots__:
                    if not hasattr(value, name):
                        yield G.SlotEmpty(Slotted.__dict__[name])

    def guards(self) -> list[G.Guard]:
        r = self.random
        paths = self.paths()
        found = [
            G.Guard(source, check)
            for source, value in paths
            for check in self.checks(value)
            if r.random() < 0.35
        ]
        for _ in range(3):
            (a, x), (b, y) = r.choice(paths), r.choice(paths)
            found.append(G.Guard(a, G.Aliased((b,)) if x is y else G.NotAliased((b,))))
        ints: list[G.Expr] = [
            G.Int(source) for source, value in paths if type(value) is int and abs(value) < 9
        ]
        ints += [G.LenOf(source) for source, value in paths if isinstance(value, (list, dict))]
        for expr in r.sample(ints, min(2, len(ints))):
            found.append(G.Guard(None, G.Holds(expr * 3 + 1 > expr - 20)))
        r.shuffle(found)
        self.guarded = [value for _, value in paths if can_change(value)]
        return found

    # -- changes --

    def target(self) -> Any:
        """Something that can be changed; preferably something the guards read."""
        if self.guarded and self.random.random() < 0.8:
            return self.random.choice(self.guarded)
        return self.random.choice([*self.objects, *self.classes, self.function])

    def change(self) -> Callable[[], None]:
        """Change something; returns what undoes it (or does nothing, where it can't be undone)."""
        target = self.target()
        kind = type(target)
        if target in self.classes if kind is type else False:
            return self.change_class(target)
        if kind in self.classes or kind is types.ModuleType:
            return self.change_instance(target)
        if isinstance(target, dict):
            return self.change_dict(target)
        if isinstance(target, (list, deque)):
            return self.change_list(target)
        if isinstance(target, set):
            target.symmetric_difference_update({self.random.choice(KEYS)})
        if target is self.function:
            return self.change_function(target)
        return lambda: None

    def change_class(self, cls: Any) -> Callable[[], None]:
        name = self.random.choice(["shared", "method", "d", "unrelated"])
        had = name in cls.__dict__
        old = cls.__dict__.get(name)
        setattr(cls, name, self.pick())

        def undo() -> None:
            if had:
                setattr(cls, name, old)
            else:
                delattr(cls, name)

        return undo

    def change_instance(self, target: Any) -> Callable[[], None]:
        r = self.random
        name = r.choice(NAMES)
        kind = type(target)
        before = dict(vars(target))

        def undo() -> None:
            vars(target).clear()
            vars(target).update(before)

        match r.randrange(9):
            case 0 | 1 | 2:
                setattr(target, name, self.pick())
            case 3:
                store(target, self.pick())
            case 4:
                with contextlib.suppress(AttributeError):
                    delattr(target, name)
            case 5 if kind is not types.ModuleType:
                old = vars(target)
                target.__dict__ = dict(old) if r.random() < 0.5 else {name: self.pick()}
                return lambda: setattr(target, "__dict__", old)
            case 6 if kind is not types.ModuleType:
                others = (
                    [c for c in self.classes if Slotted in c.__mro__]
                    if (Slotted in kind.__mro__)
                    else [c for c in self.classes if Slotted not in c.__mro__]
                )
                target.__class__ = r.choice(others)
                return lambda: setattr(target, "__class__", kind)
            case 7 if kind is not types.ModuleType:
                del target.__dict__
            case _:
                vars(target)[name] = vars(target).get(name)
        return undo

    def change_dict(self, target: dict[Any, Any]) -> Callable[[], None]:
        r = self.random
        key = r.choice(KEYS)
        before = dict(target)

        def undo() -> None:
            target.clear()
            target.update(before)

        match r.randrange(7):
            case 0 | 1:
                target[key] = self.pick()
            case 2:
                target.pop(key, None)
            case 3 if target:
                first = next(iter(target))
                target[first] = target.pop(first)
            case 4 if isinstance(target, OrderedDict) and target:
                target.move_to_end(next(iter(target)))
            case 5:
                target.clear()
            case _:
                target.update({key: self.pick()})
        return undo

    def change_list(self, target: list[Any] | deque[Any]) -> Callable[[], None]:
        before = list(target)

        def undo() -> None:
            target.clear()
            target.extend(before)

        match self.random.randrange(4):
            case 0:
                target.append(self.pick())
            case 1 if target:
                target.pop()
            case 2 if target:
                target[self.random.randrange(len(target))] = self.pick()
            case _:
                target.reverse()
        return undo

    def change_function(self, target: Any) -> Callable[[], None]:
        match self.random.randrange(5):
            case 0:
                old = target.__defaults__
                target.__defaults__ = (self.pick(),)
                return lambda: setattr(target, "__defaults__", old)
            case 1:
                was = target.__kwdefaults__.get("q")
                target.__kwdefaults__["q"] = self.pick()
                return lambda: target.__kwdefaults__.__setitem__("q", was)
            case 2:
                cell = target.__closure__[0]
                held = cell.cell_contents  # never empty: see make_function
                cell.cell_contents = self.pick()
                return lambda: setattr(cell, "cell_contents", held)
            case 3:
                code = target.__code__
                target.__code__ = code.replace(co_name="other")
                return lambda: setattr(target, "__code__", code)
            case _:
                return (
                    self.change_dict(target.__globals__)
                    if self.random.random() < 0.5
                    else (self.change_global(target))
                )

    def change_global(self, target: Any) -> Callable[[], None]:
        old = target.__globals__.get("g")
        target.__globals__["g"] = self.pick()
        return lambda: target.__globals__.__setitem__("g", old)


def can_change(value: Any) -> bool:
    return not any(value is c for c in CONSTANTS) and type(value) is not types.CodeType


def store(target: Any, value: Any) -> None:
    """One store instruction for all objects: CPython specialises it."""
    target.a = value


for _ in range(100):
    store(Plain(), 1)
