# mypy: ignore-errors
"""`flex_attention` and its masks: one operator, with functions of scores and masks as graphs."""

import functools
import operator
import subprocess
import sys
import threading

import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import (
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    flex_attention,
    noop_mask,
    or_masks,
)
from torch.utils.checkpoint import checkpoint

import stator
from tests.versions import TORCH

BACKENDS = ("eager", "aot_eager")
FLEX = torch.ops.higher_order.flex_attention
LENGTH = 64
FLOATS_FAIL = TORCH >= (2, 15)
"""In eager mode flex_attention compiles itself, and fails there on floats that have changed."""

make_mask = functools.partial(create_block_mask, device="cpu", BLOCK_SIZE=32)


@pytest.fixture(autouse=True)
def anew():
    """The functions of cases are the same code."""
    yield
    stator.reset()


def causal(b, h, q_idx, kv_idx):
    return q_idx >= kv_idx


def given(length=LENGTH, heads=2, groups=None, dtype=torch.float32):
    torch.manual_seed(length)
    sizes = (heads, groups or heads, groups or heads)
    return [torch.randn(2, each, length, 16).to(dtype) for each in sizes]


def same(ours, plain):
    if isinstance(plain, torch.Tensor):
        assert (ours.dtype, ours.stride()) == (plain.dtype, plain.stride())
        assert ours.requires_grad == plain.requires_grad
        torch.testing.assert_close(ours, plain, atol=1e-4, rtol=1e-3)
    elif isinstance(plain, list | tuple):
        assert type(ours) is type(plain)
        assert len(ours) == len(plain)
        for a, b in zip(ours, plain, strict=True):
            same(a, b)
    elif isinstance(plain, BlockMask):
        same(ours.as_tuple(), plain.as_tuple())
    else:
        assert ours is plain or ours == plain


class Captured:
    """A compiled function, and its graphs."""

    def __init__(self, function, **options):
        self.graphs = []
        self.fresh = False  # whether eager forgets what it has compiled

        def keep(module, inputs):
            self.graphs.append(module)
            return module

        self.function = function
        self.compiled = stator.compile(function, backend=keep, fullgraph=True, **options)

    def check(self, *args):
        ours = self.compiled(*args)
        if self.fresh:
            torch.compiler.reset()
        same(ours, self.function(*args))
        return len(self.graphs)

    @property
    def nodes(self):
        return [n for n in self.graphs[-1].graph.nodes if n.target is FLEX]


