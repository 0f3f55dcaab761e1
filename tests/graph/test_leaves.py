"""Leaf rules: what a trace does with each torch callable and tensor attribute."""

import operator
import types
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch._jit_internal import is_scripting
from torch.jit._trace import is_tracing

from stator.graph import OutputGraph
from stator.graph.leaves import leaf_tables, leaves
from stator.graph.leaves.leaves import Kind, attribute, classify, target_of
from tests.versions import TORCH

X = torch.randn(2, 3)

RULES: dict[Kind, list[Any]] = {
    Kind.RECORD: [
        torch.relu,
        torch.add,
        torch.zeros,
        torch.tensor,
        torch.FloatTensor,
        torch.rand,
        torch.einsum,
        torch.split,
        torch.unique,
        torch.stft,
        torch.meshgrid,
        torch._foreach_add,
        torch.linalg.inv,
        torch.linalg.svd,
        torch.fft.rfft,
        torch.special.erf,
        torch.signal.windows.hann,
        F.linear,
        F.gelu,
        F.relu,
        F.softmax,
        F.dropout,
        F.max_pool2d,
        F.interpolate,
        F.cross_entropy,
        F.scaled_dot_product_attention,
        F.multi_head_attention_forward,
        F.layer_norm,
        F.batch_norm,
        F.embedding,
        torch.Tensor.add,
        torch.Tensor.__add__,
        torch.Tensor.__getitem__,
        torch.Tensor.__setitem__,
        torch.Tensor.__rsub__,
        torch.Tensor.split,
        torch.Tensor.norm,
        torch.Tensor.to,
        torch.Tensor.add_,
        torch.Tensor.__eq__,
        X.relu,
        X.__add__,
        X.split,
        torch.ops.aten.add,
        torch.ops.aten.add.Tensor,
        torch.Tensor,
        torch.sym_max,
    ],
    Kind.EVALUATE: [
        F.pad,
        F.rms_norm,
        F._canonical_mask,
        F.triplet_margin_with_distance_loss,
        torch.nn.Linear,
        torch.nn.Linear.forward,
        torch.nn.Module.__call__,
        torch.nn.Linear(2, 2).forward,
        torch.nn.MultiheadAttention.forward,
        torch.nn.init.ones_,
        torch.nn.utils.parameters_to_vector,
        torch.no_grad,
        torch.no_grad.__enter__,
        torch.set_grad_enabled,
        torch.Tensor.__iter__,
        torch.utils._pytree.tree_map,
        torch.distributions.Normal,
    ],
    Kind.CONSTANT: [
        torch.is_tensor,
        torch.is_grad_enabled,
        torch.finfo,
        torch.iinfo,
        torch.Size,
        torch.device,
        torch.get_default_dtype,
        torch.is_autocast_enabled,
        torch.promote_types,
        torch.result_type,
        torch.broadcast_shapes,
        is_scripting,
        is_tracing,
        torch._C._get_tracing_state,
        torch.compiler.is_compiling,
        torch.cuda.is_available,
        torch.overrides.has_torch_function,
        torch.Tensor.dim,
        torch.Tensor.size,
        torch.Tensor.__len__,
        torch.Tensor.is_floating_point,
        torch.Tensor.__hash__,
        X.stride,
        X.numel,
        X.__len__,
    ],
    Kind.STATE: [
        torch._C._set_grad_enabled,
        torch.autocast.__enter__,
        torch.autocast.__exit__,
        torch.inference_mode.__enter__,
        torch.amp.autocast_mode._enter_autocast,
    ],
    Kind.OWN: [
        torch.Tensor.backward,
        torch.Tensor.register_hook,
        X.backward,
        torch.autograd.backward,
        torch.autograd.grad,
    ],
    Kind.FORBIDDEN: [
        torch.Tensor.item,
        torch.Tensor.tolist,
        torch.Tensor.__bool__,
        torch.Tensor.__float__,
        torch.Tensor.__contains__,
        torch.Tensor.numpy,
        torch.Tensor.__repr__,
        torch.Tensor.data_ptr,
        torch.Tensor.__reduce_ex__,
        X.item,
        torch.equal,
        torch.save,
        torch.load,
        torch.seed,
        torch.initial_seed,
        torch.set_num_threads,
        torch.set_num_threads,
        torch.use_deterministic_algorithms,
        torch.from_numpy,
        torch.jit.script,
        torch.compile,
        torch.compiler.disable,
        torch.nn.parameter.UninitializedParameter,
        torch.Generator,
        getattr(torch.sparse, "FloatTensor"),  # noqa: B009 - mypy does not know it
        torch._C._cuda_init if hasattr(torch._C, "_cuda_init") else torch._C._get_cpp_backtrace,
        torch.ops.higher_order.strict_mode,
        torch.sparse_coo_tensor,
    ],
}
CASES = [
    pytest.param(kind, function, id=f"{kind.value}-{getattr(function, '__qualname__', function)}")
    for kind, functions in RULES.items()
    for function in functions
]


