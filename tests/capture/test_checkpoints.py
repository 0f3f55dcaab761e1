# mypy: ignore-errors
"""`torch.utils.checkpoint` with contexts and options: values, gradients, and what is recomputed."""

import collections
import contextlib
import dataclasses
import functools
import types

import pytest
import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    noop_context_fn,
    set_checkpoint_early_stop,
)

import stator
from tests.versions import TORCH

from .stories import BACKENDS

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
mm = torch.ops.aten.mm.default
once = functools.partial(checkpoint, use_reentrant=False)
SAVED = [mm]
POLICY = {"answer": CheckpointPolicy.MUST_SAVE}
LOG = []


def block(x, y):
    return torch.sigmoid(torch.sin(x @ y) @ y) * y


def saves_products(ctx, op, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if op is mm else CheckpointPolicy.PREFER_RECOMPUTE


def answers(ctx, op, *args, **kwargs):
    return op in (mm,) and args[0].shape[0] == 4 and not ctx.is_recompute


def every_second():
    """As torchtitan has it: a policy with state of its own, made anew for each call."""
    counts = collections.defaultdict(int)

    def policy(ctx, op, *args, **kwargs):
        if op == mm:
            counts["recompute" if ctx.is_recompute else "forward"] += 1
        if op == mm and counts["forward"] % 2:
            return CheckpointPolicy.MUST_SAVE
        return CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def select(chosen):
    return functools.partial(create_selective_checkpoint_contexts, chosen)


@dataclasses.dataclass
class Found:
    tensor: torch.Tensor
    count: int


def objects(x, y):
    found = once(lambda a, b: Found(a @ b, 2), x, y)
    named = once(lambda a: types.SimpleNamespace(z=[a.sin()], t=(a.cos(), "k")), found.tensor)
    return named.z[0], named.t, found.count, found.tensor


def early(x, y):
    with set_checkpoint_early_stop(False):
        return once(block, x, y)


def in_autograd(x, y):
    z = once(block, x, y, context_fn=select([mm])).sum()
    return torch.autograd.grad(z, [x, y])


LAYERS = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(4)))
WRAPPED = checkpoint_wrapper(
    torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4)),
    context_fn=every_second,
    preserve_rng_state=False,
)
DROPS = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5), torch.nn.ReLU())

PROGRAMS = {
    "a policy": lambda x, y: once(block, x, y, context_fn=select(saves_products)),
    "a list": lambda x, y: once(block, x, y, context_fn=select(SAVED)),
    "a lambda": lambda x, y: once(
        block, x, y, context_fn=lambda: create_selective_checkpoint_contexts(saves_products)
    ),
    "bools": lambda x, y: once(block, x, y, context_fn=select(answers)),
    "state": lambda x, y: once(block, x, y, context_fn=every_second),
    "a policy with dropout": lambda x, y: once(DROPS, x @ y, context_fn=select([mm])),
    "no contexts": lambda x, y: once(block, x, y, context_fn=noop_context_fn),
    "null contexts": lambda x, y: once(
        block, x, y, context_fn=lambda: (contextlib.nullcontext(), contextlib.nullcontext())
    ),
    "nested": lambda x, y: once(
        lambda x, y: once(block, x, y, context_fn=select([mm])).sin(), x, y
    ),
    "nested in a policy": lambda x, y: once(
        lambda x, y: once(block, x, y).sin(), x, y, context_fn=select([mm])
    ),
    "no check": lambda x, y: once(block, x, y, determinism_check="none"),
    "no early stop": lambda x, y: once(block, x, y, early_stop=False),
    "no early stop around": early,
    "by name": lambda x, y: once(lambda a, *, b, s: a @ b * s, x, b=y, s=2.0),
    "sequential": lambda x, y: checkpoint_sequential(LAYERS, 2, x @ y, use_reentrant=False),
    "reentrant sequential": lambda x, y: checkpoint_sequential(
        LAYERS, 2, x @ y, use_reentrant=True
    ),
    "wrapped": lambda x, y: WRAPPED(x @ y),
    "objects": objects,
    "differentiated": in_autograd,
}


def told(program, seed=0):
    torch.manual_seed(seed)
    x, y = (torch.randn(4, 4, requires_grad=True) for _ in range(2))
    found = program(x, y)
    flat = torch.utils._pytree.tree_leaves(found)
    wanted = [each for each in flat if isinstance(each, torch.Tensor) and each.requires_grad]
    if wanted:
        sum((each * each).sum() for each in wanted).backward()
    plain = [each.detach() if isinstance(each, torch.Tensor) else each for each in flat]
    return plain, [x.grad, y.grad]


def same(found, expected):
    for one, other in zip(*map(torch.utils._pytree.tree_leaves, (found, expected)), strict=True):
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(one, other)
        else:
            assert one == other


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_is_one_graph(name, backend):
    compiled = stator.compile(PROGRAMS[name], backend=backend, fullgraph=True)
    for seed in range(2):
        same(told(compiled, seed), told(PROGRAMS[name], seed))


