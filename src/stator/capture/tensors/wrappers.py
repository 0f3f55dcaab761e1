"""Wrappers in a trace: tensors of classes with `__torch_dispatch__` that hold other tensors.

In: tensors of the world whose class has `__tensor_flatten__`, the program's own `S(x, …)`, and what
operators make. Out: fakes of the class itself, around fakes; nodes of the graph as for any tensor;
guards on what a tensor of the class is made of. docs/subclasses.md has the rules.
"""

from typing import TYPE_CHECKING, Any, Final

import torch

from stator import objects
from stator._native._core import Frame, is_python_class
from stator.capture.numbers.shapes import opened
from stator.capture.objects.c_fields import guard_mro
from stator.capture.tensors.constructions import construction
from stator.capture.tensors.parts import own_value, place
from stator.capture.tensors.subclasses import HARMLESS, NO_DISPATCH, is_torchs
from stator.capture.tensors.wrapper_code import WrapperCode
from stator.capture.tensors.wrapper_guards import Metadata
from stator.capture.tensors.wrapper_results import Made
from stator.contracts import Depth
from stator.diagnostics.breaks import Break
from stator.diagnostics.catalogue import RegionContents, SharedMemory, TensorDetail, TensorSubclass
from stator.graph.fakes.reached import Reached
from stator.graph.fakes.wrappers import flattened, is_wrapper, is_wrapper_class, parts_of
from stator.guards import Attr, Fixed, Source
from stator.guards.tensors import tensor_match
from stator.objects import TypeSet
from stator.objects.types import module_of
from stator.torchlib.tensors import DisableTorchFunction
from stator.world import MISSING
from stator.world.fields import same_names
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

_PLAIN: Final = TypeSet(torch.Tensor, torch.nn.Parameter)
_DISTRIBUTED: Final = "torch.distributed.tensor._api"
_SPREADS: Final = "a tensor is distributed, for which processes talk to each other at once"
_JAGGED: Final = "torch.nested._internal.nested_tensor"
# Which are a node, or why they are not.
_MAKERS: Final = {
    "DTensor.from_local": "",
    "DTensor.full_tensor": "",
    "DTensor.redistribute": "",
    "DTensor.to_local": "",
    "distribute_tensor": _SPREADS,
}
_HARMLESS: Final = HARMLESS | {
    "__coerce_same_metadata_as_tangent__",
    "__coerce_tangent_metadata__",
    "__force_to_same_metadata__",
    "__metadata_guard__",
    "__obj_flatten__",
    "__tensor_flatten__",
    "__tensor_unflatten__",
    "__torch_dispatch__",
}


class Types:
    """Types, as a `TypeSet`; more may come to it."""

    def __init__(self, *types: type) -> None:
        self._types = types
        self.holds = TypeSet(*types).holds

    def add(self, cls: type) -> None:
        self._types = (*self._types, cls)
        self.holds = TypeSet(*self._types).holds


