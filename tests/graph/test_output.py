"""OutputGraph: inputs, side table, metadata, constants, dead code, errors."""

import gc
import operator
import weakref
from collections import namedtuple
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._functorch.aot_autograd import aot_module_simplified
from torch._guards import TracingContext
from torch.overrides import TorchFunctionMode

from stator.backends.compile import compile_graph
from stator.graph import (
    DataDependent,
    OperatorError,
    OutputGraph,
    Unsupported,
    UntrackedTensorError,
)
from stator.graph.recording.operations import run_target
from stator.graph.recording.state import State, preserved

from .harness import call, flat


def names(recorded: Any, *ops: str) -> list[str]:
    return [node.name for node in recorded.module.graph.nodes if node.op in ops]


def targets(recorded: Any) -> list[Any]:
    return [n.target for n in recorded.module.graph.nodes if n.op.startswith("call_")]


class TestInputs:
    def test_names_come_from_sources_and_are_unique(self) -> None:
        graph = OutputGraph()
        sources = ["L['x']", "self.layers[0].weight", "l['x']", "class", "3", "", "x", "x"]
        for source in sources:
            x = graph.add_input(source, torch.randn(2))
            graph.call((("method"), "add_"), (x, 1))
        recorded = graph.finish([])
        found = [given.name for given in recorded.inputs]
        assert found[:2] == ["L_x_", "self_layers_0_weight"]
        assert all(name.isidentifier() for name in found)
        assert len({name.lower() for name in found}) == len(sources)
        assert [n.target for n in recorded.module.graph.nodes if n.op == "placeholder"] == found

    def test_static_inputs_are_marked(self) -> None:
        seen: list[int] = []

        def look(gm: Any, example_inputs: Any) -> Any:
            metadata: Any = TracingContext.get().fw_metadata
            seen.extend(metadata.static_input_indices)
            return make_boxed_func(gm.forward)

        def backend(module: Any, inputs: Any) -> Any:
            return aot_module_simplified(module, inputs, fw_compiler=look)

        graph = OutputGraph()
        x = graph.add_input("x", torch.randn(2))
        for name, value, static in (
            ("parameter", torch.nn.Parameter(torch.randn(2)), False),
            ("buffer", torch.randn(2), True),
            ("other", torch.randn(2), False),
        ):
            x = graph.call(operator.add, (x, graph.add_input(name, value, static=static)))
        recorded = graph.finish([x])
        with torch.no_grad():
            compile_graph(
                recorded.module, recorded.example_inputs, backend, fake_mode=recorded.fake_mode
            )
        assert seen == [1, 2]

    def test_the_same_tensor_is_one_placeholder(self) -> None:
        graph, x = OutputGraph(), torch.randn(2)
        first, second = graph.add_input("a", x), graph.add_input("b", x)
        assert first is second
        assert [i.name for i in graph.finish([first]).inputs] == ["a"]

    def test_views_of_one_tensor_share_memory(self) -> None:
        graph, base = OutputGraph(), torch.zeros(4)
        x, y = graph.add_input("x", base[:2]), graph.add_input("y", base[2:])
        assert x.untyped_storage()._cdata == y.untyped_storage()._cdata

    def test_parameters_stay_parameters(self) -> None:
        graph = OutputGraph()
        p = graph.add_input("p", torch.nn.Parameter(torch.randn(2)))
        frozen = graph.add_input("q", torch.nn.Parameter(torch.randn(2), requires_grad=False))
        assert isinstance(p, torch.nn.Parameter)
        assert p.requires_grad
        assert p.is_leaf
        assert isinstance(frozen, torch.nn.Parameter)
        assert not frozen.requires_grad
        recorded = graph.finish([graph.call(operator.add, (p, frozen))])
        node = next(iter(recorded.module.graph.nodes))
        assert node.type is torch.nn.Parameter
        assert node.meta["example_value"] is p

    def test_inputs_found_late_come_before_everything_else(self) -> None:
        graph = OutputGraph()
        x = graph.add_input("x", torch.randn(2))
        y = graph.call(torch.relu, (x,))
        z = graph.call(torch.add, (y, graph.add_input("late", torch.randn(2))))
        ops = [node.op for node in graph.finish([z]).module.graph.nodes]
        assert ops == ["placeholder", "placeholder", "call_function", "call_function", "output"]

    def test_an_input_before_any_other_though_nodes_exist(self) -> None:
        graph = OutputGraph()
        y = graph.call(torch.zeros, (2,))
        z = graph.call(torch.add, (y, graph.add_input("late", torch.randn(2))))
        assert names(graph.finish([z]), "placeholder", "call_function") == ["late", "zeros", "add"]

    def test_unused_inputs_are_dropped(self) -> None:
        graph = OutputGraph()
        graph.add_input("x", torch.randn(2))
        y = graph.add_input("y", torch.randn(2))
        recorded = graph.finish([graph.call(torch.relu, (y,))])
        assert [given.name for given in recorded.inputs] == ["y"]
        assert len(recorded.example_inputs) == 1

    def test_subclasses_are_no_inputs(self) -> None:
        class Mine(torch.Tensor):  # type: ignore[misc, unused-ignore]
            pass

        with pytest.raises(Unsupported, match="Mine"):
            OutputGraph().add_input("x", torch.randn(2).as_subclass(Mine))
        with pytest.raises(Unsupported, match="float"):
            OutputGraph().add_input("x", 1.5)  # type: ignore[arg-type, unused-ignore]

    @pytest.mark.parametrize(
        "make",
        [
            lambda: torch.eye(2).to_sparse(),
            lambda: torch.eye(2).to_mkldnn(),
            lambda: torch.nested.nested_tensor([torch.ones(2)], layout=torch.strided),
            lambda: torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8),
        ],
    )
    def test_exotic_memory_is_no_input(self, make: Any) -> None:
        try:
            value = make()
        except RuntimeError as error:
            pytest.skip(str(error))
        with pytest.raises(Unsupported, match="can't be a graph input"):
            OutputGraph().add_input("x", value)

    @pytest.mark.parametrize("backend", ["eager", "aot_eager"])
    @pytest.mark.parametrize(
        "make",
        [
            lambda: torch.randn(3, dtype=torch.complex64).conj(),
            lambda: torch.randn(3, dtype=torch.complex64).conj().imag,
            lambda: torch.randn(3, 1).expand(3, 4),
            lambda: torch.randn(4, 4)[1:, ::2].T,
            lambda: torch.randn(()),
            lambda: torch.randn(0, 3),
            lambda: torch.randn(2, requires_grad=True) * 2,
            lambda: torch.randn(2, dtype=torch.bfloat16),
            lambda: torch.arange(3),
        ],
    )
    def test_tensors_of_all_sorts(self, make: Any, backend: str) -> None:
        graph = OutputGraph()
        recorded = graph.finish([graph.call(operator.mul, (graph.add_input("L['x0']", make()), 2))])
        value = make()
        (actual,) = call(recorded, backend, [value])
        expected = value * 2
        assert torch.equal(actual, expected)
        assert actual.stride() == expected.stride()
        assert actual.requires_grad == expected.requires_grad

    def test_inputs_are_freed(self) -> None:
        value = torch.randn(3)
        alive = weakref.ref(value)
        graph = OutputGraph()
        x = graph.add_input("x", value, dynamic_dims=[0])
        recorded = graph.finish([graph.call(torch.relu, (x,)), x.shape[0]])
        module = recorded.module
        del value, graph, x, recorded
        gc.collect()
        assert alive() is None
        assert module(torch.ones(2))[1] == 2

    def test_untracked_tensors_are_our_bug(self) -> None:
        with pytest.raises(UntrackedTensorError):
            OutputGraph().call(torch.relu, (torch.randn(2),))


