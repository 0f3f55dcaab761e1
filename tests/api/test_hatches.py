# mypy: ignore-errors
"""`leaf_function`, `nonstrict_trace`, `allow_in_graph` with trees: stator's and torch's names."""

import gc

import pytest
import torch
from torch._dynamo.decorators import leaf_function as torchs_leaf
from torch._dynamo.decorators import nonstrict_trace as torchs_nonstrict
from torch.utils import _pytree as pytree

import stator
from stator.graph.recording import whole_calls

BACKENDS = ("eager", "aot_eager")
LOG = []
HELD = torch.full((4, 4), 0.5)
LAYER = torch.nn.Linear(4, 4)


class Pair:
    def __init__(self, first, second):
        self.first, self.second = first, second


pytree.register_pytree_node(
    Pair, lambda pair: ((pair.first, pair.second), None), lambda parts, _: Pair(*parts)
)


def leaf_with(fake, *, hook=None, maker=stator.leaf_function):
    def decorate(function):
        made = maker(function)
        made.register_fake(fake)
        if hook is not None:
            made.register_multi_grad_hook(hook)
        return made

    return decorate


@leaf_with(lambda x: (x.new_empty(x.shape[0]),))
def means(x):
    LOG.append("means")
    return (x.mean(1) * 2,)


@leaf_with(lambda x: (x.new_empty(x.shape[0]),), maker=torchs_leaf)
def torchs(x):
    return (x.mean(1) * 2,)


@leaf_with(
    lambda given, count, *, name: {
        "parts": [torch.empty_like(given["x"]), count],
        "sum": (given["x"].new_empty(()), name),
    }
)
def tree(given, count, *, name):
    return {"parts": [given["x"] * given["y"], count], "sum": (given["x"].sum(), name)}


@leaf_with(torch.empty_like)
def branches(x):
    if x.sum() > 0:
        return x * x.max().item()
    return x * 2


@leaf_with(lambda layer, x: x.new_empty(x.shape[0], layer.weight.shape[0]))
def layer(layer, x):
    return layer(x).relu()


@leaf_with(lambda x: None, hook=lambda g: LOG.append(round(float(g.sum()), 3)))
def watched(x):
    return None


@leaf_with(torch.empty_like)
def raises(x):
    raise ValueError("not today")


@leaf_with(lambda x: Pair(torch.empty_like(x), torch.empty_like(x)))
def pair(x):
    return Pair(x * 2, x.sin())


def hooked(x):
    y = x * 2
    watched(y)
    return y.sin()


def two(x):
    found = pair(x * 1)
    return found.first, found.second


@stator.nonstrict_trace
def split(layer, given):
    stator.graph_break()
    return {"out": layer(given["x"]).relu(), "count": 3}


@torchs_nonstrict
def torchs_split(x):
    torch._dynamo.graph_break()
    return x * HELD


@stator.nonstrict_trace
def swaps(pair):
    stator.graph_break()
    return Pair(pair.second * 2, pair.first)


@stator.nonstrict_trace
def plain(x):
    LOG.append("plain")
    return x * HELD


@stator.allow_in_graph
def product(pair):
    return pair.first * pair.second * HELD


def swapped(x):
    found = swaps(Pair(x, x * 3))
    return found.first, found.second


PROGRAMS = {
    "a leaf": lambda x: means(x.sin())[0] * 3,
    "torch's leaf": lambda x: torchs(x.sin())[0] * 3,
    "a leaf of an input": lambda x: means(x)[0],
    "a leaf that nobody uses": lambda x: (means(x.sin()), x * 3)[1],
    "leaves in a row": lambda x: means(means(x)[0][:, None] * x)[0],
    "a tree": lambda x: tree({"x": x * 1, "y": x}, 3, name="n"),
    "values": lambda x: branches(x) + 1,
    "a module": lambda x: layer(LAYER, x) + 1,
    "a hook": hooked,
    "a pair": two,
    "nonstrict": lambda x: split(LAYER, {"x": x * 2}),
    "torch's nonstrict": lambda x: torchs_split(x) + 1,
    "nonstrict pair": swapped,
    "nonstrict, evaluated": lambda x: plain(x) + 1,
    "allowed, with a pair": lambda x: product(Pair(x, x * 2)),
}


