# mypy: ignore-errors
"""Control flow in the graph: one operator each, with the program's functions as graphs."""

import operator

import pytest
import torch
from torch import nn
from torch._higher_order_ops import scan, while_loop
from torch._higher_order_ops.map import map as hmap

import stator

BACKENDS = ("eager", "aot_eager")
OPERATORS = torch.ops.higher_order


def captured(function, *args):
    """The result, and the only graph."""
    modules = []

    def keep(module, inputs):
        modules.append(module)
        return module

    result = stator.compile(function, backend=keep, fullgraph=True)(*args)
    assert len(modules) == 1
    return result, modules[0]


def operators(module):
    left_out = (operator.getitem,)
    nodes = (n for n in module.graph.nodes if n.op.startswith("call_") and n.target not in left_out)
    return [n.target for n in nodes]


def refusal(function, *args):
    with pytest.raises(stator.CaptureError) as caught:
        stator.compile(function, backend="eager", fullgraph=True)(*args)
    return str(caught.value)


class Sides(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.a = nn.Linear(3, 3)
        self.b = nn.Linear(3, 3)
        self.scale = 2.0

    def forward(self, x):
        return torch.cond(x.sum() > 0, self.a, lambda x: self.b(x) * self.scale, (x,))

    def plain(self, x):
        return self.a(x) if x.sum() > 0 else self.b(x) * self.scale


@pytest.mark.parametrize("backend", BACKENDS)
def test_cond_of_modules_is_differentiated(backend):
    model = Sides()
    compiled = stator.compile(model, backend=backend, fullgraph=True)
    for x in (torch.ones(2, 3), -torch.ones(2, 3)):
        results = []
        for run in (compiled, model.plain):
            model.zero_grad()
            given = x.clone().requires_grad_()
            result = run(given)
            result.sum().backward()
            grads = [
                torch.zeros(()) if p.grad is None else p.grad.norm() for p in model.parameters()
            ]
            results.append([result, given.grad, *grads])
        for ours, plain in zip(*results, strict=True):
            torch.testing.assert_close(ours, plain)
    model.scale = 5.0  # read in the branch, and guarded
    x = -torch.ones(2, 3)
    torch.testing.assert_close(compiled(x), model.plain(x))


def test_cond_is_one_operator_with_two_graphs():
    def f(x, y):
        return torch.cond(x.sum() > 0, lambda x: x.sin() + y, lambda x: x.cos(), (x,)) * 2

    result, module = captured(f, torch.ones(3), torch.ones(3))
    assert operators(module) == ["sum", operator.gt, OPERATORS.cond, operator.mul]
    node = next(n for n in module.graph.nodes if n.target is OPERATORS.cond)
    _, true, false, operands = node.args
    assert [n.name for n in operands] == ["x", "y"]
    assert operators(getattr(module, true.target)) == ["sin", operator.add]
    assert operators(getattr(module, false.target)) == ["cos"]
    torch.testing.assert_close(result, (torch.ones(3).sin() + 1) * 2)


def test_a_known_condition_is_no_operator():
    def f(x, flag):
        return torch.cond(flag, lambda x: x + 1, lambda x: x - 1, (x,))

    _, module = captured(f, torch.ones(3), True)
    assert operators(module) == [operator.add]


def test_cond_nested_with_trees_and_equal_constants():
    def inner(x):
        return torch.cond(x.max() > 1, lambda x: x * 2, lambda x: x * 3, (x,))

    def f(d):
        return torch.cond(
            d["x"].sum() > 0,
            lambda d: {"y": inner(d["x"]), "n": 3},
            lambda d: {"y": d["x"] - 1, "n": 3},
            (d,),
        )

    for value in (0.5, 2.0, -1.0):
        x = torch.full((3,), value)
        result, module = captured(f, {"x": x})
        plain = x - 1 if x.sum() <= 0 else (x * 2 if x.max() > 1 else x * 3)
        assert result["n"] == 3
        torch.testing.assert_close(result["y"], plain)
        body = next(n.target for n in module.graph.nodes if n.op == "get_attr")
        assert OPERATORS.cond in operators(module.get_submodule(body))


@pytest.mark.parametrize("backend", BACKENDS)
def test_while_loop_with_tensors_and_ints(backend):
    w = torch.tensor([1.0, 2.0, 3.0])

    def tensors(x):
        return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * w), (torch.tensor(0), x))

    def ints(x):
        return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * w + i), (0, x))

    x = torch.ones(3)
    i, y = stator.compile(tensors, backend=backend, fullgraph=True)(x)
    assert i.item() == 3
    torch.testing.assert_close(y, x * w * w * w)
    n, y = stator.compile(ints, backend=backend, fullgraph=True)(x)
    assert n == 3
    torch.testing.assert_close(y, ((x * w) * w + 1) * w + 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_scan_and_map_are_differentiated(backend):
    w = torch.tensor([1.0, 2.0, 3.0])

    def scanned(x):
        return scan(lambda c, x: (c + x, c * x * w), torch.zeros(3), x)

    def mapped(x):
        return hmap(lambda x, y: (x * y + w, x.sin()), x, w)

    x = torch.arange(12.0).view(4, 3)
    for run, plain in ((scanned, _scanned), (mapped, _mapped)):
        results = []
        for function in (stator.compile(run, backend=backend, fullgraph=True), plain):
            given = x.clone().requires_grad_()
            outputs = function(given) if function is not plain else plain(given, w)
            sum(each.sum() for each in outputs).backward()
            results.append([*outputs, given.grad])
        for ours, theirs in zip(*results, strict=True):
            torch.testing.assert_close(ours, theirs)


def _scanned(x, w):
    carry, made = torch.zeros(3), []
    for row in x:
        made.append(carry * row * w)
        carry = carry + row
    return carry, torch.stack(made)


def _mapped(x, w):
    return torch.stack([row * w + w for row in x]), x.sin()


def appends(kept):
    def branch(x):
        kept.append(1)
        return x + 1

    return branch


def raises(x):
    raise ValueError("no")


def in_place(x):
    return x.add_(1) * 2


def beside_autograd(x):
    x.data.add_(1)
    return x * 2


@pytest.mark.parametrize(
    ("branch", "said"),
    [
        (lambda x: (x + 1).double(), "torch.float64"),
        (lambda x: (x + 1, x + 2), "returns"),
        (lambda x: x, "a tensor from outside"),
        (lambda x: x[:1], "a tensor from outside"),
        (raises, "raises ValueError"),
        (in_place, "changes a tensor from outside"),
        (beside_autograd, "changes a tensor from outside"),
        (nn.BatchNorm1d(3), "changes a tensor from outside"),
        (appends([]), "changes objects from before the call"),
    ],
)
def test_branches_that_are_refused(branch, said):
    def f(x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, branch, (x,))

    x = torch.ones(2, 3)
    assert said in refusal(f, x)
    assert x.tolist() == [[1.0] * 3] * 2


def test_objects_made_in_the_call_are_not_changed_by_a_branch():
    def listed(x):
        kept = []
        return torch.cond(x.sum() > 0, appends(kept), lambda x: x + 2, (x,)), len(kept)

    def counted(x):
        n = 0

        def branch(x):
            nonlocal n
            n += 1
            return x + 1

        return torch.cond(x.sum() > 0, branch, lambda x: x + 2, (x,)), n

    assert "list" in refusal(listed, torch.ones(3))
    assert "assigns to a variable" in refusal(counted, torch.ones(3))


def test_both_lines_are_named():
    text = refusal(
        lambda x: torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x.double(), (x,)),
        torch.ones(3),
    )
    assert text.count("test_control_flow.py:") >= 2
