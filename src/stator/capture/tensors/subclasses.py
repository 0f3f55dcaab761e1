"""Tensors of subclasses in a trace: plain fakes that know a class.

In: tensors of the world whose class derives from torch.Tensor, and the program's own
`x.as_subclass(S)`, `S(x)`. Out: fakes for which `type(x)` is that class, attributes found in it,
and recipes to make them again. The graph holds plain tensors: at its edges they change class.
"""

import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.fx as fx

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame, is_python_class
from stator.capture.objects.c_fields import guard_mro
from stator.diagnostics.breaks import Break
from stator.diagnostics.catalogue import RegionContents, TensorDetail, TensorSubclass
from stator.effects import CannotRebuild
from stator.effects.model import Constant
from stator.effects.steps import Call, Expr, Helper, Raw
from stator.graph.fakes.wrappers import is_wrapper_class
from stator.graph.leaves import leaves
from stator.graph.recording.arguments import Arguments
from stator.guards import Fixed, Source
from stator.objects.attributes import is_data_descriptor, is_descriptor
from stator.objects.types import Attribute, module_of, of_torch
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.tensors import DisableTorchFunction, TensorBase, disabled_torch_dispatch
from stator.world import MISSING
from stator.world.fields import same_names

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

_AS_SUBCLASS: Final = TensorBase.as_subclass
_LAZY: Final = (torch.nn.parameter.UninitializedParameter, torch.nn.parameter.UninitializedBuffer)
NO_DISPATCH: Final = disabled_torch_dispatch
# What a class may define without changing what operators and C code do with its instances.
HARMLESS: Final = frozenset(
    {
        "__annotate_func__",
        "__annotations__",
        "__annotations_cache__",
        "__class_getitem__",
        "__classcell__",
        "__deepcopy__",
        "__dict__",
        "__doc__",
        "__firstlineno__",
        "__getattr__",
        "__init__",
        "__init_subclass__",
        "__module__",
        "__new__",
        "__orig_bases__",
        "__parameters__",
        "__qualname__",
        "__reduce__",
        "__reduce_ex__",
        "__repr__",
        "__setstate__",
        "__slotnames__",
        "__slots__",
        "__static_attributes__",
        "__str__",
        "__torch_function__",
        "__weakref__",
    }
)


def is_torchs(cls: type) -> bool:
    """A class that torch itself defines, or `object`."""
    return cls is object or of_torch(module_of(cls))


@dataclass(eq=False)
class Made:
    """What `as_subclass` has made, of which tensor, with or without grad."""

    tensor: torch.Tensor
    base: torch.Tensor
    node: fx.Node
    """Of the base, then."""
    grad: bool


class Behind:
    """Stands for `super(cls, tensor)`."""

    def __init__(self, cls: type, tensor: torch.Tensor) -> None:
        self.cls = cls
        self.tensor = tensor


