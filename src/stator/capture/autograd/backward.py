"""`Tensor.backward()` in a trace: gradients, and what autograd does with them at its leaves.

Stage: capture, for `TensorState`. In: a call on tensors of the trace. Out: a `torch.autograd.grad`
node by the leaves that it reaches, and for each of them a new `grad`, or an addition to the one it
has, as torch's AccumulateGrad does it; or a `Break` where that would do more.

`grad` itself is state of the tensor, as if the program had set it.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.distributed
from torch.autograd.graph import get_gradient_edge

from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.autograd.autograd_leaves import is_leaf
from stator.capture.autograd.checkpoints import CheckpointRegion
from stator.capture.autograd.grad_calls import has_no_hooks, leaves_of
from stator.diagnostics.catalogue import AutogradInside, TensorSubclass
from stator.graph.fakes.inputs import tensors_in
from stator.graph.fakes.memory import extent, storage_of
from stator.graph.passes.ancestry import computed_from
from stator.graph.recording.output import OutputGraph
from stator.guards import Callback
from stator.torchlib.autograd import AccumulateGrad, is_dense, make_grads
from stator.torchlib.modes import disable_current_modes
from stator.torchlib.tensors import DisableTorchFunction, TensorBase

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

_FIELDS: Final = TensorBase.__dict__
_HOOKS_BEHIND: Final[Any] = _FIELDS["_post_accumulate_grad_hooks"].__get__
_GRAD_DTYPE: Final[Any] = _FIELDS.get("grad_dtype", _FIELDS["dtype"]).__get__  # new in torch 2.10
_EMPTY: Final = "`inputs` argument to `backward()` cannot be empty."


class Backward:
    """The calls of one trace."""

    def __init__(self, tensors: "Tensors") -> None:
        self._tensors = tensors
        self._checked: set[int] = set()  # ids of leaves whose hooks are guarded
        self._alone = False  # whether it is guarded that no process group is there

    def backward(
        self,
        frame: Frame | None,
        tensor: torch.Tensor,
        gradient: Any = None,
        retain_graph: Any = None,
        create_graph: Any = False,
        inputs: Any = None,
    ) -> None:
        """`t.backward(…)`."""
        self.autograd_backward(frame, tensor, gradient, retain_graph, create_graph, None, inputs)

    def autograd_backward(
        self,
        frame: Frame | None,
        tensors: Any,
        grad_tensors: Any = None,
        retain_graph: Any = None,
        create_graph: Any = False,
        grad_variables: Any = None,
        inputs: Any = None,
    ) -> None:
        """`torch.autograd.backward(tensors, …)`."""
        own = self._tensors.own
        self._tensors.inside.refuse("backward()")
        own.outermost("backward()")
        if create_graph is not False:
            raise AutogradInside("backward() makes gradients that can be differentiated")
        if grad_variables is not None:  # by another name, with a warning
            raise AutogradInside("backward() with `grad_variables`")
        given = (tensors, grad_tensors, inputs)
        own.gradients.read("backward()", given)
        outputs = self._several(tensors)
        gradients = [None] * len(outputs) if grad_tensors is None else self._several(grad_tensors)
        if inputs is not None:
            inputs = self._several(list(inputs.values()) if type(inputs) is dict else inputs)
            if not inputs:
                core.raise_user(RuntimeError(_EMPTY))
        self._check_outputs(outputs, gradients)
        reached = leaves_of(outputs)
        for leaf in reached:
            self._check_leaf(leaf)
        wanted = reached if inputs is None else self._chosen(inputs, reached)
        if wanted:
            self._run(frame, outputs, wanted, gradients, retain_graph)

    def _several(self, value: Any) -> list[Any]:
        """What torch takes for one tensor, or for several."""
        kind = type(value)
        if self._tensors.holds(kind):
            return [value]
        if kind is not list and kind is not tuple:
            raise AutogradInside(f"backward() with an object of type {kind.__qualname__}")
        return list(value)

    # ------------------------------------------------------------------ what eager looks at

    def _check_outputs(self, outputs: list[Any], gradients: list[Any]) -> None:
        """What eager refuses, in its order."""
        for value in (*outputs, *(each for each in gradients if each is not None)):
            if not self._tensors.holds(type(value)):
                raise AutogradInside(f"backward() of an object of type {type(value).__qualname__}")
        if len(outputs) != len(gradients):
            raise AutogradInside("backward() with another number of gradients than of tensors")
        error = self._error_of(outputs, gradients)
        if error is not None:
            sizes = [size for each in tensors_in([outputs, gradients]) for size in each.shape]
            if any(type(size) is not int for size in sizes):  # the text may name them
                raise AutogradInside(f"backward(): {error}")
            self._tensors.refuse(error)
        for place, each in enumerate(outputs):
            if not each.requires_grad:
                text = (
                    f"element {place} of tensors does not require grad and does not have a grad_fn"
                )
                core.raise_user(RuntimeError(text))

    def _error_of(self, outputs: list[Any], gradients: list[Any]) -> RuntimeError | None:
        """What torch says of gradients that don't fit, or of none."""
        try:
            with self._tensors.graph.fake_mode:
                make_grads(outputs, gradients, is_grads_batched=False)
        except RuntimeError as error:
            return error
        return None

    def _chosen(self, inputs: list[Any], reached: Iterable[torch.Tensor]) -> list[torch.Tensor]:
        """`inputs=`: leaves of autograd, of which some may be out of reach."""
        for each in inputs:
            if not self._tensors.holds(type(each)):
                kind = type(each).__qualname__
                raise AutogradInside(f"backward() by an object of type {kind}")
            self._tensors.own.guard_leaf(each)
            if not each.is_leaf or not each.requires_grad:
                raise AutogradInside("backward() by a tensor that is no leaf of autograd")
        return [leaf for leaf in reached if any(leaf is each for each in inputs)]

    def _check_leaf(self, leaf: torch.Tensor) -> None:
        """Its gradient must be the graph's alone, and nobody may wait for it."""
        own = self._tensors.own
        given = self._tensors.inputs.get(id(leaf))
        if given is None:
            if not own.is_new_leaf(leaf):
                raise AutogradInside(
                    "backward() reaches a tensor that was computed before the call"
                )
            return
        if id(leaf) in self._checked:
            return
        self._checked.add(id(leaf))
        raw, source = given
        if self._tensors.subclasses.holds(leaf):
            raise TensorSubclass("backward() reaches a tensor of a subclass")
        unhooked = _Unhooked()
        if not unhooked(raw):
            raise AutogradInside("backward() reaches a tensor that has hooks, or is no leaf")
        self._tensors.world.guard(source, Callback(unhooked, "a leaf without hooks"))
        self._tensors.own.leaf_is_guarded(leaf)
        if not self._alone:  # DistributedDataParallel has hooks that nobody can see
            if not _is_alone(raw):
                raise AutogradInside("backward() while torch.distributed is in use")
            self._tensors.world.guard(source, Callback(_is_alone, "no process group"))
            self._alone = True

    # ------------------------------------------------------------------ what it does

    def _run(
        self,
        frame: Frame | None,
        outputs: list[torch.Tensor],
        leaves: list[torch.Tensor],
        gradients: list[Any],
        retain_graph: Any,
    ) -> None:
        own, graph = self._tensors.own, self._tensors.graph
        if any(map(_is_reentrant, _regions_behind(graph, outputs))):
            raise AutogradInside("backward() through a checkpoint that calls backward() itself")
        own.wanted.update(map(id, leaves))
        own.gradients.by.update(id(leaf) for leaf in leaves if id(leaf) in self._tensors.inputs)
        known = {id(tensor) for tensor in graph.arguments.tensors()}
        options = {"retain_graph": retain_graph, "allow_unused": True}
        given = (tuple(outputs), tuple(leaves), tuple(gradients))
        found = own.gradients.differentiate(frame, "backward()", given, options)
        pairs = [(leaf, each) for leaf, each in zip(leaves, found, strict=True) if each is not None]
        if any(gradient.layout is not torch.strided for _, gradient in pairs):
            raise AutogradInside("backward() makes a gradient that is sparse")
        before = [own.grad(leaf) for leaf, _ in pairs]
        new = [pair for pair, old in zip(pairs, before, strict=True) if old is None]
        taken = self._taken(new, known)
        for (leaf, gradient), old in zip(pairs, before, strict=True):
            if old is None:
                keeps = id(leaf) in taken
                made = gradient if keeps else self._copied(frame, gradient, leaf)
                own.set_grad(frame, leaf, made)
                continue
            with self._without_grad(old, gradient):
                self._tensors.record(frame, ("method", "add_"), (old, gradient))

    def _taken(self, new: Sequence[tuple[Any, Any]], known: set[int]) -> set[int]:
        """The leaves (by id) whose gradient is used as it is, and not copied.

        As in eager: if it lies as the leaf does, and no other tensor is the same. That others share
        its memory is not looked at there; where they overlap, nobody here can tell who copies.
        """
        fitting = [(leaf, each) for leaf, each in new if _lies_as(each, leaf)]
        last = {id(each): id(leaf) for leaf, each in fitting}  # who comes first copies
        taken = [
            each
            for leaf, each in fitting
            if id(each) not in known and last[id(each)] == id(leaf) and not each.requires_grad
        ]
        fit = {id(each) for _, each in fitting}
        places: dict[int, list[torch.Tensor]] = {}
        for other in self._tensors.graph.arguments.tensors():
            if id(other) in known or id(other) in fit:
                places.setdefault(storage_of(other), []).append(other)
        for each in taken:
            for other in places[storage_of(each)]:
                if other is not each and _overlap(other, each):
                    raise AutogradInside("backward() makes gradients that share their memory")
        return {last[id(each)] for each in taken}

    def _copied(
        self, frame: Frame | None, gradient: torch.Tensor, leaf: torch.Tensor
    ) -> torch.Tensor:
        """A copy that lies in memory as the leaf does, or without gaps."""
        record = self._tensors.record
        made: torch.Tensor
        with self._without_grad(gradient):
            if is_dense(leaf):
                place = (tuple(leaf.shape), leaf.stride())
                made = record(frame, ("method", "new_empty_strided"), (gradient, *place))
                record(frame, ("method", "copy_"), (made, gradient))
            else:
                options = {"memory_format": torch.contiguous_format}
                made = record(frame, ("method", "clone"), (gradient,), options)
        return made

    def _without_grad(self, *tensors: torch.Tensor) -> Any:
        tracked = torch.is_grad_enabled() and any(each.requires_grad for each in tensors)
        return self._tensors.state_changes.without_grad() if tracked else nullcontext()