class TestBackendInputs:
    """A backend sees the inputs as they are when the graph starts."""

    def test_untouched_fakes_are_handed_on(self) -> None:
        graph = OutputGraph()
        x = graph.add_input("x", torch.randn(2))
        recorded = graph.finish([graph.call(torch.relu, (x,))])
        assert recorded.example_inputs == [x]
        assert recorded.fake_mode is graph.fake_mode

    def test_mutated_fakes_are_made_anew(self) -> None:
        graph = OutputGraph()
        x, w = graph.add_input("x", torch.randn(2)), torch.randn(2, requires_grad=True)
        graph.call(("method", "mul_"), (x, graph.add_input("w", w)))
        assert x.requires_grad
        recorded = graph.finish([x])
        assert not recorded.example_inputs[0].requires_grad
        assert recorded.example_inputs[0]._version == 0
        assert recorded.example_inputs[1].requires_grad

    @pytest.mark.parametrize("backend", ["eager", "aot_eager"])
    def test_metadata_mutation(self, backend: str) -> None:
        graph = OutputGraph()
        x = graph.add_input("L['x0']", torch.randn(2, 3))
        graph.call(("method", "t_"), (x,))
        recorded = graph.finish([graph.call(("method", "sum"), (x, 0))])
        assert recorded.example_inputs[0].shape == (2, 3)
        given = torch.randn(2, 3)
        expected = given.clone().t_()
        (actual,) = call(recorded, backend, [given])
        assert given.shape == (3, 2)
        torch.testing.assert_close(actual, expected.sum(0))

    def test_setting_data(self) -> None:
        graph = OutputGraph()
        x, y = graph.add_input("x", torch.randn(2)), graph.add_input("y", torch.randn(3))
        graph.call(setattr, (x, "data", y))
        recorded = graph.finish([graph.call(torch.relu, (x,))])
        assert targets(recorded) == [setattr, torch.relu]
        assert recorded.example_inputs[0].shape == (2,)


