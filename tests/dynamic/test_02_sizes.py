# mypy: ignore-errors
"""Sizes that change: programs on random shapes, and on all small ones."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import stator

from .harness import Counting, compare, shapes, small, tensor

BACKENDS = ["eager", "aot_eager"]
PROGRAMS = []


def program(*dims, compiles=9):
    """Of tensors with so many dimensions; each size is 0, 1 or any other."""

    def add(function):
        PROGRAMS.append(pytest.param(function, dims, compiles, id=function.__name__))
        return function

    return add


@program(2)
def elementwise(x):
    return x.relu() * 2 + x.shape[0] - x.shape[1]


@program(2)
def new_tensors(x):
    return torch.zeros(x.shape[0], 2), x.new_ones(x.shape), torch.arange(x.shape[1] * 2)


@program(2, compiles=12)
def reshaped(x):
    return x.reshape(-1), x.view(x.shape[0], 1, x.shape[1]), x.T.reshape(x.shape)


@program(2)
def halves(x):
    middle = x.shape[0] // 2
    return x[:middle] * 1, x[middle:] * 1, x[:, -1:] + 1


@program(2)
def what_sizes_answer(x):
    return x.shape, x.size(), x.size(0), x.numel(), len(x), x.stride(), tuple(x.shape), x * 1


@program(2)
def products(x):
    return x @ x.T, x.T @ x


@program(2)
def padded(x):
    return F.pad(x, (0, -x.shape[1] % 4))


@program(2)
def reductions(x):
    return x.sum(0), x.sum(1, keepdim=True), x.sum() / (x.shape[0] + 1)


@program(2)
def changed_in_place(x):
    x.add_(1)
    x[:1] = x.shape[0]
    return x


@program(2)
def expanded(x):
    return x[:, None].expand(-1, 3, -1) + x.unsqueeze(1)


@program(2)
def concatenated(x):
    return torch.cat([x, x.new_zeros(2, x.shape[1])]), torch.stack([x, x], 1)


@program(2, compiles=24)
def branches(x):
    if x.shape[0] > 4:
        return x + 1
    if x.shape[0] == x.shape[1]:
        return x.T
    return x - 1


@program(2, compiles=40)
def row_by_row(x):
    total = x.sum()
    for i in range(x.shape[0]):
        total = total + x[i].sum() * i
    return total


@program(2, compiles=40)
def as_a_key(x):
    names = {2: "two", (3, 4): "three by four"}
    return names.get(x.shape[0]), names.get(tuple(x.shape), "other"), x * 1


@program(2)
def in_texts(x):
    return f"{x.shape[0]} rows, {tuple(x.shape)}", x * 1


@program(2)
def indexed(x):
    return x[torch.arange(x.shape[0])], x.flip(0), x.roll(1, 0)


@program(2)
def attention(x):
    q = x[None, None]
    return F.scaled_dot_product_attention(q, q, q).shape


@program(3, compiles=27)
def heads(x):
    batch, length, width = x.shape
    return x.view(batch, length, 1, width).transpose(1, 2).reshape(batch, length * width)


@program(1, 1, compiles=24)
def broadcast(x, y):
    return x + y, x[:, None] * y


@program(2, 1, compiles=40)
def broadcast_rows(x, y):
    return x * y + y


@program(2, 2, compiles=64)
def stacked(x, y):
    return torch.cat([x, y], 1)


@program(2, compiles=12)
def refused(x):
    return x @ x.new_ones(4, 1)


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("function", "dims", "compiles"), PROGRAMS)
def test_random_shapes(function, dims, compiles, backend, dynamic):
    found = compare(function, shapes(*dims), backend, dynamic)
    assert found.compiles <= compiles + 2 * (dynamic is None)
    assert not found.warned


@pytest.mark.parametrize(("function", "dims", "compiles"), PROGRAMS)
def test_all_small_shapes(function, dims, compiles):
    """For each shape, a guard fails, or the result is eager's."""
    shapes_of = [small(each, 5 if sum(dims) < 3 else 3) for each in dims]
    cases = [(first,) for first in shapes_of[0]]
    if len(dims) > 1:
        cases = [(first, second) for first in shapes_of[0] for second in shapes_of[1]]
    calls = [lambda case=case: tuple(tensor(*shape) for shape in case) for case in cases]
    compare(function, calls, dynamic=True, limit=200)


@pytest.mark.parametrize(("function", "dims", "compiles"), PROGRAMS)
def test_one_entry_on_all_small_shapes(function, dims, compiles):
    """What was compiled for one shape serves those for which it is right, and no other."""
    calls = [
        lambda size=size: tuple(
            tensor(*(size,) * each) if each == 1 else tensor(size, *rest)
            for each, rest in zip(dims, [(3,) * (d - 1) for d in dims])
        )
        for size in (4, *range(6))
    ]
    compare(function, calls, dynamic=True, limit=1)


def test_only_what_changes_is_open():
    def double(x, y):
        return x * 2, y * 2

    found = compare(double, [lambda n=n: (tensor(n, 3), tensor(4)) for n in range(2, 22)])
    assert found.compiles == 2
    assert (
        compare(
            double, [lambda: (tensor(5, 3), tensor(4)), lambda: (tensor(5, 3), tensor(5))]
        ).compiles
        == 2
    )


def test_several_sizes_at_once():
    def double(x, y, n):
        return x * n, y * 2

    found = compare(double, [lambda n=n: (tensor(n, 3), tensor(2, n), n) for n in range(2, 22)])
    assert found.compiles == 2