class Relative(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.table = nn.Parameter(torch.randn(2, 2 * LENGTH), requires_grad=False)
        self.scale = 0.5

    def forward(self, score, b, h, q_idx, kv_idx):
        return score * self.scale + self.table[h, q_idx - kv_idx + LENGTH]


BIAS = torch.randn(2, LENGTH, LENGTH)
RELATIVE = Relative()
SCORES = {
    "none": None,
    "bias": lambda s, b, h, i, j: s + BIAS[h, i, j],
    "constants": lambda s, b, h, i, j: s + BIAS[0, i, -1] * BIAS[1][2][3],
    "cap": lambda s, b, h, i, j: 20 * torch.tanh(s / 20),
    "where": lambda s, b, h, i, j: torch.where(i >= j, s, -float("inf")),
    "captured": lambda s, b, h, i, j: BIAS[0, 0, 0],
    "module": RELATIVE,
    "method": RELATIVE.forward,
    "partial": functools.partial(lambda c, s, b, h, i, j: s * c, 3),
    "mapped": lambda s, b, h, i, j: s + torch.stack([s, s * 2])[h],
}


@pytest.mark.parametrize("name", SCORES)
def test_score_functions(name):
    score = SCORES[name]
    captured = Captured(lambda q, k, v: flex_attention(q, k, v, score_mod=score))
    assert captured.check(*given()) == 1
    assert len(captured.nodes) == 1
    q, k, v = given()
    compiled = stator.compile(captured.function, backend="aot_eager", fullgraph=True)
    same(compiled(q, k, v), captured.function(q, k, v))


def test_the_node_is_torchs():
    bias = torch.randn(LENGTH)
    mask = make_mask(causal, None, None, LENGTH, LENGTH)

    def f(q, k, v, mask):
        return flex_attention(
            q, k, v, score_mod=lambda s, b, h, i, j: s + bias[j] + bias[0], block_mask=mask
        )

    captured = Captured(f)
    captured.check(*given(), mask)
    (node,) = captured.nodes
    query, _, _, score, blocks, scale, options, score_inputs, mask_inputs = node.args
    assert query.op == "placeholder"
    assert scale == 0.25
    assert options["BACKEND"] == "AUTO"
    assert [len(score_inputs), len(mask_inputs)] == [1, 0]
    assert blocks[:2] == (LENGTH, LENGTH)
    module = captured.graphs[0]
    body = module.get_submodule(score.target).graph
    taken = [n for n in body.nodes if n.target is operator.getitem]
    assert [n.args[1] for n in taken] == [[*body.nodes][4], 0]  # indices are not read
    masked = module.get_submodule(blocks[-1].target).graph
    assert [n.target for n in masked.nodes if n.op == "call_function"] == [operator.ge]


def window(size):
    def inside(b, h, q_idx, kv_idx):
        return (q_idx - kv_idx).abs() < size

    return inside


MASKS = {
    "causal": causal,
    "none": noop_mask,
    "both": and_masks(causal, window(20)),
    "either": or_masks(and_masks(causal, window(5)), window(2)),
    "partial": functools.partial(lambda b, h, i, j, *, w: i - j < w, w=9),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("inside", [True, False])
def test_masks(name, inside):
    mask_mod = MASKS[name]

    def attended(q, k, v, mask):
        return flex_attention(q, k, v, block_mask=mask)

    def made(q, k, v):
        return attended(q, k, v, make_mask(mask_mod, 2, None, LENGTH, LENGTH))

    if inside:
        assert Captured(made).check(*given()) == 1
    else:
        mask = make_mask(mask_mod, 2, None, LENGTH, LENGTH)
        assert Captured(attended).check(*given(), mask) == 1


def test_masks_of_documents_are_one_graph():
    """Functions that are made anew for each batch are the same code, with other tensors."""

    def documents(ids):
        def same_document(b, h, q_idx, kv_idx):
            return (ids[b, q_idx] == ids[b, kv_idx]) & (q_idx >= kv_idx)

        return same_document

    used = Captured(lambda q, k, v, mask: flex_attention(q, k, v, block_mask=mask))
    for _ in range(3):
        mask_mod = documents((torch.rand(2, LENGTH) * 4).int().sort().values)
        assert used.check(*given(), make_mask(mask_mod, 2, None, LENGTH, LENGTH)) == 1


@pytest.mark.parametrize("dynamic", [None, True])
def test_lengths_change_without_another_graph(dynamic):
    def f(q, k, v):
        mask = make_mask(causal, None, None, q.shape[2], k.shape[2])
        return flex_attention(q, k, v, block_mask=mask)

    captured = Captured(f, dynamic=dynamic)
    graphs = [captured.check(*given(length)) for length in (96, 128, 160, 100, 256)]
    assert graphs[-1] == (1 if dynamic else 2)


def test_lengths_of_masks_that_are_given():
    captured = Captured(lambda q, k, v, mask: flex_attention(q, k, v, block_mask=mask))
    lengths = (96, 128, 160, 100, 256)
    masks = [make_mask(causal, None, None, length, length) for length in lengths]
    calls = [captured.check(*given(n), m) for n, m in zip(lengths, masks, strict=True)]
    assert calls[-1] == 2


def test_create_block_mask_is_compiled_by_itself():
    captured = Captured(functools.partial(create_block_mask, device="cpu"))
    for length in (256, 384, 640):
        captured.check(causal, 1, 2, length, length)
    assert len(captured.graphs) == 2
    nested = Captured(lambda: create_block_mask(causal, 1, 1, 64, 64, "cpu", _compile=True))
    with pytest.warns(DeprecationWarning):
        mask = nested.compiled()
    same(mask, create_block_mask(causal, 1, 1, 64, 64, "cpu"))


def test_masks_that_are_attributes():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.size = 5
            self.mask = make_mask(causal, None, None, LENGTH, LENGTH)

        def forward(self, q, k, v):
            result = flex_attention(q, k, v, block_mask=self.mask)
            size = self.size
            self.mask = make_mask(lambda b, h, i, j: i - j < size, 1, 1, LENGTH, LENGTH)
            return result

    layer, plain = Layer(), Layer()
    captured = Captured(layer)
    for size in (5, 5, 60):
        layer.size = plain.size = size
        same(captured.compiled(*given()), plain(*given()))
        same(layer.mask.as_tuple()[:-1], plain.mask.as_tuple()[:-1])
    at = torch.tensor(50), torch.tensor(0)
    assert layer.mask.mask_mod(None, None, *at).item()


@pytest.mark.parametrize("options", [{"return_lse": True}, {"scale": 0.3}, {"enable_gqa": True}])
def test_options(options):
    groups = 1 if "enable_gqa" in options else 2
    kernel = {"BLOCK_M": 32, "PRESCALE_QK": True}

    def f(q, k, v):
        return flex_attention(q, k, v, kernel_options=kernel, **options)

    assert Captured(f).check(*given(groups=groups)) == 1


def test_autocast_and_no_grad():
    def f(q, k, v):
        with torch.autocast("cpu", torch.bfloat16):
            return flex_attention(q, k, v)

    with torch.no_grad():
        assert Captured(f).check(*given()) == 1


def test_sizes_and_numbers_that_change():
    """Ints are inputs of the operator, floats are compiled into it."""

    def ints(q, k, v, size):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s * (i - j < size))

    def floats(q, k, v, cap):
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: cap * torch.tanh(s / cap))

    captured = Captured(ints)
    assert [captured.check(*given(), size) for size in (3, 5, 7, 9)] == [1, 2, 2, 2]
    captured = Captured(floats)
    captured.fresh = FLOATS_FAIL
    assert [captured.check(*given(), cap) for cap in (3.5, 5.5, 5.5)] == [1, 2, 2]


