# mypy: ignore-errors
"""`stator.print`, `debug_grad_log`, `install_debug_prints`: values seen in a graph."""

import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import stator

from .stories import Stories, attempt, check_story, told

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
stories = Stories()
ONE_GRAPH = []  # stories of a function that is one graph


def leaf():
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def one_graph(function):
    ONE_GRAPH.append(function.__name__)
    return stories(function)


@one_graph
def in_order_with_plain_prints(c):
    def f(x, count):
        print("first", count)
        stator.print("x = {}", x)
        y = x.sin()
        stator.print("{:.3f} of {count} in {}", y.sum(), "text", count=count)
        print("between", y.detach())
        stator.print("nobody uses this: {}", y.exp())
        stator.print("no fields, {{}}")
        print("last")
        return y * 2

    f = c(f)
    return [f(leaf(), 3), f(leaf(), 4)]


@one_graph
def other_values(c):
    def f(x):
        stator.print("{} {} {} {}", x.shape, x.dtype, [x, (1, None)], True)
        stator.print("{0.dtype} {0.shape[0]} {x!r}", x, x=x[0])
        return x + 1

    f = c(f)
    return [f(torch.ones(3)), f(torch.ones(5)), f(torch.ones(7)), f(torch.ones(2, 2))]


@one_graph
def values_of_the_moment(c):
    def f(x):
        y = x * 1
        stator.print("before {}", y)
        y.add_(1)
        stator.print("after {}", y)
        x.mul_(2)
        stator.print("input {}", x)
        return y

    f = c(f)
    x = torch.ones(2)
    return [f(x), f(x), x]


@one_graph
def gradients(c):
    def f(x, w):
        y = x * w
        stator.debug_grad_log(y, w.detach(), x)
        z = y.exp()
        stator.debug_grad_log(z)
        return z.sum() + y.sum()

    f = c(f)
    x, w = leaf(), torch.full((3,), 0.5, requires_grad=True)
    for _ in range(2):
        f(x, w).backward()
    return [x.grad, w.grad]


@one_graph
def gradients_of_results(c):
    def f(x):
        y = x * 3
        stator.debug_grad_log(y)
        return y, y.sum()

    y, s = c(f)(leaf())
    (y * 2).sum().backward(retain_graph=True)
    (y.sum() + s).backward()


@stories
def gradients_of_views(c):
    def f(x):
        y = x * 3
        v = y.view(3, 1)
        stator.debug_grad_log(v)
        return y, v

    y, v = c(f)(leaf())
    (v * 2).sum().backward(retain_graph=True)
    (v.sum() + y.sum()).backward()


@one_graph
def gradient_from_elsewhere(c):
    """The gradient of an input is the sum of what comes from all sides."""

    def f(x):
        stator.debug_grad_log(x)
        return (x * 2).sum()

    x = leaf()
    h = x * 1
    f = c(f)
    (f(h) + (h * 10).sum()).backward()
    (f(x) + (x * 10).sum()).backward()
    f(x).backward()


@one_graph
def training_step(c):
    model = nn.Linear(2, 1, bias=False)
    nn.init.constant_(model.weight, 0.5)

    def f(x):
        loss = model(x).pow(2).mean()
        stator.print("loss {:.3f}", loss)
        loss.backward()
        stator.print("gradient {}", model.weight.grad)
        return loss.detach()

    return [c(f)(torch.ones(3, 2)), model.weight.grad]


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        stator.print("forward {}", x)
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        stator.print("backward {} {}", g, x)
        return 2 * g * x


@one_graph
def in_functions(c):
    def f(x):
        print("plain")
        y = Squared.apply(x + 1)
        stator.print("after {}", y)
        print("plain again")
        return y.sum()

    x = leaf()
    f = c(f)
    y = f(x)
    print("called")
    y.backward(retain_graph=True)
    y.backward()
    with torch.no_grad():
        f(x)
    return x.grad


def block(x):
    y = x.sin()
    stator.print("in the block {}", y)
    stator.debug_grad_log(y)
    return y.cos().exp()


def checkpointed(c):
    def f(x):
        print("plain")
        y = checkpoint(block, x, use_reentrant=False)
        stator.print("behind it")
        return y.sum()

    x = leaf()
    y = c(f)(x)
    print("called")
    y.backward()
    return x.grad


stories.eager(checkpointed)
ONE_GRAPH.append("checkpointed")


@stories
def branches_on_values(c):
    def f(x):
        stator.print("first {}", x)
        if x.sum() > 3:
            stator.print("large")
        else:
            stator.print("small")
        return x + 1

    f = c(f)
    return [f(torch.ones(4)), f(torch.zeros(4)), f(torch.ones(4)), f(torch.zeros(0))]


@stories
def broken_in_the_middle(c):
    def f(x):
        stator.print("one {}", x)
        stator.graph_break()
        stator.print("two {}", x)
        return x + 1

    return c(f)(torch.ones(2))


