# mypy: ignore-errors
"""Training steps as one function, and the world around `backward()`: hooks, optimizers, breaks."""

import pytest
import torch
from torch import distributed, nn
from torch.autograd.graph import get_gradient_edge
from torch.utils.checkpoint import checkpoint

import stator

from .compared import attempt, seen
from .harness import op_names

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.1),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.1, foreach=True),
    "amsgrad": lambda p: torch.optim.AdamW(p, lr=0.1, amsgrad=True),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.1),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.1),
}


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 3))


def step(m, optimizer, x):
    optimizer.zero_grad()
    loss = m(x).pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss


def step_with_zeros(m, optimizer, x):
    optimizer.zero_grad(set_to_none=False)
    loss = m(x).pow(2).mean()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(m.parameters(), 0.01)
    optimizer.step()
    return loss.item(), norm


def two_steps(m, optimizer, x):
    return [step(m, optimizer, each) for each in (x, x + 1)]


def trained(function, make):
    """Losses, parameters and gradients after some steps."""
    m = network()
    optimizer = make(m.parameters())
    torch.manual_seed(4)
    losses = [function(m, optimizer, torch.randn(5, 4)) for _ in range(4)]
    return losses, list(m.parameters()), [p.grad for p in m.parameters()]


class Graphs(list):
    """A backend that keeps its graphs."""

    def __call__(self, module, inputs):
        self.append(op_names(module))
        return module.forward


STEPS = [
    *((step, name) for name in OPTIMIZERS),
    (step_with_zeros, "momentum"),
    (step_with_zeros, "adam"),
    (two_steps, "sgd"),
    (two_steps, "adamw"),
]


@pytest.mark.parametrize(("function", "name"), STEPS)
def test_optimizers(function, name) -> None:
    stator.reset()
    graphs = Graphs()
    compiled = stator.compile(function, backend=graphs, fullgraph=True)
    expected, found = trained(function, OPTIMIZERS[name]), trained(compiled, OPTIMIZERS[name])
    # torch's power of floats is not Python's, in the last bit.
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    # The state of the optimizer is made in the first call.
    assert len(graphs) == compiled.statistics()["misses"] == 2
    assert all(graph.count("grad") == (2 if function is two_steps else 1) for graph in graphs)


BACKENDS = ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)]


@pytest.mark.filterwarnings("error:a graph runs uncompiled")
@pytest.mark.parametrize("backend", BACKENDS)
def test_backends(backend) -> None:
    stator.reset()
    compiled = stator.compile(step, backend=backend, fullgraph=True)
    expected, found = trained(step, OPTIMIZERS["adam"]), trained(compiled, OPTIMIZERS["adam"])
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for loss in found[0]:
        assert loss.requires_grad
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            loss.backward()


# ---------------------------------------------------------------------------- the world around


def leaf(*values):
    return torch.tensor(values, requires_grad=True)


def square(x):
    loss = (x * x).sum()
    loss.backward()
    return loss.detach()


def product(x, y):
    (x * y).sum().backward()


def multiplied(gradient):
    return gradient * 10


def multiplied_in_place(tensor):
    tensor.grad.mul_(10)


def hook(compiling):
    x, f = leaf(1.0, 2.0), compiling(square)
    f(x)
    handle = x.register_hook(multiplied)
    f(x)
    handle.remove()
    f(x)
    return x.grad


def hook_behind(compiling):
    x, f = leaf(1.0, 2.0), compiling(square)
    f(x)
    x.register_post_accumulate_grad_hook(multiplied_in_place)
    f(x)
    return x.grad


def hook_at_the_node(compiling):
    x = leaf(1.0, 2.0)
    node, calls = get_gradient_edge(x).node, []
    node.register_hook(lambda *_: calls.append(1))
    node.register_prehook(lambda given: (given[0] * 10,))
    compiling(square)(x)
    return x.grad, calls


def hook_at_the_node_later(compiling):
    a, b, calls = leaf(1.0, 2.0), leaf(3.0, 4.0), []
    f = compiling(lambda a, b: (a * b).sum().backward())
    for _ in range(3):
        f(a, b)
    node = get_gradient_edge(b).node
    for register in (node.register_hook, node.register_prehook):
        handle = register(lambda *_: calls.append(1))
        f(a, b)
        handle.remove()
        f(a, b)
    return a.grad, b.grad, calls


def hook_of_a_module(compiling):
    m, shapes = nn.Linear(2, 2), []
    m.register_full_backward_hook(lambda m, given, out: shapes.append(out[0].shape))
    compiling(lambda m, x: m(x).sum().backward())(m, torch.ones(3, 2))
    return shapes, list(m.parameters())


def computed_before(compiling):
    x, f = leaf(1.0, 2.0), compiling(square)
    return f(x * 2), f(x), f(x * 3), x.grad