@pytest.mark.parametrize(("kind", "function"), CASES)
def test_rule(kind: Kind, function: Any) -> None:
    rule = classify(function)
    assert rule is not None
    assert rule.kind is kind
    assert bool(rule.reason) is (kind is Kind.FORBIDDEN)
    assert bool(rule.action) is (kind in (Kind.STATE, Kind.OWN))


@pytest.mark.parametrize("function", [len, print, operator.add, test_rule, dict.get, "text", Kind])
def test_not_torchs(function: Any) -> None:
    assert classify(function) is None


def test_a_fake_tensors_methods() -> None:
    fake = OutputGraph().add_input("x", X)
    assert classify(fake.relu) == leaves.RECORD
    assert classify(fake.size) == leaves.CONSTANT
    assert target_of(fake.relu) == (("method", "relu"), (fake.relu.__self__,))


@pytest.mark.parametrize(
    ("function", "target", "bound"),
    [
        (torch.relu, torch.relu, False),
        (torch.Tensor.relu, ("method", "relu"), False),
        (torch.Tensor.__add__, operator.add, False),
        (torch.Tensor.__radd__, ("method", "__radd__"), False),
        (torch.Tensor.__setitem__, operator.setitem, False),
        (X.relu, ("method", "relu"), True),
        (X.__mul__, operator.mul, True),
        (X.split, ("method", "split"), True),
        (torch.Tensor.split, ("method", "split"), False),
    ],
)
def test_targets(function: Any, target: Any, bound: bool) -> None:
    found, first = target_of(function)
    assert found == target
    assert len(first) == bound
    assert not bound or first[0] is X


def test_every_function_of_torch_has_a_rule() -> None:
    for module in (torch, F, torch.linalg, torch.fft, torch.special, torch.functional):
        for name in dir(module):
            function = getattr(module, name)
            if not isinstance(function, types.FunctionType | types.BuiltinFunctionType):
                continue
            foreign = not (getattr(function, "__module__", None) or "").startswith("torch")
            assert (classify(function) is None) is foreign, name


def test_tables_name_things_that_exist() -> None:
    optional = {"torch.xpu.is_available", "torch.distributed.get_rank"}
    if TORCH < (2, 13):
        optional |= {"torch.nn.functional.linear_cross_entropy", "const_data_ptr"}
    for table in (
        leaf_tables.RECORDED,
        leaf_tables.EVALUATED,
        leaf_tables.CONSTANT,
        leaf_tables.STATE,
        leaf_tables.FORBIDDEN,
        leaf_tables.ANSWERS,
    ):
        for path in table:
            assert path in optional or leaves._resolve(path) is not None, path
    for name in leaf_tables.CONSTANT_METHODS | set(leaf_tables.FORBIDDEN_METHODS):
        assert name in optional or hasattr(torch.Tensor, name), name


@pytest.mark.parametrize(
    ("function", "args", "expected"),
    [
        (is_scripting, (), False),
        (torch.compiler.is_compiling, (), True),
        (torch._C._get_tracing_state, (), None),
        (torch.is_tensor, (X,), True),
        (torch.overrides.has_torch_function, ((X,),), False),
        (torch.broadcast_shapes, ((2, 1), (3,)), (2, 3)),
        (torch.Tensor.dim, (X,), 2),
    ],
)
def test_answers(function: Any, args: Any, expected: Any) -> None:
    assert leaves.answer(function, args, {}) == expected


class TestAttributes:
    @pytest.mark.parametrize(
        "name", ["shape", "dtype", "device", "ndim", "requires_grad", "is_cuda"]
    )
    def test_constants(self, name: str) -> None:
        fake = OutputGraph().add_input("x", X)
        assert attribute(name) == leaves.CONSTANT
        assert leaves.constant_attribute(fake, name) == getattr(X, name)

    @pytest.mark.parametrize("name", sorted(leaf_tables.CONSTANT_ATTRIBUTES))
    def test_every_constant_is_eagers(self, name: str) -> None:
        fake = OutputGraph().add_input("x", X)
        assert leaves.constant_attribute(fake, name) == getattr(X, name)

    @pytest.mark.parametrize("name", ["T", "mT", "H", "data", "real", "imag"])
    def test_recorded(self, name: str) -> None:
        assert attribute(name) == leaves.RECORD
        graph = OutputGraph()
        value = X.to(torch.complex64)
        y = graph.call(getattr, (graph.add_input("x", value), name))
        recorded = graph.finish([y])
        assert torch.equal(recorded.module(value)[0], getattr(value, name))

    def test_others(self) -> None:
        for name, kind in (("grad", Kind.OWN), ("_version", Kind.FORBIDDEN)):
            rule = attribute(name)
            assert rule is not None
            assert rule.kind is kind
        assert attribute("no_such_thing") is None
        assert attribute("relu") is None  # a method: see classify

    def test_types(self) -> None:
        graph = OutputGraph()
        x = graph.add_input("x", X)
        p = graph.add_input("p", torch.nn.Parameter(X))
        assert leaves.python_type(x) is torch.Tensor
        assert leaves.constant_attribute(p, "__class__") is torch.nn.Parameter
        assert leaves.python_type(graph.call(torch.relu, (p,))) is torch.Tensor
