"""What a wrapper is besides the tensors it holds: guards on it, and what the program sees of it.

In: a wrapper of the world. Out: native guards on the attributes of which its `__tensor_flatten__`
makes the metadata. What a backend compiles knows a wrapper by its parts and by that metadata; so it
is right for all whose attributes are equal there. A class with its own `__metadata_guard__` is
asked instead, in Python.
"""

import copy
import enum
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import objects
from stator.capture.objects import torch_values
from stator.capture.tensors.parts import own_value, place
from stator.capture.tensors.subclasses import is_torchs
from stator.diagnostics.catalogue import TensorDetail, TensorSubclass
from stator.graph.fakes.wrappers import alike
from stator.guards import (
    Attr,
    AttrKeys,
    Callback,
    Equal,
    Fixed,
    Index,
    Is,
    Key,
    Keys,
    Length,
    NoAttr,
    Source,
    TypeIs,
)
from stator.objects.attributes import is_data_descriptor
from stator.objects.types import qualname_of
from stator.torchlib.tensors import DisableTorchFunction
from stator.world import MISSING
from stator.world.kinds import CONSTANTS, is_torch_value, plain_key

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

_DEEPEST: Final = 8
_BY_VALUE: Final = objects.TypeSet(torch.device, torch.Size)
_ONCE: Final = objects.TypeSet(torch.dtype, torch.layout, torch.memory_format, types.FunctionType)


class Metadata:
    """That of the wrappers of one trace."""

    def __init__(self, tensors: "Tensors") -> None:
        self._tensors = tensors
        self._world = tensors.world
        self._changeable: list[tuple[Any, str]] = []

    def is_told(self, cls: type) -> bool:
        """Whether sizes and strides of its tensors can be read natively: no code answers."""
        return "dispatch_sizes_strides_policy" not in _words(cls)

    def guard(
        self,
        raw: Any,
        fake: Any,
        source: Source,
        parts: Sequence[str],
        named: frozenset[str],
    ) -> list[tuple[Any, str]]:
        """A wrapper of the world is as it is; answers with what of that can change.

        What the code of its class looks at must be alike in its fake: a backend knows the wrapper
        by its parts and metadata, and makes others like it.
        """
        cls, guard = type(raw), self._world.guard
        found: list[tuple[Any, str]] = []
        self._changeable = found
        own = self._world.class_attribute(cls, "__metadata_guard__")
        if own is not None:
            with DisableTorchFunction():
                check = _asks(cls, raw)
            guard(source, Callback(check, f"metadata as {qualname_of(cls)} compares it"))
            return found
        names = _words(cls) if is_torchs(cls) else named
        for name in sorted(names):
            if name in parts:
                continue
            held = own_value(raw, name)
            if not is_torchs(cls) and not alike(held, own_value(fake, name)):
                text = f"{name} of a {qualname_of(cls)}, of which __tensor_flatten__ does not tell"
                raise TensorSubclass(text)
            if held is not MISSING:
                self.guard_value(held, place(raw, source, name), name)
            elif objects.instance_dict(raw) is not None and _may_be_set(cls, name):
                guard(source, NoAttr(name))
        return found

    def guard_value(self, value: Any, source: Source, name: str, depth: int = 0) -> None:
        guard, kind = self._world.guard, type(value)
        if CONSTANTS.holds(kind) or _BY_VALUE.holds(kind):
            guard(source, Equal(value))
        elif _is_one(value):
            guard(source, Is(value))
        elif is_torch_value(kind):
            torch_values.guard_metadata(self._world, value, source)
        elif depth > _DEEPEST:
            raise TensorSubclass(f"{name} of a tensor, which holds itself or a lot")
        elif kind is tuple or kind is list:
            if kind is list:
                self._changeable.append((value, name))
            guard(source, TypeIs(kind))
            guard(source, Length(len(value)))
            for index, item in enumerate(value):
                self.guard_value(item, Index(source, index), name, depth + 1)
        elif kind is dict and all(plain_key(key) for key in value):
            self._changeable.append((value, name))
            guard(source, TypeIs(dict))
            guard(source, Keys(tuple(value)))
            for key, item in value.items():
                self.guard_value(item, Key(source, key), name, depth + 1)
        elif objects.layout_base(kind) is object and objects.instance_dict(value) is not None:
            held: Any = objects.instance_dict(value)
            if _has_slots(kind):
                raise TensorSubclass(f"{name} of a tensor, an object with __slots__")
            self._changeable.append((value, name))
            guard(source, TypeIs(kind))
            guard(source, AttrKeys(tuple(held)))
            for key, item in held.items():
                self.guard_value(item, Attr(source, key), name, depth + 1)
        else:
            raise TensorSubclass(f"{name} of a tensor, an object of type {qualname_of(kind)}")

    def value(self, value: Any, name: str) -> Any:
        """An attribute of a wrapper that was made in the call: what does not change."""
        kind = type(value)
        if _BY_VALUE.holds(kind) or _is_one(value):
            return value
        if is_torch_value(kind):
            return self._world.wrap(value, Fixed(value, name))
        if kind is tuple:
            return tuple(
                item if CONSTANTS.holds(type(item)) else self.value(item, name) for item in value
            )
        raise TensorDetail(
            f"{name} of a tensor made in the call, an object of type {kind.__name__}"
        )


def _is_one(value: Any) -> bool:
    """Something that is compared by what it is, and does not change."""
    kind = type(value)
    if _ONCE.holds(kind) or objects.is_subtype(kind, enum.Enum):
        return True
    return objects.is_subtype(kind, type) or objects.is_subtype(kind, types.ModuleType)


def _may_be_set(cls: type, name: str) -> bool:
    """Whether an instance may have an attribute of that name that it does not have now."""
    found = objects.lookup(cls, name)
    return found is None or not (is_torchs(found.owner) or is_data_descriptor(found.value))


def _has_slots(cls: type) -> bool:
    return any("__slots__" in objects.type_dict(owner) for owner in objects.mro(cls)[:-1])


def _words(cls: type) -> frozenset[str]:
    """The names and strings in the code by which a class says what its tensors are."""
    found: set[str] = set()
    for entry in ("__tensor_flatten__", "__new__"):
        attribute = objects.lookup(cls, entry)
        function = None if attribute is None else attribute.value
        if type(function) is staticmethod:
            function = function.__func__
        if type(function) is types.FunctionType:
            code = function.__code__
            words = {each for each in code.co_consts if type(each) is str}
            for each in code.co_consts:
                if type(each) is tuple:
                    words |= {item for item in each if type(item) is str}
            found |= words | ({*code.co_names} if entry == "__tensor_flatten__" else set())
    return frozenset(found)


def _asks(cls: Any, raw: Any) -> Callable[[Any], bool]:
    expected = copy.deepcopy(raw.__tensor_flatten__()[1])

    def check(value: Any) -> bool:
        with DisableTorchFunction():
            found = value.__tensor_flatten__()[1]
        return bool(cls.__metadata_guard__(expected, found))

    return check