def _lies_as(gradient: torch.Tensor, leaf: torch.Tensor) -> bool:
    """Whether autograd leaves a gradient where it is (`obeys_layout_contract`)."""
    if not is_dense(leaf):
        return gradient.is_contiguous()
    return all(
        size == 1 or of_gradient == of_leaf
        for size, of_gradient, of_leaf in zip(
            gradient.shape, gradient.stride(), leaf.stride(), strict=True
        )
    )


def _overlap(first: torch.Tensor, second: torch.Tensor) -> bool:
    """Whether tensors on the same memory may have an element in common."""
    (a, b), (c, d) = _span(first), _span(second)
    return any(type(place) is not int for place in (a, b, c, d)) or (a < d and c < b)


def _span(tensor: torch.Tensor) -> tuple[Any, Any]:
    """Where the elements of a tensor begin and end, in bytes."""
    if tensor.numel() == 0:
        return 0, 0
    begin = tensor.storage_offset()
    end = begin + extent(tensor.shape, tensor.stride())
    return begin * tensor.itemsize, end * tensor.itemsize


def _regions_behind(graph: OutputGraph, tensors: Iterable[torch.Tensor]) -> Iterator[Any]:
    """The regions that tensors are computed from."""
    for node in computed_from(map(graph.node, tensors)):
        if node.op == "call_module":
            yield graph.attribute(str(node.target))