def test_another_kind_of_call_says_nothing():
    def double(x, flag):
        return x * 2 if flag else x * 3

    sizes = []

    def backend(module, inputs):
        sizes.append(type(inputs[0].shape[0]))
        return module.forward

    compiled = stator.compile(double, backend=backend)
    for n, flag in [(3, True), (4, False), (5, False), (6, True), (7, False)]:
        assert torch.equal(compiled(tensor(n), flag), double(tensor(n), flag))
    assert sizes == [int, int, torch.SymInt, torch.SymInt]


def inner(x):
    stator.graph_break()
    return x * 2 if x.shape[0] > 4 else x * 3


def outer(x):
    y = inner(x[: x.shape[0] // 2] if x.shape[0] > 3 else x)
    if x.shape[0] > 4:
        y = y + 1
    return y.sum() + x.sum()


def test_variables_of_the_same_name():
    """Behind the break there are two tensors `x`: what is assumed of one is not of the other."""
    found = compare(outer, [lambda n=n: (tensor(n),) for n in range(1, 15)])
    assert len(found.graphs) <= 10


def test_never():
    found = compare(lambda x: x * 2, [lambda n=n: (tensor(n),) for n in range(2, 8)], dynamic=False)
    assert found.compiles == 6


def test_strides_follow_from_sizes():
    def double(x):
        return x * 2, x.stride(), x.is_contiguous()

    def make(n, m):
        return [
            lambda: (tensor(n, m),),
            lambda: (tensor(m, n).T,),
            lambda: (tensor(n, m + 2)[:, :m],),
            lambda: (tensor(2 * n, m)[::2],),
            lambda: (tensor(n + 3, m)[3:],),
        ]

    calls = [call for n in range(2, 6) for m in range(2, 6) for call in make(n, m)]
    found = compare(double, calls)
    assert found.compiles <= 14


@pytest.mark.parametrize("backend", BACKENDS)
def test_offsets(backend):
    def views(x):
        return x[1:], x.view(-1)

    calls = [lambda n=n, k=k: (tensor(n + k, 3)[k:],) for n in range(2, 6) for k in (0, 1, 2, 5)]
    assert compare(views, calls, backend).compiles <= 4


def test_the_same_tensor_twice():
    def both(x, y):
        return x is y, x * y.shape[0]

    def twice(n):
        x = tensor(n)
        return x, x

    calls = [lambda n=n: twice(n) for n in range(2, 7)] + [lambda: (tensor(3), tensor(3))]
    compare(both, calls)


def test_memory_that_inputs_share():
    def change(x, y):
        x.add_(1)
        return y * 2

    def views(n):
        base = tensor(2 * n)
        return base[:n], base[n:]

    calls = [lambda n=n: views(n) for n in range(2, 5)]
    calls += [lambda n=n: (tensor(n), tensor(n)) for n in range(2, 7)]
    compare(change, calls)


def test_a_tensor_that_grows():
    def grow(x, items):
        items.append(torch.cat([items[-1], x]))
        return items[-1].sum()

    items, mirror = [tensor(2)], [tensor(2)]
    counting = Counting("aot_eager")
    compiled = stator.compile(grow, backend=counting)
    for _ in range(20):
        del items[:-1], mirror[:-1]
        assert torch.equal(compiled(tensor(1), items), grow(tensor(1), mirror))
    assert len(counting.graphs) == 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        self.out = nn.Linear(8, 20)

    def forward(self, tokens):
        mask = torch.triu(torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool), 1)
        return self.out(self.layer(self.embedding(tokens), src_mask=mask))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dynamic", [None, True])
def test_a_model(backend, dynamic):
    torch.manual_seed(0)
    model = Model()
    counting = Counting(backend)
    compiled = stator.compile(model, backend=counting, dynamic=dynamic, fullgraph=True)
    for batch, length in [(2, 5), (3, 7), (4, 6), (2, 9), (7, 3)]:
        tokens = torch.randint(20, (batch, length))
        grads = []
        for run in (model, compiled):
            model.zero_grad()
            result = run(tokens)
            result.sum().backward()
            grads.append((result, [p.grad.clone() for p in model.parameters()]))
        torch.testing.assert_close(grads[1][0], grads[0][0], rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(grads[1][1], grads[0][1], rtol=1e-4, atol=1e-4)
    assert len(counting.graphs) == (1 if dynamic else 2)


def test_parameters_stay_as_they_are():
    graphs = []

    def backend(module, inputs):
        graphs.append([tuple(map(type, each.shape)) for each in inputs])
        return module.forward

    layer = nn.BatchNorm1d(3)
    stator.compile(layer, backend=backend, dynamic=True)(tensor(4, 3))
    assert sum(torch.SymInt in sizes for sizes in graphs[0]) == 1


def test_a_program_that_can_not_be_compiled_so():
    """Regions of their own, and backends that want to know all sizes: nothing is left open."""

    def checkpointed(x):
        return checkpoint(lambda y: y.sin() * y.shape[0], x, use_reentrant=False)

    calls = [lambda n=n: (tensor(n),) for n in range(2, 6)]
    found = compare(checkpointed, calls, fullgraph=True)
    assert found.compiles == 4

    def backend(module, inputs):
        if any(type(size) is not int for each in inputs for size in each.shape):
            raise RuntimeError("no symbols")
        return module.forward

    compiled = stator.compile(lambda x: x * 2, backend=backend)
    for n in range(2, 6):
        assert torch.equal(compiled(tensor(n)), tensor(n) * 2)


def test_nothing_of_the_call_is_kept_alive():
    import gc
    import weakref

    compiled = stator.compile(lambda x: x * x.shape[0], backend="eager")
    for n in range(2, 6):
        x = tensor(n)
        known = weakref.ref(x)
        compiled(x)
        del x
        gc.collect()
        assert known() is None