@stories
def errors(c):
    def f(x):
        stator.print("one {}", x)
        stator.print("two {} {}", x)

    def g(x, i):
        stator.print("before {}", i)
        y = x[i]
        stator.print("not reached {}", y)
        return y

    def h(x, i):
        x.add_(1)
        stator.print("before {}", i)
        return x[i]

    def raises(x):
        stator.print("one {}", x)
        raise ValueError("of the program")

    x = torch.ones(3)
    f, g, h, raises = c(f), c(g), c(h), c(raises)
    found = [attempt(f, x), g(x, torch.tensor([1])), attempt(g, x, torch.tensor([7]))]
    found += [h(x, torch.tensor([1])), attempt(h, x, torch.tensor([7]))[0], x]
    wrong = [attempt(c(lambda: stator.print(3))), attempt(c(lambda: stator.debug_grad_log(3)))]
    return [*found, attempt(raises, x), *wrong]


class Named:
    def __str__(self):
        return "an object"


@stories
def objects(c):
    """What a graph can't hold is a graph break."""

    def f(x):
        stator.print("{} {}", x, Named())
        return x + 1

    return c(f)(torch.ones(2))


@stories
def in_transforms(c):
    def f(x):
        def g(row):
            stator.print("mapped")
            return row.sum()

        return torch.func.grad(g)(x)

    return c(f)(torch.ones(2))


@one_graph
def layers(c):
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.0), nn.Linear(4, 2)).double()
    f = c(lambda x: model(x).sum())
    x = torch.ones(2, 3, dtype=torch.float64)
    with stator.install_debug_prints(model):
        f(x).backward()
    print("removed")
    f(x).backward()
    handle = stator.install_debug_prints(model[0])
    f(x)
    handle.remove()


@one_graph
def layers_of_all_kinds(c):
    class Block(nn.Module):
        def forward(self, x, *, mask, other=()):
            return {"sum": x + mask, "rest": [x[:0], mask > 0, *other]}

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = Block()

        def forward(self, x):
            return self.block(x, mask=torch.arange(3), other=(x.bfloat16(), x.cfloat()))["sum"]

    model = Model()
    stator.install_debug_prints(model)
    c(lambda x: model(x))(leaf()).sum().backward()


@pytest.mark.parametrize(("story", "backend"), stories.cases)
def test_stories(story, backend):
    check_story(story, backend)


@pytest.mark.parametrize(("story", "backend"), stories.cases)
def test_graphs(story, backend):
    """They are one graph, without a break."""
    if story.name not in ONE_GRAPH:
        return
    told(story.tell, lambda function: stator.compile(function, backend=backend, fullgraph=True))


@pytest.mark.parametrize(
    "tell", [in_order_with_plain_prints, gradients, in_functions, layers, branches_on_values]
)
def test_inductor(tell):
    expected = told(tell, lambda function: function)
    assert told(tell, lambda function: stator.compile(function)) == expected


def test_recomputation_of_other_backends():
    """AOTAutograd decides itself what is computed again: texts are shown once."""
    found = told(checkpointed, lambda f: stator.compile(f, backend="aot_eager", fullgraph=True))
    expected = told(checkpointed, lambda f: f)
    assert found == expected.replace("called\nin the block", "called\n!").replace(
        "! tensor([0.8415, 0.9093, 0.1411])\n", ""
    )


def test_nodes():
    graphs = []

    def backend(module, inputs):
        graphs.append([str(node.target) for node in module.graph.nodes if "call" in node.op])
        return module.forward

    def f(x):
        stator.print("{}", x)
        return x.sin()

    stator.compile(f, backend=backend)(torch.ones(2))
    ((first, second),) = graphs
    assert first == "stator.show.default" and second == "sin"


RANKS = """
import torch, stator, torch.distributed as dist
dist.init_process_group("gloo", rank=0, world_size=1, init_method="tcp://127.0.0.1:0")

def f(x):
    stator.print("all {}", x)
    stator.print("zero", ranks=0)
    stator.print("others", ranks=(1, 2))
    y = x * 2
    stator.debug_grad_log(y)
    stator.debug_grad_log(y, ranks=[3])
    return y.sum()

for g in (f, stator.compile(f, backend="eager"), stator.compile(f, backend="aot_eager")):
    g(torch.ones(2, requires_grad=True)).backward()
dist.destroy_process_group()
"""


def test_ranks():
    pytest.importorskip("torch.distributed")
    done = subprocess.run(
        [sys.executable, "-c", RANKS], capture_output=True, text=True, check=True, timeout=120
    )
    expected = ["all tensor([1., 1.])", "zero", "gradient 0: tensor([1., 1.])"]
    assert done.stdout.splitlines() == [f"[rank 0] {line}" for line in expected] * 3
