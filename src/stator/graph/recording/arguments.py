"""From the values of a traced program to the arguments of FX nodes.

The side table of the graph lives here: the node of each fake tensor, by identity.
"""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch
import torch.fx as fx

from stator import objects
from stator.diagnostics.catalogue import NoGraphOperation, TensorSubclass
from stator.graph.fakes.memory import storage_of
from stator.graph.fakes.wrappers import is_wrapper, parts_of
from stator.graph.recording.errors import Unsupported, UntrackedTensorError
from stator.graph.recording.origins import note_origin
from stator.graph.unknown.symbols import SymbolicNumber, Symbols
from stator.torchlib.operators import OpOverload, OpOverloadPacket


@dataclass(frozen=True, eq=False)
class Handle:
    """A Python object that passes from node to node of a graph, and never leaves it."""

    value: Any


@dataclass(frozen=True)
class Item:
    """A tensor inside the result of a node: `parent[key]`, not yet in the graph."""

    parent: "fx.Node | Item"
    key: int | str


@dataclass(frozen=True)
class Part:
    """A tensor that a wrapper holds as an attribute, not yet in the graph."""

    holder: torch.Tensor
    name: str


# Written into the graph as they are; compared by exact type, since a subclass may print otherwise.
_LITERALS: Final[frozenset[type]] = frozenset(
    {
        int,
        float,
        bool,
        complex,
        str,
        bytes,
        type(None),
        type(Ellipsis),
        range,
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
    }
)
_NUMBERS: Final = (bool, int, float, complex, str)  # enum members and numpy's float64 are such
_DTYPES: Final[dict[type, torch.dtype]] = {
    int: torch.int64,
    float: torch.float64,
    bool: torch.bool,
    complex: torch.complex128,
}

_Convert: TypeAlias = Callable[[Any], Any]


