"""`torch.autograd.grad` in a trace: one node of the graph.

Stage: capture, for `TensorState`. In: a call on tensors of the trace. Out: the gradients, by way of
the autograd graph that the fake tensors have; or a `Break` where the real one may hold more.

The graph runs on real tensors, so what is differentiated in it has the same autograd graph there,
but for what happened before the call. A backend with an autograd of its own traces the node.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

import torch

from stator._native._core import Frame
from stator.capture.autograd_leaves import Paths, is_leaf
from stator.contracts import Depth
from stator.diagnostics.catalogue import AutogradInside, RegionContents, TensorSubclass
from stator.graph import RecordingError, UntrackedTensorError
from stator.graph.arguments import Arguments
from stator.graph.fakes import tensors_in
from stator.guards import Callback

if TYPE_CHECKING:
    from stator.capture.tensors import Tensors

# What torch says of a part of the autograd graph that an earlier call has used up.
_SECOND: Final = "Trying to backward through the graph a second time"
_HOOKS: Final[Any] = torch._C.TensorBase.__dict__["_backward_hooks"].__get__


class Gradients:
    """Gradients that one trace computes."""

    def __init__(self, tensors: "Tensors") -> None:
        self._tensors = tensors
        self.by: set[int] = set()  # ids of inputs that are differentiated by

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
        graph = self._tensors.graph
        if type(graph.arguments) is not Arguments:
            raise RegionContents("torch.autograd.grad inside of a region of the graph")
        if only_inputs is not True or is_grads_batched is not False:
            raise AutogradInside("torch.autograd.grad of other inputs, or in batches")
        given = (outputs, inputs, grad_outputs)
        self._tensors.ready(given, Depth.DEEP)
        if self._tensors.overrides.concerns(*tensors_in(given)):
            raise TensorSubclass("torch.autograd.grad of a tensor of a subclass")
        self._check_inputs(list(tensors_in(inputs)))
        self._tensors.own.wanted.update(map(id, _leaves(tensors_in(inputs))))
        options = {
            "retain_graph": retain_graph,
            "create_graph": create_graph,
            "allow_unused": allow_unused,
            "materialize_grads": materialize_grads,
        }
        trace = None if frame is None else self._tensors.stack_trace(frame)
        try:
            with torch.autograd.set_multithreading_enabled(False):
                found = graph.call(torch.autograd.grad, given, options, stack_trace=trace)
        except UntrackedTensorError:
            raise RegionContents("a tensor has left a region sideways, and is used") from None
        except RecordingError as failure:
            freed = failure.__cause__
            if type(freed) is RuntimeError and str(freed).startswith(_SECOND):
                self._tensors.refuse(freed)  # the program catches it, or is run as it is
            # Not what eager says of other tensors: these have no autograd graph.
            raise AutogradInside(f"torch.autograd.grad: {failure.__cause__ or failure}") from None
        last = next(iter(reversed(graph.graph.nodes)))
        if last.target is torch.autograd.grad:
            # A second use in the program is an error here. But a backend that compiles the backward
            # of the graph differentiates it once more itself.
            last.update_kwarg("retain_graph", True)
        return found

    def _check_inputs(self, targets: list[torch.Tensor]) -> None:
        """What is differentiated by must not be reached by another path, before the call."""
        known = self._tensors.inputs
        given = [target for target in targets if id(target) in known]
        self.by.update(map(id, given))
        for target in given:
            raw, source = known[id(target)]
            if not _has_no_hooks(raw):
                raise AutogradInside("torch.autograd.grad by a tensor that has hooks")
            self._tensors.world.guard(source, Callback(_has_no_hooks, "without backward hooks"))
        for other in self._tensors.graph.fakes.inputs if given else ():
            if not other.real.requires_grad or all(target is other.fake for target in given):
                continue
            if not is_leaf(other.real):
                raise AutogradInside(
                    "torch.autograd.grad by an input, and another was computed before the call"
                )
            self._tensors.own.guard_leaf(other.fake)


def _leaves(tensors: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    """The leaves of autograd that these depend on."""
    paths = Paths()
    for tensor in tensors:
        if tensor.grad_fn is None:
            yield tensor
        else:
            yield from paths.leaves(tensor.grad_fn)


def _has_no_hooks(tensor: torch.Tensor) -> bool:
    with torch._C.DisableTorchFunction():
        return not _HOOKS(tensor)
