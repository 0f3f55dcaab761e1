# mypy: ignore-errors
"""Operators that write to arguments, or resize them, without saying so in their names."""

from typing import Any, Final

import pytest
import torch
from torch.ao.quantization import default_fused_per_channel_wt_fake_quant as quantizer

import stator

# Those of aten that write to tensors, are neither in place nor `out=`, and what they write to.
WRITERS: Final = {
    "_amp_foreach_non_finite_check_and_unscale": "found_inf",
    "_amp_update_scale": "growth_tracker",
    "_batch_norm_with_update": "running_mean running_var",
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
    """A new one may resize them: see `stator.graph.resizing`."""
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
    assert found == WRITERS


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
