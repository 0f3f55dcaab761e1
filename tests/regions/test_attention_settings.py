# mypy: ignore-errors
"""`sdpa_kernel` around scaled_dot_product_attention: in compiled code, and around its call."""

import contextlib

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention as attention

import stator
from stator.torchlib.settings import ATTENTION, FLAGS

BACKENDS = ("eager", "aot_eager")
MATH, FLASH = SDPBackend.MATH, SDPBackend.FLASH_ATTENTION


def settings():
    return {name: FLAGS[name].read() for name in ATTENTION}


@pytest.fixture(autouse=True)
def as_before():
    before = settings()
    yield
    for name, value in before.items():
        FLAGS[name].write(value)


def plain(q):
    return attention(q, q, q)


def inside(q):
    with sdpa_kernel(MATH):
        y = attention(q, q, q)
    return y + attention(q, q, q)


def ordered(q):
    with sdpa_kernel([MATH, FLASH], set_priority=True):
        return attention(q, q, q)


@sdpa_kernel(MATH)
def decorated(q):
    return attention(q, q, q)


def nested(q):
    with sdpa_kernel(MATH):
        with sdpa_kernel(FLASH):
            y = attention(q, q, q)
        return y + attention(q, q, q)


def left(q):
    torch.backends.cuda.enable_flash_sdp(False)
    return attention(q, q, q)


def raising(q):
    with sdpa_kernel(MATH):
        return attention(q, q, q).view(7)


def asking(q):
    return attention(q, q, q) * (2 if torch.backends.cuda.math_sdp_enabled() else 3)


def outcome(function, *args):
    before = settings()
    try:
        result = function(*args)
    except Exception as error:
        result = type(error).__name__, str(error)[:40]
    after = settings()
    for name, value in before.items():
        FLAGS[name].write(value)
    return result, after


AROUND = [
    contextlib.nullcontext,
    lambda: sdpa_kernel(MATH),
    lambda: sdpa_kernel([]),
    lambda: sdpa_kernel([MATH, FLASH], set_priority=True),
    contextlib.nullcontext,
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    "function", [plain, inside, ordered, decorated, nested, left, raising, asking]
)
def test_settings_are_as_in_eager(function, backend):
    q = torch.randn(2, 2, 8, 8)
    compiled = stator.compile(function, backend=backend)
    for around in AROUND:
        with around():
            expected, wanted = outcome(function, q)
            found, left_as = outcome(compiled, q)
        assert left_as == wanted
        if isinstance(expected, torch.Tensor):
            torch.testing.assert_close(found, expected)
        else:
            assert found == expected


def test_the_setting_of_the_trace_decides_which_kernel_is_compiled():
    seen = []

    def keep(module, inputs):
        from torch._dynamo.backends.common import aot_autograd  # noqa: PLC0415

        def note(gm, _):
            seen.append({str(n.target) for n in gm.graph.nodes})
            return gm

        return aot_autograd(fw_compiler=note)(module, inputs)

    q = torch.randn(2, 2, 8, 8)
    compiled = stator.compile(plain, backend=keep, fullgraph=True)
    for around in (contextlib.nullcontext, lambda: sdpa_kernel(MATH), contextlib.nullcontext):
        with around():
            torch.testing.assert_close(compiled(q), plain(q))
    assert len(seen) == 2
    flash = ["aten._scaled_dot_product_flash_attention_for_cpu.default" in each for each in seen]
    assert flash == [True, False]
