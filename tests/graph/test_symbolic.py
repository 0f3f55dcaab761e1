"""Symbolic sizes: recorded on one size, run on another."""

import operator
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.fx as fx
import torch.nn.functional as F  # noqa: N812

from stator.backends.compile import compile_graph
from stator.graph import OperatorError, OutputGraph, Unsupported

from .harness import Make, Program, bools, check, floats, fresh, ints

M = "method"
Build = Callable[[int], Program]


def program(name: str, make: Callable[[int], list[Make]], run: Any, nodes: int, **more: Any) -> Any:
    """A program whose inputs have a dynamic first dimension of size n."""
    return pytest.param(lambda n: Program(name, make(n), run, nodes, exact=False, **more), id=name)


def one(n: int) -> list[Make]:
    return [floats(n, 4)]


def two(n: int) -> list[Make]:
    return [floats(n, 4), floats(n, 4)]


# The node counts include the nodes that compute sizes.
PROGRAMS = [
    program("relu", one, lambda op, x: op(torch.relu, x), 1),
    program("add", two, lambda op, x, y: op(operator.add, x, y), 1),
    program("linear", lambda n: [floats(n, 4), floats(3, 4)], lambda op, *a: op(F.linear, *a), 1),
    program("zeros", one, lambda op, x: op(torch.zeros, x.shape[0], 2), 2),
    program("zeros_like", one, lambda op, x: op(torch.zeros_like, x), 1),
    program("arange", one, lambda op, x: op(torch.arange, x.shape[0] * 2), 3),
    program("view", one, lambda op, x: op((M, "view"), x, x.shape[0] * 4), 3),
    program("view_minus_one", one, lambda op, x: op((M, "view"), x, -1, 2), 1),
    program("half", one, lambda op, x: op(operator.getitem, x, slice(x.shape[0] // 2)), 3),
    program("reshape", one, lambda op, x: op(torch.reshape, x, (2, x.shape[0] * 2)), 3),
    program("cat", two, lambda op, x, y: op(torch.cat, [x, y]), 1),
    program("sum", one, lambda op, x: op((M, "sum"), x, 0), 1),
    program("softmax", one, lambda op, x: op(F.softmax, x, dim=0), 1),
    program("transposed", one, lambda op, x: op(operator.matmul, x, op(getattr, x, "T")), 2),
    program("mean", one, lambda op, x: op(operator.truediv, op((M, "sum"), x), x.shape[0]), 3),
    program("expand", lambda n: [floats(n, 1)], lambda op, x: op((M, "expand"), x, -1, 3), 1),
    program(
        "mask", lambda n: [floats(n), bools(n)], lambda op, *a: op((M, "masked_fill"), *a, 0), 1
    ),
    program("index", lambda n: [floats(n, 4), ints(3)], lambda op, *a: op(operator.getitem, *a), 1),
    program("set", one, lambda op, x: op(operator.setitem, x, slice(1, None), 0.5), 1),
    program("add_", one, lambda op, x: op((M, "add_"), x, 1), 1),
    program("triangle", one, lambda op, x: op(torch.tril, op(torch.ones, *2 * (x.shape[0],))), 3),
    program(
        "attention",
        lambda n: [floats(1, 2, n, 8)] * 3,
        lambda op, q, k, v: op(F.scaled_dot_product_attention, q, k, v),
        1,
    ),
    program("layer_norm", one, lambda op, x: op(F.layer_norm, x, (4,)), 1),
    program(
        "conv", lambda n: [floats(n, 2, 6), floats(3, 2, 3)], lambda op, *a: op(F.conv1d, *a), 1
    ),
    program("einsum", two, lambda op, *a: op(torch.einsum, "ij,ij->i", *a), 1),
    program("size", one, lambda op, x: [op(torch.relu, x), x.shape[0] * 3 + 1], 4),
    program("shape_of_result", one, lambda op, x: op(torch.cat, [x, x]).shape[0], 2),
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("build", PROGRAMS)
def test_program(build: Build, backend: str) -> None:
    small, large = build(6), build(10)
    dynamic = [
        [dim for dim, (a, b) in enumerate(zip(s.shape, t.shape, strict=True)) if a != b]
        for s, t in zip(fresh(small), fresh(large), strict=True)
    ]
    check(small, backend, dynamic, fresh(large, seed=1))


class TestInts:
    def test_an_int_input(self) -> None:
        graph = OutputGraph()
        n = graph.add_input("n", 5)
        assert isinstance(n, torch.SymInt)
        x = graph.call(torch.arange, (n + 1,))
        recorded = graph.finish([x, n * n])
        assert [given.name for given in recorded.inputs] == ["n"]
        assert recorded.module(3)[0].tolist() == [0, 1, 2, 3]
        assert recorded.module(7)[1] == 49

    def test_each_expression_is_computed_once(self) -> None:
        graph = OutputGraph()
        x = graph.add_input("x", torch.randn(6, 2), dynamic_dims=[0])
        a = graph.call(torch.zeros, (x.shape[0] * 3,))
        b = graph.call(torch.ones, (x.shape[0] * 3,))
        graph.finish([a, b])
        assert [node.name for node in graph.graph.nodes if "mul" in node.name] == ["mul"]
        mul = graph.node(a).args[0]
        assert isinstance(mul, fx.Node)
        assert mul is graph.node(b).args[0]
        assert str(mul.meta["example_value"]) == str(x.shape[0] * 3)

    def test_sizes_are_read_before_the_input_changes(self) -> None:
        graph = OutputGraph()
        x = graph.add_input("x", torch.randn(6, 3), dynamic_dims=[0])
        size = x.shape[0]
        graph.call((M, "t_"), (x,))
        recorded = graph.finish([x, graph.call(torch.zeros, (size,))])
        assert recorded.module(torch.randn(7, 3))[1].shape == (7,)

    def test_static_where_not_asked(self) -> None:
        graph = OutputGraph()
        x = graph.add_input("x", torch.randn(6, 3), dynamic_dims=[0])
        y = graph.add_input("y", torch.randn(6, 3))
        assert isinstance(x.shape[0], torch.SymInt)
        assert x.shape[1] == 3
        assert type(y.shape[0]) is int

    def test_a_specialized_size_is_a_number(self) -> None:
        graph = OutputGraph()
        x = graph.add_input("x", torch.randn(6), dynamic_dims=[0])
        y = graph.add_input("y", torch.randn(6))
        graph.call(operator.add, (x, y))  # a static 6 meets it: it must be 6
        assert graph.arguments.of(x.shape[0]) == 6

    def test_an_unknown_symbol(self) -> None:
        graph, other = OutputGraph(), OutputGraph()
        foreign = other.add_input("x", torch.randn(6), dynamic_dims=[0]).shape[0]
        with pytest.raises(Unsupported, match="not a size of any graph input"):
            graph.arguments.of(foreign)

    def test_errors_name_the_sizes_of_this_call(self) -> None:
        graph = OutputGraph()
        x = graph.add_input("x", torch.randn(6, 3), dynamic_dims=[0])
        with pytest.raises(OperatorError) as caught:
            graph.call(torch.mm, (x, x))
        with pytest.raises(RuntimeError) as eager:
            torch.mm(torch.randn(6, 3), torch.randn(6, 3))
        assert "(6x3 and 6x3)" in str(eager.value)
        assert str(caught.value.error) == str(eager.value)

    @pytest.mark.parametrize("backend", ["eager", "aot_eager"])
    def test_views_of_a_dynamic_base(self, backend: str) -> None:
        graph = OutputGraph()
        base = torch.randn(8, 4)
        x = graph.add_input("x", base[2:].T, dynamic_dims=[1])
        recorded = graph.finish([graph.call(torch.relu, (x,)), x.shape[1], x.stride(0)])
        run = compile_graph(
            recorded.module, recorded.example_inputs, backend, fake_mode=recorded.fake_mode
        ).function
        given = torch.randn(11, 4)[2:].T
        result, size, stride = run(given)
        assert (size, stride) == (9, 1)
        assert torch.equal(result, given.relu())
        assert result.stride() == given.relu().stride()

    def test_mutated_dynamic_inputs_keep_their_symbols(self) -> None:
        graph = OutputGraph()
        x = graph.add_input("x", torch.randn(6, 3), dynamic_dims=[0])
        symbol = x.shape[0].node.expr
        graph.call((M, "mul_"), (x, 2))
        recorded = graph.finish([x])
        assert recorded.example_inputs[0] is not x
        assert recorded.example_inputs[0].shape[0].node.expr == symbol
