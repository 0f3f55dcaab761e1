# mypy: ignore-errors
"""Memory that is written and read at once, views without grad mode, functions inside of torch.func.

Programs are compared with eager: values, strides, aliasing, errors, gradients.
"""

import pytest
import torch
from torch import nn
from torch.func import grad, hessian, jacfwd, jacrev, vjp, vmap
from torch.utils._pytree import tree_leaves

import stator

from .functions import Square, SquareAtOnce
from .harness import Recording

BACKENDS = ["eager", "aot_eager"]
pytestmark = pytest.mark.filterwarnings("ignore")


def outcome(function, *args):
    try:
        result = function(*args)
    except Exception as error:
        return type(error), str(error), [each.tolist() for each in args]
    tensors = [each for each in tree_leaves(result) if each is not None]
    told = [(each.tolist(), each.stride(), each.requires_grad, each is args[0]) for each in tensors]
    shared = [[a.data_ptr() == b.data_ptr() for a in (*args, *tensors)] for b in tensors]
    return told, shared, [(each.tolist(), each.stride()) for each in args]


# ---------------------------------------------------------------------------- overlaps

REFUSED = {
    "shifted": lambda b: b[1:].add_(b[:-1]),
    "assigned": lambda b: b.__setitem__(slice(1, None), b[:-1]),
    "transposed": lambda b: torch.sin(b.t(), out=b),
    "out_is_resized": lambda b: torch.sin(b.view(9), out=b),
    "of_a_result": lambda b: (c := b * 2)[1:].copy_(c[:-1]),
    "concatenated": lambda b: torch.cat([b[:1], b[1:]], out=b),
    "scattered": lambda b: b.scatter_(0, torch.zeros(3, 3, dtype=torch.long), b),
    "expanded": lambda b: torch.zeros(1).expand(3).add_(1),
}
MIXED = {
    "columns": lambda b: torch.sin(b[:, 1:], out=b[:, :2]),
    "reduced": lambda b: torch.sum(b, 0, out=b[0]),
    "product": lambda b: torch.mm(b, b.t(), out=b),
    "column_into_all": lambda b: torch.sin(b[:, 1], out=b),
    "nothing_into_all": lambda b: torch.sin(b[:0], out=b),
}
DISJOINT = {
    "same": lambda b: b.mul_(b),
    "same_out": lambda b: torch.add(b, 1, out=b),
    "row": lambda b: b.__setitem__(0, b[1]),
    "interleaved": lambda b: b[:, ::2].mul_(b[:, 1:2]),
    "parts": lambda b: b.view(-1)[:4].copy_(b.view(-1)[5:]),
    "accumulated": lambda b: torch.cumsum(b, 0, out=b),
}


def nine():
    return torch.arange(9.0).view(3, 3)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", [*REFUSED, *MIXED, *DISJOINT])
def test_overlap(name, backend) -> None:
    program = {**REFUSED, **MIXED, **DISJOINT}[name]
    expected = outcome(program, nine())
    assert (expected[0] is RuntimeError) is (name in REFUSED)
    assert outcome(stator.compile(program, backend=backend), nine()) == expected


@pytest.mark.parametrize("name", DISJOINT)
def test_what_is_disjoint_is_captured(name) -> None:
    backend = Recording()
    stator.compile(DISJOINT[name], backend=backend, fullgraph=True)(nine())
    assert len(backend.graphs) == 1


def test_a_refusal_is_handled() -> None:
    def shifted(b):
        try:
            b[1:].add_(b[:-1])
        except RuntimeError as error:
            return b + len(str(error))
        return b

    compiled = stator.compile(shifted, backend="aot_eager")
    for n in (3, 4, 1):
        b = torch.arange(float(3 * n)).view(n, 3)
        assert outcome(compiled, b.clone()) == outcome(shifted, b.clone())


# ---------------------------------------------------------------------------- views, without grad

linear = nn.Linear(3, 3)


def with_grad(function):
    def called(x):
        with torch.enable_grad():
            return function(x)

    return called


VIEWS = {
    "linear": (with_grad(linear), True),
    "transposed": (with_grad(lambda x: (x * linear.weight[0]).transpose(0, -1)), True),
    "two": (with_grad(lambda x: (y := linear(x), y[0])), False),
    "of_an_input": (with_grad(lambda x: x.view(-1)), False),
    "of_a_parameter": (with_grad(lambda x: linear.weight.t() * 1 + linear.weight.t()), True),
}


def gradients(function, x):
    with torch.no_grad():
        found = tree_leaves(function(x))
    told = [(each.tolist(), each.requires_grad, each.grad_fn is None) for each in found]
    by = [x, linear.weight]
    return told, [
        [None if g is None else g.tolist() for g in torch.autograd.grad(each.sum(), by, **OPTIONS)]
        for each in found
    ]


OPTIONS = {"allow_unused": True, "retain_graph": True}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", VIEWS)
def test_views_with_grad_in_a_call_without(name, backend) -> None:
    program, whole = VIEWS[name]
    x = torch.arange(12.0).view(2, 2, 3).requires_grad_()
    compiled = stator.compile(program, backend=backend, fullgraph=whole)
    assert gradients(compiled, x) == gradients(program, x)


# ---------------------------------------------------------------------------- inside of torch.func


class Mapped(Square):
    generate_vmap_rule = True


class Exponential(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, y):
        return x.exp() * y, x + y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output[0], inputs[1])
        ctx.mark_non_differentiable(output[1])
        ctx.kept = inputs[0].exp()

    @staticmethod
    def backward(ctx, gradient, _):
        output, y = ctx.saved_tensors
        return gradient * output * 2, gradient * (output / y) + ctx.kept