def _is_reentrant(region: torch.nn.Module) -> bool:
    """Whether a region refuses to be differentiated by some tensors only, as the node does."""
    return type(region) is CheckpointRegion and bool(region.options["use_reentrant"])


def _is_plain_leaf(tensor: torch.Tensor) -> bool:
    """Whether autograd does nothing more at a leaf than to keep the gradient, in its own dtype."""
    with DisableTorchFunction():
        return (
            is_leaf(tensor)
            and has_no_hooks(tensor)
            and not _HOOKS_BEHIND(tensor)
            and _GRAD_DTYPE(tensor) is tensor.dtype
        )


class _Unhooked:
    """A guard: nobody waits for the gradient of this leaf.

    Hooks at autograd's node of it are asked for only if some were registered anywhere since.
    """

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: int | None = None

    def __call__(self, tensor: torch.Tensor) -> bool:
        if not _is_plain_leaf(tensor):
            return False
        now = _hooks.registered()
        if now is None or now != self._seen:
            if _hooks.are_at(tensor):
                return False
            self._seen = now
        return True


class _Hooks:
    """Hooks at the nodes of autograd that keep gradients. Only registering one tells of others."""

    def __init__(self) -> None:
        self._counted: bool | None = None
        self._own = 0

    def registered(self) -> int | None:
        """A number that changes if somebody registers a hook at a node; None if nobody counts."""
        if self._counted is None:
            self._counted = all(
                core.guard_count_calls(AccumulateGrad.__dict__[name])
                for name in ("register_hook", "register_prehook")
            )
        count = core.guard_rebindings()
        return count - self._own if self._counted and count is not None else None

    def are_at(self, tensor: torch.Tensor) -> bool:
        if not tensor.requires_grad:
            return False
        with disable_current_modes(), DisableTorchFunction():
            node: Any = get_gradient_edge(tensor).node
            for register in (node.register_hook, node.register_prehook):
                handle = register(_nothing)
                self._own += 2  # so much is counted for a call
                hooks = handle.hooks_dict_ref()
                handle.remove()
                if hooks:
                    return True
        return False


_hooks: Final = _Hooks()


def _nothing(*_: object) -> None: ...


def _is_alone(_: object) -> bool:
    return not (torch.distributed.is_available() and torch.distributed.is_initialized())
