"""Calling Inductor's code directly: used where it is safe, refused where any layer is needed."""

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from stator.backends.compile import CompiledGraph, compile_graph
from stator.backends.shortcut import (
    NO_ASSERTS,
    Shortcut,
    _metadata_refusal,
    only_torch_operators,
    shortcut,
)
from stator.graph import OutputGraph, Recorded
from tests.versions import known_layers

needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs g++")

Build = Callable[..., list[Any]]


def record(build: Build, *inputs: torch.Tensor) -> Recorded:
    graph = OutputGraph()
    fakes = [graph.add_input(f"x{i}", value) for i, value in enumerate(inputs)]
    return graph.finish(build(graph, *fakes))


def compiled(build: Build, *inputs: torch.Tensor, backend: str = "inductor") -> CompiledGraph:
    recorded = record(build, *inputs)
    options = {"patches": NO_ASSERTS} if backend == "inductor" else None
    return compile_graph(
        recorded.module,
        recorded.example_inputs,
        backend,
        fake_mode=recorded.fake_mode,
        options=options,
    )


def relu(graph: OutputGraph, x: Any, *_: Any) -> list[Any]:
    return [graph.call(torch.relu, (x,)), graph.call(torch.add, (x, 1))]


def in_place(graph: OutputGraph, x: Any) -> list[Any]:
    return [graph.call(torch.relu, (graph.call(("method", "add_"), (x, 1)),))]


def view(graph: OutputGraph, x: Any) -> list[Any]:
    return [graph.call(torch.relu, (x,)), graph.call(("method", "view"), (x, -1))]


def constant(graph: OutputGraph, x: Any) -> list[Any]:
    return [graph.call(torch.add, (x, graph.constant([1.0, 2.0])))]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@needs_compiler
@known_layers
@pytest.mark.parametrize("grad", [False, True])
def test_taken(grad: bool) -> None:
    # Twice: the second compilation comes out of AOTAutograd's cache.
    for _ in range(2):
        with torch.set_grad_enabled(grad):
            short = shortcut(compiled(relu, torch.randn(2, 2)))
            assert short.refusal is None
            for _ in range(3):
                x = torch.randn(2, 2)
                first, second = short.call(x)
                assert torch.equal(first, x.relu())
                assert torch.equal(second, x + 1)
                assert torch.is_grad_enabled() is grad


@needs_compiler
@known_layers
@pytest.mark.parametrize(
    ("build", "why"),
    [
        (in_place, "changes its inputs"),
        (view, "an output is an alias"),
        (constant, "tensors of its own"),
    ],
)
def test_refused(build: Build, why: str) -> None:
    for _ in range(2):
        with torch.no_grad():
            official = compiled(build, torch.randn(2))
            short = shortcut(official)
        assert short == Shortcut(official.function, short.refusal)
        assert why in (short.refusal or "")


@needs_compiler
def test_refused_for_training() -> None:
    short = shortcut(compiled(relu, torch.randn(2, requires_grad=True)))
    assert "unknown layers" in (short.refusal or "")


@needs_compiler
def test_refused_under_autocast() -> None:
    with torch.no_grad(), torch.autocast("cpu"):
        assert "autocast" in (shortcut(compiled(relu, torch.randn(2))).refusal or "")


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_refused_for_other_backends(backend: str) -> None:
    with torch.no_grad():
        official = compiled(relu, torch.randn(2), backend=backend)
    assert shortcut(official) == Shortcut(official.function, shortcut(official).refusal)
    assert "unknown layers" in (shortcut(official).refusal or "")


@needs_compiler
def test_refused_with_one_more_layer() -> None:
    with torch.no_grad():
        official = compiled(relu, torch.randn(2, 2))

        def extra(*args: Any) -> Any:
            return official.function(*args)

        extra.__wrapped__ = official.function  # type: ignore[attr-defined]
        short = shortcut(dataclasses.replace(official, function=extra))
    assert "extra" in (short.refusal or "")


class Plain:
    pass


Plain.__name__ = "PlainTensorMeta"


class Named:
    def __init__(self, name: str = "", **values: Any) -> None:
        self.name = name
        self.__dict__.update(values)


def metadata(**changes: Any) -> Named:
    """AOTAutograd's description of a harmless graph, with some fields changed."""
    harmless = {
        "input_info": [Named(mutates_data=False, mutates_metadata=False)],
        "output_info": [output()],
        "num_intermediate_bases": 0,
        "tokens": {},
        "is_rng_op_functionalized": False,
        "num_graphsafe_rng_states": 0,
        "grad_enabled_mutation": None,
        "subclass_inp_meta": [Plain()],
        "subclass_fw_graph_out_meta": [Plain()],
    }
    return Named(**{**harmless, **changes})


def output(kind: str = "non_alias", **changes: Any) -> Named:
    return Named(
        **{"output_type": Named(kind), "dynamic_dims": None, "requires_grad": False} | changes
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"input_info": [Named(mutates_data=True, mutates_metadata=False)]},
        {"input_info": [Named(mutates_data=False, mutates_metadata=True)]},
        {"output_info": [output("alias_of_input")]},
        {"output_info": [output("is_input")]},
        {"output_info": [output("unsafe_view_alias")]},
        {"output_info": [output(dynamic_dims={0})]},
        {"output_info": [output(requires_grad=True)]},
        {"num_intermediate_bases": 1},
        {"tokens": {"op": 0}},
        {"is_rng_op_functionalized": True},
        {"num_graphsafe_rng_states": 1},
        {"grad_enabled_mutation": False},
        {"subclass_inp_meta": [Named()]},
        {"subclass_fw_graph_out_meta": [Named()]},
    ],
    ids=str,
)
def test_each_condition(changes: dict[str, Any]) -> None:
    assert _metadata_refusal(metadata()) is None
    assert _metadata_refusal(metadata(**changes)) is not None


def test_asserts_stay_for_custom_operators() -> None:
    assert only_torch_operators(record(relu, torch.randn(2)).module)
    with torch.library._scoped_library("stator_asserts", "FRAGMENT") as library:
        library.define("custom(Tensor x) -> Tensor")
        library.impl("custom", lambda x: x + 1, "CompositeExplicitAutograd")
        library.impl("custom", lambda x: x + 1, "Meta")

        def custom(graph: OutputGraph, x: Any) -> list[Any]:
            return [graph.call(torch.ops.stator_asserts.custom.default, (x,))]

        assert not only_torch_operators(record(custom, torch.randn(2)).module)
