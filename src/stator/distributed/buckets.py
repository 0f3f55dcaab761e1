"""Graphs inside of a replica, cut where its buckets end.

In: a graph that is compiled while `DistributedDataParallel` runs its module. Out: the same graph in
pieces, as a module that calls one after the other; or None if it is to stay whole.

A graph that a backend compiles has one backward, which hands out all gradients at its end. A
replica sends each bucket of gradients to the other processes as soon as it is full, while the
backward goes on. So the graph is cut where the parameters behind make up a bucket: each piece has a
backward of its own, and the gradients come in as many parts as there are buckets.
"""

from typing import Any, Final

import torch
import torch.fx as fx
from torch.fx.passes.split_module import split_module

from stator.distributed import replicas
from stator.graph.fakes.memory import storage_of
from stator.graph.passes.purity import KEEP, WRITTEN

_FIRST: Final = 1 << 20  # bytes of the bucket that is full first, as torch has it


def cut(module: fx.GraphModule) -> fx.GraphModule | None:
    """The graph in pieces, if it is part of a replica whose buckets it fills."""
    replica = replicas.active()
    if replica is None or not torch.is_grad_enabled():
        return None
    pieces = _pieces(module, int(replica.bucket_bytes_cap))
    if pieces is None or not _may_be_cut(module, pieces):
        return None
    made = split_module(module, module, lambda node: pieces[node], keep_original_order=True)
    known = all(_is_known(piece) for piece in made.children())
    return made if known else None


def in_tuples(pieces: fx.GraphModule) -> set[str]:
    """Has each piece return a tuple, as backends want it; answers which return one tensor else."""
    found = set()
    for name, piece in pieces.named_children():
        assert isinstance(piece, fx.GraphModule)
        (output,) = piece.graph.find_nodes(op="output")
        if not isinstance(output.args[0], list | tuple):
            output.args = ((output.args[0],),)
            piece.recompile()
            found.add(name)
    return found


def _pieces(module: fx.GraphModule, cap: int) -> dict[fx.Node, int] | None:
    """To which piece each node belongs, from the front; None if there is one."""
    order = {node: place for place, node in enumerate(module.graph.nodes)}
    ready: dict[int, int] = {}  # bytes of gradients that are complete, by the node that uses first
    for node in module.graph.find_nodes(op="placeholder"):
        value = node.meta.get("example_value")
        if isinstance(value, torch.nn.Parameter) and value.requires_grad and node.users:
            first = min(order[user] for user in node.users)
            ready[first] = ready.get(first, 0) + value.numel() * value.element_size()
    found: dict[fx.Node, int] = {}
    piece, size, limit = 0, 0, min(_FIRST, cap)
    for node in reversed(module.graph.nodes):
        found[node] = piece
        if node.op in ("placeholder", "output"):
            continue
        size += ready.get(order[node], 0)
        if size >= limit:
            piece, size, limit = piece + 1, 0, cap
    used = {found[node] for node in module.graph.nodes if node.op.startswith("call")}
    if len(used) < 2:
        return None
    return {node: piece - number for node, number in found.items()}


def _may_be_cut(module: fx.GraphModule, pieces: dict[fx.Node, int]) -> bool:
    """Whether the pieces have nothing to do with each other, but for the tensors they pass on."""
    touched: dict[Any, set[int]] = {}
    written: set[Any] = set()
    for node in module.graph.nodes:
        if node.op in ("get_attr", "call_module"):
            return False  # graphs inside of the graph
        values = [each.meta.get("example_value") for each in (node, *node.all_input_nodes)]
        for value in values:
            if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
                return False
        tensors = [each for each in values if isinstance(each, torch.Tensor)]
        if any(type(size) is not int for each in tensors for size in each.shape):
            return False
        if node.op in ("placeholder", "output"):
            continue
        for tensor in tensors:
            touched.setdefault(storage_of(tensor), set()).add(pieces[node])
        if WRITTEN in node.meta:
            written.update(node.meta[WRITTEN])
        elif KEEP in node.meta:
            return False  # it changes torch's state, or something that is not known
    return all(len(touched.get(each, ())) < 2 for each in written)


def _is_known(piece: Any) -> bool:
    """Whether it is known what each input of a piece is."""
    nodes = piece.graph.find_nodes(op="placeholder")
    return all("example_value" in node.meta for node in nodes)


class Piece(torch.nn.Module):
    """What a backend has made of a piece."""

    def __init__(self, function: Any, *, single: bool) -> None:
        super().__init__()
        self._function = function
        self._single = single

    def forward(self, *inputs: Any) -> Any:
        made = self._function(*inputs)
        return made[0] if self._single else made
