# mypy: ignore-errors
"""Operators that write to arguments, or resize them, without saying so in their names."""

import os
from typing import Any, Final

import pytest
import torch
from torch.ao import quantization
from torch.ao.quantization import default_fused_per_channel_wt_fake_quant as quantizer

import stator
from tests.unknown.inductor import without_kernels

from .written_arguments import examined, writing

# Those of aten that write to tensors, are neither in place nor `out=`, and what they write to.
WRITERS: Final = {
    "_amp_foreach_non_finite_check_and_unscale": "found_inf",
    "_amp_update_scale": "growth_tracker",
    "_batch_norm_with_update": "running_mean running_var",
    "_cudnn_attention_forward_no_dropout_inplace": "out",
    "_cummax_helper": "values indices",
    "_cummin_helper": "values indices",
    "_flash_attention_forward_no_dropout_inplace": "out",
    "_fused_moving_avg_obs_fq_helper": "running_min running_max scale zero_point",
    "_native_batch_norm_legit": "running_mean running_var",
    "fbgemm_linear_fp16_weight": "output",
    "fbgemm_linear_fp16_weight_fp32_activation": "output",
    "fused_moving_avg_obs_fake_quant": "running_min running_max scale zero_point",
    "rrelu_with_noise": "noise",
}
# They change what autograd or a stream knows of a tensor, not its memory.
STATE: Final = frozenset({"record_stream", "retain_grad", "set_data"})


def test_all_operators_that_write_to_arguments_are_known() -> None:
    """A new one may resize them: see `stator.graph.fakes.resizing`."""
    found: dict[str, str] = {}
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        written = [
            each.name
            for each in schema.arguments
            if each.alias_info is not None
            and each.alias_info.is_write
            and not each.is_out
            and str(each.type) == "Tensor"
        ]
        if space == "aten" and written and not name.endswith("_") and name not in STATE:
            found[name] = " ".join(written)
    assert found.items() <= WRITERS.items()  # not every torch has all of them


def fake_quantized(x, low, high, scale, zero, rows):
    on = torch.ones(1, dtype=torch.int64)
    made = torch.fused_moving_avg_obs_fake_quant(
        x, on, on, low, high, scale, zero, 0.01, 0, 255, 0 if rows else -1, rows
    )
    return made, tuple(low.shape), low + 0, scale * 1


def _given(channels: int, *, rows: bool) -> tuple[Any, ...]:
    x = torch.arange(12.0).view(4, 3) - 5
    ends = [torch.zeros(channels) for _ in range(2)] if rows else [torch.tensor(0.0)] * 2
    ends = [end.clone() for end in ends]
    scales = torch.ones(channels or 1), torch.zeros(channels or 1, dtype=torch.int32)
    return x, *ends, *scales, rows


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_ranges_that_are_empty_at_first(backend: str) -> None:
    compiled = stator.compile(fake_quantized, backend=backend)
    kinds = [(0, True), (4, True), (1, False), (0, True), (4, True)]
    for channels, rows in kinds:
        seen = []
        for function in (fake_quantized, compiled):
            given = _given(channels, rows=rows)
            made = function(*given)
            seen.append([str(each) for each in (*made, *given)])
        assert seen[0] == seen[1]


def test_captured_once_the_sizes_are_right() -> None:
    compiled = stator.compile(fake_quantized, backend="eager", fullgraph=True)
    compiled(*_given(4, rows=True))
    compiled(*_given(1, rows=False))


def test_a_quantizer_of_torch() -> None:
    for backend in ("eager", "aot_eager"):
        plain = quantizer()
        other = quantizer()
        compiled = stator.compile(other, backend=backend)
        for k in range(3):
            x = torch.arange(12.0).view(4, 3) * (k + 1)
            assert torch.equal(plain(x), compiled(x))
            assert torch.equal(plain.scale, other.scale)
            ranges = plain.activation_post_process, other.activation_post_process
            assert torch.equal(*(each.min_val for each in ranges))


class Quantized(torch.nn.Module):
    """A layer with running statistics, and one without; both have a scale per channel."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)
        self.relu, self.head = torch.nn.ReLU(), torch.nn.Linear(16, 3)

    def forward(self, x):
        x = self.relu(self.norm(self.conv(self.quant(x))))
        return self.dequant(self.head(x.flatten(1)))


def _trained(compile: Any, fused: bool) -> tuple[list[float], list[Any], torch.Tensor]:
    torch.manual_seed(0)
    model = Quantized().train()
    model.qconfig = quantization.QConfig(
        activation=quantization.default_fused_act_fake_quant, weight=quantizer
    )
    if fused:
        quantization.fuse_modules_qat(model, [["conv", "norm", "relu"]], inplace=True)
    model = quantization.prepare_qat(model)
    run = compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(4):
        if step == 3:
            model.apply(quantization.disable_observer)
        x = torch.randn(4, 3, 4, 4)
        loss = run(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(round(loss.item(), 4))
    state = [None if each is None else each.clone() for each in model.state_dict().values()]
    return losses, state, quantization.convert(model.eval())(torch.ones(1, 3, 4, 4))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_training_of_a_quantized_model(backend: str, fused: bool) -> None:
    wanted = _trained(lambda model: model, fused)
    with without_kernels():
        found = _trained(lambda model: stator.compile(model, backend=backend), fused)
    assert wanted[0] == found[0]
    for one, two in zip(wanted[1], found[1], strict=True):
        torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(wanted[2], found[2])


# They copy into what they are given, as far as their fakes know; the last ones are followed.
OVERLOADS: Final = (
    "_aminmax.out",
    "_foreach_log10.out",
    "_linalg_svd.U",
    "_foreach_norm.Scalar_out",
    "_fake_quantize_learnable_per_tensor_affine.out",
    "add.out",
    "resize_as_.default",
)
ALL: Final = os.environ.get("STATOR_OPERATORS") == "all"


def test_operators_that_resize_their_arguments() -> None:
    chosen = [each for each in writing() if ALL or str(each)[5:] in OVERLOADS]
    changed = 0
    for operator in chosen:
        found = examined(operator)
        if found is not None:
            changed += bool(found["changed"])
            assert not found["different"], operator
    assert changed > (500 if ALL else 4)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("sizes", [((4,), (3,)), ((2, 3), (3,)), ((2, 3), (3, 2)), ((2,), (0,))])
def test_as_another_tensor(sizes: Any, backend: str) -> None:
    def program(x, y):
        return x.resize_as_(y) + y

    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for first in (0, 1):
        count = torch.Size(sizes[0]).numel()
        one, two = (torch.arange(first, first + count).reshape(sizes[0]) for _ in range(2))
        y = torch.ones(sizes[1], dtype=torch.int64)
        assert torch.equal(program(one, y), compiled(two, y))
        assert torch.equal(one, two)
