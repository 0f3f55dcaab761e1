"""The table of random functions covers what torch itself calls random."""

import pytest
import torch

from stator.graph.passes.purity import RANDOM, is_torch_function


def random_operators() -> set[str]:
    found = set()
    for schema in torch._C._jit_get_all_schemas():
        namespace, _, name = schema.name.partition("::")
        if namespace != "aten":
            continue
        try:
            op = getattr(getattr(torch.ops.aten, name), schema.overload_name or "default")
        except AttributeError:
            continue
        if torch.Tag.nondeterministic_seeded in op.tags and not schema.is_mutable:
            found.add(name)
    return found


def test_every_random_function_is_listed() -> None:
    public = {
        name
        for name in random_operators()
        for owner in (torch, torch.nn.functional, torch.Tensor)
        if hasattr(owner, name) and not name.endswith("_")
    }
    kernels = {name for name in public if name.startswith(("_scaled_dot", "_cudnn", "_flash"))}
    kernels |= {"_efficient_attention_forward", "_fused_dropout", "_fused_sdp_choice"}
    kernels |= {"_nested_tensor_softmax_with_shape", "_lstm_mps", "miopen_rnn"}
    kernels |= {"_triton_scaled_dot_attention"}
    assert public - kernels <= RANDOM


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (torch.relu, True),
        (torch.nn.functional.linear, True),
        (torch.nn.functional.softmax, True),
        (torch.linalg.inv, True),
        (torch.Tensor.add, True),
        (torch.ops.aten.add, True),
        (torch.ops.aten.add.Tensor, True),
        (getattr, True),
        (len, False),
        (random_operators, False),
    ],
)
def test_what_is_torchs_own(target: object, expected: bool) -> None:
    assert is_torch_function(target) is expected
