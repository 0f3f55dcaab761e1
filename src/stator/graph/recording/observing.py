"""What a value in the graph is in the call that is being traced.

In: a recorder, in the middle of a trace. Out: the real value of a node, computed from the real
inputs, as the compiled graph would. The trace may then take for granted what it saw, if that is
checked whenever the graph runs (`retry`).

Each node is computed once per trace, with torch's state and its random numbers as they are in the
program at that point; afterwards they are what they were. Nothing that a node could change is real:
inputs are copied, and a graph that has changed one that can't be, or that does more than compute,
is not observed.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
import torch
import torch.fx as fx

from stator.graph.fakes.memory import storage_of
from stator.graph.passes.drawing import nodes_of
from stator.graph.passes.prologue import same_leaf
from stator.graph.passes.purity import DRAWS, is_torch_function
from stator.graph.recording.errors import Unsupported
from stator.graph.recording.function_modes import without_modes
from stator.graph.recording.interrupts import is_interrupt
from stator.graph.recording.output import OutputGraph
from stator.graph.recording.state import State
from stator.torchlib.modes import disable_current_modes
from stator.torchlib.operators import HigherOrderOperator
from stator.torchlib.tensors import DisableTorchFunction

_MOST_MEMORY: Final = 2 << 30  # bytes of results that are kept


class Observer:
    """Computes nodes of a graph that is being recorded."""

    def __init__(self, graph: OutputGraph, start: State) -> None:
        self._graph = graph
        self._state = start  # as it is behind the last node that was computed
        self._values: dict[fx.Node, Any] = {}
        self._last: fx.Node | None = None  # that was computed, but for inputs and sizes
        self._memory = 0
        self._over = False

    def value(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """What a fake tensor stands for; None if that can't be known."""
        found = self._computed(self._graph.node(tensor))
        return found if isinstance(found, torch.Tensor) else None

    def number(self, number: Any) -> Any:
        """What a symbolic number is; None if that can't be known."""
        try:
            node = self._graph.symbols.argument(number)
        except Unsupported:  # a symbol that no node has made
            return None
        return self._computed(node)

    def holds(self, condition: Any) -> bool | None:
        """Whether a condition on symbols is true; None if that can't be known."""
        known = self._graph.shape_env.backed_var_to_val
        point: dict[Any, Any] = {}
        for symbol in condition.free_symbols:
            value = known.get(symbol)
            if value is None:
                value = self._symbol(symbol)
            if value is None:
                return None
            point[symbol] = value
        try:
            answer = condition.xreplace(point)
        except ZeroDivisionError:
            return None
        return bool(answer) if answer in (sympy.true, sympy.false) else None

    def _symbol(self, symbol: Any) -> Any:
        """The value of a symbol, as sympy has it."""
        if not self._graph.symbols.defines(symbol):
            return None  # of the operation that is being carried out
        try:
            value = self._computed(self._graph.symbols.node_of(symbol))
        except Unsupported:
            return None
        return sympy.Integer(value) if isinstance(value, int) else None

    def _computed(self, node: Any) -> Any:
        if not isinstance(node, fx.Node):
            return node
        known = self._values.get(node)
        if isinstance(known, int):  # other than a tensor, it stays what it is
            return known
        new = [] if self._over else self._new()
        if self._over or not self._may_run(new):
            self._over = True
            return None
        with DisableTorchFunction(), disable_current_modes():
            now = State.capture()
            try:
                self._state.restore()
                self._run(new, node)
                self._state = State.capture()
            except Exception as error:  # an input that is no tensor, an operator that refuses
                if is_interrupt(error):
                    raise
                self._over = True
            finally:
                now.restore()
        if self._over or self._memory > _MOST_MEMORY:
            self._over = True
            return None
        return self._values.get(node)

    def _may_run(self, new: Sequence[fx.Node]) -> bool:
        """Whether running the nodes changes nothing that is real."""
        inputs = self._graph.fakes.inputs
        written = self._graph.overwritten
        changed = [
            given for given in inputs if not given.untouched() or storage_of(given.fake) in written
        ]
        if changed:
            memory = Counter(storage_of(given.fake) for given in inputs)
            if any(given.real.requires_grad or given.fake.requires_grad for given in changed):
                return False
            # Each input is copied by itself: what one shares with another would be lost.
            if any(memory[storage_of(given.fake)] > 1 for given in changed):
                return False
        return not self._graph.fakes.touched and all(map(self._only_computes, new))

    def _only_computes(self, node: fx.Node) -> bool:
        if node.op != "call_module":
            return _only_computes(node)
        region = self._graph.regions[str(node.target)]
        if not getattr(region, "computes", False) or node.meta.get(DRAWS, 1):
            return False
        return all(_only_computes(each) or each.op == "call_module" for each in nodes_of(region))

    def _new(self) -> list[fx.Node]:
        """The nodes behind the last one that was computed, in their order.

        Inputs, and sizes of results, come in before it: they are computed when they are needed.
        """
        last = self._last
        if last is None or last._erased:
            return [node for node in self._graph.graph.nodes if node not in self._values]
        new: list[fx.Node] = []
        while last.next.op != "root":
            last = last.next
            new.append(last)
        return new

    def _run(self, new: Sequence[fx.Node], wanted: fx.Node) -> None:
        given = self._graph.real_inputs()
        for node in new:
            self._value(node, given)
            self._last = node
        self._value(wanted, given)

    def _value(self, node: fx.Node, given: Mapping[fx.Node, Any]) -> Any:
        if node not in self._values:
            self._compute(node, given)
        return self._values[node]

    def _compute(self, node: fx.Node, given: Mapping[fx.Node, Any]) -> None:
        if node.op == "placeholder":
            real = given[node]
            if not isinstance(real, torch.Tensor | int):
                raise TypeError("an input that is no tensor")
            if isinstance(real, torch.Tensor) and not real.requires_grad:
                real = real.clone()  # running statistics change without being counted
            self._values[node] = real
            return
        if node.op == "get_attr":
            held = self._graph.attribute(str(node.target))
            # The graph's own constant must stay what it is.
            self._values[node] = held.clone() if isinstance(held, torch.Tensor) else held
            return
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: self._value(n, given))
        if node.op == "call_module":
            with without_modes():
                result = self._graph.regions[str(node.target)](*args, **kwargs)
        elif isinstance(node.target, HigherOrderOperator):
            with without_modes():
                result = node.target(*args, **kwargs)
        elif node.op == "call_method":
            result = getattr(args[0], str(node.target))(*args[1:], **kwargs)
        else:
            result = node.target(*args, **kwargs)  # type: ignore[operator]
        self._values[node] = result
        self._memory += _size(result)


def _only_computes(node: fx.Node) -> bool:
    if node.op == "call_function":
        name = str(getattr(node.target, "__name__", ""))
        if "inference_mode" in name:
            return False
        if node.target is same_leaf:
            return True
        return is_torch_function(node.target) or name in ("_enter_autocast", "_exit_autocast")
    return node.op in ("placeholder", "get_attr", "call_method", "output")


def _size(result: Any) -> int:
    if isinstance(result, torch.Tensor):
        return result.numel() * result.element_size()
    if isinstance(result, list | tuple):
        return sum(map(_size, result))
    return 0
