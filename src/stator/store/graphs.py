"""Graphs of torch.fx as rows, and graphs from such rows.

Stage: store. In: a graph module that runs as it is. Out: its nodes as data. A graph calls operators
of torch and functions of C without effects, and methods of tensors; anything else is refused, when
it is written and when it is read.
"""

import keyword
from collections.abc import Callable
from typing import Any, Final

import torch
import torch.fx as fx

from stator.store.codec import Reader, Row, Writer, decodes, encodes
from stator.store.reasons import Damaged, Reason, Stale, Unstorable
from stator.store.things import check_callable
from stator.torchlib.operators import INVOKE_SUBGRAPH, OpOverload, OpOverloadPacket

_OPS: Final = ("call_function", "call_method", "get_attr", "placeholder", "output")


@encodes(OpOverload)
def _overload(writer: Writer, value: Any) -> Row:
    namespace, _, name = value._schema.name.partition("::")
    return ["op", namespace, name, value._overloadname]


@decodes("op")
def _read_overload(reader: Reader, row: Row) -> Any:
    packet = _packet_named(row[1], row[2])
    found = getattr(packet, row[3], None)
    if type(found) is not OpOverload:
        raise Stale(f"there is no operator {row[1]}::{row[2]}.{row[3]}")
    return found


@encodes(OpOverloadPacket)
def _packet(writer: Writer, value: Any) -> Row:
    namespace, _, name = value._qualified_op_name.partition("::")
    return ["ops", namespace, name]


@decodes("ops")
def _read_packet(reader: Reader, row: Row) -> Any:
    return _packet_named(row[1], row[2])


def _packet_named(namespace: str, name: str) -> Any:
    if not (str(namespace).isidentifier() and str(name).isidentifier()):
        raise Damaged("no name of an operator")
    found = getattr(getattr(torch.ops, namespace), name, None)
    if type(found) is not OpOverloadPacket:
        raise Stale(f"there is no operator {namespace}::{name}")
    return found


@encodes(type(INVOKE_SUBGRAPH))
def _invoke(writer: Writer, value: Any) -> Row:
    if value is not INVOKE_SUBGRAPH:
        raise Unstorable(Reason.CALLED, str(value))
    return ["invoke"]


@decodes("invoke")
def _read_invoke(reader: Reader, row: Row) -> Any:
    return INVOKE_SUBGRAPH


def write(writer: Writer, module: fx.GraphModule) -> Row:
    """The nodes of a graph, and the graphs that are called in it."""
    numbers: dict[fx.Node, int] = {}
    nodes: list[Row] = []
    bodies: dict[str, Row] = {}
    for node in module.graph.nodes:
        target: Any = node.target
        if node.op == "get_attr":
            body = getattr(module, str(target), None)
            if not isinstance(body, fx.GraphModule):
                raise Unstorable(Reason.TENSORS, f"the graph holds {target}")
            bodies[str(target)] = write(writer, body)
        elif node.op == "call_function":
            _check(target)
            target = writer.of(target)
        elif node.op == "call_module":
            raise Unstorable(Reason.TENSORS, f"the graph holds the module {target}")
        args = _written(writer, numbers, list(node.args))
        kwargs = {name: _written(writer, numbers, value) for name, value in node.kwargs.items()}
        numbers[node] = len(nodes)
        nodes.append([_OPS.index(node.op), target, node.name, args, kwargs])
    return [nodes, bodies]


def _check(target: Any) -> None:
    if type(target) in (OpOverload, OpOverloadPacket) or target is INVOKE_SUBGRAPH:
        return
    check_callable(target)


def _written(writer: Writer, numbers: dict[fx.Node, int], value: Any) -> Any:
    """An argument: a node, a container of arguments, or a constant."""
    if isinstance(value, fx.Node):
        return ["n", numbers[value]]
    if isinstance(value, list):
        return ["l", *(_written(writer, numbers, each) for each in value)]
    if type(value) is tuple:
        return ["t", *(_written(writer, numbers, each) for each in value)]
    if isinstance(value, dict):
        return ["d", {str(k): _written(writer, numbers, v) for k, v in value.items()}]
    if type(value) is slice:
        parts = value.start, value.stop, value.step
        return ["s", *(_written(writer, numbers, each) for each in parts)]
    return ["c", writer.of(value)]


def read(reader: Reader, row: Row) -> fx.GraphModule:
    """The graph module. It has no tensors and no metadata."""
    nodes, bodies = row
    root = torch.nn.Module()
    for name, body in bodies.items():
        _identifier(name)
        root.add_module(name, read(reader, body))
    graph = fx.Graph()
    made: list[fx.Node] = []
    for number, target, name, args, kwargs in nodes:
        kind = _OPS[number]
        if kind == "call_function":
            target = reader.at(target)
            try:
                _check(target)
            except Unstorable as error:
                raise Damaged(str(error)) from None
        elif kind == "call_method" or kind == "placeholder":
            _identifier(target)
        elif kind == "get_attr" and target not in bodies:
            raise Damaged("a graph holds something")
        _identifier(name)
        for key in kwargs:
            _identifier(key)
        given = tuple(_read(reader, made, each) for each in args[1:])
        named = {key: _read(reader, made, each) for key, each in kwargs.items()}
        made.append(graph.create_node(kind, target, given, named, name))
    graph.lint()
    return fx.GraphModule(root, graph)


def _identifier(name: Any) -> None:
    """Names become part of generated code."""
    if type(name) is not str or not name.isidentifier() or keyword.iskeyword(name):
        raise Damaged("no name")


def _read(reader: Reader, made: list[fx.Node], value: Row) -> Any:
    tag = value[0]
    if tag == "n":
        return made[value[1]]
    if tag == "c":
        return reader.at(value[1])
    if tag == "d":
        return {key: _read(reader, made, each) for key, each in value[1].items()}
    parts: Any = (_read(reader, made, each) for each in value[1:])
    kinds: dict[str, Callable[..., Any]] = {"l": list, "t": tuple}
    return slice(*parts) if tag == "s" else kinds[tag](parts)
