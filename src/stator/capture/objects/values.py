"""Getting values ready for C code, which sees what is there and asks nobody.

In: values of the traced program and what a contract says C code will look at. Out: the same values,
their shadows filled (and guarded) as deep as C code reads. What it may not read is a `Break`.
"""

import gc
import itertools
from collections import deque
from collections.abc import Callable
from contextvars import Context
from functools import partial
from types import CellType, MappingProxyType, MethodType, SimpleNamespace
from typing import Any, Final, Protocol

from stator import contracts, objects
from stator._native._core import is_python_class
from stator.capture.calls.operators import COMPARE_NAMES, specials
from stator.capture.objects.c_fields import guard_name
from stator.capture.trace.refusals import unseen
from stator.contracts import Depth
from stator.diagnostics.catalogue import OpaqueObject, UnknownCFunction
from stator.effects.iterators import (
    DEQUE_ITERATORS,
    DICT_ITERATORS,
    OF_ITERTOOLS,
    REDUCED,
    SEQUENCE_ITERATORS,
    SET_ITERATOR,
)
from stator.effects.texts import Text
from stator.objects import TypeSet
from stator.objects.types import module_of, name_of
from stator.torchlib import distributed
from stator.world import World
from stator.world.kinds import BUILTIN_METHOD, CONSTANTS
from stator.world.records import OF_PARTIAL

# Special methods that C code may call on an object it was given.
SPECIALS: Final = specials(
    "eq ne lt le gt ge hash bool len iter next index int float complex str repr format bytes "
    "getitem setitem delitem contains reversed missing length_hint call getattribute getattr "
    "setattr delattr get set delete enter exit add radd iadd sub rsub mul rmul truediv rtruediv "
    "floordiv rfloordiv mod rmod pow rpow and rand or ror xor rxor lshift rshift matmul neg pos "
    "invert abs round trunc floor ceil divmod instancecheck subclasscheck new init class_getitem "
    "init_subclass set_name prepare mro_entries fspath reduce reduce_ex getstate getnewargs "
    "getnewargs_ex"
)
_PLAIN_KEYS: Final = TypeSet(str, int, bool, float, bytes, type, type(None))
_WALKED: Final = TypeSet(list, tuple, set, frozenset, deque)
_VIEWS: Final = TypeSet(type({}.keys()), type({}.values()), type({}.items()))
_ITERATORS: Final = TypeSet(
    *SEQUENCE_ITERATORS,
    *DICT_ITERATORS,
    *DEQUE_ITERATORS,
    *(each for each in REDUCED if "__next__" in objects.type_dict(each)),
    *OF_ITERTOOLS,  # also those that don't tell what they hold: all, since 3.14
    SET_ITERATOR,
    reversed,
)
# They iterate over what their iterators give.
_THROUGH: Final = TypeSet(itertools.chain, itertools.starmap)
_ARGUMENTS: Final[Any] = objects.type_dict(BaseException)["args"]


class Holds(Protocol):
    """A set of types."""

    holds: Callable[[type], bool]


