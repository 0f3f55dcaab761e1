"""Hooks of modules that are removed and registered again.

Stage: capture. A module keeps its hooks in dicts, by numbers that are given out once in the life of
the process. Where these have changed between calls (`Wanted.hooks`), the trace does without them:
torch's own code gets an opaque object for each number, which it can only look for in the dicts
beside. In: that code asks for the hooks of a module. Out: the hooks, guarded by identity, or as
functions with the same code, globals and cells, in order, with what the dicts beside say of each.
Whatever else a program does with those dicts, it sees the numbers, which are guarded then.
"""

import operator
from collections import OrderedDict
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

import torch.nn.modules.module as torch_module

from stator import objects
from stator._native._core import Frame
from stator.capture.calls import marks
from stator.capture.trace.refusals import unseen
from stator.guards import Attr, Callback, Fixed
from stator.world import MISSING, Record
from stator.world.records import pairs

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls
    from stator.capture.trace.tracer import Tracer

HOOKS: Final = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
BESIDE: Final = (
    "_forward_pre_hooks_with_kwargs",
    "_forward_hooks_with_kwargs",
    "_forward_hooks_always_called",
)
SAME_HOOKS: Final = "the same hooks"
"""What a guard says that does without the numbers."""
_CALLERS: Final = frozenset({"_call_impl", "inner"})


class Number:
    """Stands for the number of a hook."""

    __slots__ = ("namespace", "raw")

    def __init__(self, raw: int, namespace: dict[str, Any]) -> None:
        self.raw = raw
        self.namespace = namespace  # the attributes of the module


class Hooks:
    """Those of one trace whose numbers are left open, by the texts of their dicts' sources."""

    def __init__(self, tracer: "Tracer", wanted: frozenset[str]) -> None:
        self._tracer = tracer
        self._wanted = wanted
        self._guarded: set[int] = set()

    def items(self, frame: Frame, shadow: Any) -> Any:
        """The numbers and hooks in one of a module's dicts; MISSING: nothing is left open."""
        world, code = self._tracer.world, frame.code
        if code.co_name not in _CALLERS or code.co_filename != torch_module.__file__:
            return MISSING
        record = world.records.get(id(shadow))
        if record is None or record.filled or record.touched or record.items or record.writes:
            return MISSING
        source = record.source
        if type(source) is not Attr or str(source) not in self._wanted:
            return MISSING
        base = source.base
        assert base is not None, "attributes are those of something"
        namespace = _namespace_of(world.records, record)
        if namespace is None:
            return MISSING
        if id(namespace) not in self._guarded:
            self._guarded.add(id(namespace))
            world.guard(base, Callback(_same(_described(namespace)), SAME_HOOKS))
        return [
            (self._number(key, namespace), world.wrap(hook, Fixed(hook)))
            for key, hook in pairs(record.raw, OrderedDict)
        ]

    def _number(self, raw: int, namespace: dict[str, Any]) -> Number:
        made = Number(raw, namespace)
        self._tracer.world.opaque[id(made)] = "int (the number of a hook)"
        self._tracer.world.keep(made, namespace)
        return made

    def contains(self, container: Any, number: Number) -> bool:
        """Whether one of the dicts beside has a number."""
        world = self._tracer.world
        record = world.records.get(id(container))
        if record is not None and not record.touched and not record.writes:
            if any(number.namespace.get(name) is record.raw for name in BESIDE):
                return OrderedDict.__contains__(record.raw, number.raw)
            if not record.filled and not dict.__len__(record.raw):
                world.length(record)
                return False
        raise unseen(world, number, "{} is looked for")


def _namespace_of(records: dict[int, Record], record: Record) -> dict[str, Any] | None:
    """The attributes of the module that a dict of hooks belongs to."""
    for each in records.values():
        if each.owner is None and each.source is record.source.base:
            own = each.raw_dict
            if own is not None and own.get(record.source.name) is record.raw:  # type: ignore[attr-defined]
                return own
    return None


def _described(namespace: dict[str, Any]) -> list[tuple[Any, ...]] | None:
    """The hooks of a module, each with what the dicts beside say about it."""
    beside = [namespace.get(name) for name in BESIDE]
    if any(type(each) is not OrderedDict for each in beside):
        return None
    found: list[tuple[Any, ...]] = []
    for name in HOOKS:
        held = namespace.get(name)
        if type(held) is not OrderedDict:
            return None
        for key, hook in held.items():
            if type(key) is not int:
                return None
            found.append((name, hook, *(key in each for each in beside)))  # type: ignore[operator]
    return found


def _same(expected: list[tuple[Any, ...]] | None) -> Any:
    def same(module: Any) -> bool:
        namespace = objects.instance_dict(module)
        found = None if namespace is None else _described(namespace)
        if expected is None or found is None or len(found) != len(expected):
            return False
        return all(
            a[0] == b[0] and a[2:] == b[2:] and (a[1] is b[1] or _alike(a[1], b[1]))
            for a, b in zip(found, expected, strict=True)
        )

    return same


def _alike(a: Any, b: Any) -> bool:
    """Whether two functions are the same but for being two: a hook that is made for each call."""
    if type(a) is not FunctionType or type(b) is not FunctionType:
        return False
    if a.__code__ is not b.__code__ or a.__globals__ is not b.__globals__:
        return False
    if any(
        (each.__defaults__, each.__kwdefaults__, each.__dict__, marks.of(each)) != _PLAIN
        for each in (a, b)
    ):
        return False
    mine, other = a.__closure__ or (), b.__closure__ or ()
    return len(mine) == len(other) and all(map(operator.is_, mine, other))


_PLAIN: Final[Any] = (None, None, {}, None)


def _items(calls: "Calls", frame: Frame, callable: Any, args: list[Any], kwargs: Any) -> Any:
    if calls.tracer.hooks is None or len(args) != 1 or kwargs:
        return MISSING
    return calls.tracer.hooks.items(frame, args[0])


def _dict(calls: "Calls", frame: Frame, callable: Any, args: list[Any], kwargs: Any) -> Any:
    """`dict(d)`, which only copies: it does not look at the values."""
    if len(args) != 1 or kwargs or type(args[0]) is not dict:
        return MISSING
    return calls.native(frame, dict.copy, args, None)


HANDLERS: Final[dict[int, Any]] = {id(OrderedDict.items): _items, id(dict): _dict}