class OwnRule(Square):
    @staticmethod
    def vmap(info, in_dims, x):
        return OwnRule.apply(x) + info.batch_size, in_dims[0]


class Asking(Square):
    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3 * ctx.saved_tensors[0] if ctx.needs_input_grad[0] else None


def twice(function):
    return grad(lambda z: grad(lambda y: function(y).sum())(z).pow(2).sum())


CAPTURED = {
    "grad": lambda x: grad(lambda y: Square.apply(y).sum())(x[0]),
    "second": lambda x: twice(Square.apply)(x[0]),
    "pulled": lambda x: vjp(lambda y: Mapped.apply(y) * 2, x)[1](x),
    "mapped": lambda x: vmap(Mapped.apply)(x),
    "mapped_gradients": lambda x: vmap(grad(lambda y: Mapped.apply(y).sum()))(x),
    "gradient_of_mapped": lambda x: grad(lambda y: vmap(Mapped.apply)(y).sum())(x),
    "second_of_mapped": lambda x: twice(vmap(Mapped.apply))(x),
    "two_results": lambda x: vmap(lambda y: Exponential.apply(y, x[0]))(x),
    "saved_result": lambda x: twice(lambda y: Exponential.apply(y, y + 1)[0])(x),
    "mapped_result": lambda x: vmap(grad(lambda y: Exponential.apply(y, x[0])[0].sum()))(x),
    "jacobian": lambda x: jacrev(jacrev(Mapped.apply))(x[0]),
    "outer": lambda x: grad(lambda y: (Square.apply(y) * Square.apply(x)).sum())(x),
    "detached": lambda x: grad(lambda y: (Square.apply(y.detach()) * y).sum())(x),
}
NOT_CAPTURED = {
    "own_rule": (lambda x: vmap(OwnRule.apply)(x), "a rule of its own inside of torch.vmap"),
    "no_rule": (lambda x: vmap(Square.apply)(x), "a rule of its own inside of torch.vmap"),
    "forward": (lambda x: jacfwd(Square.apply)(x[0]), "inside of torch.func.jvp"),
    "hessian": (lambda x: hessian(lambda y: Mapped.apply(y).sum())(x[0]), "torch.func.jvp"),
    "no_setup": (lambda x: grad(lambda y: SquareAtOnce.apply(y).sum())(x), "without setup_context"),
    "asking": (lambda x: grad(lambda y: Asking.apply(y).sum())(x), "needs_input_grad"),
}


def given():
    return torch.arange(1.0, 7.0).view(2, 3)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CAPTURED)
def test_functions_inside(name, backend) -> None:
    program = CAPTURED[name]
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for x in (given(), given() / 2):
        found, expected = tree_leaves(compiled(x)), tree_leaves(program(x))
        torch.testing.assert_close(found, expected)
        assert [each.requires_grad for each in found] == [each.requires_grad for each in expected]


@pytest.mark.parametrize("name", NOT_CAPTURED)
def test_functions_inside_that_are_not_captured(name) -> None:
    program, reason = NOT_CAPTURED[name]
    with pytest.raises(stator.CaptureError, match=reason):
        stator.compile(program, backend="eager", fullgraph=True)(given())
    stator.reset()
    assert outcome(stator.compile(program, backend="eager"), given()) == outcome(program, given())


# ---------------------------------------------------------------------------- single operators


def function_made_inside(x, y):
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 3 * ctx.saved_tensors[0]

    return Doubled.apply(x) + y


WHOLE = {
    "masked_sum": lambda x, y: torch.masked.sum(x, 1, mask=y > 0.5),
    "masked_softmax": lambda x, y: torch.masked.softmax(x, 1, mask=y > 0.5),
    "function_made_inside": function_made_inside,
    "gaussian_loss": lambda x, y: nn.functional.gaussian_nll_loss(x, x * 2, y),
    "narrow": lambda x, y: x.narrow(1, y.sum(0).argmax(), 1) * torch.narrow(x, 0, y[0].argmax(), 1),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", WHOLE)
def test_operators_that_are_captured(name, backend) -> None:
    program = WHOLE[name]
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    torch.manual_seed(0)
    for _ in range(3):
        x, y = torch.randn(3, 3, requires_grad=True), torch.rand(3, 3)
        found, expected = compiled(x, y), program(x, y)
        torch.testing.assert_close(found, expected, equal_nan=True)
        pair = [torch.autograd.grad(each.nansum(), x)[0] for each in (found, expected)]
        torch.testing.assert_close(*pair, equal_nan=True)


def test_a_check_of_values_in_a_loss() -> None:
    compiled = stator.compile(WHOLE["gaussian_loss"], backend="aot_eager")
    compiled(torch.ones(2, 2), torch.ones(2, 2))
    with pytest.raises(ValueError, match="var has negative entry"):
        compiled(torch.ones(2, 2), -torch.ones(2, 2))


@pytest.mark.parametrize("program", [lambda x: x.to_sparse(), lambda x: (x * 1).polygamma_(1)])
def test_a_graph_that_backends_refuse_runs_as_it_is(program) -> None:
    x = torch.ones(2, 2, requires_grad=True)
    found = stator.compile(program, backend="aot_eager")(x)
    expected = program(x)
    assert found.layout is expected.layout
    torch.testing.assert_close(found.to_dense(), expected.to_dense())


def test_a_backward_that_torch_does_not_have() -> None:
    """Eager raises when it is asked for, and not before."""
    model = nn.Embedding(5, 2, scale_grad_by_freq=True, sparse=True)
    found = stator.compile(model, backend="aot_eager")(torch.tensor([1, 3]))
    assert torch.equal(found, model(torch.tensor([1, 3])))
    with pytest.raises(RuntimeError, match="scale_grad_by_freq not supported"):
        found.sum().backward()
