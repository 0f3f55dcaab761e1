# mypy: ignore-errors
"""`torch.autograd.grad` inside of a program: a node of the graph, like other operators."""

import pytest
import torch
from torch import nn
from torch.autograd import functional, grad
from torch.utils.checkpoint import checkpoint

import stator

from .harness import Change, Programs, check, module, t

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
programs = Programs()


def net():
    return module(lambda: nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)))


@programs(lambda: (t(3, grad=True), t(3, grad=True)), ops=["pow", "mul", "sum", "grad", "getitem"])
def by_an_argument(x, w):
    return grad((x.pow(3) * w).sum(), x, create_graph=True)[0]


@programs(lambda: (t(3, grad=True), t(3, grad=True)))
def without_a_graph_of_its_own(x, w):
    return grad((x * x * w).sum(), x)


@programs(lambda: (t(3, grad=True), t(3, grad=True)))
def value_and_gradients(x, w):
    energy = (x**3 * w).sum()
    return energy, grad(energy, [x, w], create_graph=True)


@programs(lambda: (t(3, grad=True),))
def second_derivative(x):
    (first,) = grad((x**4).sum(), x, create_graph=True)
    return grad(first.sum(), x, create_graph=True)


@programs(lambda: (t(3, grad=True),))
def by_an_intermediate_result(x):
    h = x * 2
    return grad((h * h).sum(), h, create_graph=True)[0] + x


@programs(lambda: (t(3, grad=True), t(3, grad=True)))
def options(x, w):
    unused = grad((x * x).sum(), [x, w], allow_unused=True)
    zeros = grad((x * x).sum(), [x, w], materialize_grads=True)
    return unused, zeros, grad(x.expand(2, 3), x, torch.ones(2, 3))


@programs(lambda: (net(), t(5, 4), t(5, 4)), free=True)
def penalty_of_a_critic(m, real, fake):
    mixed = (real * 0.3 + fake * 0.7).requires_grad_(True)
    found = m(mixed)
    (slope,) = grad(found, mixed, torch.ones_like(found), create_graph=True, retain_graph=True)
    return ((slope.norm(2, dim=1) - 1) ** 2).mean() + found.mean()


@programs(lambda: (net(), t(5, 4)), backward=False)
def forces(m, positions):
    positions.requires_grad_(True)
    energy = m(positions).sum()
    return energy, -grad(energy, positions)[0], positions.requires_grad


@programs(lambda: (t(3, grad=True),), under=torch.no_grad)
def grad_mode_of_its_own(x):
    with torch.enable_grad():
        y = (x * x).sum()
    return grad(y, x)


@programs(
    lambda: (t(3, grad=True), t(3, grad=True)),
    changes={"kind of leaf": lambda: ((t(3, grad=True) * 2), t(3))},
)
def by_a_tensor_with_a_past(h, x):
    return grad((h * h * x).sum(), h, create_graph=True)


@programs(lambda: (t(3, grad=True), t(2, 3)), free=True)
def functions_of_autograd(x, y):
    return (
        functional.jacobian(lambda a: a**3, x, create_graph=True),
        functional.hessian(lambda a: (a**3).sum(), x),
        functional.vjp(lambda a: a * x, y, y),
    )


@programs(lambda: (t(3, grad=True),), changes={"grad mode": Change(under=torch.no_grad)})
def gradient_if_there_is_one(x):
    y = (x * x).sum()
    return grad(y, x)[0] if y.requires_grad else x * 2


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program) -> None:
    check(program)


BACKENDS = ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_backends(backend) -> None:
    found = []
    for function in (penalty_of_a_critic, None):
        torch.manual_seed(0)
        m = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
        x = torch.randn(3, 4)
        options = {"backend": backend, "fullgraph": True}
        compiled = function or stator.compile(penalty_of_a_critic, **options)
        loss = compiled(m, x, x * 2)
        loss.backward()
        forced = forces if function else stator.compile(forces, **options)
        energy, force, _ = forced(m, x)
        found.append([loss, energy, force, m[0].weight.grad])
    torch.testing.assert_close(*found)