class Arguments:
    """Translates values to arguments, and knows the node of each tensor."""

    def __init__(self, graph: fx.Graph, symbols: Symbols) -> None:
        self._graph = graph
        self._symbols = symbols
        self._nodes: dict[int, fx.Node | Item | Part] = {}
        self._alive: list[torch.Tensor] = []  # an id in the table is never that of a dead tensor
        self._handles: list[Handle] = []

    def bind(self, result: Any, node: fx.Node | Item | Part) -> None:
        """Notes that the tensors in `result` come from `node`.

        A tensor that is known already stays what it was: `x.add_(1)` and `x.contiguous()` may
        answer `x` itself.
        """
        if isinstance(result, torch.Tensor | Handle):
            if id(result) not in self._nodes:
                self._nodes[id(result)] = node
                kept: list[Any] = self._alive if isinstance(result, torch.Tensor) else self._handles
                kept.append(result)
        elif isinstance(result, list | tuple):
            assert not isinstance(node, Part)
            for index, item in enumerate(result):
                self.bind(item, Item(node, index))
        elif isinstance(result, dict):
            assert not isinstance(node, Part)
            for key, item in result.items():
                self.bind(item, Item(node, key))

    def bind_parts(self, wrapper: torch.Tensor) -> None:
        """Notes that what a wrapper holds comes from there, as far as it has no other node."""
        for name, part in parts_of(wrapper):
            self.bind(part, Part(wrapper, name))
            if is_wrapper(part):
                self.bind_parts(part)

    def bind_numbers(self, result: Any, node: fx.Node | Item) -> None:
        """Notes that the symbolic numbers in `result`, read from a tensor, come from `node`."""
        if isinstance(result, torch.SymInt | torch.SymFloat | torch.SymBool):
            self._symbols.define_scalar(result, lambda: self._of_item(node))
        elif isinstance(result, list | tuple):
            for index, item in enumerate(result):
                self.bind_numbers(item, Item(node, index))

    def _of_item(self, item: fx.Node | Item) -> fx.Node:
        return self._take(item) if isinstance(item, Item) else item

    def tensors(self) -> Sequence[torch.Tensor]:
        """All that have a node."""
        return self._alive

    def sharing(self, tensor: torch.Tensor) -> bool:
        """Whether another tensor has the same memory."""
        memory = storage_of(tensor)
        others = (other for other in self._alive if other is not tensor)
        return any(storage_of(other) == memory for other in others)

    def rebind(
        self, tensor: torch.Tensor, node: fx.Node | Item, old: fx.Node | None = None
    ) -> None:
        """From now on the graph has another node for a tensor (if it still has the old one)."""
        if old is None or self._nodes[id(tensor)] is old:
            self._nodes[id(tensor)] = node

    def tracks(self, value: object) -> bool:
        return id(value) in self._nodes

    def is_given(self, value: object) -> bool:
        """Whether something is an input of the graph, or a constant of it."""
        node = self._nodes.get(id(value))
        return isinstance(node, fx.Node) and node.op in ("placeholder", "get_attr")

    def node(self, tensor: torch.Tensor | Handle) -> fx.Node:
        found = self._nodes.get(id(tensor))
        if found is None:
            shape = f" of shape {tuple(tensor.shape)}" if isinstance(tensor, torch.Tensor) else ""
            kind = f"{type(tensor).__name__}{shape}"
            text = f"a {kind} was not made by the graph that uses it"
            raise UntrackedTensorError(text, tensor)
        if isinstance(found, Part):
            found = self._nodes[id(tensor)] = self._take_part(found)
        elif isinstance(found, Item):
            found = self._nodes[id(tensor)] = self._take(found)
        return found

    def _take_part(self, part: Part) -> fx.Node:
        parent = self.node(part.holder)
        value = getattr(part.holder, part.name)
        if value.requires_grad and self._is_held(part):
            # What a backend compiles of the graph knows the gradient of the wrapper, not of it.
            text = f"{part.name} of a {type(part.holder).__qualname__}, which requires grad itself"
            raise Unsupported(text, TensorSubclass)
        node = self._graph.call_function(getattr, (parent, part.name))
        node.meta["example_value"] = value
        note_origin(node, parent.meta.get("nn_module_stack", {}), parent.meta.get("stack_trace"))
        return node

    def _is_held(self, part: Part) -> bool:
        """Whether it is in an input of the graph."""
        node: Any = self._nodes.get(id(part.holder))
        while isinstance(node, fx.Node) and node.target is getattr:
            node = node.args[0]
        return isinstance(node, fx.Node) and node.op == "placeholder"

    def _take(self, item: Item) -> fx.Node:
        parent = self._take(item.parent) if isinstance(item.parent, Item) else item.parent
        node = self._graph.call_function(operator.getitem, (parent, item.key))
        node.meta["example_value"] = parent.meta["example_value"][item.key]
        note_origin(node, parent.meta.get("nn_module_stack", {}), parent.meta.get("stack_trace"))
        if "custom" in parent.meta:
            node.meta["custom"] = parent.meta["custom"]
        return node

    def number(self, number: SymbolicNumber) -> fx.Node | int | float | bool:
        """A symbolic number: what it always is, or the node that computes it."""
        return self._symbols.argument(number)

    def of_call(
        self, target: Any, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call, for its node: to torch's own functions, some of Python's types
        mean dtypes.
        """
        given: list[Any] = []
        for value in args:
            node = self._nodes.get(id(value))
            if type(node) is fx.Node:
                given.append(node)
            elif type(value) is type:
                given.append(self.of(_dtype(target, value)))
            else:
                given.append(self.of(value))
        if not kwargs:
            return tuple(given), {}
        return tuple(given), {
            name: self.of(_dtype(target, value)) for name, value in kwargs.items()
        }

    def of(self, value: Any) -> Any:
        """`value` as an FX argument: tensors and symbolic numbers become nodes."""
        kind = type(value)
        if kind in _LITERALS:
            return value
        if isinstance(value, torch.Tensor | Handle):
            return self.node(value)
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return self.number(value)
        if kind is list:
            return [self.of(item) for item in value]
        if isinstance(value, tuple):
            items = tuple(self.of(item) for item in value)
            named = hasattr(kind, "_fields")
            return tuple.__new__(kind, items) if named else items
        if kind is dict:
            return {key: self.of(item) for key, item in value.items()}
        if kind is slice:
            return slice(self.of(value.start), self.of(value.stop), self.of(value.step))
        for base in _NUMBERS:
            if isinstance(value, base):
                return _plain(base, value)
        if isinstance(value, OpOverload | OpOverloadPacket):
            return value
        like_tensor = objects.lookup(kind, "__torch_function__") is not None
        cause = TensorSubclass if like_tensor else NoGraphOperation
        text = f"a value of type {kind.__module__}.{kind.__qualname__} in a graph"
        raise Unsupported(text, cause)


def _dtype(target: Any, value: Any) -> Any:
    if type(value) is not type or not _is_torchs(target):
        return value
    return _DTYPES.get(value, value)


def _is_torchs(target: Any) -> bool:
    if isinstance(target, tuple):  # a method of a tensor
        return True
    return str(getattr(target, "__module__", "")).partition(".")[0] == "torch"


def _plain(base: type, value: Any) -> Any:
    """The number or string in an instance of a subclass, without asking the subclass."""
    converters: dict[type, _Convert] = {
        int: int.__int__,
        float: float.__float__,
        complex: complex.__pos__,
        str: str.__str__,
    }
    return converters[base](value)


def graphs_in(value: Any) -> Iterator[fx.GraphModule]:
    """The graphs among the arguments of an operator, those in tuples, too."""
    if isinstance(value, fx.GraphModule):
        yield value
    elif type(value) is tuple:
        for part in value:
            yield from graphs_in(part)


def with_graphs(value: Any, other: _Convert, graph: _Convert) -> Any:
    """Arguments of an operator, its graphs converted by one function, the others by another."""
    if isinstance(value, fx.GraphModule):
        return graph(value)
    if type(value) is tuple and any(True for _ in graphs_in(value)):
        return tuple(with_graphs(part, other, graph) for part in value)
    return other(value)
