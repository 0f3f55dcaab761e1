"""`torch._dynamo.explain`, told by stator.

In: a function. Out: what programs expect of torch's answer, with the same names and printed in the
same form; `explanation` is stator's own, which says more.
"""

import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import fx, nn

from stator import api
from stator.diagnostics.explanation import Explanation, GraphBreak
from stator.dropin.modules import unwrapped


@dataclass(frozen=True)
class BreakReason:
    """Why a graph ended."""

    reason: str
    user_stack: list[traceback.FrameSummary]
    graph_break: bool = True

    @classmethod
    def of(cls, found: GraphBreak) -> "BreakReason":
        stack = [
            traceback.FrameSummary(place.file, place.line, place.function) for place in found.stack
        ]
        return cls(str(found), stack)


@dataclass(frozen=True)
class ExplainOutput:
    """What became of a call."""

    graphs: list[fx.GraphModule]
    graph_count: int
    graph_break_count: int
    break_reasons: list[BreakReason]
    op_count: int
    ops_per_graph: list[list[Any]]
    out_guards: list[str]
    compile_times: str
    explanation: Explanation = field(repr=False)

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        yield f"Graph Count: {self.graph_count}"
        yield f"Graph Break Count: {self.graph_break_count}"
        yield f"Op Count: {self.op_count}"
        yield "Break Reasons:"
        for number, found in enumerate(self.break_reasons, 1):
            yield f"  Break Reason {number}:"
            yield f"    Reason: {found.reason}"
            yield "    User Stack:"
            yield from (f"      {frame}" for frame in found.user_stack)
        yield "Ops per Graph:"
        for number, targets in enumerate(self.ops_per_graph, 1):
            yield f"  Ops {number}:"
            yield from (f"    {target}" for target in targets)
        yield "Out Guards:"
        for number, guard in enumerate(self.out_guards, 1):
            yield f"  Guard {number}:"
            yield f"    {guard}"
        yield f"Compile Times: {self.compile_times}"


def explain(f: Any, *extra_args: Any, **extra_kwargs: Any) -> Any:
    """`torch._dynamo.explain`."""

    def explained(*args: Any, **kwargs: Any) -> ExplainOutput:
        graphs: list[fx.GraphModule] = []

        def collecting(module: fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
            graphs.append(module)
            return module.forward

        target = unwrapped(f) if isinstance(f, nn.Module) else f
        told = api.explain(target, backend=collecting)(*args, **kwargs)
        return _output(graphs, told)

    if extra_args or extra_kwargs:
        warnings.warn(
            "explain(f, *args, **kwargs) is deprecated, use explain(f)(*args, **kwargs)",
            FutureWarning,
            stacklevel=3,
        )
        return explained(*extra_args, **extra_kwargs)
    return explained


def _output(graphs: list[fx.GraphModule], told: Explanation) -> ExplainOutput:
    ops = [
        [node.target for node in module.graph.nodes if node.op == "call_function"]
        for module in graphs
    ]
    return ExplainOutput(
        graphs=graphs,
        graph_count=len(graphs),
        graph_break_count=told.break_count,
        break_reasons=[BreakReason.of(each) for each in told.breaks],
        op_count=sum(map(len, ops)),
        ops_per_graph=ops,
        out_guards=[guard for guards in told.guards for guard in guards],
        compile_times=f"{told.trace_seconds:.4f} s traced, {told.backend_seconds:.4f} s compiled",
        explanation=told,
    )
