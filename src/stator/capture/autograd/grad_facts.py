"""Whether anything depends on which inputs require grad.

Stage: capture, for `Tensors`. In: what the program asks tensors while it is traced, and at the end
the graph. Out: the guards of inputs, without `requires_grad` where nothing depends on it.

While grad mode is off, most operators compute the same whether their inputs require grad or not.
So a model that is called under `no_grad` need not be compiled again when parameters are frozen, and
in each call there is less to look at. Positive evidence is needed: grad mode is off and stays off,
no one has asked a tensor for anything about gradients, and the input goes into operators of
`grad_blind` only. Others may look at it in any mode: `matmul` folds dimensions by it, `resize_`
refuses, a view takes it over from its base.
"""

from typing import TYPE_CHECKING, Any

import torch
import torch.fx as fx

from stator.graph import Recorded
from stator.graph.fakes.inputs import tensors_in
from stator.graph.leaves import grad_blind
from stator.torchlib.modes import is_any_autocast_enabled

if TYPE_CHECKING:
    from stator.capture.tensors.tensors import Tensors
    from stator.graph.passes.retry import Changes
    from stator.guards.tensors import TensorMatch


class Grads:
    """What one trace knows of it."""

    def __init__(self) -> None:
        self._matches: dict[int, TensorMatch] = {}  # by id of the real tensor
        self._asked = torch.is_grad_enabled() or is_any_autocast_enabled()
        self.looked = 0
        """How often the program has asked for more than whether a tensor requires grad."""

    def wrapped(self, real: torch.Tensor, match: "TensorMatch") -> "TensorMatch":
        """A tensor has become an input, with this guard."""
        self._matches[id(real)] = match
        return match

    def asked(self) -> None:
        """The program, or we on its behalf, have looked at what tensors have to do with grad."""
        self._asked = True
        self.looked += 1

    def attribute(self, name: str) -> None:
        """An attribute of a tensor is told."""
        blind = grad_blind.is_blind_attribute(name)
        self._asked = self._asked or not blind
        self.looked += not blind and name != "requires_grad"

    def answer(self, function: Any, args: list[Any]) -> None:
        """A function has told something while tracing."""
        if not grad_blind.is_blind_question(function):
            found = any(True for _ in tensors_in(args))
            self.looked += found
            self._asked = self._asked or found

    def forget(self, tensors: "Tensors", recorded: Recorded, changes: "Changes") -> None:
        """At the end: guards ask for `requires_grad` where it may matter."""
        if self._asked or changes.scopes or tensors.graph.fakes.touched:
            return
        nodes = _inputs(recorded)
        for given in tensors.graph.fakes.inputs:
            match, node = self._matches.get(id(given.real)), nodes.get(id(given.real))
            if match is None or node in changes.inputs or not given.untouched():
                continue
            if node is None or all(map(grad_blind.is_blind, node.users)):
                match.requires_grad = None


def _inputs(recorded: Recorded) -> dict[int, fx.Node]:
    """The placeholders, by id of what is given for them; one that nothing uses is gone."""
    nodes = (node for node in recorded.module.graph.nodes if node.op == "placeholder")
    given = (id(each.value) for each in recorded.inputs)
    return dict(zip(given, nodes, strict=True))
