"""Code that eager runs later than the trace does: the backward of a `torch.autograd.Function`.

Stage: capture, for `autograd`. In: the evaluation of such code. Out: nothing, or a `Break` where it
reads what may be different by then: guards hold when the call begins, and nobody asks them when a
gradient is computed.

What it may read is what the program has given it (`ctx`, tensors), definitions (functions, classes,
modules, whose names stand for what they are), and constants of torch and of Python's own modules.
The places of its variables can't be followed once it is compiled, so whatever can be assigned to is
refused: globals and cells that hold values, attributes of classes, objects of the world.
"""

import enum
import sys
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import objects
from stator._native._core import NULL, CompiledFunction, Frame
from stator.capture.calls.scripts import SCRIPT
from stator.diagnostics.catalogue import RegionContents
from stator.graph.leaves import leaf_tables, leaves
from stator.objects.types import module_of
from stator.torchlib.operators import OpOverload, OpOverloadPacket
from stator.world.kinds import CONSTANTS, IDENTITIES

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

_TEMPLATES: Final = objects.TypeSet(OpOverload, OpOverloadPacket, CompiledFunction, SCRIPT)
_CONTAINERS: Final = objects.TypeSet(list, tuple, torch.Size, dict)
_OF_AUTOGRAD: Final = frozenset({"grad", "grad_fn", "is_leaf", "requires_grad", "_version"})
_LAYOUT: Final = frozenset({"is_conj", "is_contiguous", "is_neg", "stride"})
_OURS: Final = ("torch", "stator")


class Later:
    """While it is open (`with`), the tracer evaluates code that eager runs later.

    `shared` are the objects that others have, too: they may change them. The tracer's operations
    are replaced for the time being, so that nothing is asked anywhere else.
    """

    def __init__(self, calls: "Calls", name: str, context: Any, shared: list[Any]) -> None:
        self._calls = calls
        self._name = name
        self._context = context
        self._shared = {id(value): value for value in _parts(shared) if _can_change(value)}
        self.asks_layout = False
        """Whether it has asked how a tensor lies in memory."""

    def __enter__(self) -> "Later":
        self._calls.later += 1
        tracer, tensors = self._calls.tracer, self._calls.tensors
        read = {
            "load_global": self._load_global,
            "load_cell": self._load_cell,
            "lookup_name": self._lookup_name,
            "getattr": self._getattr,
            "getitem": self._getitem,
        }
        self._replaced = (tracer.__dict__, read), (tensors.__dict__, {"answer": self._answer})
        self._before = [
            ({name: place.get(name) for name in new}, place) for place, new in self._replaced
        ]
        for place, new in self._replaced:
            place.update(new)
        return self

    def __exit__(self, *_: Any) -> None:
        self._calls.later -= 1
        for before, place in self._before:
            for name, value in before.items():
                if value is None:
                    place.pop(name, None)
                else:
                    place[name] = value

    # ------------------------------------------------------------------ what is read

    def _load_global(self, frame: Frame, name: str) -> Any:
        tracer = self._calls.tracer
        value = type(tracer).load_global(tracer, frame, name)
        return self._named(frame, name, value)

    def _lookup_name(self, frame: Frame, mapping: Any, name: str) -> Any:
        tracer = self._calls.tracer
        value = type(tracer).lookup_name(tracer, frame, mapping, name)
        return value if value is NULL else self._named(frame, name, value)

    def _load_cell(self, frame: Frame, cell: types.CellType) -> Any:
        tracer = self._calls.tracer
        value = type(tracer).load_cell(tracer, frame, cell)
        if value is NULL or id(cell) not in self._calls.world.origins:
            return value  # a variable of a function that runs
        return self._named(frame, "a variable of an enclosing function", value)

    def _named(self, frame: Frame, name: str, value: Any) -> Any:
        if not _is_definition(value) and not _is_ours(frame):
            self._refuse(f"reads {name}")
        return value

    def _getattr(self, frame: Frame, obj: Any, name: str) -> Any:
        tracer, cls = self._calls.tracer, type(obj)
        world = self._calls.world
        if id(obj) in self._shared or id(obj) in world.opaque or self._is_variable(obj):
            self._refuse(f"reads {name} of an object of class {cls.__qualname__}")
        if name in _OF_AUTOGRAD and self._calls.tensors.holds(cls):
            self._refuse(f"asks for {name} of a tensor")
        value = type(tracer).getattr(tracer, frame, obj, name)
        if objects.is_subtype(cls, type) or cls is types.FunctionType:
            of_torch = _is_within(module_of(obj) if objects.is_subtype(cls, type) else None)
            if not _is_definition(value) and not of_torch and self._calls.world.is_world(obj):
                self._refuse(f"reads {name} of a class or function")
        elif objects.is_subtype(cls, types.ModuleType):
            if not _is_definition(value) and not _is_settled(obj, value):
                self._refuse(f"reads {name} of a module")
        elif obj is self._context:
            for part in _parts([value]):
                if id(part) in self._shared or self._is_variable(part):
                    self._refuse(f"uses ctx.{name}, which others may change")
        return value

    def _getitem(self, frame: Frame, obj: Any, key: Any) -> Any:
        tracer = self._calls.tracer
        if id(obj) in self._shared or self._is_variable(obj):
            self._refuse(f"reads an item of an object of class {type(obj).__qualname__}")
        return type(tracer).getitem(tracer, frame, obj, key)

    def _is_variable(self, value: Any) -> bool:
        """Whether it is an object from before the call that can be changed."""
        record = self._calls.world.records.get(id(value))
        return record is not None and _can_change(value)

    def _answer(self, frame: Frame | None, function: Any, args: list[Any], kwargs: Any) -> Any:
        tensors = self._calls.tensors
        name = str(getattr(function, "__name__", ""))
        self.asks_layout |= name in _LAYOUT
        told = any(part in name for part in leaf_tables.CHANGEABLE)
        told = told and not leaves.is_fixed(function)
        asks = not args and not kwargs and leaves.tensor_method(function) is None
        ours = frame is not None and _is_ours(frame)
        if not ours and (told or (asks and leaves.is_setting(function))):
            self._refuse(f"asks torch for {name}")
        return type(tensors).answer(tensors, frame, function, args, kwargs)

    def _refuse(self, what: str) -> None:
        raise RegionContents(f"{self._name} {what}, when the gradient is computed")


