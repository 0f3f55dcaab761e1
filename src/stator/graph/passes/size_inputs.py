"""Sizes that are left open, as inputs of a graph that is differentiated.

In: a finished graph. Out: the same, with a placeholder for each symbol in front of the others, and
how to read these numbers from the tensors that the graph gets: for the backend it is a graph of
sizes and tensors.

What a backward gets is what the forward has kept. There may be a tensor of size `5 * s0` among it,
and none of size `s0`: a backend can't tell `s0` then, unless the number is an input itself.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
import torch

from stator.graph.fakes.inputs import InputSource
from stator.graph.recording.output import Input, Recorded


@dataclass(frozen=True)
class Sizes:
    """Where the numbers are read: which input, `size` or `stride`, which dimension."""

    reads: tuple[tuple[int, str, int], ...] = ()

    def around(self, compiled: Callable[..., Sequence[Any]]) -> Callable[..., Sequence[Any]]:
        """The compiled graph as a function of the tensors."""
        if not self.reads:
            return compiled
        if any(method != "size" for _, method, _ in self.reads):
            reads = self.reads

            def graph_of_numbers(*args: Any) -> Sequence[Any]:
                return compiled(*[getattr(args[k], name)(dim) for k, name, dim in reads], *args)

            return graph_of_numbers
        places = [(k, dim) for k, _, dim in self.reads]

        def graph_of_sizes(*args: Any) -> Sequence[Any]:
            return compiled(*[args[k].size(dim) for k, dim in places], *args)

        return graph_of_sizes


def with_sizes(recorded: Recorded) -> tuple[Recorded, Sizes]:
    """The graph with its sizes as inputs, if it has any that are open and may have a backward."""
    examples = recorded.example_inputs
    if not any(isinstance(each, torch.Tensor) and each.requires_grad for each in examples):
        return recorded, Sizes()
    found = dict(_symbols(examples))
    for each in examples:
        if isinstance(each, torch.SymInt):
            found.pop(each.node.expr, None)
    if not found:
        return recorded, Sizes()
    graph = recorded.module.graph
    with graph.inserting_before(next(iter(graph.nodes))):
        for symbol, (_, number) in found.items():
            node = graph.create_node("placeholder", str(symbol), type_expr=torch.SymInt)
            node._dynamo_source = InputSource(str(symbol))
            node.meta["example_value"] = number
    recorded.module.recompile()
    numbers = [number for _, number in found.values()]
    inputs = [Input(str(symbol), number.node.hint) for symbol, (_, number) in found.items()]
    made = Recorded(
        recorded.module, [*inputs, *recorded.inputs], [*numbers, *examples], recorded.fake_mode
    )
    return made, Sizes(tuple(read for read, _ in found.values()))


def _symbols(examples: Sequence[Any]) -> Iterator[tuple[sympy.Symbol, tuple[Any, torch.SymInt]]]:
    """The symbols with a value, where each is read, and the number itself."""
    seen: set[sympy.Symbol] = set()
    for position, example in enumerate(examples):
        if not isinstance(example, torch.Tensor):
            continue
        for method in ("size", "stride"):
            numbers: Any = getattr(example, method)()
            for dim, number in enumerate(numbers):
                if isinstance(number, torch.SymInt) and number.node.has_hint():
                    symbol = number.node.expr
                    if isinstance(symbol, sympy.Symbol) and symbol not in seen:
                        seen.add(symbol)
                        yield symbol, ((position, method, dim), number)
