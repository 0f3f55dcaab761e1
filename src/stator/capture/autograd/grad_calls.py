"""`torch.autograd.grad` in a trace: one node of the graph.

Stage: capture, for `TensorState`. In: a call on tensors of the trace. Out: the gradients, by way of
the autograd graph that the fake tensors have; or a `Break` where the real one may hold more.

The graph runs on real tensors, so what is differentiated in it has the same autograd graph there,
but for what happened before the call. A backend with an autograd of its own traces the node.
"""

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NoReturn

import torch

from stator._native._core import Frame
from stator.capture.autograd.autograd_leaves import Paths, history, is_leaf
from stator.capture.autograd.retained_grads import Retained
from stator.capture.regions.leaving import left
from stator.contracts import Depth
from stator.diagnostics.catalogue import AutogradInside, TensorSubclass
from stator.graph import RecordingError, UntrackedTensorError
from stator.graph.fakes.inputs import tensors_in
from stator.guards import Callback
from stator.torchlib.tensors import DisableTorchFunction, TensorBase

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

# What torch says of a part of the autograd graph that an earlier call has used up.
_SECOND: Final = "Trying to backward through the graph a second time"
_HOOKS: Final[Any] = TensorBase.__dict__["_backward_hooks"].__get__


class Gradients:
    """Gradients that one trace computes."""

    def __init__(self, tensors: "Tensors") -> None:
        self._tensors = tensors
        self.by: set[int] = set()  # ids of inputs that are differentiated by
        self.retained = Retained(tensors)
        self._roots: list[Any] = []  # nodes of autograd that were begun at

    def autograd_grad(
        self,
        frame: Frame | None,
        outputs: Any,
        inputs: Any,
        grad_outputs: Any = None,
        retain_graph: Any = None,
        create_graph: Any = False,
        only_inputs: Any = True,
        allow_unused: Any = None,
        is_grads_batched: Any = False,
        materialize_grads: Any = False,
    ) -> Any:
        """`torch.autograd.grad(outputs, inputs, …)`."""
        name = "torch.autograd.grad"
        self._tensors.own.outermost(name)
        if only_inputs is not True or is_grads_batched is not False:
            raise AutogradInside("torch.autograd.grad of other inputs, or in batches")
        given = (outputs, inputs, grad_outputs)
        self.read(name, given)
        self._check_inputs(list(tensors_in(inputs)))
        self._tensors.own.wanted.update(map(id, leaves_of(tensors_in(inputs))))
        options = {
            "retain_graph": retain_graph,
            "create_graph": create_graph,
            "allow_unused": allow_unused,
            "materialize_grads": materialize_grads,
        }
        return self.differentiate(frame, name, given, options)

    def read(self, name: str, given: Any) -> None:
        """The function `name` looks at all tensors that it is given."""
        self._tensors.ready(given, Depth.DEEP)
        if self._tensors.overrides.concerns(*tensors_in(given)):
            raise TensorSubclass(f"{name} of a tensor of a subclass")

    def differentiate(
        self, frame: Frame | None, name: str, given: tuple[Any, Any, Any], options: dict[str, Any]
    ) -> Any:
        """The node, on behalf of the function `name`; the gradients, as `torch.autograd.grad`."""
        graph = self._tensors.graph
        outputs, inputs, gradients = given
        kept = self._kept(list(tensors_in(outputs)), list(tensors_in(inputs)), options)
        if kept:
            inputs = (*tensors_in(inputs), *kept)
        trace = None if frame is None else self._tensors.stack_trace(frame)
        arguments = (outputs, inputs, gradients)
        try:
            with warnings.catch_warnings(), torch.autograd.set_multithreading_enabled(False):
                warnings.simplefilter("ignore")
                found = graph.call(torch.autograd.grad, arguments, options, stack_trace=trace)
        except UntrackedTensorError as error:
            raise left(error, "and is used") from None
        except RecordingError as failure:
            self._refuse(name, failure, list(tensors_in(outputs)))
        self._roots += [each for each in map(history, tensors_in(outputs)) if each is not None]
        last = next(iter(reversed(graph.graph.nodes)))
        if last.target is torch.autograd.grad:
            # A second use in the program is an error here. But a backend that compiles the backward
            # of the graph differentiates it once more itself.
            last.update_kwarg("retain_graph", True)
        if not kept:
            return found
        count = len(found) - len(kept)
        for tensor, gradient in zip(kept, found[count:], strict=True):
            self.retained.add(frame, tensor, gradient)
        return found[:count]

    def _kept(
        self, outputs: list[torch.Tensor], inputs: list[torch.Tensor], options: dict[str, Any]
    ) -> list[torch.Tensor]:
        """The tensors on the way whose gradients are kept."""
        if not self.retained:
            return []
        starts = [each for each in map(history, outputs) if each is not None]
        kept = self.retained.among(_all_steps(starts))
        some = {id(leaf) for leaf in leaves_of(outputs)} - {id(each) for each in inputs}
        if kept and (some or options.get("create_graph") or options.get("materialize_grads")):
            raise AutogradInside("gradients of intermediate results are kept, and not all computed")
        return kept

    def _refuse(self, name: str, failure: RecordingError, outputs: list[torch.Tensor]) -> NoReturn:
        error = failure.__cause__
        if type(error) is RuntimeError and str(error).startswith(_SECOND):
            if all(map(_is_used_up, outputs)):
                self._tensors.refuse(error)  # the program catches it, or is run as it is
            # In eager, some leaves may have their gradients by now.
            reason = f"{name} through a graph of autograd of which a part is used up"
            raise AutogradInside(reason, whole=True) from None
        # Not what eager says of other tensors: these have no autograd graph.
        raise AutogradInside(f"{name}: {error or failure}") from None

    def spent(self, tensor: torch.Tensor) -> bool:
        """Whether a result can't be differentiated any more, since the program has done it."""
        if not self._roots or not tensor.requires_grad:
            return False
        start = history(tensor)
        if start is None:
            return False
        return _is_used_up(tensor) or (
            start in self._roots and any(map(_is_freed, _all_steps([start])))
        )

    def _check_inputs(self, targets: list[torch.Tensor]) -> None:
        """What is differentiated by must not be reached by another path, before the call."""
        known = self._tensors.inputs
        given = [target for target in targets if id(target) in known]
        self.by.update(map(id, given))
        for target in given:
            raw, source = known[id(target)]
            if not has_no_hooks(raw):
                raise AutogradInside("torch.autograd.grad by a tensor that has hooks")
            self._tensors.world.guard(source, Callback(has_no_hooks, "without backward hooks"))
        for other in self._tensors.graph.fakes.inputs if given else ():
            if not other.real.requires_grad or all(target is other.fake for target in given):
                continue
            if not is_leaf(other.real):
                raise AutogradInside(
                    "torch.autograd.grad by an input, and another was computed before the call"
                )
            self._tensors.own.guard_leaf(other.fake)


