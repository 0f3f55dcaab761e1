# mypy: ignore-errors
"""The state of tensors: what requires grad, data, gradients, attributes, parameters made inside.

Each program runs as a graph of torch calls, and through AOTAutograd, which decides by itself what
requires grad.
"""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import stator

from .harness import Program, Programs, call, check, compile_with, module, reset_engine, t
from .known_breaks import KNOWN_BREAKS

programs = Programs()


def linear():
    return module(nn.Linear, 3, 3)


# ---------------------------------------------------------------------------- requires_grad


@programs(lambda: (t(3), linear()))
def view_of_an_input_requires_grad(x, m):
    """As audio models do it: the result is differentiable by the parameters anyway."""
    y = x[None]
    y.requires_grad = True
    return m(y)


@programs(lambda: (t(3),), free=True)
def leaf_made_inside(x):
    y = x.clone().requires_grad_()
    return y * 2


@programs(lambda: (t(3),), free=True)
def leaf_made_inside_and_returned(x):
    y = x.clone().requires_grad_()
    return y, (y * 2).sum()


@programs(lambda: (t(3),))
def leaf_returned_unused(x):
    return (x * 2).requires_grad_()


@programs(lambda: (t(3),))
def factory_with_grad(x):
    y = torch.ones(3, requires_grad=True)
    return y, x + 1


@programs(lambda: (t(3),), free=True)
def factory_with_grad_used(x):
    y = torch.full((3,), 2.0, requires_grad=True)
    return y, y * x


@programs(lambda: (t(3),))
def leaf_in_no_grad(x):
    y = (x * 2).requires_grad_()
    with torch.no_grad():
        z = y + 1
    return y.requires_grad, z.requires_grad, z


@programs(lambda: (t(3, grad=True),))
def leaf_and_input(x):
    y = x.detach().requires_grad_()
    return x * y


@programs(lambda: (t(3),))
def input_switched_on(x):
    x.requires_grad_()
    return x * 2, x.requires_grad


def same_twice():
    x = t(3)
    return x, x


@programs(lambda: (t(3), t(3)), changes={"identity": same_twice})
def one_of_two_inputs_switched_on(x, y):
    x.requires_grad_()
    return x * y, y.requires_grad


@programs(lambda: (t(3), t(3)), changes={"identity": same_twice})
def attribute_of_one_of_two(x, y):
    x.tag = 1
    return x * y, hasattr(y, "tag")


@programs(lambda: (t(3),))
def input_switched_on_and_unused(x):
    y = x * 2
    x.requires_grad = True
    return y


@programs(lambda: (t(3),))
def input_switched_on_and_off(x):
    x.requires_grad_()
    x.requires_grad_(False)
    return x * 2, x.requires_grad


@programs(lambda: (t(3, grad=True),))
def input_switched_off(x):
    y = x * 2
    x.requires_grad_(False)
    return y, x * 3, x.requires_grad


@programs(lambda: (t(3, grad=True),))
def input_switched_off_and_on(x):
    x.requires_grad = False
    y = x * 2
    x.requires_grad = True
    return y, x * 3


@programs(lambda: (linear(), t(3)))
def module_frozen(m, x):
    m.requires_grad_(False)
    return m(x)


@programs(lambda: (linear(), linear(), t(3)))
def one_of_two_modules_frozen(m, n, x):
    m.requires_grad_(False)
    y = n(m(x))
    m.requires_grad_(True)
    return y


@programs(lambda: (t(3, grad=True),), raises=RuntimeError)
def switching_a_result(x):
    y = x * 2
    y.requires_grad = False
    return y


@programs(lambda: (t(3, dtype=torch.int64),), raises=RuntimeError)
def switching_integers(x):
    x.requires_grad_()


@programs(lambda: (t(3, grad=True),))
def caught_error_of_switching(x):
    y = x * 2
    try:
        y.requires_grad = False
    except RuntimeError as error:
        return y, str(error)


@programs(
    lambda: (t(3, grad=True), t(3)),
    changes={"leaf": lambda: (t(3, grad=True) * 1, t(3))},
    dead=True,
)
def asking_for_leaves(x, y):
    z = x * y
    none = y.grad_fn is None
    return x.is_leaf, z.is_leaf, none, (x * y).detach().is_leaf, z