@pytest.mark.parametrize("backend", BACKENDS)
def test_captured_tensors_are_differentiated(backend):
    weight = nn.Parameter(torch.randn(LENGTH))

    def f(q, k, v):
        bias = weight * 2
        return flex_attention(q, k, v, score_mod=lambda s, b, h, i, j: s + bias[j] * bias[0])

    def plain(q, k, v):
        bias = weight * 2
        scores = q @ k.transpose(-1, -2) / 4 + bias * bias[0]
        return scores.softmax(-1) @ v

    compiled = stator.compile(f, backend=backend, fullgraph=True)
    grads = []
    for run in (compiled, plain):
        weight.grad = None
        try:
            run(*given()).square().sum().backward()
        except RuntimeError as error:
            # torch 2.13, without gradients of q, k and v; so does torch.compile
            assert "proper Tensor" in str(error)
            return
        grads.append(weight.grad)
    torch.testing.assert_close(*grads, atol=1e-3, rtol=1e-3)


def test_in_checkpoints_regions_and_conditions():
    mask = make_mask(causal, None, None, LENGTH, LENGTH)
    table = torch.randn(LENGTH, requires_grad=True)

    def layer(q, k, v, mask):
        return flex_attention(
            q, k, v, score_mod=lambda s, b, h, i, j: s + table[j], block_mask=mask
        )

    def checkpointed(q, k, v, mask):
        return checkpoint(layer, q, k, v, mask, use_reentrant=False)

    Captured(checkpointed).check(*given(), mask)

    region = stator.nested_compile_region(layer)

    def repeated(q, k, v, mask):
        for _ in range(3):
            q = region(q, k, v, mask)
        return q

    with torch.no_grad():
        captured = Captured(repeated)
        captured.check(*given(), mask)
        called = [str(n.target) for n in captured.graphs[0].graph.nodes]
        assert called.count("invoke_subgraph") == 3

    def either(q, k, v):
        return torch.cond(q.sum() > 0, lambda q: flex_attention(q, k, v), lambda q: q * 2, (q,))

    q, k, v = given()
    for sign in (1, -1):
        q = q.abs() * sign
        compiled = stator.compile(either, backend="eager", fullgraph=True)
        same(compiled(q, k, v), flex_attention(q, k, v) if sign > 0 else q * 2)


def test_a_branch_behind_a_mask():
    def f(x, keep):
        mask = create_mask(causal, 1, 1, 8, 8, device="cpu")
        if keep.all():
            return x + mask
        return x + (mask & keep)

    captured = Captured(f)
    for keep in (torch.ones(8, dtype=torch.bool), torch.zeros(8, dtype=torch.bool)):
        captured.check(torch.ones(8, 8), keep)


LOG = []


def noting(s, b, h, i, j):
    LOG.append(1)
    return s