# ---------------------------------------------------------------------------- refused


def nothing_to_differentiate(x):
    return grad(x.detach().sum(), x)


def no_scalar(x):
    return grad(x * 2, x)


def inside_of_a_checkpoint(x):
    def f(y):
        z = y * 2
        return grad((z * z).sum(), z, create_graph=True)[0]

    return checkpoint(f, x, use_reentrant=False)


def inside_of_vmap(x):
    return torch.vmap(lambda row: grad((row * row).sum(), row)[0])(x[None])


REFUSED = {
    nothing_to_differentiate: "does not require grad",
    no_scalar: "grad can be implicitly created only for scalar outputs",
    inside_of_a_checkpoint: "torch.autograd.grad inside of a region",
    inside_of_vmap: "torch.autograd.grad inside of a region",
}


def outcome(function):
    try:
        return function(torch.arange(1.0, 4.0, requires_grad=True))
    except RuntimeError as error:
        return str(error)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("program", REFUSED, ids=lambda fn: fn.__name__)
def test_refused(program) -> None:
    with pytest.raises(stator.CaptureError, match=REFUSED[program]):
        options = {"backend": "eager", "fullgraph": True}
        stator.compile(program, **options)(torch.ones(3, requires_grad=True))
    stator.reset()
    expected, found = outcome(program), outcome(stator.compile(program, backend="eager"))
    if isinstance(expected, str):
        assert found == expected
    else:
        torch.testing.assert_close(found, expected)


def used_twice(x):
    y = (x**2).exp().sum()
    (a,) = torch.autograd.grad(y, x)
    (b,) = torch.autograd.grad(y, x)
    return a + b


def used_twice_in_a_handler(x):
    y = (x**2).exp().sum()
    (a,) = torch.autograd.grad(y, x)
    try:
        (b,) = torch.autograd.grad(y, x)
    except RuntimeError:
        return a * 10
    return a + b


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [used_twice, used_twice_in_a_handler])
def test_second_use_in_the_program_is_an_error(program, backend) -> None:
    compiled = stator.compile(program, backend=backend)
    for _ in range(2):
        assert str(outcome(compiled)) == str(outcome(program))


def test_paths_before_the_call() -> None:
    """A result of before may depend on what is differentiated by."""

    def program(h, x):
        return grad((h * h * x).sum(), x, create_graph=True)[0]

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    x = torch.arange(1.0, 4.0, requires_grad=True)
    leaf = torch.ones(3, requires_grad=True)
    torch.testing.assert_close(compiled(leaf, x), program(leaf, x))
    with pytest.raises(stator.CaptureError, match="another was computed before the call"):
        compiled(x * 2, x)
    torch.testing.assert_close(compiled(leaf, x), program(leaf, x))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_one_tensor_in_two_places(backend) -> None:
    def program(x, w):
        return grad((x * w * w).sum(), [x, w], create_graph=True)

    compiled = stator.compile(program, backend=backend, fullgraph=True)
    x, w = torch.ones(3, requires_grad=True), torch.full((3,), 2.0, requires_grad=True)
    torch.testing.assert_close(compiled(x, w), program(x, w))
    torch.testing.assert_close(compiled(w, w), program(w, w))
    torch.testing.assert_close(compiled(x, w), program(x, w))


def test_hooks_are_seen() -> None:
    def program(x):
        return grad((x * x).sum(), x)[0]

    compiled = stator.compile(program, backend="eager", fullgraph=True)
    x = torch.arange(1.0, 4.0, requires_grad=True)
    torch.testing.assert_close(compiled(x), 2 * x.detach())
    x.register_hook(lambda gradient: gradient * 10)
    with pytest.raises(stator.CaptureError, match="a tensor that has hooks"):
        compiled(x)