class TestResults:
    def test_metadata(self) -> None:
        class Layer(torch.nn.Module):  # type: ignore[misc, unused-ignore]
            pass

        graph = OutputGraph()
        x = graph.add_input("x", torch.randn(2, 3))
        stack = {"self": ("L['self'].layer", Layer)}
        graph.modules = stack
        y = graph.call(torch.relu, (x,), stack_trace="File x.py, line 3")
        node = graph.node(y)
        assert node.meta["example_value"] is y
        assert node.meta["stack_trace"] == "File x.py, line 3"
        assert node.meta["nn_module_stack"] == stack
        assert node.meta["source_fn_stack"] == [(node.name, torch.relu)]
        graph.modules = {"0": ("L['self'].act", torch.nn.ReLU)}
        y = graph.call(torch.relu, (x,))
        assert graph.node(y).meta["source_fn_stack"] == [(graph.node(y).name, torch.nn.ReLU)]
        graph.modules = {}
        z = graph.call(("method", "sum"), (y,))
        assert graph.node(z).meta["source_fn_stack"] == [(graph.node(z).name, "sum")]
        first = graph.call(torch.max, (y, 0), stack_trace="line 4")[0]
        assert graph.node(first).meta["stack_trace"] == "line 4"
        assert graph.node(first).meta["example_value"] is first

    @pytest.mark.parametrize(
        ("target", "args", "answer"),
        [
            (("method", "size"), (), torch.Size([2, 3])),
            (("method", "size"), (0,), 2),
            (("method", "dim"), (), 2),
            (("method", "is_contiguous"), (), True),
            (torch.is_tensor, (), True),
            (torch.numel, (), 6),
            (("method", "stride"), (), (3, 1)),
            (len, (), 2),
        ],
    )
    def test_answers_are_no_nodes(self, target: Any, args: Any, answer: Any) -> None:
        graph = OutputGraph()
        x = graph.add_input("x", torch.randn(2, 3))
        assert graph.call(target, (x, *args)) == answer
        assert len(graph.graph.nodes) == 1

    def test_nested_results_are_taken_apart_on_use(self) -> None:
        graph = OutputGraph()
        x = graph.add_input("L['x0']", torch.randn(4, 2))
        w = [torch.randn(4, 2), torch.randn(4, 2), torch.randn(4), torch.randn(4)]
        fakes = [graph.add_input(f"L['x{i + 1}']", value) for i, value in enumerate(w)]
        h = graph.call(torch.zeros, (1, 1))
        args = (x, h, [fakes[0], graph.call(torch.zeros, (4, 1)), *fakes[2:]])
        with pytest.raises(OperatorError):  # wrong number of weights
            graph.call(torch.lstm_cell, args)
        parts = graph.call(torch.split, (x, [1, 3]))
        assert not [n for n in graph.graph.nodes if n.target is operator.getitem]
        second = graph.node(parts[1])
        assert second.target is operator.getitem
        assert second.args == (graph.node(parts[0]).args[0], 1)
        assert graph.node(parts[1]) is second

    def test_results_that_are_the_argument(self) -> None:
        graph = OutputGraph()
        x = graph.add_input("x", torch.randn(2))
        assert graph.call(("method", "contiguous"), (x,)) is x
        assert graph.call(("method", "add_"), (x, 1)) is x
        assert targets(graph.finish([x])) == ["add_"]

    def test_arguments_of_all_kinds(self) -> None:
        pair = namedtuple("pair", "a b")
        graph = OutputGraph()
        x = graph.add_input("x", torch.randn(2))
        of = graph.arguments.of
        node = graph.node(x)
        assert of((x, [1, {"k": x}], slice(x, None, 2))) == (
            node,
            [1, {"k": node}],
            slice(node, None, 2),
        )
        assert of(pair(x, 1)) == pair(node, 1)
        assert type(of(pair(x, 1))) is pair
        assert type(of(torch.Size([1, 2]))) is tuple
        with pytest.raises(Unsupported, match="object"):
            of(object())

    def test_a_number_of_a_subclass_is_written_plain(self) -> None:
        class Sly(int):
            def __repr__(self) -> str:
                raise AssertionError("asked a user's object")

            __str__ = __index__ = __int__ = __repr__  # type: ignore[assignment]

        found = OutputGraph().arguments.of(Sly(3))
        assert type(found) is int
        assert found == 3