class Values:
    """Prepares arguments of C code."""

    def __init__(
        self, world: World, known: Holds, numpy: TypeSet, lend: Callable[[Any], None]
    ) -> None:
        self.world = world
        self._lend = lend  # C code gets an array whose values are known
        self._known = known  # C types that are handled elsewhere, such as tensors
        self._numpy = numpy  # arrays and scalars whose values are known
        self.renders = False  # C code makes texts: it may look at those that mention tensors

    def ready(
        self, value: Any, depth: Depth, *, attributes: bool = False, calls: bool = False
    ) -> None:
        """C code will read `value` as deep as `depth`; `calls` says that it calls methods of it."""
        if depth is not Depth.NOTHING or attributes:
            self._ready(value, depth, attributes, calls)

    def compared(self, *values: Any) -> None:
        """C code will compare the values, or what they hold: which are the same one decides."""
        pending, seen = list(values), set[int]()
        while pending:
            value = pending.pop()
            cls = type(value)
            if id(value) in seen or self._known.holds(cls) or CONSTANTS.holds(cls):
                continue
            seen.add(id(value))
            if is_python_class(cls) and id(cls) not in seen:
                seen.add(id(cls))  # how its objects compare is a fact of the class
                self.world.protocol(cls, COMPARE_NAMES)
            self.world.compared(value)
            pending += held(value, objects.layout_base(cls))

    def ready_keys(self, mapping: Any) -> None:
        """C code will compare the keys of a dict, and leave its values alone."""
        for key in list(dict.keys(mapping)):
            if not _PLAIN_KEYS.holds(type(key)):
                self.ready(key, Depth.DEEP)

    def _ready(self, value: Any, depth: Depth, attributes: bool, calls: bool) -> None:
        world, pending, seen, classes = self.world, [value], set[int](), set[int]()
        while pending:  # what C code goes through may be deeper than Python's stack
            value = pending.pop()
            cls = type(value)
            if id(value) in seen or self._known.holds(cls):
                continue
            seen.add(id(value))
            record = world.records.get(id(value))
            if record is not None:
                world.fill(record)
                if attributes:
                    world.fill_attributes(record)
            elif id(value) in world.opaque and not (self.renders and cls is Text):
                raise unseen(world, value, "C code reads {}")
            elif cls is CellType and world.is_world(value):
                raise OpaqueObject("C code reads what is in a variable of another function")
            elif self._numpy.holds(cls):
                self._lend(value)
            if self.renders:
                guard_name(world, value, cls)
            if calls and cls is not Text and id(cls) not in classes:
                classes.add(id(cls))
                self.callbacks(cls)
            if _THROUGH.holds(cls):
                depth = Depth.DEEP
            if depth is Depth.DEEP:
                base = objects.layout_base(cls)
                if base is SimpleNamespace and record is not None:
                    world.fill_attributes(record)
                pending += reversed(held(value, base))

    def callbacks(self, cls: type) -> None:
        """C code may call special methods of an object of this class."""
        if is_python_class(cls):
            self.world.protocol(cls, SPECIALS)
        if self._numpy.holds(cls):
            return
        if not contracts.known_type(cls) and not self._known.holds(cls) and not _torch_type(cls):
            raise UnknownCFunction(
                f"C code calls methods of {cls.__qualname__}, a C type that is not known"
            )


def held(value: Any, base: type) -> list[Any]:
    """What C code comes to from an object of this layout when it compares or shows it."""
    if _WALKED.holds(base):
        return list(base.__iter__(value))  # type: ignore[attr-defined]
    if base is object:
        return []
    if is_result_type(base):
        return list(tuple.__iter__(value))
    if objects.is_subtype(base, dict):
        return [each for item in dict.items(value) for each in item]
    if objects.is_subtype(base, BaseException):
        return [_ARGUMENTS.__get__(value)]
    if base is SimpleNamespace:
        return [objects.instance_dict(value)]
    if base is partial:
        return [field.__get__(value) for field in OF_PARTIAL]
    if base is MethodType:
        return [value.__self__]
    if base is Context:
        return [*base.keys(value), *base.values(value)]
    if base is MappingProxyType or _VIEWS.holds(base) or _ITERATORS.holds(base):
        return gc.get_referents(value)
    if base is slice:
        return [value.start, value.stop, value.step]
    return []


def _torch_type(cls: type) -> bool:
    """torch's small value types, and the metaclasses of its classes."""
    module = module_of(cls)
    if cls is BUILTIN_METHOD or is_result_type(cls):
        return True
    if type(cls).__name__ == "pybind11_type" and objects.lookup(cls, "__members__") is not None:
        return True  # an enumeration
    if objects.is_subtype(cls, type):
        return name_of(cls) == "pybind11_type" or str(module).startswith("torch")
    if distributed.AVAILABLE and objects.is_subtype(cls, distributed.c10d.Work):
        return True  # the handle of a collective
    return is_torch_value(cls)


def is_result_type(cls: type) -> bool:
    """Whether it is one of torch's tuples with names, such as `torch.max` returns with a `dim`."""
    return objects.is_subtype(cls, tuple) and module_of(cls) == "torch.return_types"


def is_torch_value(cls: type) -> bool:
    """torch.Size, torch.dtype and the like."""
    return module_of(cls) == "torch" and name_of(cls) in _TORCH_VALUES


_TORCH_VALUES: Final = frozenset(
    {"Size", "dtype", "device", "layout", "memory_format", "finfo", "iinfo"}
)