def computed_before_and_not_used(compiling):
    def program(x, h):
        (x * x).sum().backward()
        return h * 2

    x = leaf(1.0, 2.0)
    compiling(program)(x, x * 3).sum().backward()
    return x.grad


def one_gradient_for_two(compiling):
    x, y, f = leaf(1.0, 2.0), leaf(3.0, 4.0), compiling(product)
    f(x, y)
    y.grad = x.grad
    f(x, y)
    x.grad = x.grad.clone()
    f(x, y)
    return x.grad, y.grad


def gradients_on_one_memory(compiling):
    x, y, f = leaf(1.0, 2.0), leaf(3.0, 4.0), compiling(product)
    for distance in (1, 2):
        memory = torch.zeros(4)
        x.grad, y.grad = memory[:2], memory[distance : distance + 2]
        f(x, y)
        f(x, y)
    return x.grad, y.grad, memory


def gradient_on_the_same_memory(compiling):
    x, f = leaf(1.0, 2.0), compiling(square)
    f(x)
    x.grad = x.data
    f(x)
    return x, x.grad


def gradients_that_share(compiling):
    def program(x, y):
        (x.view(2) + y.view(2)).pow(2).sum().backward()

    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    compiling(program)(x, y)
    x.grad.zero_()
    return x.grad, y.grad


def gradient_that_is_given(compiling):
    x, given = leaf(1.0, 2.0), torch.ones(2)
    compiling(lambda x, given: x.view(2).backward(given))(x, given)
    given.zero_()
    return x.grad


def sparse(compiling):
    m = nn.Embedding(3, 2, sparse=True)
    compiling(lambda m, i: m(i).sum().backward())(m, torch.tensor([1, 2]))
    return m.weight.grad.to_dense()


def of_another_dtype(compiling):
    x, f = leaf(1.0, 2.0), compiling(square)
    f(x)
    x = leaf(1.0, 2.0)
    if hasattr(x, "grad_dtype"):  # new in torch 2.10
        x.grad_dtype = torch.float64
    f(x)
    return x.grad


def frozen_later(compiling):
    m, f = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), compiling(product_of)
    f(m, torch.ones(3, 2))
    m[0].requires_grad_(False)
    f(m, torch.ones(3, 2))
    return list(m.parameters())


def product_of(m, x):
    m(x).pow(2).sum().backward()


def open_sizes(compiling):
    m, f = nn.Linear(2, 2), compiling(product_of)
    for size in (2, 3, 4, 5):
        f(m, torch.ones(size, 2))
    return list(m.parameters())


def gradients_of_open_sizes(compiling):
    f = compiling(lambda x, given: (x * x).backward(given))
    found = [torch.ones(size, 3, requires_grad=True) for size in (2, 3, 4, 5)]
    return found, [attempt(f, x, torch.ones(4, 3)) for x in found]


def leaves_of_open_sizes(compiling):
    f, found = compiling(square), []
    for size in (2, 3, 4, 5):
        for x in (torch.ones(size, 3), torch.ones(3, size).t()):
            f(x.requires_grad_())
            f(x)
            found.append(x)
    return found


def channels_last(compiling):
    m = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    f, x = compiling(product_of), torch.randn(2, 3, 6, 6)
    for each in (x, x.to(memory_format=torch.channels_last)):
        f(m, each)
        f(m.to(memory_format=torch.channels_last), each)
    return list(m.parameters())


def through_a_reentrant_checkpoint(compiling):
    def program(m, x):
        checkpoint(m, x, use_reentrant=True).sum().backward()

    m, f = nn.Linear(2, 2), compiling(program)
    for _ in range(2):
        f(m, torch.ones(3, 2, requires_grad=True))
    return list(m.parameters())


def split_before(compiling):
    def program(m, x):
        loss = m(x).pow(2).sum()
        stator.graph_break()
        loss.backward()
        return loss

    m, f = nn.Linear(2, 2), compiling(program)
    return [attempt(f(m, torch.ones(3, 2)).backward) for _ in range(2)], list(m.parameters())


def split_behind(compiling):
    def program(m, optimizer, x):
        loss = m(x).pow(2).sum()
        loss.backward()
        kept = m.weight.grad
        stator.graph_break()
        optimizer.step()
        optimizer.zero_grad()
        return loss, kept

    m, f = nn.Linear(2, 2), compiling(program)
    optimizer = torch.optim.SGD(m.parameters(), lr=0.1)
    found = [f(m, optimizer, torch.ones(3, 2)) for _ in range(2)]
    return found, attempt(found[0][0].backward), list(m.parameters())


def second_time_behind_a_split(compiling):
    def program(x):
        loss = (x * x).sum()
        loss.backward()
        stator.graph_break()
        return attempt(loss.backward)

    x, f = leaf(1.0, 2.0), compiling(program)
    return f(x), f(x), x.grad


