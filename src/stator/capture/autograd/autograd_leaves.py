"""Which tensors require grad: switched by the program, or made as leaves of autograd.

In: `requires_grad_`, `detach_`, `nn.Parameter` and the like. Out: effects on tensors of the world,
steps before the graph, or a `Break`.

A backend with an autograd of its own decides from the inputs alone what requires grad. So a tensor
that begins to require grad in the trace is followed to the end: `finish` looks at which results are
differentiable through it. If each of them is so through some input as well, and the tensor itself
is not seen afterwards, nothing has to be done. Otherwise it becomes an input: an empty leaf, made
before the graph (`graph.prologue`), which the graph fills.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.fx as fx

from stator._native import _core as core
from stator._native._core import Frame
from stator.diagnostics.catalogue import (
    AutogradInside,
    RegionContents,
    TensorStateChanged,
    TensorSubclass,
)
from stator.effects import Effect, SlotSet
from stator.graph.fakes.inputs import differentiable, tensors_in
from stator.graph.fakes.memory import storage_of
from stator.graph.passes.prologue import (
    Given,
    Prologue,
    Step,
    new_leaf,
    same_leaf,
    saved_requires_grad,
    set_requires_grad,
)
from stator.graph.passes.purity import KEEP
from stator.graph.recording.arguments import Arguments
from stator.graph.recording.output import OutputGraph
from stator.guards import Callback, Field, Is, Source
from stator.torchlib.modes import disable_current_modes, set_grad_enabled
from stator.torchlib.tensors import DisableTorchFunction, TensorBase

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

CHANGED: Final = "what requires grad is changed"
_REQUIRES_GRAD: Final = TensorBase.__dict__["requires_grad"]


@dataclass(eq=False)
class Leaf:
    """A tensor made in the trace that began to require grad there."""

    fake: torch.Tensor
    marker: fx.Node
    """Stands for the tensor in the graph from that moment on."""
    grad_enabled: bool
    kept: bool = False
    """Whether it is made before the graph."""


@dataclass(eq=False)
class Filled:
    """A parameter, and the tensor whose memory it would share in eager."""

    made: torch.Tensor
    data: torch.Tensor
    node: fx.Node
    """The node that fills it."""


@dataclass(eq=False)
class Switched:
    """A world tensor whose `requires_grad` was set."""

    fake: torch.Tensor
    source: Source
    node: fx.Node
    before: bool
    used: bool
    """Whether the graph used it before."""


class AutogradLeaves:
    """What requires grad in one trace, beyond what operators make so."""

    def __init__(self, tensors: "Tensors") -> None:
        self._tensors = tensors
        self._world = tensors.world
        self._leaves: dict[int, Leaf] = {}
        self._filled: list[Filled] = []
        self._switched: dict[int, Switched] = {}
        self._guarded: set[int] = set()
        self.wanted: set[int] = set()  # ids of leaves that the graph itself differentiates by
        self.replaced: set[int] = set()  # inputs whose data is another tensor's by now
        self.steps: list[tuple[Step, Any]] = []  # with the input that it makes, if it does
        self.given: list[Source] = []  # world objects that steps need

    # ------------------------------------------------------------------ switching

    def requires_grad_(
        self, frame: Frame | None, tensor: torch.Tensor, requires_grad: Any = True
    ) -> torch.Tensor:
        """`t.requires_grad_(flag)`; answers the tensor."""
        if type(requires_grad) is not bool:
            raise TensorStateChanged("requires_grad is set to something that is not a bool")
        self.set_requires_grad(frame, tensor, requires_grad)
        return tensor

    def set_requires_grad(self, frame: Frame | None, tensor: torch.Tensor, flag: bool) -> None:
        self._tensors.inside.refuse("requires_grad is set")
        before = tensor.requires_grad
        self.guard_leaf(tensor)
        with DisableTorchFunction():
            base = tensor._base
        stays = not flag and base is not None and base.requires_grad  # whatever is said of a view
        if before == flag or stays or not tensor.is_leaf or not differentiable(tensor):
            user_call(tensor.requires_grad_, flag)  # nothing, or an error
            return
        self._tensors.wrappers.check_alone(tensor, "requires_grad")
        subclasses = self._tensors.subclasses
        if subclasses.is_made(tensor) or subclasses.is_base(tensor) or subclasses.holds(tensor):
            raise TensorSubclass("requires_grad of a tensor of a subclass, or of its base, changes")
        graph = self.outermost(CHANGED)
        given = self._tensors.inputs.get(id(tensor))
        node = graph.node(tensor)
        if not flag:
            # What is computed from here on must not be differentiable through it.
            detached = graph.call(("method", "detach"), (tensor,))
            user_call(tensor.requires_grad_, False)
            graph.arguments.rebind(tensor, graph.node(detached))
        else:
            user_call(tensor.requires_grad_, True)
        if given is not None:
            self._switch(tensor, given[1], node, flag)
        elif flag:
            if id(tensor) in self._leaves:
                raise TensorStateChanged("requires_grad of a tensor is switched more than once")
            marker = graph.graph.call_function(same_leaf, (node,))
            marker.meta["example_value"] = tensor
            graph.arguments.rebind(tensor, marker)
            self._leaves[id(tensor)] = Leaf(tensor, marker, torch.is_grad_enabled())

    def outermost(self, what: str) -> OutputGraph:
        """The graph, for what can't be done inside of a region of it."""
        graph = self._tensors.graph
        if type(graph.arguments) is not Arguments:
            raise RegionContents(f"{what} inside of a region of the graph")
        return graph

    def _switch(self, tensor: torch.Tensor, source: Source, node: fx.Node, flag: bool) -> None:
        known = self._switched.get(id(tensor))
        if known is None:
            used = bool(node.users)
            self._switched[id(tensor)] = Switched(tensor, source, node, not flag, used)
        elif flag and not known.before:
            raise TensorStateChanged("requires_grad of an input is switched more than once")
        elif flag:
            self._tensors.graph.arguments.rebind(tensor, known.node)

    def guard_leaf(self, tensor: torch.Tensor) -> None:
        """The program has seen whether an input is a leaf."""
        given = self._tensors.inputs.get(id(tensor))
        if given is not None and id(tensor) not in self._guarded:
            self._guarded.add(id(tensor))
            raw, source = given
            leaf = is_leaf(raw)
            self._tensors.wrappers.check_leaf(tensor, leaf)
            check, text = (is_leaf, "a leaf") if leaf else (_is_no_leaf, "no leaf")
            self._world.guard(source, Callback(check, f"{text} of autograd"))

    def leaf_is_guarded(self, tensor: torch.Tensor) -> None:
        """There is another guard that says so."""
        self._guarded.add(id(tensor))

    def is_leaf(self, tensor: torch.Tensor) -> bool:
        self.guard_leaf(tensor)
        answer: bool = user_call(lambda: tensor.is_leaf)
        return answer

    def grad_fn(self, tensor: torch.Tensor) -> Any:
        """`t.grad_fn`."""
        self.guard_leaf(tensor)
        node = user_call(lambda: tensor.grad_fn)
        return None if node is None else self._tensors.nodes.see(tensor, node)

    def register_hook(self, frame: Frame | None, tensor: torch.Tensor, hook: Any) -> None:
        """`t.register_hook(…)` happens outside of graphs.

        A backend with an autograd of its own differentiates what a graph computes from the tensor
        without coming by it: so nothing may have been computed from it yet.
        """
        reason = "Tensor.register_hook: somebody waits for a gradient, outside of the graph"
        raise AutogradInside(reason, whole=self.is_behind_others(tensor))

    def is_behind_others(self, tensor: torch.Tensor) -> bool:
        """Whether the graph has made it, and computed something from it that requires grad."""
        if id(tensor) in self._tensors.inputs or not self._tensors.graph.tracks(tensor):
            return False
        users = self._tensors.graph.node(tensor).users
        results = [node.meta.get("example_value") for node in users]
        return any(each.requires_grad for each in tensors_in(results))

    def retain_grad(self, frame: Frame | None, tensor: torch.Tensor) -> None:
        """`t.retain_grad()` of a leaf does nothing, and is an error without grad."""
        self._tensors.inside.refuse("Tensor.retain_grad")
        self.guard_leaf(tensor)
        if tensor.requires_grad and not tensor.is_leaf:
            self._tensors.own.gradients.retained.keep(frame, tensor)
        else:
            user_call(tensor.retain_grad)

    def detach_(self, frame: Frame | None, tensor: torch.Tensor) -> torch.Tensor:
        """`t.detach_()`: from here on the graph uses `t.detach()`."""
        self._tensors.inside.refuse("Tensor.detach_")
        if torch.is_inference_mode_enabled():  # autograd does not see it
            return tensor
        self.guard_leaf(tensor)
        if tensor._is_view():
            raise TensorStateChanged("Tensor.detach_: a view is detached")
        if id(tensor) in self._tensors.inputs:
            raw, source = self._tensors.inputs[id(tensor)]
            self._world.guard(Field(source, _BASE), Is(_BASE.__get__(raw)))
        if tensor.is_leaf and tensor.requires_grad:
            self.set_requires_grad(frame, tensor, False)
            return tensor
        if tensor.is_leaf:
            return tensor
        if id(tensor) in self._tensors.inputs:
            raise TensorStateChanged("Tensor.detach_: an input is detached from its history")
        graph = self.outermost(CHANGED)
        detached = graph.call(("method", "detach"), (tensor,))
        user_call(tensor.detach_)
        graph.arguments.rebind(tensor, graph.node(detached))
        return tensor

    # ------------------------------------------------------------------ new leaves

    def parameter(
        self, frame: Frame | None, data: Any = None, requires_grad: Any = True
    ) -> torch.Tensor:
        """`nn.Parameter(data)`: a leaf made before the graph, which fills it."""
        if type(requires_grad) is not bool:
            raise TensorStateChanged("nn.Parameter: requires_grad is not a bool")
        if data is None:
            data = self._tensors.record(frame, torch.empty, (0,))
        if not self._tensors.holds(type(data)):
            raise TensorStateChanged(f"nn.Parameter of an object of type {type(data).__qualname__}")
        if requires_grad and not differentiable(data):
            with disable_current_modes(), DisableTorchFunction():
                user_call(torch.nn.Parameter, torch.empty(0, dtype=data.dtype))  # raises
        graph = self.outermost(CHANGED)
        made = self._new_leaf(data, requires_grad, True)
        if graph.node(data).target is not torch.empty:  # whose values nobody knows
            with self._tensors.state_changes.without_grad():
                graph.call(("method", "copy_"), (made, data))
        last = next(iter(reversed(graph.graph.nodes)))
        self._filled.append(Filled(made, data, last))
        return made

    def buffer(
        self, frame: Frame | None, data: Any = None, *, persistent: Any = True
    ) -> torch.Tensor:
        """`nn.Buffer(data)`: a tensor with two attributes."""
        if data is None:
            data = self._tensors.record(frame, torch.empty, (0,))
        if not self._tensors.holds(type(data)):
            raise TensorStateChanged(f"nn.Buffer of an object of type {type(data).__qualname__}")
        made: torch.Tensor = self._tensors.record(frame, ("method", "detach"), (data,))
        if data.requires_grad:
            self.set_requires_grad(frame, made, True)
        self._tensors.attributes.setattr(frame, made, "persistent", persistent)
        self._tensors.attributes.setattr(frame, made, "_is_buffer", True)
        return made

    def _new_leaf(self, like: torch.Tensor, requires_grad: bool, parameter: bool) -> torch.Tensor:
        """A leaf of the same sizes, as an input that a step before the graph makes."""
        shapes = self._tensors.shapes
        sizes, strides = shapes.plain(None, tuple(like.shape)), shapes.plain(None, like.stride())
        if any(type(size) is not int for size in (*sizes, *strides)):
            raise TensorStateChanged("a leaf of autograd is made whose sizes depend on values")
        if not is_dense(sizes, strides):
            raise TensorStateChanged("a leaf of autograd is made of a tensor that is not dense")
        args = (sizes, strides, like.dtype, like.device, requires_grad, parameter)
        with disable_current_modes(), DisableTorchFunction():
            real = new_leaf(*args)
        made: torch.Tensor = self._tensors.graph.add_input("leaf", real)
        self.steps.append((Step(new_leaf, args), real))
        return made

    def is_new_leaf(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor was made in the trace, as a leaf that requires grad."""
        return id(tensor) in self._leaves or any(each.made is tensor for each in self._filled)

    def world_object(self, source: Source) -> Given:
        """An object of the world, as an argument of a step before the graph."""
        self.given.append(source)
        return Given(len(self.given) - 1)

    def is_made(self, real: object) -> bool:
        """Whether an input is made by a step before the graph."""
        return any(value is real for _, value in self.steps)

    # ------------------------------------------------------------------ the end

    def prologue(self, inputs: list[Any], leaves: list[int]) -> tuple[Prologue, list[Any]]:
        """The steps before the graph, and the graph's inputs that no step makes."""
        positions = {id(value): i for i, value in enumerate(inputs)}
        steps = [replace(step, position=positions.get(id(real))) for step, real in self.steps]
        made = {step.position for step in steps}
        rest = [value for i, value in enumerate(inputs) if i not in made]
        return Prologue(tuple(steps), len(self.given), tuple(leaves)), rest

    def switched(self) -> Iterable[int]:
        """The world tensors whose `requires_grad` was set, by id."""
        return self._switched.keys()

    def switches(self) -> Iterator[Effect]:
        for each in self._switched.values():
            if each.fake.requires_grad and each.before:
                continue  # one that was on for a while may be so from before the graph on
            if not each.fake.is_leaf:
                raise TensorStateChanged("an input whose requires_grad was set is changed in place")
            yield SlotSet(each.source, _REQUIRES_GRAD, each.fake.requires_grad)

    def finish(self, outputs: Sequence[Any]) -> list[int]:
        """Decides what becomes of the leaves; the outputs that are marked after the graph."""
        if not (self._leaves or self._switched or self.replaced or self._filled):
            return []
        inputs = self._tensors.graph.fakes.inputs
        escaping = [out for out in outputs if isinstance(out, torch.Tensor)]
        roots = escaping + [each.fake for each in inputs if history(each.fake) is not None]
        paths = Paths()
        seen: set[int] = set()
        needed: set[int] = set()
        early: set[int] = set()
        reached = [paths.leaves(each) for each in map(history, roots) if each is not None]
        for found in [*({id(leaf) for leaf in leaves} for leaves in reached), self.wanted]:
            seen |= found
            if found & self.replaced:
                raise TensorStateChanged(
                    "data of a parameter is set, and the result is differentiable by it"
                )
            early |= {
                key for key, each in self._switched.items() if key in found and not each.before
            }
            if not found - self._leaves.keys():
                needed |= found
        returned = {id(out) for out in escaping}
        needed |= self._leaves.keys() & (self.wanted | (seen & returned))
        self._check_filled(escaping)
        self._materialize([leaf for key, leaf in self._leaves.items() if key in needed], escaping)
        for key in early:
            self._switch_early(self._switched[key])
        left = self._leaves.keys() - needed
        return [
            position
            for position, out in enumerate(outputs)
            if id(out) in left and out.requires_grad and out.is_leaf
        ]

    def _switch_early(self, each: Switched) -> None:
        """An input that the graph is to differentiate by requires grad before the graph."""
        if each.used:
            raise TensorStateChanged("requires_grad of an input is set after the input was used")
        args = (self.world_object(each.source), True)
        self.steps.append((Step(set_requires_grad, args, saved=saved_requires_grad), None))
        for given in self._tensors.graph.fakes.inputs:
            if given.fake is each.fake:
                given.starts_with_grad = self._tensors.graph.fakes.touched = True

    def _materialize(self, kept: list[Leaf], escaping: list[torch.Tensor]) -> None:
        graph = self._tensors.graph
        for leaf in self._leaves.values():
            if leaf in kept:
                self._check_alone(leaf, escaping)
                made = self._new_leaf(leaf.fake, True, False)
                node = graph.node(made)
                (source,) = leaf.marker.args
                with graph.graph.inserting_before(leaf.marker):
                    off = graph.graph.call_function(set_grad_enabled, (False,))
                    fill = graph.graph.call_method("copy_", (node, source))
                    fill.meta["example_value"] = made
                    on = graph.graph.call_function(set_grad_enabled, (leaf.grad_enabled,))
                for each in (off, fill, on):
                    graph.keep(each)
                graph.fakes.touched = True
            else:
                (node,) = leaf.marker.args  # type: ignore[assignment]
            leaf.marker.replace_all_uses_with(node)
            graph.graph.erase_node(leaf.marker)
            graph.arguments.rebind(leaf.fake, node, leaf.marker)

    def _check_alone(self, leaf: Leaf, escaping: list[torch.Tensor]) -> None:
        """The leaf is a copy: nobody may tell that it does not share its memory."""
        storage = storage_of(leaf.fake)
        others = [each.fake for each in self._tensors.graph.fakes.inputs]
        others += [out for out in escaping if out is not leaf.fake]
        escapes = any(out is leaf.fake for out in escaping)
        if escapes and any(storage_of(other) == storage for other in others):
            raise TensorStateChanged(
                "a tensor that begins to require grad shares its memory with another"
            )
        if _is_written(leaf.marker, storage):
            raise TensorStateChanged("a tensor that begins to require grad is changed in place")

    def _check_filled(self, escaping: list[torch.Tensor]) -> None:
        """A parameter is a copy of its data: nobody may tell that it does not share memory."""
        inputs = self._tensors.graph.fakes.inputs
        for each in self._filled:
            data, own = storage_of(each.data), storage_of(each.made)
            data_stays = any(storage_of(other.fake) == data for other in inputs) or any(
                storage_of(out) == data for out in escaping
            )
            own_stays = any(storage_of(out) == own for out in escaping)
            if data_stays and own_stays:
                raise TensorStateChanged(
                    "a parameter is made that shares its memory with another tensor"
                )
            if _is_written(each.node, data):
                raise TensorStateChanged(
                    "the data of a parameter made in the call is changed in place"
                )
            if _is_written(each.node, own) and (data_stays or _is_used(each.node, data)):
                raise TensorStateChanged("a parameter is changed in place that shares its memory")


def history(tensor: torch.Tensor) -> Any:
    """Its `grad_fn`, if there is one that torch can tell.

    It can't for a view made without grad mode whose base was changed since then.
    """
    try:
        return tensor.grad_fn
    except RuntimeError:
        return None


class Paths:
    """Walks the autograd graph of fake tensors."""

    def __init__(self) -> None:
        self._known: dict[Any, list[torch.Tensor]] = {}

    def leaves(self, start: Any) -> list[torch.Tensor]:
        """The leaves that a result is differentiable by."""
        if start in self._known:
            return self._known[start]
        found: dict[int, torch.Tensor] = {}
        seen = {start}
        pending = [start]
        while pending:
            step = pending.pop()
            variable = getattr(step, "variable", None)
            if isinstance(variable, torch.Tensor):
                found[id(variable)] = variable
            for following, _ in step.next_functions:
                if following is not None and following not in seen:
                    seen.add(following)
                    pending.append(following)
        self._known[start] = list(found.values())
        return self._known[start]


def user_call(function: Callable[..., Any], *args: Any) -> Any:
    """What torch answers, or its error as the program's."""
    try:
        with DisableTorchFunction():
            return function(*args)
    except Exception as error:
        error.__traceback__ = error.__context__ = error.__cause__ = None
        error.__suppress_context__ = False
        raised = error
    return core.raise_user(raised)


def is_dense(sizes: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether each place in memory is that of one element, without gaps."""
    expected = 1
    dims = [(stride, size) for stride, size in zip(strides, sizes, strict=True) if size != 1]
    for stride, size in sorted(dims):
        if stride != expected:
            return False
        expected *= size
    return True


def _is_used(after: fx.Node, storage: int, only: Callable[[fx.Node], bool] | None = None) -> bool:
    """Whether a node behind this one takes a tensor in this memory."""
    node = after.next
    while node.op != "root":
        if node.op not in ("output", "placeholder") and (only is None or only(node)):
            values = [given.meta.get("example_value") for given in node.all_input_nodes]
            if any(storage_of(tensor) == storage for tensor in tensors_in(values)):
                return True
        node = node.next
    return False


def _is_written(after: fx.Node, storage: int) -> bool:
    return _is_used(after, storage, lambda node: KEEP in node.meta)


_BASE: Final[Any] = TensorBase.__dict__["_base"]
_LEAF: Final[Any] = TensorBase.__dict__["is_leaf"].__get__


def is_leaf(tensor: torch.Tensor) -> bool:
    with DisableTorchFunction():
        return bool(_LEAF(tensor))


def _is_no_leaf(tensor: torch.Tensor) -> bool:
    return not is_leaf(tensor)