def in_place(s, b, h, i, j):
    s += 1
    return s


REFUSED = {
    "changes": noting,
    "given": in_place,
    "no tensor": lambda s, b, h, i, j: 1.0,
    "pair": lambda s, b, h, i, j: (s, s),
    "draws": lambda s, b, h, i, j: s + torch.rand(()),
    "raises": lambda s, b, h, i, j: s.missing,
    "reads": lambda s, b, h, i, j: s + i.item(),
    "branches": lambda s, b, h, i, j: s if i > j else s * 2,
    "arguments": lambda s, b, h, i: s,
}


def outcome(function, *args):
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__, str(error)[:60]


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_graph_cannot_hold_is_torchs_business(name):
    score = REFUSED[name]

    def f(q, k, v):
        return flex_attention(q, k, v, score_mod=score)

    args = given()
    before = len(LOG)
    plain = outcome(f, *args)
    noted = len(LOG) - before
    compiled = stator.compile(f, backend="eager")
    for _ in range(2):
        before = len(LOG)
        same(outcome(compiled, *args), plain)
        assert len(LOG) - before == noted
    with pytest.raises(stator.CaptureError) as caught:
        stator.compile(f, backend="eager", fullgraph=True)(*args)
    assert "test_attention.py" in str(caught.value)


def test_errors_of_torch_are_those_of_the_program():
    q, k, v = given()
    mask = make_mask(causal, None, None, LENGTH, LENGTH)
    wrong = [
        lambda: flex_attention(q[:, :, :8], k, v, block_mask=mask),
        lambda: flex_attention(q, k[:, :1], v[:, :1]),
        lambda: flex_attention(q[0], k[0], v[0]),
        lambda: flex_attention(q, k, v, block_mask=mask[0]),
        lambda: flex_attention(q, k, v, kernel_options={"BACKEND": "NONE"}),
        lambda: flex_attention(q.clone().requires_grad_(), k, v),
    ]
    for f in wrong:
        plain = outcome(f)
        assert isinstance(plain[0], str)
        assert outcome(stator.compile(f, backend="eager", fullgraph=True)) == plain


SCALE = 2.0


def test_what_is_read_is_guarded():
    layer = Relative()
    q, k, v = given()

    def f(q, k, v):
        def score(s, b, h, i, j):
            return layer(s, b, h, i, j) * SCALE

        return flex_attention(q, k, v, score_mod=score)

    global SCALE
    captured = Captured(f)
    captured.fresh = FLOATS_FAIL
    captured.check(q, k, v)
    layer.scale = 3.0
    captured.check(q, k, v)
    SCALE = 0.5
    captured.check(q, k, v)
    layer.table.data = torch.randn(2, 2 * LENGTH)
    captured.check(q, k, v)
    results = []
    thread = threading.Thread(target=lambda: results.append(captured.compiled(q, k, v)))
    thread.start()
    thread.join()
    same(results[0], f(q, k, v))
    assert len(captured.graphs) == 3


def test_annotations_reach_the_nodes():
    from torch.fx.traceback import annotate  # noqa: PLC0415

    def f(x):
        with annotate({"stage": 1}):
            x = x.sin()
            with annotate({"kept": [2]}):
                x = x.cos()
        return x * 2

    captured = Captured(f)
    captured.check(torch.ones(3))
    noted = [n.meta.get("custom") for n in captured.graphs[0].graph.nodes]
    assert noted[1:-1] == [{"stage": 1}, {"stage": 1, "kept": [2]}, None]


def test_in_eager_mode_it_still_works_when_installed():
    program = """
import stator, torch, warnings
warnings.simplefilter("ignore")
from torch.nn.attention.flex_attention import create_block_mask, flex_attention
stator.install()
q, k, v = torch.randn(3, 1, 2, 32, 16).unbind()
mask = create_block_mask(lambda b, h, i, j: i >= j, 1, 1, 32, 32, device="cpu")
plain = flex_attention(q, k, v, block_mask=mask)
ours = torch.compile(flex_attention, backend="aot_eager", fullgraph=True)(q, k, v, block_mask=mask)
expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
print(torch.allclose(plain, expected, atol=1e-5), torch.allclose(ours, expected, atol=1e-5))
print(stator.counters()["graphs"] if "graphs" in stator.counters() else "")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.startswith("True True"), done.stderr