class Subclasses:
    """The tensors of one trace that are of a subclass."""

    def __init__(self, tensors: "Tensors") -> None:
        self._tensors = tensors
        self._world = tensors.world
        self.inputs: dict[int, torch.Tensor] = {}  # plain twins of inputs, by id
        self._admitted: set[int] = set()
        # What was made by `as_subclass`, and of which tensor, by id.
        self._made: dict[int, Made] = {}
        self._bases: set[int] = set()
        self._grad = torch.is_grad_enabled()  # as it is where recipes are carried out

    # ------------------------------------------------------------------ classes

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether it is of a subclass."""
        return type(tensor) is not FakeTensor or leaves.KIND in vars(tensor)

    def _admit(self, cls: type) -> None:
        """Whether tensors of a class can be in a trace."""
        if id(cls) in self._admitted:
            return
        name, world = cls.__qualname__, self._world
        dispatch = world.class_attribute(cls, "__torch_dispatch__")
        if dispatch is not None and dispatch.value is not NO_DISPATCH:
            raise TensorSubclass(f"a tensor of class {name}, which has `__torch_dispatch__`")
        if any(objects.is_subtype(cls, lazy) for lazy in _LAZY):
            raise TensorSubclass(f"a tensor of class {name}, which has no data yet")
        for owner in objects.mro(cls):
            if is_torchs(owner):
                continue
            if not is_python_class(owner):
                raise TensorSubclass(f"a tensor of class {name}, which is written in C")
            for special in objects.type_dict(owner):
                named = type(special) is str and special.startswith("__")
                if named and special.endswith("__") and special not in HARMLESS:
                    raise TensorSubclass(f"a tensor of class {name}, which has its own {special}")
        for check in ("__instancecheck__", "__subclasscheck__"):
            found = world.class_attribute(type(cls), check)
            if found is not None and found.owner is not type and not is_torchs(found.owner):
                raise TensorSubclass(f"a tensor of class {name}, whose metaclass has {check}")
        guard_mro(world, cls)
        for owner in objects.mro(cls):  # special methods may be added later
            if not is_torchs(owner) and not world.is_made(owner):
                world.guard(Fixed(owner), same_names(owner))
        world.keep(cls)
        self._admitted.add(id(cls))

    def _tag(self, fake: torch.Tensor, cls: type) -> torch.Tensor:
        if cls is not torch.Tensor:
            vars(fake)[leaves.KIND] = cls
            overrides = self._tensors.overrides
            overrides.active = overrides.asks(cls) or overrides.active
        return fake

    # ------------------------------------------------------------------ from the world

    def wrap(self, raw: torch.Tensor, source: Source) -> torch.Tensor:
        """A tensor of the world: its plain twin becomes a graph input."""
        self._tensors.grads.asked()
        try:
            self._admit(type(raw))
        except Break as signal:
            raise signal.about(source) from None
        with DisableTorchFunction():
            twin = _twin(raw)
        self.inputs[id(twin)] = twin
        return self._tag(self._tensors.wrap(raw, source, twin), type(raw))

    def check_inputs(self) -> None:
        """The graph gets aliases of inputs: what it does to more than their memory is lost."""
        for given in self._tensors.graph.fakes.inputs:
            if id(given.real) in self.inputs and not (
                given.lies_as_made()
                and given.requires_grad == given.fake.requires_grad
                and given.starts_with_shape is None
                and not given.starts_with_grad
            ):
                raise TensorSubclass("sizes or requires_grad of a tensor of a subclass change")

    # ------------------------------------------------------------------ made by the program

    def as_subclass(self, frame: Frame | None, tensor: torch.Tensor, cls: Any) -> torch.Tensor:
        """`x.as_subclass(S)`: another tensor on the same memory. It has the same node."""
        if not objects.is_subtype(type(cls), type) or not objects.is_subtype(cls, torch.Tensor):
            raise TensorSubclass("as_subclass of something that is no class of tensors")
        if cls is torch.nn.Parameter:
            raise TensorSubclass("a tensor is made a Parameter by as_subclass")
        self._admit(cls)
        graph = self._tensors.graph
        if type(graph.arguments) is not Arguments:
            raise RegionContents("a tensor of a subclass is made inside of a region of the graph")
        grad = torch.is_grad_enabled()
        node = graph.node(tensor)
        made = self._alias(tensor)
        if tensor.requires_grad and not grad:
            # Such an alias is not differentiable, so that the graph needs one of its own.
            target = torch.ops.aten.alias.default if made.requires_grad else ("method", "detach")
            with self._tensors.overrides.plainly():
                other = self._tensors.record(frame, target, (tensor,))
            made = self._alias(other)
            graph.arguments.bind(made, graph.node(other))
        else:
            graph.arguments.bind(made, node)
        self._made[id(made)] = Made(made, tensor, node, grad)
        self._bases.add(id(tensor))
        return self._tag(made, cls)

    def _alias(self, tensor: torch.Tensor) -> torch.Tensor:
        with DisableTorchFunction(), self._tensors.graph.fake_mode:
            made: torch.Tensor = torch.ops.aten.alias.default(tensor)
            return made

    def make_subclass(
        self, frame: Frame | None, cls: Any, data: Any, require_grad: Any = False, *rest: Any
    ) -> torch.Tensor:
        """`torch.Tensor._make_subclass(S, x)`: detached."""
        if rest or require_grad is not False or not self._tensors.holds(type(data)):
            raise TensorSubclass("_make_subclass of a tensor that requires grad, or with options")
        with self._tensors.overrides.plainly():
            plain = self._tensors.record(frame, ("method", "detach"), (data,))
        return self.as_subclass(frame, plain, cls)

    def construct(self, frame: Frame, cls: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """`S(…)`: as `type.__call__`."""
        world, overrides = self._world, self._tensors.overrides
        self._admit(cls)
        call = world.class_attribute(type(cls), "__call__")
        if call is None or is_python_class(call.owner):
            raise TensorSubclass(f"{cls.__qualname__} is called, whose metaclass has `__call__`")
        new = world.class_attribute(cls, "__new__")
        assert new is not None
        if type(new.value) is staticmethod:
            world.know(new.value.__func__)
            made = overrides.run_code(frame, new.value.__func__, cls, *args, **kwargs)
        else:
            made = self.new(frame, cls, args, kwargs)
        holds = self._tensors.holds(type(made))
        if not holds or not objects.is_subtype(leaves.python_type(made), cls):
            return made
        init = world.class_attribute(cls, "__init__")
        if init is not None and type(init.value) is types.FunctionType:
            world.know(init.value)
            overrides.run_code(frame, init.value, made, *args, **kwargs)
        return made

    def new(self, frame: Frame | None, cls: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """`torch.Tensor.__new__(S, …)`."""
        data: Any = args[0] if len(args) == 1 and not kwargs else None
        if not self._tensors.holds(type(data)):
            data = self._tensors.record(frame, torch.Tensor, tuple(args), kwargs)
        elif self.holds(data):
            raise TensorSubclass("a tensor of a subclass is made of another one")
        return self.as_subclass(frame, data, cls)

    # ------------------------------------------------------------------ attributes

    def getattr(self, frame: Frame | None, obj: torch.Tensor, name: str) -> Any:
        """As `slot_tp_getattr_hook`; MISSING: torch's own attributes."""
        hook = self._world.class_attribute(leaves.python_type(obj), "__getattr__")
        if hook is None:
            return self._getattr(frame, obj, name)
        if type(hook.value) is not types.FunctionType:
            raise TensorDetail("__getattr__ of a tensor is no function")
        try:
            value = self._getattr(frame, obj, name)
        except AttributeError as error:
            if not core.is_user_error(error):
                raise
            value = MISSING
        found = self._world.class_attribute(leaves.python_type(obj), name)
        if value is not MISSING or (found is not None and is_torchs(found.owner)):
            return value
        self._world.know(hook.value)
        return self._tensors.overrides.run_code(frame, hook.value, obj, name)

    def _getattr(self, frame: Frame | None, obj: torch.Tensor, name: str) -> Any:
        """As `PyObject_GenericGetAttr`."""
        world, kind = self._world, leaves.python_type(obj)
        found = world.class_attribute(kind, name)
        if found is None:
            return self._own(obj, name)
        if type(found.value) is types.MemberDescriptorType:
            return self._own(obj, name)
        if is_torchs(found.owner) and not is_wrapper_class(found.owner):
            if name == "__class__":
                return kind
            if is_data_descriptor(found.value):
                return self.field(frame, obj, name)
            return self._own(obj, name)
        if is_data_descriptor(found.value):
            return self._property(frame, obj, name, found.value)
        value = self._own(obj, name)
        return self._bound(obj, name, found) if value is MISSING else value

    def _bound(self, obj: torch.Tensor, name: str, found: Attribute) -> Any:
        """What a class of the program has, as an attribute of a tensor."""
        world, kind, value = self._world, leaves.python_type(obj), found.value
        cls = type(value)
        if cls is types.FunctionType:
            world.know(value)
            return types.MethodType(value, obj)
        if cls is classmethod:
            world.know(value.__func__)
            return types.MethodType(value.__func__, kind)
        if cls is staticmethod:
            return world.know(value.__func__)
        if is_descriptor(value):
            raise TensorDetail(f"the attribute {name} of a tensor of class {kind.__qualname__}")
        return world.class_value(found.owner, name, value)

    def behind(self, frame: Frame, given: "Behind", name: str) -> Any:
        """`super().name`: as `super_getattro`."""
        world, obj = self._world, given.tensor
        order = objects.mro(leaves.python_type(obj))
        guard_mro(world, leaves.python_type(obj))
        start = next((i for i, cls in enumerate(order) if cls is given.cls), len(order))
        for owner in order[start + 1 :]:
            world.class_attribute(owner, name)  # guarded, also if it is not there
            if name not in objects.type_dict(owner):
                continue
            value = objects.type_dict(owner)[name]
            if type(value) is types.FunctionType:
                world.know(value)
                return types.MethodType(value, obj)
            if is_torchs(owner):
                if type(value) in (types.MethodDescriptorType, types.WrapperDescriptorType):
                    return value.__get__(obj, leaves.python_type(obj))
                if type(value) is types.GetSetDescriptorType and owner is TensorBase:
                    return self._tensors.attributes.own_field(frame, obj, name)
            if is_data_descriptor(value):
                return self._property(frame, obj, name, value)
            return self._bound(obj, name, Attribute(owner, value))
        raise TensorDetail(f"super().{name} of a tensor, which nobody has")

    def _own(self, obj: torch.Tensor, name: str) -> Any:
        if self._tensors.wrappers.holds(type(obj)):
            return self._tensors.wrappers.attribute(obj, name)
        kept = self._tensors.own.attribute(obj, name)
        return self._tensors.attributes.own_attribute(obj, name) if kept is MISSING else kept

    def field(self, frame: Frame | None, obj: torch.Tensor, name: str) -> Any:
        """An attribute of all tensors: the class may be asked. MISSING if it is not."""
        return self._tensors.overrides.operation(frame, lambda each: getattr(each, name), obj)

    def _property(self, frame: Frame | None, obj: torch.Tensor, name: str, value: Any) -> Any:
        if type(value) is not property or type(value.fget) is not types.FunctionType:
            kind = leaves.python_type(obj).__qualname__
            raise TensorDetail(f"the attribute {name} of a tensor of class {kind} is read")
        self._world.know(value.fget)
        return self._tensors.overrides.run_code(frame, value.fget, obj)

    def setattr(self, frame: Frame | None, obj: torch.Tensor, name: str, value: Any) -> bool:
        """Whether a property of the class, or the class itself, has dealt with it."""
        if self._tensors.wrappers.holds(type(obj)):
            self._tensors.wrappers.check_set(obj, name)
        found = self._world.class_attribute(leaves.python_type(obj), name)
        if found is None:
            return False
        if is_torchs(found.owner):
            set_ = lambda each, what: setattr(each, name, what)  # noqa: E731
            answer = self._tensors.overrides.operation(frame, set_, obj, value)
            if answer is MISSING and is_data_descriptor(found.value):
                raise TensorSubclass(f"{name} of a tensor of a subclass is set")
            return answer is not MISSING
        if type(found.value) is property and type(found.value.fset) is types.FunctionType:
            self._world.know(found.value.fset)
            self._tensors.overrides.run_code(frame, found.value.fset, obj, value)
            return True
        return False

    # ------------------------------------------------------------------ the end

    def is_made(self, tensor: torch.Tensor) -> bool:
        return id(tensor) in self._made

    def is_base(self, tensor: torch.Tensor) -> bool:
        """Whether another tensor was made of it."""
        return id(tensor) in self._bases

    def recipe(self, tensor: torch.Tensor) -> Expr:
        """How to make a tensor again that `as_subclass` has made."""
        found = self._made[id(tensor)]
        made, base = found.tensor, found.base
        graph, kind = self._tensors.graph, leaves.python_type(made)
        with DisableTorchFunction():
            same = (
                graph.node(base) is found.node
                and (
                    id(base) in self._tensors.inputs
                    if base.requires_grad and not found.grad
                    else made.requires_grad == base.requires_grad
                )
                and made.is_inference() == base.is_inference()
                and str(made.shape) == str(base.shape)
                and str(made.stride()) == str(base.stride())
            )
        if not same:
            raise CannotRebuild(f"a tensor of class {kind.__qualname__}, whose memory is another's")
        given = Raw(base), Raw(kind)
        if made.requires_grad or found.grad != self._grad:
            return Call(Helper.AS_SUBCLASS, (Constant(found.grad), *given), "as_subclass")
        return Call(_AS_SUBCLASS, given, "as_subclass")


def _twin(raw: torch.Tensor) -> torch.Tensor:
    """A plain tensor on the same memory, a leaf if it is one, and a view if it is one.

    What `as_subclass` makes is a view. Where a leaf that requires grad is a view of a tensor that
    doesn't, its own views do not require grad under no_grad.
    """
    plain: torch.Tensor = _AS_SUBCLASS(raw, torch.Tensor)
    if not _field(raw, "is_leaf"):
        return plain
    base, requires_grad = _field(raw, "_base"), _field(raw, "requires_grad")
    twin = plain.detach()
    if base is not None and not _field(base, "requires_grad"):
        root: torch.Tensor = _AS_SUBCLASS(base, torch.Tensor)
        twin = root.detach().as_strided(plain.shape, plain.stride(), plain.storage_offset())
    if objects.is_subtype(type(raw), torch.nn.Parameter):
        return torch.nn.Parameter(twin, requires_grad)
    return twin.requires_grad_() if requires_grad else twin


def _field(raw: torch.Tensor, name: str) -> Any:
    """An attribute of all tensors, whatever the class has in its place."""
    return objects.type_dict(TensorBase)[name].__get__(raw)