class TestConstants:
    @pytest.mark.parametrize("backend", ["eager", "aot_eager"])
    def test_values(self, backend: str) -> None:
        numpy = pytest.importorskip("numpy")
        graph = OutputGraph()
        x = graph.add_input("L['x0']", torch.zeros(2))
        for value in (torch.tensor([1.0, 2.0]), numpy.array([3.0, 4.0]), [5.0, 6.0], 7):
            x = graph.call(operator.add, (x, graph.constant(value)))
        assert call(graph.finish([x]), backend, [torch.zeros(2)])[0].tolist() == [16.0, 19.0]

    @pytest.mark.parametrize("backend", ["eager", "aot_eager"])
    def test_a_changed_or_returned_constant_is_fresh_each_time(self, backend: str) -> None:
        graph = OutputGraph()
        x = graph.add_input("L['x0']", torch.zeros(2))
        changed, returned = graph.constant([1.0, 2.0]), graph.constant([3.0, 4.0])
        graph.call(("method", "add_"), (changed, 1))
        view = graph.call(operator.getitem, (returned, slice(0, 1)))
        recorded = graph.finish([graph.call(operator.add, (x, changed)), view])
        run = compile_graph(
            recorded.module, recorded.example_inputs, backend, fake_mode=recorded.fake_mode
        ).function
        for _ in range(2):
            total, part = run(torch.zeros(2))
            assert total.tolist() == [2.0, 3.0]
            assert part.tolist() == [3.0]
            part.zero_()

    def test_it_is_a_copy(self) -> None:
        graph, value = OutputGraph(), torch.ones(2)
        x = graph.add_input("L['x0']", torch.zeros(2))
        recorded = graph.finish([graph.call(operator.add, (x, graph.constant(value)))])
        value.zero_()
        assert call(recorded, "eager", [torch.zeros(2)])[0].tolist() == [1.0, 1.0]

    def test_values_are_known_while_tracing(self) -> None:
        graph = OutputGraph()
        assert graph.call(("method", "item"), (graph.constant(5),)) == 5

    def test_unused_constants_are_dropped(self) -> None:
        graph = OutputGraph()
        graph.constant([1.0])
        assert not dict(graph.finish([]).module.named_buffers())


