"""Inputs that a graph gives another shape: `out=` arguments that are empty, `resize_`, `t_`.

In: the graph at the end of a trace. Out: steps that resize such tensors before the graph, or a
`Break`. A backend gets inputs whose memory is as large as the graph needs it: most can't make it
larger. And AOTAutograd lays tensors of another shape into their memory from its beginning, in the
order that its own copy has: so only tensors that are contiguous, before and after, are given one.
"""

from typing import TYPE_CHECKING, Any, Final

import torch
import torch.fx as fx

from stator.capture.tensors.strided import WARNED
from stator.diagnostics.catalogue import TensorStateChanged
from stator.graph.fakes.inputs import FakeInput, tensors_in
from stator.graph.fakes.memory import extent, storage_of
from stator.graph.passes.prologue import Step
from stator.graph.recording.operations import operator_name
from stator.torchlib.operators import OpOverload, OpOverloadPacket

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

_RESIZING: Final = frozenset({"resize_", "resize_as_"})
# To AOTAutograd these give a tensor another shape, also where it is the same (`t_` of one
# dimension). torch tags them as `inplace_view`.
RELAID: Final = _RESIZING | {
    *("as_strided_", "squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_"),
}


def resize_early(tensors: "Tensors") -> None:
    """Adds steps for the inputs whose memory the graph makes larger."""
    for given in tensors.graph.fakes.inputs:
        if tensors.own.is_made(given.real) or id(given.fake) in tensors.own.replaced:
            continue  # its memory is new, or another's
        node = tensors.graph.arguments.node(given.fake)
        if not given.lies_as_made() or any(_relays(user, node) for user in node.users):
            tensors.shapes.begins(given.real, tensors.sources[id(given.real)])
            if given.real.storage_offset():
                raise TensorStateChanged("a part of a tensor is given another shape")
            if not (given.real.is_contiguous() and given.fake.is_contiguous()):
                raise TensorStateChanged("the strides of a tensor are changed")
            if given.is_reshaped() and _has_views(tensors, given.fake):
                raise TensorStateChanged("a tensor is given another shape of which there are views")
        if not given.is_reshaped():
            continue
        if given.real.numel() and any(_is_out(user, node) for user in node.users):
            raise TensorStateChanged(WARNED)
        if not _grows(given):
            continue
        first = _first_user(node)
        if first is None or not _resizes(first, node) or given.real.requires_grad:
            raise TensorStateChanged("an input is made larger after it was used")
        if sum(_resizes(user, node) for user in node.users) > 1:
            raise TensorStateChanged("an input is resized more than once")
        shape = tuple(tensors.shapes.plain(None, size) for size in given.fake.shape)
        if any(type(size) is not int for size in shape) or not given.fake.is_contiguous():
            raise TensorStateChanged("an input is made larger, to a size that depends on values")
        source = tensors.own.world_object(tensors.sources[id(given.real)])
        tensors.own.steps.append((Step(_resize, (source, shape), saved=_saved), None))
        given.starts_with_shape = shape
        tensors.graph.fakes.touched = True


def _grows(given: FakeInput) -> bool:
    """Whether it takes more of its memory than before, also where the memory is large enough.

    How large memory is, is not guarded.
    """
    if given.lies_as_made():
        return False
    dims = given.real.dim()
    before = extent(given.layout[:dims], given.layout[dims : 2 * dims])
    after = extent(given.fake.shape, given.fake.stride())
    return bool(after > before)


def _has_views(tensors: "Tensors", fake: torch.Tensor) -> bool:
    """Whether the graph has other tensors on the same memory: AOTAutograd makes them anew."""
    memory = storage_of(fake)
    return any(
        each is not fake and storage_of(each) == memory
        for node in tensors.graph.graph.nodes
        for each in tensors_in(node.meta.get("example_value"))
    )


def _first_user(node: fx.Node) -> fx.Node | None:
    following = node.next
    while following.op != "root":
        if following in node.users:
            return following
        following = following.next
    return None


def _is_out(user: fx.Node, node: fx.Node) -> bool:
    if isinstance(user.target, OpOverload | OpOverloadPacket):
        outs: Any = user.kwargs.values()  # they have names of their own
    else:
        outs = (user.kwargs.get("out"),)
    return any(
        out is node or (isinstance(out, tuple | list) and any(each is node for each in out))
        for out in outs
    )


def _relays(user: fx.Node, node: fx.Node) -> bool:
    name = user.target if isinstance(user.target, str) else operator_name(user.target)
    first = user.args[0] if user.args else user.kwargs.get("self", user.kwargs.get("input"))
    return first is node and name.rpartition(".")[2] in RELAID


def _resizes(user: fx.Node, node: fx.Node) -> bool:
    if _is_out(user, node):
        return True
    return user.op == "call_method" and user.target in _RESIZING and user.args[0] is node


def _resize(tensor: torch.Tensor, shape: tuple[int, ...]) -> None:
    tensor.resize_(shape)


def _saved(tensor: torch.Tensor, _: Any) -> Any:
    shape, strides = tuple(tensor.shape), tensor.stride()
    return lambda: tensor.as_strided_(shape, strides)