def saved(context_fn=None, program=None, backend="aot_eager"):
    """The shapes of what the compiled forward keeps for the backward."""
    options = {} if context_fn is None else {"context_fn": context_fn}

    def wide(x, y):
        return (x @ y).sin().cos() @ y

    body = program or wide
    x, y = torch.randn(8, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
    compiled = stator.compile(
        lambda x, y: once(body, x, y, **options).sum(), backend=backend, fullgraph=True
    )
    return sorted(tuple(each.shape) for each in compiled(x, y).grad_fn.saved_tensors)


def test_activations_are_computed_again():
    inputs = [(4, 4), (8, 4)]
    assert saved() == inputs
    assert len(saved(select([mm, torch.ops.aten.sin.default]))) > len(inputs)
    assert saved(select([])) == inputs
    everything = lambda ctx, op, *args, **kwargs: CheckpointPolicy.MUST_SAVE  # noqa: E731
    nothing = lambda ctx, op, *args, **kwargs: CheckpointPolicy.MUST_RECOMPUTE  # noqa: E731
    assert saved(select(nothing)) == inputs
    assert len(saved(select(everything))) == len(inputs) + 3  # all but the last product


def test_a_policy_is_asked_as_in_eager():
    """Of each operator, and of its results: what it answers decides what is kept."""

    def program(x, y, seen):
        def policy(ctx, op, *args, **kwargs):
            seen.append((str(op), len(args), tuple(ctx.op_output.shape)))
            return False

        return once(block, x, y, context_fn=lambda: create_selective_checkpoint_contexts(policy))

    x, y = (torch.randn(4, 4, requires_grad=True) for _ in range(2))
    expected, found = [], []
    program(x, y, expected)

    def compiled(x, y):
        made = []
        return program(x, y, made), made

    found = stator.compile(compiled, backend="eager", fullgraph=True)(x, y)[1]
    assert found == expected


def test_what_a_policy_reads_is_guarded():
    def policy(ctx, op, *args, **kwargs):
        return POLICY["answer"] if op is mm else CheckpointPolicy.PREFER_RECOMPUTE

    traced = []

    def backend(module, examples):
        traced.append(module)
        return module.forward

    def program(x, y):
        return once(block, x, y, context_fn=select(policy))

    compiled = stator.compile(program, backend=backend, fullgraph=True)
    x, y = (torch.randn(4, 4, requires_grad=True) for _ in range(2))
    for _ in range(2):
        compiled(x, y)
    assert len(traced) == 1
    try:
        POLICY["answer"] = CheckpointPolicy.MUST_RECOMPUTE
        compiled(x, y)
    finally:
        POLICY["answer"] = CheckpointPolicy.MUST_SAVE
    assert len(traced) == 2


def logs(ctx, op, *args, **kwargs):
    LOG.append(str(op))
    return False


def refuses(ctx, op, *args, **kwargs):
    raise ValueError("no policy")


class Own:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None


def in_place(x, y):
    z = x @ y
    z.add_(1)
    return z * y


SPLIT = {
    "an effect": (lambda x, y: once(block, x, y, context_fn=select(logs)), "changes objects"),
    "an error": (lambda x, y: once(block, x, y, context_fn=select(refuses)), "raises ValueError"),
    "contexts of its own": (
        lambda x, y: once(block, x, y, context_fn=lambda: (Own(), Own())),
        "contexts of its own: Own, Own",
    ),
    "a wrong list": (
        lambda x, y: once(block, x, y, context_fn=select([torch.ops.aten.mm])),
        "more than operators",
    ),
    "in place": (
        lambda x, y: once(in_place, x, y, context_fn=select([torch.ops.aten.mul.Tensor])),
        "in place",
    ),
    "reentrant": (
        lambda x, y: checkpoint(block, x, y, use_reentrant=True, context_fn=select([mm])),
        "being reentrant",
    ),
    "an unknown check": (lambda x, y: once(block, x, y, determinism_check="a"), "refuses"),
    "an effect of the function": (
        lambda x, y: once(lambda a, b: (LOG.append(1), a @ b)[1], x, y),
        "changes objects",
    ),
}


@pytest.mark.parametrize("name", SPLIT)
def test_what_is_no_region_is_as_in_eager(name):
    program, reason = SPLIT[name]

    def tell(program):
        LOG.clear()
        try:
            return told(program), list(LOG)
        except Exception as error:
            return [type(error).__name__, str(error)], list(LOG)

    same(tell(stator.compile(program, backend="eager")), tell(program))
    with pytest.raises(stator.CaptureError, match=reason):
        tell_whole = stator.compile(program, backend="eager", fullgraph=True)
        told(tell_whole)


class Layer(torch.nn.Module):
    """With a method that a decorator checkpoints."""

    def __init__(self, decorate):
        super().__init__()
        self.inner = torch.nn.Linear(4, 4)
        self.whole = types.MethodType(decorate(type(self).part), self)

    def part(self, x, use_reentrant=None):
        return torch.sigmoid(self.inner(x)).sin()


@pytest.mark.skipif(TORCH < (2, 15), reason="checkpoint makes no decorators before torch 2.15")
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("context_fn", [noop_context_fn, select([mm])], ids=["plain", "selective"])
def test_decorated_functions(context_fn, backend):
    decorate = checkpoint(use_reentrant=False, context_fn=context_fn)
    decorated = decorate(block)
    layer = Layer(decorate)

    def program(x, y):
        return decorated(x, y=y) + layer.whole(x)

    whole = stator.compile(program, backend=backend, fullgraph=True)
    same(told(whole), told(program))

    def named(x, y):
        return layer.whole(x, use_reentrant=None)

    with pytest.raises(stator.CaptureError, match="named as an option"):
        told(stator.compile(named, backend=backend, fullgraph=True))
    same(told(stator.compile(named, backend=backend)), told(named))
