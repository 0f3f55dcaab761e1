# mypy: ignore-errors
"""`t.grad_fn`: what a program learns from it is eager's, without a break where nothing escapes."""

import pytest
import torch
import torch.nn.functional as F

import stator

pytestmark = pytest.mark.usefixtures("leaves_no_trace")


def leaf():
    return torch.arange(1.0, 7.0).requires_grad_()


def plain():
    return torch.arange(1.0, 7.0)


def computed():
    return leaf().exp()


def is_none(x):
    y = x * 2
    return y + 1 if y.grad_fn is None else y


def truth(x):
    y = x * 2
    return y + 1 if y.grad_fn else y


def of_a_detached_one(x):
    y = (x * 2).detach()
    return y, y.grad_fn


def name(x):
    y = x * 2
    return y, None if y.grad_fn is None else y.grad_fn.name()


def name_of_class(x):
    y = (x * 2).relu()
    return y, type(y.grad_fn).__name__


def the_same_one(x):
    y = x * 2
    return y, y.grad_fn is y.grad_fn, y.grad_fn is (x * 3).grad_fn


def after_changes_in_place(x):
    y = x * 2
    y.add_(1)
    y[0] = 3
    z = y.view(2, 3)
    return z, y.grad_fn.name(), z.grad_fn.name()


def attention(x):
    q = x.view(1, 1, 2, 3)
    y = F.scaled_dot_product_attention(q, q, q)
    return y, y.grad_fn.name()


def without_gradients(x):
    with torch.no_grad():
        y = x * 2
    return y, y.grad_fn


def all_nodes(x):
    y = F.linear(x.view(2, 3), torch.ones(2, 3)).relu().sum()
    names, waiting = [], [y.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None:
            names.append(node.name())
            waiting += [each for each, _ in node.next_functions]
    return y, names


CAPTURED = [
    *(is_none, truth, of_a_detached_one, name, after_changes_in_place, attention),
    *(without_gradients, all_nodes, name_of_class, the_same_one),
]


def returned(x):
    y = x * 2
    return y, y.grad_fn.next_functions[0][1], [y.grad_fn].count(1)


def kept_across_a_break(x):
    y = x * 2
    node = y.grad_fn
    stator.graph_break()
    return y + 1, node.name()


def hooked(x):
    seen = []
    y = (x * 2).sum()
    y.grad_fn.register_hook(lambda *grads: seen.append(len(grads)))
    y.backward()
    return y, seen


def written_to(x):
    y = x * 2
    y.grad_fn.metadata["mark"] = 1
    return y, dict(y.grad_fn.metadata)


def asked_for_more(x):
    y = x * 2
    return y, hasattr(y.grad_fn, "name"), hasattr(y.grad_fn, "nothing"), y.grad_fn.requires_grad


def shown(x):
    y = x * 2
    return y, str(y.grad_fn)[:13], f"{[y.grad_fn]}"[:13]


def of_a_function(x):
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, given):
            return given * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    y = Double.apply(x)
    return y, y.grad_fn.name()


OTHERS = [
    *(returned, kept_across_a_break, hooked, written_to, asked_for_more, shown, of_a_function),
]


def seen(function, x):
    try:
        y, *rest = function(x)
    except Exception as error:
        return type(error).__name__, str(error)
    return y.tolist(), y.requires_grad, rest


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [*CAPTURED, *OTHERS], ids=lambda each: each.__name__)
def test_as_in_eager(program, backend):
    def single(x):
        made = program(x)
        return made if type(made) is tuple else (made,)

    graphs = []

    def note(module, inputs):
        graphs.append(module)
        return stator.backends.lookup(backend)(module, inputs)

    compiled = stator.compile(single, backend=note)
    for make in (leaf, leaf, computed, plain, leaf):
        assert seen(compiled, make()) == seen(single, make()), make.__name__
    if program in CAPTURED:
        stator.reset()
        stator.compile(program, backend="eager", fullgraph=True)(leaf())
        assert graphs