def leaves_of(tensors: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    """The leaves of autograd that these depend on, each once."""
    paths = Paths()
    found: dict[int, torch.Tensor] = {}
    for tensor in tensors:
        reached = [tensor] if tensor.grad_fn is None else paths.leaves(tensor.grad_fn)
        found.update((id(leaf), leaf) for leaf in reached)
    return list(found.values())


def _all_steps(starts: Iterable[Any]) -> set[Any]:
    """The nodes of autograd behind these."""
    pending = list(starts)
    seen = set(pending)
    while pending:
        new = {each for each, _ in pending.pop().next_functions if each is not None} - seen
        seen |= new
        pending += new
    return seen


def _is_used_up(tensor: torch.Tensor) -> bool:
    """Whether each path to a leaf leads through a node of autograd that is used up."""
    pending = [history(tensor)]
    seen = set(pending)
    while pending:
        step = pending.pop()
        if step is None:
            return False
        if _is_freed(step):
            continue
        if not step.next_functions:
            return False  # a leaf
        new = {each for each, _ in step.next_functions if each is not None} - seen
        seen |= new
        pending += new
    return True


def _is_freed(step: Any) -> bool:
    """Whether a node of autograd had tensors to compute with, and has them no more."""
    try:
        for name in dir(type(step)):
            if name.startswith("_saved_") or name == "saved_tensors":
                getattr(step, name)
    except RuntimeError as error:
        return str(error).startswith(_SECOND)
    return False


def has_no_hooks(tensor: torch.Tensor) -> bool:
    with DisableTorchFunction():
        return not _HOOKS(tensor)