@programs(lambda: (t(3, grad=True),))
def detached_in_place(x):
    y = x * 2
    y.detach_()
    y.add_(1)
    z = y * x
    return y, z, y.requires_grad


@programs(lambda: (t(3, grad=True), t(3)))
def retain_grad_of_leaves(x, y):
    x.retain_grad()
    try:
        y.retain_grad()
    except RuntimeError as error:
        return x * y, str(error)


@programs(lambda: (t(3),))
def leaf_of_shared_memory_changed(x):
    y = x.detach().requires_grad_()
    z = y * 2
    with torch.no_grad():
        x.add_(1)
    return z


# ---------------------------------------------------------------------------- data


@programs(lambda: (t(3), t(3)))
def data_replaced(x, y):
    x.data = y * 2
    return x + 1


@programs(lambda: (t(3), t(4, 2)))
def data_of_another_shape(x, y):
    x.data = y
    return x.sum(), x.shape


@programs(lambda: (t(3), t(3)))
def data_of_another_type(x, y):
    x.data = y.double()
    x.mul_(2)
    return x.dtype


@programs(lambda: (t(3), t(3)))
def data_shared_afterwards(x, y):
    z = y * 2
    x.data = z
    x.add_(1)
    return z


@programs(lambda: (t(3), t(3)))
def data_of_an_argument(x, y):
    x.data = y
    y.add_(1)
    return x + 0


@programs(lambda: (t(3), t(3)))
def old_memory_stays(x, y):
    old = x[1:]
    x.data = y + 1
    old.add_(10)
    return x + 0, old


@programs(lambda: (linear(), t(3, 3)))
def data_of_a_parameter(m, y):
    m.weight.data = y * 2
    with torch.no_grad():
        return m.weight + 1, m.weight.requires_grad


@programs(lambda: (linear(), t(3)))
def data_changed_in_place(m, x):
    m.weight.data.mul_(0.5)
    m.bias.data.copy_(x)
    return m(x)


@programs(lambda: (linear(), t(3)))
def data_read(m, x):
    return m.weight.data * x, m.weight.data.requires_grad


@programs(lambda: (linear(), t(3)), graphs=1)
def parameters_halved(m, x):
    for p in m.parameters():
        p.data = p.data.half()
    return x + 1


@programs(lambda: (t(3), 3), raises=TypeError)
def data_that_is_no_tensor(x, n):
    x.data = n


@programs(lambda: (t(3), t(3)), dead=True)
def data_of_a_result(x, y):
    z = x + 1
    z.data = y * 2
    z.add_(1)
    return z


# ---------------------------------------------------------------------------- gradients


@programs(lambda: (t(3, grad=True), t(3)))
def gradient_set(x, y):
    x.grad = y * 2
    return x.grad + 1, x.grad is None


@programs(lambda: (t(3, grad=True), t(3)), dead=True)
def gradient_set_and_dropped(x, y):
    x.grad = y * 2
    x.grad = None
    return y + 1, x.grad


def with_gradient():
    x = t(3, grad=True)
    x.grad = t(3)
    return x, t(3)


@programs(with_gradient)
def gradient_dropped(x, y):
    x.grad = None
    return x * y


@programs(with_gradient)
def gradient_deleted(x, y):
    del x.grad
    return x * y


@programs(lambda: (t(3, grad=True), t(4)), raises=RuntimeError)
def gradient_of_another_shape(x, y):
    x.grad = y


@programs(lambda: (t(3, grad=True), 3), raises=TypeError)
def gradient_that_is_no_tensor(x, n):
    x.grad = n


@programs(lambda: (t(3),))
def gradient_of_a_result(x):
    y = x + 1
    y.grad = x * 2
    return y, y.grad


@programs(lambda: (linear(), t(3)))
def zero_grad_without_gradients(m, x):
    m.zero_grad()
    return m(x)


@programs(with_gradient, changes={"absence": lambda: (t(3, grad=True), t(3))})
def gradient_read(x, y):
    if x.grad is None:
        return y
    return x.grad * y


@programs(with_gradient)
def gradient_scaled_in_place(x, y):
    x.grad.mul_(0.5)
    return x * y


@programs(with_gradient, keeps={"other gradient": with_gradient})
def gradient_returned(x, y):
    return x.grad, y + 1