def told(program, value):
    LOG.clear()
    LAYER.zero_grad()
    x = torch.arange(16.0).view(4, 4).mul(value).requires_grad_()
    try:
        found = program(x)
        flat = [each for each in pytree.tree_leaves(found) if isinstance(each, torch.Tensor)]
        sum((each * each).sum() for each in flat if each.requires_grad).backward()
    except ValueError as error:
        found = str(error)
    grads = [None if each is None else each.clone() for each in (x.grad, LAYER.weight.grad)]
    return found, grads, list(LOG)


def same(found, expected):
    a, first = pytree.tree_flatten(found)
    b, second = pytree.tree_flatten(expected)
    assert first == second
    for one, other in zip(a, b, strict=True):
        if isinstance(one, torch.Tensor):
            assert one.requires_grad == other.requires_grad
            torch.testing.assert_close(one, other)
        else:
            assert one == other


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_is_one_graph(name, backend):
    compiled = stator.compile(PROGRAMS[name], backend=backend, fullgraph=True)
    for value in (0.25, -0.5, 0.25):
        same(told(compiled, value), told(PROGRAMS[name], value))


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_calls_before_their_gradients(backend):
    compiled = stator.compile(PROGRAMS["values"], backend=backend, fullgraph=True)
    inputs = [torch.full((3,), value, requires_grad=True) for value in (2.0, -3.0)]
    results = [compiled(x) for x in inputs]
    for result in reversed(results):
        result.sum().backward()
    assert [x.grad.tolist() for x in inputs] == [[2.0] * 3, [2.0] * 3]
    del results, result
    gc.collect()
    assert not len(whole_calls._tickets)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_result_that_is_not_as_said(backend):
    @leaf_with(torch.empty_like)
    def wrong(x):
        return x[:2].double() if len(LOG) else x * 1

    LOG.clear()
    compiled = stator.compile(lambda x: wrong(x) + 1, backend=backend, fullgraph=True)
    compiled(torch.ones(3))
    LOG.append(1)
    with pytest.raises(RuntimeError, match="its register_fake says"):
        compiled(torch.ones(3))


def test_a_change_that_is_not_said():
    @leaf_with(torch.empty_like)
    def changes(x):
        return x.add_(1) * 1

    with pytest.raises(RuntimeError, match="changes a tensor that it is given"):
        stator.compile(lambda x: changes(x * 1), backend="eager", fullgraph=True)(torch.ones(3))


def test_without_a_fake_rule():
    @stator.leaf_function
    def bare(x):
        return x

    with pytest.raises(ValueError, match="needs a register_fake"):
        bare(torch.ones(3))
    with pytest.raises(stator.CaptureError, match="has no register_fake"):
        stator.compile(lambda x: bare(x), backend="eager", fullgraph=True)(torch.ones(3))
    with pytest.raises(ValueError, match="which is no argument"):
        stator.leaf_function(mutates_args={"y"})(lambda x: x)
    with pytest.raises(TypeError, match="needs a function"):
        stator.leaf_function(3)


def handled(x):
    try:
        return raises(x) + 1
    except ValueError:
        return x * 5


@stator.leaf_function(mutates_args={"x"})
def adds(x):
    return x.add_(1) * 2


adds.register_fake(torch.empty_like)

SPLIT = {
    "handled": (handled, "may raise inside of `try`"),
    "changes": (lambda x: adds(x * 1), "changes its arguments"),
}


@pytest.mark.parametrize("name", SPLIT)
def test_splits_the_graph(name):
    program, reason = SPLIT[name]
    same(told(stator.compile(program, backend="eager"), 0.5), told(program, 0.5))
    with pytest.raises(stator.CaptureError, match=reason):
        stator.compile(program, backend="eager", fullgraph=True)(torch.ones(4, 4))


def test_an_exception_leaves():
    compiled = stator.compile(lambda x: raises(x) + 1, backend="eager", fullgraph=True)
    with pytest.raises(ValueError, match="not today"):
        compiled(torch.ones(3))


def test_nodes_of_the_graph():
    graphs = []

    def backend(module, examples):
        graphs.append([str(node.target) for node in module.graph.nodes if "call" in node.op])
        return module.forward

    for name in ("a leaf", "nonstrict", "nonstrict, evaluated"):
        stator.compile(PROGRAMS[name], backend=backend, fullgraph=True)(torch.ones(4, 4))
    leaf, whole, evaluated = graphs
    assert leaf.count("call_0") == whole.count("call_0") == 1
    assert evaluated == ["<built-in function mul>", "<built-in function add>"]