class TestDeadCode:
    @pytest.mark.parametrize(
        ("target", "args", "kwargs"),
        [
            (("method", "add_"), (1,), {}),
            (operator.imul, (2,), {}),
            (operator.setitem, (0, 1.0), {}),
            (torch.rand_like, (), {}),
            (("method", "bernoulli"), (), {}),
            (F.dropout, (0.5,), {}),
            (F.relu, (), {"inplace": True}),
            (torch.ops.aten.add_.Tensor, (1,), {}),
            (torch.ops.aten.bernoulli.default, (), {}),
        ],
    )
    def test_effects_stay(self, target: Any, args: Any, kwargs: Any) -> None:
        graph = OutputGraph()
        x = graph.add_input("x", torch.rand(2))
        graph.call(target, (x, *args), kwargs)
        assert len(targets(graph.finish([]))) == 1

    def test_running_statistics_stay(self) -> None:
        graph = OutputGraph()
        x, mean, var = (graph.add_input(n, torch.rand(*s)) for n, s in (("x", (3, 2)), *_STATS))
        graph.call(F.batch_norm, (x, mean, var), {"training": True})
        assert targets(graph.finish([])) == [F.batch_norm]

    @pytest.mark.parametrize(
        "target", [torch.relu, ("method", "sum"), F.gelu, torch.ops.aten.relu.default, operator.neg]
    )
    def test_pure_calls_go(self, target: Any) -> None:
        graph = OutputGraph()
        x = graph.add_input("x", torch.rand(2))
        graph.call(torch.add, (graph.call(target, (x,)), 1))
        assert targets(graph.finish([])) == []

    def test_inference_tensors_count_by_name(self) -> None:
        with torch.inference_mode():
            x = torch.rand(2)
            graph = OutputGraph()
            fake = graph.add_input("x", x)
            graph.call(("method", "add_"), (fake, 1))
            graph.call(operator.imul, (fake, 2))
            graph.call(("method", "__isub__"), (fake, 2))
            graph.call(operator.setitem, (fake, 0, 2))
            graph.call(torch.relu, (fake,))
            found = targets(graph.finish([]))
        assert found == ["add_", operator.imul, "__isub__", operator.setitem]


_STATS = (("m", (2,)), ("v", (2,)))