def gradient_passed_too():
    x = t(3, grad=True)
    x.grad = t(3)
    return x, x.grad


@programs(gradient_passed_too, changes={"identity": with_gradient})
def gradient_is_an_argument(x, g):
    return x.grad is g, x.grad + g


def trained():
    m = linear()
    m(t(3)).sum().backward()
    return m, t(3)


@programs(trained)
def zero_grad(m, x):
    m.zero_grad()
    return m(x)


@programs(trained)
def zero_grad_to_zero(m, x):
    m.zero_grad(set_to_none=False)
    return m(x)


@programs(trained)
def step_of_gradient_descent(m, x):
    with torch.no_grad():
        for p in m.parameters():
            p.sub_(p.grad, alpha=0.1)
    return m(x)


# ---------------------------------------------------------------------------- attributes


@programs(lambda: (t(3),))
def attribute_of_a_result(x):
    y = x + 1
    y.tag = ["mine", x]
    y.twin = y
    return y, hasattr(x, "tag"), hasattr(y, "tag")


@programs(lambda: (t(3), t(3)))
def attributes_of_arguments(x, y):
    x.seen = getattr(x, "seen", 0) + 1
    y.other = x
    return x * x.seen, y.other is x


def with_attribute():
    x = t(3)
    x.tag = 5
    return (x,)


@programs(with_attribute)
def attribute_deleted(x):
    del x.tag
    return x + 1, hasattr(x, "tag")


@programs(with_attribute)
def attribute_deleted_and_set(x):
    del x.tag
    x.tag = 6
    return x + x.tag


@programs(lambda: (t(3),), raises=AttributeError)
def missing_attribute_deleted(x):
    del x.tag


@programs(lambda: (t(3),))
def method_hidden_by_an_attribute(x):
    y = x + 1
    y.sum = lambda: "mine"
    return y.sum(), y.mean()


@programs(lambda: (linear(), t(3)))
def attribute_of_a_parameter(m, x):
    m.weight.is_special = True
    return m(x), [hasattr(p, "is_special") for p in m.parameters()]


# ---------------------------------------------------------------------------- memory


@programs(lambda: (t(4), torch.empty(0)))
def out_argument_that_grows(x, out):
    torch.mul(x, 2, out=out)
    return out + 1


@programs(lambda: (t(4), torch.empty(0)))
def out_argument_of_a_concatenation(x, out):
    torch.cat([x, x], out=out)
    out.add_(1)
    return out.shape


@programs(lambda: (t(4),))
def own_out_argument_that_grows(x):
    out = torch.empty(0)
    torch.mul(x, 2, out=out)
    return out


@programs(lambda: (t(4), t(2)))
def input_resized(x, y):
    y.resize_(4)
    y.copy_(x)
    return y * 2


@programs(lambda: (t(4), t(2)))
def input_resized_after_use(x, y):
    z = y * 2
    y.resize_(4)
    y.copy_(x)
    return z


@programs(lambda: (t(4),))
def input_made_smaller(x):
    x.resize_(2)
    return x + 1


@programs(lambda: (t(4),))
def memory_set(x):
    y = x * 2
    x.set_(y)
    y.add_(1)
    return x + 1


@programs(lambda: (t(4), t(2, 3)))
def memory_set_to_another_shape(x, y):
    x.set_(y + 1)
    return x.shape


@programs(lambda: (t(4),))
def shared_memory_resized(x):
    y = x + 1
    y.data.resize_(8)
    return y.shape


# ---------------------------------------------------------------------------- copies


@programs(lambda: (t(4), t(2, 3).T), free=True)
def copied_deeply(x, y):
    z, w = copy.deepcopy((x, y))
    z.add_(1)
    return z, w, x


@programs(lambda: (t(4),), free=True)
def copied_once(x):
    a, b = copy.deepcopy([x, x])
    return a is b, a is x, a


@programs(lambda: (t(4, grad=True),), free=True)
def leaf_copied_deeply(x):
    y = copy.deepcopy(x)
    return y, y.requires_grad, y.is_leaf


@programs(lambda: (t(4, grad=True),), raises=RuntimeError, free=True)
def result_copied_deeply(x):
    return copy.deepcopy(x * 2)


@programs(lambda: (t(4),), free=True)
def copied_with_its_view(x):
    return copy.deepcopy([x, x.view(2, 2)])


