"""What a tensor is besides its values: its data, its gradient, attributes.

In: operations that change or read such state. Out: answers, effects on tensors of the world,
recipes for tensors made in the call, or a `Break`. `autograd_leaves` knows what requires grad.
"""

import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.fx as fx

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.autograd.autograd_leaves import (
    CHANGED,
    AutogradLeaves,
    history,
    is_dense,
    user_call,
)
from stator.capture.autograd.backward import Backward
from stator.capture.autograd.grad_calls import Gradients
from stator.capture.randomness.draws import Draws
from stator.capture.tensors.overrides import Without
from stator.capture.tensors.resized import resize_early
from stator.capture.tensors.settings import Settings
from stator.capture.texts.numbers_in_errors import answer_of
from stator.contracts import Depth
from stator.diagnostics.catalogue import (
    AutogradInside,
    NoGraphOperation,
    SharedMemory,
    TensorDetail,
    TensorStateChanged,
    TensorSubclass,
)
from stator.effects import AttrDel, AttrSet, Effect, Output, SlotSet
from stator.effects.instances import dict_descriptor
from stator.effects.model import Constant
from stator.effects.node import Node, store
from stator.effects.steps import SELF, Call, Dict, Expr, Helper, Raw
from stator.graph.fakes.memory import storage_of
from stator.graph.leaves import leaves
from stator.guards import Callback, Field, NotAliased, Source
from stator.objects.types import name_of
from stator.torchlib.modes import disable_current_modes
from stator.torchlib.tensors import DisableTorchFunction, DisableTorchFunctionSubclass, TensorBase
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

_FIELDS: Final = TensorBase.__dict__
_DATA: Final = _FIELDS["data"]
_GRAD: Final = _FIELDS["grad"]
_REQUIRES_GRAD: Final = _FIELDS["requires_grad"]
_RETAIN_GRAD: Final = _FIELDS["retain_grad"]
_UNREAD: Final = object()
_NAMES: Final = {"__deepcopy__": "deepcopy"}
_OF_SUBCLASSES: Final = frozenset({"as_subclass", "make_subclass"})