class TestErrors:
    @pytest.mark.parametrize(
        ("target", "args"),
        [
            (torch.matmul, (torch.randn(2, 3), torch.randn(2, 3))),
            (operator.add, (torch.randn(2), torch.randn(3))),
            (("method", "view"), (torch.randn(6), 4)),
            (("method", "sum"), (torch.randn(6), 4)),
            (operator.getitem, (torch.randn(2), 5)),
            (operator.getitem, (torch.randn(2), (0, 0))),
            (torch.cat, ([torch.randn(2, 2), torch.randn(3, 3)],)),
            (torch.relu, ("a string",)),
            (torch.relu, ()),
            (F.linear, (torch.randn(2, 3), torch.randn(2, 2))),
            (F.cross_entropy, (torch.randn(2, 3), torch.randn(5))),
            (F.conv2d, (torch.randn(2, 3), torch.randn(2, 2))),
            (("method", "no_such_method"), (torch.randn(2),)),
            (torch.add, (torch.randn(2), 1, 2, 3, 4)),
            (("method", "add_"), (torch.randn(2, requires_grad=True), 1)),
            (("method", "expand"), (torch.randn(3), 4)),
            (torch.stack, ([],)),
        ],
        ids=str,
    )
    def test_the_programs_error_is_eagers(self, target: Any, args: Any) -> None:
        with pytest.raises(Exception) as eager:
            run_target(target, args, {})
        graph = OutputGraph()
        rng = State.capture()

        def fake(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return graph.add_input("x", value)
            return [fake(item) for item in value] if isinstance(value, list) else value

        fakes = tuple(fake(value) for value in args)
        with pytest.raises(OperatorError) as recorded:
            graph.call(target, fakes)
        error = recorded.value.error
        assert type(error) is eager.type
        assert str(error) == str(eager.value)
        assert rng == State.capture()

    @pytest.mark.parametrize(
        ("target", "args"),
        [
            (("method", "__bool__"), ()),
            (float, ()),
            (torch.equal, (torch.zeros(1),)),
        ],
        ids=str,
    )
    def test_data_dependent(self, target: Any, args: Any) -> None:
        graph = OutputGraph()
        fakes = [graph.add_input("x", value) for value in (torch.randn(1), *args)]
        with pytest.raises(DataDependent) as caught:
            graph.call(target, fakes)
        assert "depends on the values" in caught.value.reason

    @pytest.mark.parametrize(
        ("value", "kind"),
        [
            (torch.tensor(3), torch.SymInt),
            (torch.tensor([2.5]), torch.SymFloat),
            (torch.tensor(True), torch.SymBool),
        ],
        ids=str,
    )
    def test_values_become_symbols(self, value: torch.Tensor, kind: type) -> None:
        graph = OutputGraph()
        number = graph.call(("method", "item"), [graph.add_input("x", value)])
        assert type(number) is kind
        recorded = graph.finish([number])
        (read,) = (node for node in recorded.module.graph.nodes if node.target == "item")
        assert len(read.meta["unbacked_bindings"]) == 1
        assert recorded.module(value) == (value.item(),)
        assert not graph.assumptions

    def test_lists_of_values_become_symbols(self) -> None:
        graph = OutputGraph()
        x = graph.add_input("x", torch.arange(4).view(2, 2))
        (_, first), (second, _) = graph.call(("method", "tolist"), [x])
        recorded = graph.finish([first + second, second])
        assert recorded.module(torch.tensor([[5, 6], [7, 8]])) == (13, 7)

    def test_what_is_assumed_of_a_value_is_checked(self) -> None:
        graph = OutputGraph()
        number = graph.call(("method", "item"), [graph.add_input("x", torch.tensor(3))])
        ones = graph.call(torch.ones, [number])
        assert graph.assumptions
        recorded = graph.finish([ones])
        assert recorded.module(torch.tensor(0))[0].shape == (0,)
        with pytest.raises(RuntimeError, match="0 <= u0 is taken for granted"):
            recorded.module(torch.tensor(-1))

    @pytest.mark.parametrize(
        ("target", "args"),
        [
            (torch.nonzero, ()),
            (torch.unique, ()),
            (torch.masked_select, (torch.ones(3, dtype=torch.bool),)),
            (operator.getitem, (torch.ones(3, dtype=torch.bool),)),
        ],
        ids=str,
    )
    def test_size_that_depends_on_values(self, target: Any, args: Any) -> None:
        """It is a symbol, bound to the node, and can be used in the graph."""
        graph = OutputGraph()
        given = (torch.tensor([1.0, 0.0, 2.0]), *args)
        fakes = [graph.add_input("x", value) for value in given]
        found = graph.call(target, fakes)
        assert isinstance(found.shape[0], torch.SymInt)
        ones = graph.call(torch.ones, (found.shape[0] + 1,))
        recorded = graph.finish([found, ones])
        result, made = recorded.module(*given)
        assert torch.equal(result, target(*given))
        assert made.shape == (result.shape[0] + 1,)

    def test_no_fake_kernel(self) -> None:
        with torch.library._scoped_library("stator_test", "FRAGMENT") as library:
            library.define("opaque(Tensor x) -> Tensor")
            library.impl("opaque", lambda x: x + 1, "CPU")
            graph = OutputGraph()
            x = graph.add_input("x", torch.randn(2))
            with pytest.raises(Unsupported, match="opaque"):
                graph.call(torch.ops.stator_test.opaque, (x,))

    def test_a_failed_call_leaves_no_trace(self) -> None:
        graph = OutputGraph()
        x = graph.add_input("x", torch.randn(2))
        with pytest.raises(OperatorError):
            graph.call(torch.mm, (x, x))
        assert targets(graph.finish([graph.call(torch.relu, (x,))])) == [torch.relu]

    def test_torch_does_not_log_them(self, capfd: pytest.CaptureFixture[str]) -> None:
        graph = OutputGraph()
        x = graph.add_input("x", torch.randn(2, 3))
        with pytest.raises(OperatorError):
            graph.call(torch.mm, (x, x))
        assert capfd.readouterr() == ("", "")


class TestDefaultDevice:
    def test_factories_get_it(self) -> None:
        with preserved():
            torch.set_default_device("meta")
            graph = OutputGraph()
            y = graph.call(torch.zeros, (2,))
            z = graph.call(torch.zeros, (2,), {"device": "cpu"})
            assert y.device.type == "meta"
            assert z.device.type == "cpu"
            assert graph.node(y).kwargs == {"device": torch.device("meta")}


def test_a_torch_function_mode_does_not_see_the_recorder() -> None:
    class Mode(TorchFunctionMode):  # type: ignore[misc, unused-ignore]
        def __torch_function__(self, func: Any, *_: Any) -> Any:
            raise AssertionError(func)

    with Mode():
        graph = OutputGraph()
        x = graph.add_input("x", _ZEROS)
        y = graph.call(F.gelu, (graph.call(torch.add, (x, 1)),))
        graph.constant([1.0])
        recorded = graph.finish([y])
    assert len(flat(recorded.inputs)) == 1


_ZEROS = torch.zeros(2)