@programs(lambda: (t(4), {"a": t(2)}), free=True)
def copied(x, d):
    y, e = copy.copy(x), copy.copy(d)
    y.add_(1)
    return y is x, x + 0, e, e is d


@programs(lambda: (linear(), t(3)), free=True)
def module_copied_and_called(m, x):
    twin = copy.deepcopy(m)
    return twin(x) - m(x), twin.weight is m.weight


# ---------------------------------------------------------------------------- new parameters


class Adapter(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = None

    def forward(self, x):
        if self.scale is None:
            self.scale = nn.Parameter(torch.ones(x.shape[-1]) * 2)
        return x * self.scale


@programs(lambda: (Adapter(), t(2, 3)), free=True)
def parameter_made_at_the_first_call(m, x):
    return m(x)


@programs(lambda: (t(2, 3),), free=True)
def parameter_returned(x):
    p = nn.Parameter(x * 2)
    return p, p.sum(), isinstance(p, nn.Parameter), type(p) is nn.Parameter, p.is_leaf


@programs(lambda: (t(2, 3),), free=True)
def parameter_without_grad(x):
    return nn.Parameter(x * 2, requires_grad=False)


@programs(lambda: (t(2, 3),), free=True)
def layer_made_inside(x):
    m = nn.Linear(3, 2)
    return m(x), sum(p.numel() for p in m.parameters())


@programs(lambda: (t(2, 3),), free=True)
def layer_returned(x):
    m = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.LayerNorm(4))
    return m, m(x)


@programs(lambda: (linear(), t(3)), free=True)
def module_copied(m, x):
    n = copy.deepcopy(m)
    with torch.no_grad():
        n.weight.mul_(2)
    return n, n(x) + m(x)


@programs(lambda: (linear(), t(3)), free=True)
def buffer_made_inside(m, x):
    m.extra = nn.Buffer(x * 2)
    return m(x), [name for name, _ in m.named_buffers()]


@programs(lambda: (t(2, 3, dtype=torch.int64),), raises=RuntimeError, free=True)
def parameter_of_integers(x):
    return nn.Parameter(x)


@programs(lambda: (t(2, 3),))
def parameter_shares_memory_with_an_argument(x):
    return nn.Parameter(x)


@programs(lambda: (linear(), t(3)), free=True)
def weight_replaced(m, x):
    m.weight = nn.Parameter(m.weight.detach() * 2)
    return F.linear(x, m.weight, m.bias)


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)


BROKEN = [program for program in programs if program.key in KNOWN_BREAKS]


@pytest.mark.parametrize("program", [p for p in programs if p not in BROKEN], ids=str)
def test_through_autograd_of_the_backend(program: Program) -> None:
    """AOTAutograd decides from the inputs what requires grad; its nodes have names of its own."""
    reset_engine()
    expected = [plain(line) for line in call(program, program.fn, 1).lines]
    compiled = compile_with(program.fn, backend="aot_eager", fullgraph=True)
    for _ in range(2):
        found = [plain(line) for line in call(program, compiled, 1).lines]
        assert found == expected


def plain(line: str) -> str:
    head, found, rest = line.partition("grad_fn=")
    if not found:
        return line
    name, comma, tail = rest.partition(",")
    return f"{head}{found}{name == 'None'}{comma}{tail}"


def test_a_parameter_is_a_new_one_in_each_call() -> None:
    def make(x: torch.Tensor) -> torch.Tensor:
        return nn.Parameter(x * 2)

    compiled = stator.compile(make, backend="eager", fullgraph=True)
    first, second = compiled(torch.ones(3)), compiled(torch.zeros(3))
    assert type(first) is nn.Parameter
    assert first is not second
    assert torch.equal(first, torch.full((3,), 2.0))
    assert torch.equal(second, torch.zeros(3))


def test_gradients_reach_a_parameter_made_inside() -> None:
    def make(m: Adapter, x: torch.Tensor) -> torch.Tensor:
        return m(x)

    for backend in ("eager", "aot_eager"):
        stator.reset()
        m, x = Adapter(), torch.randn(2, 3)
        stator.compile(make, backend=backend, fullgraph=True)(m, x).sum().backward()
        assert m.scale is not None
        assert torch.equal(m.scale.grad, x.sum(0))
