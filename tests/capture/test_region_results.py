# mypy: ignore-errors
"""What `torch.autograd.Function` and `torch.utils.checkpoint` take and return, in one graph."""

import pytest
import torch
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint

import stator

from .stories import BACKENDS, Stories, attempt, check_story

stories = Stories()


class Power(Function):
    @staticmethod
    def forward(ctx, x, n=2):
        ctx.save_for_backward(x)
        ctx.n = n
        return x**n

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.n * x ** (ctx.n - 1), None


class Scaled(Function):
    @staticmethod
    def forward(ctx, x, scale, n=1):
        ctx.save_for_backward(x, scale)
        return x * scale

    @staticmethod
    def backward(ctx, g):
        x, scale = ctx.saved_tensors
        return g * scale, g * x


class Tagged(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(x, y)
        return 3, y, "tag", None, x.sin()

    @staticmethod
    def backward(ctx, number, g, tag, none, h):
        assert number is None and tag is None and none is None
        x, y = ctx.saved_tensors
        return g * y + h * x.cos()


class Prepared(Function):
    @staticmethod
    def forward(x, w, scale=2.0):
        return x * w * scale

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, w, ctx.scale = inputs
        ctx.save_for_backward(x, w)

    @staticmethod
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g * w * ctx.scale, g * x * ctx.scale, None


class Quantised(Function):
    """Keeps what it divides by without saving it, as quantised models do."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return torch.round(x / scale)

    @staticmethod
    def backward(ctx, g):
        return g / ctx.scale.view(-1), None


def quantised(x):
    with torch.no_grad():
        scale = x.abs().max() / 127
    return Quantised.apply(x, scale) * scale, scale


def tagged(x):
    number, y, tag, none, z = Tagged.apply(x)
    return y * number + z, tag, none


def in_a_dict(x):
    found = checkpoint(
        lambda a: {"sin": a.sin(), "others": [a.cos(), a.shape[0]], "name": "n"},
        x,
        use_reentrant=False,
    )
    return found["sin"] * found["others"][1] + found["others"][0], found["name"]


def with_numbers(x):
    found = checkpoint(lambda a, n: (a.sin() * n, n, None, a), x, 3, use_reentrant=False)
    return found[0] * found[1] + found[3], found[2], found[3] is x


def twice_the_same(x):
    def body(a):
        y = a.sin()
        return y, [y]

    first, (second,) = checkpoint(body, x, use_reentrant=False)
    return first * second, first is second


PROGRAMS = dict(
    keyword=lambda x: Power.apply(x, n=3) * 1,
    default=lambda x: Power.apply(x) * 1,
    all_by_name=lambda x: Scaled.apply(scale=x * 2, x=x) * 1,
    tagged=tagged,
    prepared=lambda x: Prepared.apply(x, w=x * 2) * 1,
    prepared_by_name=lambda x: Prepared.apply(x, x * 2, scale=5.0) * 1,
    quantised=quantised,
    dict=in_a_dict,
    numbers=with_numbers,
    same=twice_the_same,
)


def told(program, sizes=(3, 4)):
    found = []
    for size in sizes:
        x = torch.linspace(-1, 2, size).requires_grad_()
        result = program(x)
        values = result if isinstance(result, tuple) else (result,)
        values[0].sum().backward()
        plain = [each.detach() if isinstance(each, torch.Tensor) else each for each in values]
        found.append([*plain, x.grad])
    return found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_is_one_graph(name, backend):
    graphs = []

    def counting(module, inputs):
        graphs.append([node.op for node in module.graph.nodes])
        return stator.backends.registry.lookup(backend)(module, inputs)

    program = PROGRAMS[name]
    compiled = stator.compile(program, backend=counting, fullgraph=True, dynamic=False)
    for expected, found in zip(told(program), told(compiled), strict=True):
        for one, other in zip(expected, found, strict=True):
            if isinstance(one, torch.Tensor):
                torch.testing.assert_close(other, one, rtol=0, atol=0)
            else:
                assert other == one and type(other) is type(one)
    assert len(graphs) == 2  # one for each size
    assert all(ops.count("call_module") == 1 for ops in graphs)


def test_debugging_a_checkpoint_is_one_graph():
    """It tells more of an error that a graph can't have. In eager, pytest's logging fails."""

    def program(x, **options):
        return checkpoint(lambda a: a.sin().cos(), x, use_reentrant=False, **options)

    compiled = stator.compile(
        lambda x: program(x, debug=True), backend="eager", fullgraph=True, dynamic=False
    )
    assert str(told(compiled)) == str(told(program))


SPLIT = dict(
    kept_result=lambda ctx, x, s: setattr(ctx, "s", x * s) or ctx.s,
    view_of_a_result=lambda ctx, x, s: (y := x * s, setattr(ctx, "s", y.view(-1)))[0],
    given=lambda ctx, x, s: setattr(ctx, "s", x) or x * s,
)


@pytest.mark.parametrize("name", SPLIT)
def test_what_others_may_change_is_not_kept(name):
    class Keeping(Function):
        forward = staticmethod(SPLIT[name])

        @staticmethod
        def backward(ctx, g):
            return g * ctx.s, None

    def program(x):
        return Keeping.apply(x, x.detach() * 2) * 1

    with pytest.raises(stator.CaptureError, match="which others may change"):
        stator.compile(program, backend="eager", fullgraph=True)(torch.ones(3).requires_grad_())
    x, y = (torch.ones(3).requires_grad_() for _ in range(2))
    stator.compile(program, backend="eager")(x).sum().backward()
    program(y).sum().backward()
    assert torch.equal(x.grad, y.grad)


@stories
def a_kept_tensor_is_changed_later(compiling):
    def program(x):
        scale = x.detach() * 2
        y = Quantised.apply(x, scale)
        scale.mul_(3)
        return y * 1

    x = torch.tensor([0.5, 2.0], requires_grad=True)
    y = compiling(program)(x)
    y.sum().backward()
    return y, x.grad


@stories
def wrong_arguments(compiling):
    x = torch.ones(2, requires_grad=True)
    return [
        attempt(compiling(lambda x: Prepared.apply(w=x)), x),
        attempt(compiling(lambda x: Power.apply(x, m=3)), x),
        attempt(compiling(lambda x: Power.apply(x, x=x)), x),
        attempt(compiling(lambda x: Scaled.apply(x, n=x)), x),
    ]


@stories
def a_list_from_before(compiling):
    held = [torch.ones(2)]

    def program(x):
        found = checkpoint(lambda a: (a.sin(), held), x, use_reentrant=False)
        return found[0] * found[1][0], found[1] is held

    x = torch.ones(2, requires_grad=True)
    y, same = compiling(program)(x)
    y.sum().backward()
    return y, same, x.grad, len(held)


@pytest.mark.parametrize(("story", "backend"), stories.cases)
def test_told_as_in_eager(story, backend):
    check_story(story, backend)