def _is_definition(value: Any) -> bool:
    """Whether a name stands for it as for a constant: code, in one form or another."""
    cls = type(value)
    if cls is types.MethodType:
        return objects.is_subtype(type(value.__self__), type)
    return (
        IDENTITIES.holds(cls)
        or objects.is_subtype(cls, type)
        or objects.is_subtype(cls, types.ModuleType)
        or objects.is_subtype(cls, enum.Enum)
        or _TEMPLATES.holds(cls)
    )


def _is_ours(frame: Frame) -> bool:
    return _is_within(dict.get(frame.globals, "__name__"))


def _is_within(name: Any) -> bool:
    """Whether a module is torch's or ours: its variables are no part of the program."""
    return type(name) is str and name.partition(".")[0] in _OURS


def _is_settled(module: types.ModuleType, value: Any) -> bool:
    """Constants of torch and of Python's own modules: `torch.float32`, `math.pi`."""
    name = dict.get(_NAMES(module), "__name__")
    known = type(name) is str and name.partition(".")[0] in _STANDARD
    constant = CONSTANTS.holds(type(value)) or type(value) in _TORCH_CONSTANTS
    return known and type(value) is not bool and constant


_NAMES: Final[Any] = objects.type_dict(types.ModuleType)["__dict__"].__get__
_STANDARD: Final = sys.stdlib_module_names | {"torch"}
_TORCH_CONSTANTS: Final = (torch.dtype, torch.layout, torch.memory_format)
_NUMBERS: Final = (torch.SymInt, torch.SymFloat, torch.SymBool)
_TORCH_VALUES: Final = (*_TORCH_CONSTANTS, *_NUMBERS, torch.device, torch.Tensor)


def _can_change(value: Any) -> bool:
    """Whether others that have the object can make it another one, besides values of tensors."""
    cls = type(value)
    return not (
        CONSTANTS.holds(cls)
        or objects.is_subtype(cls, tuple)
        or any(objects.is_subtype(cls, kind) for kind in _TORCH_VALUES)
        or _is_definition(value)
    )


def _parts(values: list[Any]) -> Iterator[Any]:
    """What values consist of, themselves included, as far as plain containers go."""
    waiting, seen = list(values), set()
    while waiting:
        value = waiting.pop()
        yield value
        if id(value) in seen or not _CONTAINERS.holds(type(value)):
            continue
        seen.add(id(value))
        waiting += dict.values(value) if type(value) is dict else iter(value)
