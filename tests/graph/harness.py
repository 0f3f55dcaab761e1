"""Programs recorded by hand, run by backends, and compared with eager torch.

A program is a function `(op, *inputs)` that makes each torch call as `op(target, *args, **kwargs)`.
Eager runs the target; recording hands it to `OutputGraph.call`.
"""

import operator
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from stator.backends.compile import compile_graph
from stator.graph import OutputGraph, Recorded
from stator.graph.recording.operations import run_target
from stator.graph.recording.state import State, preserved

torch.set_num_threads(1)

Make = Callable[[torch.Generator], torch.Tensor]


def floats(*size: int, dtype: torch.dtype = torch.float32) -> Make:
    return lambda g: torch.randn(size, generator=g, dtype=dtype)


def positive(*size: int) -> Make:
    return lambda g: torch.rand(size, generator=g) + 0.1


def ints(*size: int, high: int = 3) -> Make:
    return lambda g: torch.randint(0, high, size, generator=g)


def bools(*size: int) -> Make:
    return lambda g: torch.rand(size, generator=g) > 0.5


def complexes(*size: int) -> Make:
    return lambda g: torch.randn(size, generator=g, dtype=torch.complex64)


def spd(n: int) -> Make:
    """A symmetric positive definite matrix."""

    def make(g: torch.Generator) -> torch.Tensor:
        root = torch.randn(n, n, generator=g)
        return root @ root.T + n * torch.eye(n)

    return make


@dataclass(frozen=True)
class Program:
    """`nodes` counts nodes besides placeholders, constants, getitem of results and output."""

    name: str
    inputs: Sequence[Make]
    run: Callable[..., Any]
    nodes: int = 1
    exact: bool = True  # AOTAutograd may decompose: values may differ in the last bits
    items: int = 0  # getitem nodes of multiple results
    rng: bool = True  # AOTAutograd drops unused random numbers: the generator may fall behind


def eager(target: Any, *args: Any, **kwargs: Any) -> Any:
    return run_target(target, args, kwargs)


def fresh(program: Program, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [make(generator) for make in program.inputs]


def flat(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in flat(item)]
    return [value]


def record(
    program: Program,
    inputs: Sequence[torch.Tensor],
    dynamic: Sequence[Collection[int]] | None = None,
) -> tuple[OutputGraph, Recorded]:
    """Records a program, and checks that neither the inputs nor torch's state changed."""
    before, copies = State.capture(), [value.clone() for value in inputs]
    versions = [value._version for value in inputs]
    graph = OutputGraph()

    def op(target: Any, *args: Any, **kwargs: Any) -> Any:
        return graph.call(target, args, kwargs, stack_trace="a line of the program")

    with preserved():
        fakes = [
            graph.add_input(f"L['x{i}']", value, dynamic_dims=dynamic[i] if dynamic else ())
            for i, value in enumerate(inputs)
        ]
        recorded = graph.finish(flat(program.run(op, *fakes)))
    assert not before.diff(State.capture())
    assert versions == [value._version for value in inputs]
    for value, copy in zip(inputs, copies, strict=True):
        torch.testing.assert_close(value, copy, rtol=0, atol=0, equal_nan=True)
    return graph, recorded


def call(recorded: Recorded, backend: str, inputs: Sequence[torch.Tensor]) -> list[Any]:
    compiled = compile_graph(
        recorded.module, recorded.example_inputs, backend, fake_mode=recorded.fake_mode
    )
    values = {f"L_x{i}_": value for i, value in enumerate(inputs)}
    return list(compiled.function(*(values[given.name] for given in recorded.inputs)))


def same(actual: Any, expected: Any, *, exact: bool) -> None:
    assert type(actual) is type(expected)
    if not isinstance(expected, torch.Tensor):
        assert actual == expected
        return
    assert actual.dtype is expected.dtype
    assert actual.shape == expected.shape
    assert actual.stride() == expected.stride()
    assert actual.requires_grad == expected.requires_grad
    rtol, atol = (0.0, 0.0) if exact else (1e-4, 1e-5)
    torch.testing.assert_close(actual, expected, equal_nan=True, rtol=rtol, atol=atol)


def is_item(node: torch.fx.Node) -> bool:
    """A getitem of a multiple result (as opposed to indexing a tensor)."""
    parent = node.args[0] if node.args else None
    return (
        getattr(node.target, "__name__", "") == "getitem"
        and isinstance(parent, torch.fx.Node)
        and isinstance(parent.meta.get("example_value"), tuple | list)
    )


def check(
    program: Program,
    backend: str,
    dynamic: Sequence[Collection[int]] | None = None,
    second: Sequence[torch.Tensor] | None = None,
) -> None:
    """Records on some inputs, runs on fresh ones: results, effects and node count are eager's."""
    _, recorded = record(program, fresh(program), dynamic)
    calls = [n for n in recorded.module.graph.nodes if n.op in {"call_function", "call_method"}]
    items = [n for n in calls if is_item(n)]
    assert (len(calls) - len(items), len(items)) == (program.nodes, program.items), recorded.module
    for node in calls:
        assert node.meta["source_fn_stack"]
        assert "example_value" in node.meta or node.target is operator.setitem
    inputs = list(second) if second is not None else fresh(program, seed=1)
    reference = [value.clone() for value in inputs]
    torch.manual_seed(7)
    expected = flat(program.run(eager, *reference))
    after = torch.get_rng_state()
    torch.manual_seed(7)
    actual = call(recorded, backend, inputs)
    if program.rng or backend == "eager":
        assert torch.equal(after, torch.get_rng_state())
    exact = program.exact or backend == "eager"
    assert len(actual) == len(expected)
    for mine, theirs in zip(actual, expected, strict=True):
        same(mine, theirs, exact=exact)
    for mine, theirs in zip(inputs, reference, strict=True):
        same(mine, theirs, exact=exact)