def _has_no_gradient(tensor: torch.Tensor) -> bool:
    """Whether a tensor that is no leaf has no gradient, and will not get one by `backward()`."""
    with DisableTorchFunction(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch does not want that to be asked
        return not tensor.retains_grad and _GRAD.__get__(tensor) is None


class TensorState(AutogradLeaves):
    """The state of the tensors of one trace, where it is not what their fakes say."""

    def __init__(self, tensors: "Tensors") -> None:
        super().__init__(tensors)
        self.draws = Draws(tensors)
        self.settings = Settings(tensors)
        self.gradients = Gradients(tensors)
        self.backwards = Backward(tensors)
        self._attributes: dict[int, dict[str, Any]] = {}  # set by the program, by id of the fake
        self._copied: list[torch.Tensor] = []
        self._grads: dict[int, Any] = {}
        self._first_grads: dict[int, Any] = {}
        self._data: dict[int, torch.Tensor] = {}  # of world tensors: what was assigned, by id
        self._holders: dict[int, torch.Tensor] = {}  # the fakes of those

    def call(self, frame: Frame | None, action: str, args: list[Any], kwargs: Any) -> Any:
        """A method or class whose rule is OWN."""
        action, *first = _NAMES.get(action, action).split()
        if action not in _OF_SUBCLASSES:
            self._check_plain(action, args)
        holders = (self, self.draws, self.settings, self.gradients, self.backwards)
        holder = next(each for each in holders if hasattr(each, action))
        return getattr(holder, action)(frame, *first, *args, **(kwargs or {}))

    def _check_plain(self, action: str, args: list[Any]) -> None:
        """State of tensors that share a node with another one, or are of a subclass, stays."""
        subclasses = self._tensors.subclasses
        for value in args:
            if not self._tensors.holds(type(value)):
                continue
            self._tensors.wrappers.check_alone(value, action)
            if subclasses.holds(value) or subclasses.is_made(value) or subclasses.is_base(value):
                raise TensorSubclass(f"{action.strip('_')} of a tensor of a subclass, or a base")

    def as_subclass(self, frame: Frame | None, tensor: torch.Tensor, cls: Any) -> torch.Tensor:
        return self._tensors.subclasses.as_subclass(frame, tensor, cls)

    def make_subclass(self, frame: Frame | None, *args: Any) -> torch.Tensor:
        return self._tensors.subclasses.make_subclass(frame, *args)

    def without_subclasses(self, frame: Frame | None) -> Without:
        """`torch._C.DisableTorchFunctionSubclass()`."""
        return Without(DisableTorchFunctionSubclass)

    def without_functions(self, frame: Frame | None) -> Without:
        """`torch._C.DisableTorchFunction()`: the same, since there are no modes in a trace."""
        return Without(DisableTorchFunction)

    def named_result(self, frame: Frame | None, name: str, *args: Any, **kwargs: Any) -> Any:
        """`torch.return_types.max((values, indices))`."""
        if len(args) != 1 or kwargs or type(args[0]) not in (list, tuple):
            raise NoGraphOperation(f"torch.return_types.{name} of more than a list or a tuple")
        self._tensors.ready(args, Depth.DEEP)
        return user_call(getattr(torch.return_types, name), args[0])

    # ------------------------------------------------------------------ data

    def set_data(self, frame: Frame | None, tensor: torch.Tensor, value: Any) -> None:
        """`t.data = value`: from here on the graph uses the memory of `value`."""
        if value is tensor:
            return  # the memory it has already
        if not self._tensors.holds(type(value)):
            user_call(_DATA.__set__, tensor, value)
            raise AssertionError("a value that is no tensor was assigned")
        for each in (tensor, value):
            self._tensors.wrappers.check_alone(each, "data")
        given = self._tensors.inputs.get(id(tensor))
        if given is None and tensor.requires_grad:
            raise TensorStateChanged("data of a tensor that requires grad is set")
        graph = self.outermost(CHANGED)
        node = graph.node(tensor)
        if tensor.requires_grad and any(map(_tracks_grad, node.users)):
            raise TensorStateChanged("data of a parameter is set after it was used")
        if tensor.device != value.device:
            _refused_pair(_DATA.__set__, tensor, value)
            raise TensorStateChanged("data of a tensor is set to one on another device")
        alias = graph.call(getattr, (value, "data"))
        user_call(_DATA.__set__, tensor, alias)
        graph.fakes.touched = True
        graph.arguments.rebind(tensor, graph.node(alias))
        if given is not None:
            self._data[id(tensor)] = alias
            self._holders[id(tensor)] = tensor
            self.replaced.add(id(tensor))

    def set_(self, frame: Frame | None, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """`t.set_(value)`: the same without autograd."""
        if len(args) != 1 or kwargs or not self._tensors.holds(type(args[0])):
            raise TensorStateChanged("Tensor.set_ with more than a tensor")
        (value,) = args
        if tensor.device != value.device:
            _refused_pair(torch.Tensor.set_, tensor, value)
        if tensor.requires_grad or value.requires_grad or tensor.dtype is not value.dtype:
            raise TensorStateChanged(
                "Tensor.set_ of a tensor that requires grad, or is of another dtype"
            )
        bits = {(each.is_neg(), each.is_conj()) for each in (tensor, value)}
        if bits != {(False, False)}:  # the tensor keeps its own, `value.data` has those of `value`
            raise TensorStateChanged("Tensor.set_ of a tensor that is negated or conjugated lazily")
        self.set_data(frame, tensor, value)
        return tensor

    def resize_(self, frame: Frame | None, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        """`t.resize_(…)`; `resized` looks after inputs."""
        graph, memory = self._tensors.graph, tensor.untyped_storage()
        before, given = memory.nbytes(), id(tensor) in self._tensors.inputs
        result = self._tensors.record(frame, ("method", "resize_"), (tensor, *args), kwargs)
        if not given and memory.nbytes() != before and graph.arguments.sharing(tensor):
            raise TensorStateChanged("memory is made larger that several tensors share")
        return result

    # ------------------------------------------------------------------ copies

    def deepcopy(self, frame: Frame | None, tensor: torch.Tensor, memo: Any) -> Any:
        """`copy.deepcopy(t)`: the memory is copied, once for all tensors that share it."""
        key = id(tensor)  # as in the memo: see `special._identity`
        if dict.__contains__(memo, key):
            return dict.__getitem__(memo, key)
        self.guard_leaf(tensor)
        if not tensor.is_leaf:
            with disable_current_modes(), torch.enable_grad():
                user_call(torch.ones(1, requires_grad=True).neg().__deepcopy__, {})
        if not is_dense(tuple(tensor.shape), tensor.stride()) or tensor.storage_offset():
            raise SharedMemory("a tensor with gaps in memory is copied deeply")
        memory = storage_of(tensor)
        if any(storage_of(other) == memory for other in self._copied if other is not tensor):
            raise SharedMemory("tensors that share memory are copied deeply")
        if self.grad(tensor) is not None or self._has_attributes(tensor):
            raise SharedMemory("a tensor with a gradient or attributes is copied deeply")
        self._copied.append(tensor)
        with self._tensors.state_changes.without_grad() if tensor.requires_grad else nullcontext():
            made = self._tensors.record(frame, ("method", "clone"), (tensor,))
        if tensor.requires_grad:
            self.set_requires_grad(frame, made, True)
        dict.__setitem__(memo, key, made)
        return made

    def shallow_copy(self, frame: Frame | None, tensor: torch.Tensor) -> torch.Tensor:
        """`copy.copy(t)`: a leaf on the same memory."""
        self._check_plain("copy", [tensor])
        if self._has_attributes(tensor):
            raise SharedMemory("a tensor with attributes is copied")
        if leaves.python_type(tensor) is torch.nn.Parameter:
            return self.parameter(frame, tensor, tensor.requires_grad)
        made: torch.Tensor = self._tensors.record(frame, ("method", "detach"), (tensor,))
        if tensor.requires_grad:
            self.set_requires_grad(frame, made, True)
        return made

    def _has_attributes(self, tensor: torch.Tensor) -> bool:
        given = self._tensors.inputs.get(id(tensor))
        if given is not None:
            own = objects.instance_dict(given[0])
            if own:
                return True
            self._world.guard(given[1], Callback(_is_bare, "without attributes"))
        return bool(self._attributes.get(id(tensor)))

    def grouped(self, frame: Frame | None, lists: Any, with_indices: Any = False) -> Any:
        """What optimizers ask for: lists of tensors by device and dtype; in one group only, since
        the order of several is up to a hash.
        """
        self._tensors.ready(lists, Depth.DEEP)
        first = lists[0] if type(lists) is list and lists else None
        if type(first) is not list or not all(self._tensors.holds(type(t)) for t in first):
            raise TensorStateChanged("tensors are grouped by device and dtype, and other things")
        groups = {(tensor.device, tensor.dtype) for tensor in first}
        if len(groups) != 1 or any(type(each) is not list for each in lists):
            raise TensorStateChanged("tensors of several devices or dtypes are grouped")
        indices = list(range(len(first))) if with_indices else []
        filled = [list(each) if each else [] for each in lists]
        return {groups.pop(): (filled, indices)}

    # ------------------------------------------------------------------ gradients

    def grad(self, tensor: torch.Tensor) -> Any:
        """`t.grad`."""
        wraps = self._tensors.wrappers.holds(type(tensor))
        if self._tensors.subclasses.holds(tensor) and not wraps:
            raise TensorSubclass("the gradient of a tensor of a subclass is read")
        if id(tensor) in self._grads:
            return self._grads[id(tensor)]
        given = self._tensors.inputs.get(id(tensor))
        found: Any = None
        if given is not None:
            found = self._gradient_of_input(tensor, *given)
        self._grads[id(tensor)] = self._first_grads[id(tensor)] = found
        self._holders[id(tensor)] = tensor
        return found

    def _gradient_of_input(self, tensor: torch.Tensor, raw: torch.Tensor, source: Source) -> Any:
        """The gradient that a world tensor has at the start: an input of its own."""
        self.guard_leaf(tensor)
        if not tensor.is_leaf:
            if not _has_no_gradient(raw):
                raise AutogradInside("the gradient of an input that is no leaf is read")
            self._world.guard(source, Callback(_has_no_gradient, "without a gradient"))
            return None
        if self._tensors.graph.default_device is not None:
            # A mode would see what guards do.
            raise AutogradInside("a gradient is read under a default device")
        return self._world.wrap(_GRAD.__get__(raw), Field(source, _GRAD))

    def set_grad(self, frame: Frame | None, tensor: torch.Tensor, value: Any) -> None:
        """`t.grad = value`: checked on another tensor, kept here."""
        self._check_plain("grad", [tensor])
        with self._tensors.graph.fake_mode:
            twin = tensor.detach()
        answer_of(self._tensors, frame, _GRAD.__set__, twin, value)
        self._first_grads.setdefault(id(tensor), _UNREAD)
        self._grads[id(tensor)] = value
        self._holders[id(tensor)] = tensor

    # ------------------------------------------------------------------ attributes

    def attribute(self, tensor: torch.Tensor, name: str) -> Any:
        """An attribute that the program has set in this trace; MISSING if there is none."""
        held = self._attributes.get(id(tensor))
        return MISSING if held is None else held.get(name, MISSING)

    def setattr(self, frame: Frame | None, tensor: torch.Tensor, name: str, value: Any) -> None:
        match name:
            case "requires_grad":
                if type(value) is not bool:
                    user_call(_REQUIRES_GRAD.__set__, tensor.detach(), value)
                    raise TensorStateChanged("requires_grad is set to something that is not a bool")
                self.set_requires_grad(frame, tensor, value)
            case "data":
                self.set_data(frame, tensor, value)
            case "grad" | "_grad":
                self.set_grad(frame, tensor, value)
            case _:
                self._may_store(tensor, name)
                self._attributes.setdefault(id(tensor), {})[name] = value
                self._holders[id(tensor)] = tensor

    def delattr(self, frame: Frame | None, tensor: torch.Tensor, name: str) -> None:
        if name in ("grad", "_grad"):
            self.set_grad(frame, tensor, None)
            return
        self._may_store(tensor, name)
        held = self._attributes.get(id(tensor), {})
        known = held.get(name, MISSING)
        if known is MISSING and name not in held:
            known = self._tensors.attributes.own_attribute(tensor, name)
        if known is MISSING:
            _no_attribute(tensor, name)
        self._attributes.setdefault(id(tensor), {})[name] = MISSING
        self._holders[id(tensor)] = tensor

    def deleted(self, tensor: torch.Tensor, name: str) -> bool:
        """Whether the program has deleted the attribute."""
        held = self._attributes.get(id(tensor))
        return held is not None and name in held and held[name] is MISSING

    def _may_store(self, tensor: torch.Tensor, name: str) -> None:
        kind = leaves.python_type(tensor)
        found = self._world.class_attribute(kind, name)
        if name.startswith("__") or (
            found is not None and objects.lookup(type(found.value), "__set__") is not None
        ):
            raise TensorDetail(f"the attribute {name} of a tensor is set")

    # ------------------------------------------------------------------ the end

    def effects(self, split: Sequence[CodeType] = ()) -> Iterator[Effect]:
        """What has to be written to tensors of the world; `split` are the frames that go on."""
        if self._copied and copy.deepcopy.__code__ in split:
            # Its memo does not know which memory was copied: what goes on could copy it again.
            raise SharedMemory("a deep copy of tensors can't be split")
        yield from self.switches()
        yield from self.draws.effects()
        yield from self.settings.effects()
        for key in self._holders:
            given = self._tensors.inputs.get(key)
            if given is None:
                continue
            raw, source = given
            if key in self._data:
                yield SlotSet(source, _DATA, self._data[key])
            grad = self._grads.get(key)
            if key in self._grads and grad is not self._first_grads[key]:
                yield SlotSet(source, _GRAD, grad)
            own = objects.instance_dict(raw) or {}
            for name, value in self._attributes.get(key, {}).items():
                if value is not MISSING:
                    yield AttrSet(source, name, value, type(raw))
                elif name in own:
                    yield AttrDel(source, name, type(raw))

    def finish(self, outputs: Sequence[Any]) -> list[int]:
        resize_early(self._tensors)
        self._tensors.subclasses.check_inputs()
        marked = super().finish(outputs)
        inputs = self._tensors.inputs
        alone = {*self._holders, *self.switched(), *self.gradients.by}
        if not inputs.keys().isdisjoint(alone) and len(inputs) > 1:
            # In a later call, what was changed, or differentiated by, is no other input as well.
            first, *others = (source for _, source in inputs.values())
            self._world.guard(first, NotAliased(tuple(others)))
        return marked

    def states(self) -> tuple[int, ...]:
        """How much of it there is: it grows whenever the program changes something of a tensor."""
        given = sum(map(len, self._attributes.values()))
        return given, len(self._grads), len(self._data), len(self._holders)

    def has_state(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor made in the call has attributes, a gradient, or a class of its own."""
        key = id(tensor)
        if self._tensors.subclasses.is_made(tensor) or self.gradients.spent(tensor):
            return True
        return any(v is not MISSING for v in self._attributes.get(key, {}).values()) or (
            self._grads.get(key) is not None
        )

    def recipe(self, tensor: torch.Tensor, output: Callable[[torch.Tensor], Output]) -> Node:
        """A result of the graph, with the class and attributes that the program gave it."""
        subclasses = self._tensors.subclasses
        made: Expr
        if subclasses.is_made(tensor):
            made = subclasses.recipe(tensor)
        elif self.gradients.spent(tensor):
            plain = self._tensors.graph.call(("method", "detach"), (tensor,))
            name = Constant(history(tensor).name())
            made = Call(Helper.SPENT, (output(plain), name), "spent")
        else:
            made = output(tensor)
        node = Node(tensor, made)
        held = self._attributes.get(id(tensor), {})
        pairs = tuple((Constant(n), Raw(v)) for n, v in held.items() if v is not MISSING)
        if pairs:
            kind = leaves.python_type(tensor)
            own = Call(dict_descriptor(kind).__get__, (SELF,), f"dict_of_{name_of(kind)}")
            node.fills.append(Call(dict.update, (own, Dict(pairs)), "dict_update"))
        if tensor in self.gradients.retained:
            node.fills.append(Call(_RETAIN_GRAD, (SELF,), "retain_grad"))
        grad = self._grads.get(id(tensor))
        if grad is not None:
            node.fills.append(store(_GRAD, Raw(grad)))
        return node


def _refused_pair(function: Callable[..., Any], a: torch.Tensor, b: torch.Tensor) -> None:
    """What torch says to tensors on these devices, if it refuses them: their fakes do not tell."""
    with disable_current_modes():
        user_call(function, torch.empty(0, device=a.device), torch.empty(0, device=b.device))


def _is_bare(tensor: torch.Tensor) -> bool:
    return not objects.instance_dict(tensor)


def _tracks_grad(node: fx.Node) -> bool:
    value = node.meta.get("example_value")
    return not isinstance(value, torch.Tensor) or value.requires_grad


def _no_attribute(tensor: torch.Tensor, name: str) -> None:
    kind = leaves.python_type(tensor).__name__
    core.raise_user(AttributeError(f"'{kind}' object has no attribute '{name}'"))
