"""`t.grad_fn` of tensors that are made in the call: what the program learns from it.

In: a tensor that is differentiable, and what the program asks its node. Out: names, and the nodes
behind it; anything else makes the function run as it is.

The fakes of a trace have an autograd graph of their own, made by torch as in eager. Its nodes tell
what eager's would: what they are called, of which class they are, which ones come next. They are
no nodes of the graph that a backend makes, so none may leave the trace, be hooked or called; and
nobody can tell what is behind a tensor that was computed before the call.
"""

from typing import TYPE_CHECKING, Any, Final, NoReturn

import torch

from stator.diagnostics.catalogue import AutogradInside
from stator.torchlib.tensors import DisableTorchFunction

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors

_REASON: Final = "Tensor.grad_fn: the autograd graph of tensors is not followed"


def node_name(node: Any) -> str:
    """Stands for the method `name` of a node; `NODES` answers it."""
    raise NotImplementedError


class AutogradNodes:
    """The nodes that a program has seen."""

    def __init__(self, tensors: "Tensors") -> None:
        self._tensors = tensors
        self._seen: dict[int, Any] = {}

    def __bool__(self) -> bool:
        return bool(self._seen)

    def holds(self, value: Any) -> bool:
        return id(value) in self._seen

    def see(self, tensor: torch.Tensor, node: Any) -> Any:
        """The node of a tensor, as the program gets it."""
        if id(tensor) in self._tensors.inputs:
            raise AutogradInside(_REASON)
        made = self._tensors.graph.node(tensor)
        origins = (made, *made.all_input_nodes)
        if any(each.op == "call_module" for each in origins) or self._tensors.inside:
            refuse()  # what a region of the graph makes is its own affair
        return self._add(node)

    def _add(self, node: Any) -> Any:
        self._seen[id(node)] = node
        self._tensors.world.keep(node)
        self._tensors.world.opaque[id(node)] = f"an autograd node ({type(node).__name__})"
        return node

    def getattr(self, node: Any, name: str) -> Any:
        """`node.name` and `node.next_functions`."""
        if name == "name":
            return node_name.__get__(node)
        if name != "next_functions":
            refuse()
        before = []  # the objects themselves: torch makes one anew where nobody has kept it
        with DisableTorchFunction():
            for fake, (_, _) in self._given():
                if fake.requires_grad:
                    self._tensors.own.guard_leaf(fake)
                    if fake.grad_fn is not None:
                        before.append(fake.grad_fn)
            following = node.next_functions
            if any(each is other for each, _ in following for other in before):
                refuse()  # it was computed before the call
        return tuple((None if each is None else self._add(each), nr) for each, nr in following)

    def _given(self) -> list[tuple[Any, Any]]:
        inputs = self._tensors.graph.fakes.inputs
        known = self._tensors.inputs
        return [(each.fake, known[id(each.fake)]) for each in inputs if id(each.fake) in known]


def refuse() -> NoReturn:
    """A backend with an autograd of its own would have made another node."""
    raise AutogradInside(_REASON, whole=True)


def _name(calls: Any, frame: Any, function: Any, args: list[Any], kwargs: Any) -> Any:
    if len(args) != 1 or kwargs:
        refuse()
    with DisableTorchFunction():
        return args[0].name()


NODES: Final = {id(node_name): _name}