class Wrappers:
    """The wrappers of one trace."""

    def __init__(self, tensors: "Tensors") -> None:
        self._tensors = tensors
        self._world = tensors.world
        self._classes: dict[int, type] = {}
        self._parts: set[int] = set()  # ids of what wrappers of the world hold
        self.copied: set[int] = set()  # ids of objects of which a wrapper has a copy
        self.made = Made()
        self.code = WrapperCode(tensors)
        self._metadata = Metadata(tensors)

    # ------------------------------------------------------------------ classes

    def holds(self, cls: type) -> bool:
        """Whether its tensors are fakes of this trace."""
        return id(cls) in self._classes

    def concerns(self, cls: type) -> bool:
        """Whether its tensors are wrappers."""
        if not is_wrapper_class(cls):
            return False
        dispatch = objects.lookup(cls, "__torch_dispatch__")
        return dispatch is not None and dispatch.value is not NO_DISPATCH

    def is_told(self, cls: type) -> bool:
        """Whether torch itself keeps the sizes and strides of its wrappers."""
        return self.holds(cls) and self._metadata.is_told(cls)

    def is_part(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor of the world, or its fake, is in a wrapper of the world."""
        return id(tensor) in self._parts

    def admit(self, cls: type) -> None:
        """Whether tensors of a class can be in a trace; its code is looked at."""
        if id(cls) in self._classes:
            return
        name, world = cls.__qualname__, self._world
        if not self.concerns(cls):
            raise TensorSubclass(f"a tensor of class {name}, in another tensor")
        if module_of(cls) == _JAGGED:
            raise TensorSubclass("a nested tensor, whose sizes are not known")
        if world.is_made(cls):
            raise TensorSubclass(f"a tensor of class {name}, which is made in the call")
        for owner in objects.mro(cls):
            if is_torchs(owner):
                continue
            if not is_python_class(owner):
                raise TensorSubclass(f"a tensor of class {name}, which is written in C")
            for special in objects.type_dict(owner):
                named = type(special) is str and special.startswith("__")
                if named and special.endswith("__") and special not in _HARMLESS:
                    raise TensorSubclass(f"a tensor of class {name}, which has its own {special}")
        for check in ("__instancecheck__", "__subclasscheck__", "__call__"):
            found = world.class_attribute(type(cls), check)
            if found is not None and found.owner is not type and not is_torchs(found.owner):
                raise TensorSubclass(f"a tensor of class {name}, whose metaclass has {check}")
        guard_mro(world, cls)
        for owner in objects.mro(cls):  # special methods may be added later
            if not is_torchs(owner):
                world.guard(Fixed(owner), same_names(owner))
        world.keep(cls)
        self.code.admit(cls)
        self._classes[id(cls)] = cls
        self._tensors.types.add(cls)
        overrides = self._tensors.overrides
        overrides.active = overrides.asks(cls) or overrides.active

    def note(self, frame: Frame | None, result: Any) -> None:
        """An operator was recorded."""
        if self._classes:
            self.made.note(frame, result)

    def admit_made(self, tensor: torch.Tensor) -> None:
        """An operator has made a wrapper."""
        self.admit(type(tensor))
        for _, part in parts_of(tensor):
            if is_wrapper(part):
                self.admit_made(part)

    # ------------------------------------------------------------------ from the world

    def wrap(self, raw: torch.Tensor, source: Source) -> torch.Tensor:
        """A wrapper of the world becomes a graph input, with all that it holds."""
        tensors = self._tensors
        tensors.grads.asked()
        try:
            self._check_given(raw)
        except Break as signal:
            raise signal.about(source) from None
        with DisableTorchFunction():  # what is asked here, the program does not ask
            fake = tensors.wrap(raw, source)
            self._locate(raw, source, tensors.graph.latest_input().name, ())
            self.code.check()
            self._take_parts(raw, fake, source, tensors.graph.latest_input().name, ())
        return fake

    def _check_given(self, raw: torch.Tensor) -> None:
        self.admit(type(raw))
        if not self._tensors.graph.takes_wrappers:
            raise RegionContents("a tensor with `__torch_dispatch__` is used first in a region")
        with DisableTorchFunction():
            names, _ = flattened(raw)
        for name in names:
            part = own_value(raw, name)
            if part is MISSING and self._follows(raw, name):
                continue
            if part is MISSING:
                text = f"{name} of a {type(raw).__qualname__}, which is no attribute of its own"
                raise TensorSubclass(text)
            kind = type(part)
            if _PLAIN.holds(kind) or not objects.is_subtype(kind, torch.Tensor):
                continue
            self._check_given(part)

    def _follows(self, raw: Any, name: str) -> bool:
        """Whether a class of torch's computes an opaque part from the metadata."""
        return is_torchs(type(raw)) and not isinstance(getattr(raw, name), torch.Tensor)

    def _locate(self, raw: Any, source: Source, given: str, path: tuple[str, ...]) -> None:
        """Where its parts are, which may have open sizes, whatever comes of the trace."""
        for name in flattened(raw)[0]:
            where, part = place(raw, source, name), own_value(raw, name)
            if part is not MISSING and objects.is_subtype(type(part), torch.Tensor):
                self._tensors.shapes.assumed.parts[given, (*path, name)] = where
                if not _PLAIN.holds(type(part)):
                    self._locate(part, where, given, (*path, name))

    def _take_parts(
        self, raw: Any, fake: Any, source: Source, given: str, path: tuple[str, ...]
    ) -> None:
        """What a wrapper holds is known, and where it is."""
        tensors, world = self._tensors, self._world
        names, _ = flattened(raw)
        for value, shown in self._metadata.guard(
            raw, fake, source, names, self.code.named(type(raw))
        ):
            self.code.watch(value, shown)
        for name in names:
            where, part = place(raw, source, name), own_value(raw, name)
            if part is MISSING:
                continue  # it follows from what is guarded
            if not objects.is_subtype(type(part), torch.Tensor):
                self._metadata.guard_value(part, where, name)
                continue
            made = getattr(fake, name)
            known = world.stand_ins.get(id(part), MISSING)
            if known is not MISSING and known is not made:
                raise SharedMemory("a tensor that a wrapper holds is an input as well")
            self._parts |= {id(part), id(made)}
            if known is not MISSING:
                world.wrap(part, where)  # another path to it
                continue
            match = opened(tensor_match(part), made)
            match.wraps = self.is_told(type(part))
            world.guard(where, match)
            tensors.sources[id(part)] = where
            tensors.inputs[id(made)] = part, where
            world.remember(part, made, where)
            if not _PLAIN.holds(type(part)):
                self._take_parts(part, made, where, given, (*path, name))

    # ------------------------------------------------------------------ made by the program

    def makes(self, function: Any) -> bool:
        """Whether a Python function of torch's is one node: it makes wrappers, or opens them."""
        if function.__qualname__ not in _MAKERS:
            return False
        return bool(dict.get(function.__globals__, "__name__") == _DISTRIBUTED)

    def call(self, frame: Frame | None, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Such a function is called."""
        reason = _MAKERS[function.__qualname__]
        if reason:
            raise TensorSubclass(reason)
        return self._make(frame, function, args, kwargs)

    def construct(self, frame: Frame | None, cls: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """`S(…)`: one node, since its `__new__` and `__init__` do nothing else than make it."""
        self.admit(cls)
        return self._make(frame, cls, args, kwargs)

    def _make(self, frame: Frame | None, function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        tensors = self._tensors
        tensors.ready((args, kwargs), Depth.DEEP)
        call = construction(self._world, function, args, kwargs)
        for value, source in call.pinned if call.keeps else ():
            self._metadata.guard_value(value, source, "an argument")
        reached = Reached(value for value, _ in call.pinned)
        self.code.begin(reached.objects)
        try:
            with tensors.overrides.plainly():
                made = tensors.record(frame, call.target, call.given)
        finally:
            if reached.undo():
                raise TensorSubclass("a tensor is made, and what it is made with changes")
            self.code.check()
        for each in call.copied:
            self._world.opaque[id(each)] = f"{type(each).__qualname__} (a tensor has a copy of it)"
            self._world.keep(each)
            self.copied.add(id(each))
        if isinstance(made, torch.Tensor) and made.requires_grad and made.is_leaf:
            raise TensorSubclass("a tensor with `__torch_dispatch__` is made that requires grad")
        return made

    # ------------------------------------------------------------------ attributes

    def attribute(self, obj: torch.Tensor, name: str) -> Any:
        """What is in the instance itself; MISSING if there is no such attribute."""
        tensors = self._tensors
        kept = tensors.own.attribute(obj, name)
        if kept is not MISSING:
            return kept
        if id(obj) in tensors.inputs:
            raw, source = tensors.inputs[id(obj)]
            if place(raw, source, name).__class__ is Attr:
                return tensors.attributes.own_attribute(obj, name)
            value = own_value(raw, name)
            if value is MISSING:
                return MISSING
            return self._world.wrap(value, place(raw, source, name))
        value = own_value(obj, name)
        kind = type(value)
        if value is MISSING or CONSTANTS.holds(kind):
            return value
        if tensors.holds(kind):
            if not tensors.graph.tracks(value):
                raise TensorDetail(f"{name} of a tensor, which it does not say that it holds")
            return value
        return self._metadata.value(value, name)

    def check_alone(self, tensor: torch.Tensor, what: str) -> None:
        """Its state can be changed: it is no wrapper, and in none."""
        if self.holds(type(tensor)) or self.is_part(tensor):
            what = what.strip("_")
            raise TensorSubclass(f"{what} of a tensor with `__torch_dispatch__`, or of a part")

    def check_leaf(self, tensor: torch.Tensor, leaf: bool) -> None:
        """The program asks whether an input is a leaf: the fake of a wrapper always is one."""
        if not leaf and self.holds(type(tensor)):
            raise TensorSubclass("what a tensor with `__torch_dispatch__` was computed from")

    def check_set(self, obj: torch.Tensor, name: str) -> None:
        """Whether the program may set an attribute: not what the class's own code looks at."""
        held = own_value(obj, name) is not MISSING
        if held or name in self.code.named(type(obj)) or is_torchs(type(obj)):
            raise TensorSubclass(f"{name} of a tensor with `__torch_dispatch__` is set")