def second_time_of_a_part(compiling):
    """One of the leaves has got its gradient before torch refuses."""

    def program(x, y):
        loss = (x * x).sum() + y.sum()
        loss.backward()
        try:
            loss.backward()
        except RuntimeError:
            return "refused"

    x, y, f = leaf(1.0, 2.0), leaf(3.0, 4.0), compiling(program)
    return f(x, y), f(x, y), x.grad, y.grad


def differentiable_gradients(compiling):
    def program(x):
        (x**3).sum().backward(create_graph=True)
        return x.grad

    x = leaf(1.0, 2.0)
    found = compiling(program)(x)
    x.grad = None
    return found


def scaled(compiling):
    def program(m, optimizer, scaler, x):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            loss = m(x).float().pow(2).mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    m, f = nn.Linear(2, 2), compiling(program)
    optimizer, scaler = torch.optim.SGD(m.parameters(), lr=0.1), torch.amp.GradScaler("cpu")
    return [f(m, optimizer, scaler, torch.ones(3, 2)) for _ in range(3)], list(m.parameters())


SCENARIOS = [
    hook,
    hook_behind,
    hook_at_the_node,
    hook_at_the_node_later,
    hook_of_a_module,
    computed_before,
    computed_before_and_not_used,
    one_gradient_for_two,
    gradients_on_one_memory,
    gradient_on_the_same_memory,
    gradients_that_share,
    gradient_that_is_given,
    sparse,
    of_another_dtype,
    frozen_later,
    open_sizes,
    gradients_of_open_sizes,
    leaves_of_open_sizes,
    channels_last,
    through_a_reentrant_checkpoint,
    split_before,
    split_behind,
    second_time_behind_a_split,
    second_time_of_a_part,
    differentiable_gradients,
    scaled,
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda f: f.__name__)
def test_scenario(scenario) -> None:
    stator.reset()
    expected = seen(scenario, lambda f: f)
    assert seen(scenario, lambda f: stator.compile(f, backend="eager")) == expected


WHOLE = [
    computed_before_and_not_used,
    frozen_later,
    open_sizes,
    leaves_of_open_sizes,
    channels_last,
]


@pytest.mark.parametrize("scenario", WHOLE, ids=lambda f: f.__name__)
def test_one_graph(scenario) -> None:
    stator.reset()
    torch.manual_seed(1)
    scenario(lambda f: stator.compile(f, backend="eager", fullgraph=True))


REFUSED = {
    hook: "a tensor that has hooks",
    hook_behind: "a tensor that has hooks",
    hook_at_the_node: "a tensor that has hooks",
    hook_at_the_node_later: "a tensor that has hooks",
    hook_of_a_module: "full backward hooks",
    computed_before: "computed before the call",
    gradients_that_share: "gradients that share their memory",
    gradient_that_is_given: "gradients that share their memory",
    sparse: "a gradient that is sparse",
    through_a_reentrant_checkpoint: "a checkpoint that calls backward",
    second_time_of_a_part: "of which a part is used up",
    differentiable_gradients: "gradients that can be differentiated",
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scenario", REFUSED, ids=lambda f: f.__name__)
def test_refused(scenario) -> None:
    stator.reset()
    with pytest.raises(stator.CaptureError, match=REFUSED[scenario]):
        scenario(lambda f: stator.compile(f, backend="eager", fullgraph=True))


def test_process_group() -> None:
    """DistributedDataParallel has hooks that nobody can see."""
    stator.reset()
    compiled = stator.compile(square, backend="eager", fullgraph=True)
    compiled(leaf(1.0, 2.0))
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    try:
        with pytest.raises(stator.CaptureError, match=r"torch\.distributed is in use"):
            compiled(leaf(1.0, 2.0))
    finally:
        distributed.destroy_process_group()
    compiled(leaf(1.0, 2.0))
    assert compiled.statistics()["hits"] == 1


def test_after_dynamo() -> None:
    """It disables parts of torch's optimizers, for itself."""
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    for made in (torch.optim.SGD, torch.optim.AdamW):
        assert made._init_group._torchdynamo_disable
        models = [nn.Linear(2, 2) for _ in range(2)]
        models[1].load_state_dict(models[0].state_dict())
        runs = [lambda f: f, lambda f: stator.compile(f, backend="eager", fullgraph=True)]
        for m, run in zip(models, runs, strict=True):
            optimizer = made(m.parameters(), lr=0.1)

            def step(x, m=m, optimizer=optimizer):
                optimizer.zero_grad()
                m(x).sum().backward()
                optimizer.step()

            step = run(step)
            for _ in range(3):
                step(torch.ones(3, 2))
        for expected, found in zip(*(m.parameters() for m in models), strict=True):
            torch.testing.assert_close(found, expected)
