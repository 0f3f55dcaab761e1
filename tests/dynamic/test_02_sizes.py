# mypy: ignore-errors
"""Sizes that change: programs on random shapes, and on all small ones."""

import itertools
import os

import pytest
import torch
from torch import nn

import stator

from .harness import Counting, compare, marked, shapes, small, tensor
from .programs import PROGRAMS

BACKENDS = ["eager", "aot_eager"]
ALL = os.environ.get("STATOR_OPERATORS") == "all"


def in_turns(programs):
    """Each program from the start and by what changes: both with `make stress`, else one."""
    pairs = [(each, dynamic) for each in programs for dynamic in (None, True)]
    return pairs if ALL else [pairs[2 * i + i % 2] for i in range(len(programs))]


@pytest.mark.parametrize(("program", "dynamic"), in_turns(PROGRAMS), ids=str)
def test_random_shapes(program, dynamic):
    """24 shapes, 0 and 1 among the sizes."""
    found = compare(program.function, shapes(*program.dims), dynamic=dynamic)
    assert found.graphs
    assert found.compiles <= program.compiles + 2 * (dynamic is None)


@pytest.mark.parametrize("program", [each for each in PROGRAMS if not each.open], ids=str)
def test_as_far_as_possible(program):
    calls = [marked(stator.maybe_mark_dynamic, make) for make in shapes(*program.dims)]
    assert compare(program.function, calls).compiles <= program.compiles


@pytest.mark.parametrize("program", PROGRAMS[::3], ids=str)
def test_unbacked(program):
    calls = [marked(stator.mark_unbacked, make) for make in shapes(*program.dims)]
    compare(program.function, calls)


@pytest.mark.parametrize(("program", "dynamic"), in_turns(PROGRAMS[::5]), ids=str)
def test_random_shapes_with_aot_autograd(program, dynamic):
    found = compare(program.function, shapes(*program.dims), "aot_eager", dynamic)
    assert found.compiles <= program.compiles + 2


@pytest.mark.parametrize("program", [each for each in PROGRAMS if each.open], ids=str)
def test_one_graph_for_all_sizes(program):
    """Marked strictly: that something is specialized would be an error."""
    calls = list(shapes(*program.dims, least=2, special=()))
    strict = [marked(stator.mark_dynamic, make) for make in calls]
    assert compare(program.function, strict).compiles == 1
    stator.reset()
    # The first time as it is; then what differs, which may be seen in several steps.
    assert 2 <= compare(program.function, calls[:8]).compiles <= 1 + sum(program.dims)


@pytest.mark.parametrize("program", PROGRAMS[::4], ids=str)
def test_all_small_shapes(program):
    """For each shape, a guard fails, or the result is eager's."""
    most = {1: 5, 2: 4, 3: 2}.get(sum(program.dims), 2)
    cases = list(itertools.product(*(small(each, most) for each in program.dims)))
    if len(cases) > 30:
        cases = cases[:: len(cases) // 27]
    calls = [lambda case=case: tuple(tensor(*shape) for shape in case) for case in cases]
    compare(program.function, calls, dynamic=True, limit=200)


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
        tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
        graphs.append([tuple(map(type, each.shape)) for each in tensors])
        return module.forward

    layer = nn.BatchNorm1d(3)
    stator.compile(layer, backend=backend, dynamic=True)(tensor(4, 3))
    assert sum(torch.SymInt in sizes for sizes in graphs[0]) == 1


def test_a_program_that_can_not_be_compiled_so():
    """What torch can't map, and backends that want to know all sizes: nothing is left open."""

    def mapped(x):
        return torch.vmap(lambda row: row + row.sum() / row.shape[0])(x)

    calls = [lambda n=n: (tensor(n, n),) for n in range(2, 6)]
    found = compare(mapped, calls, fullgraph=True)
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


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("dynamic", [None, True])
def test_nested_tensors_have_no_sizes(dynamic):
    def program(x, n):
        y = x * 2
        nested = torch.nested.nested_tensor([y[:n], y])
        return nested.size(0), nested.unbind()[0], y + n

    counting = Counting()
    compiled = stator.compile(program, backend=counting, dynamic=dynamic)
    for n in (3, 4, 1):
        assert str(compiled(tensor(5), n)) == str(program(tensor(5), n))
    assert counting.graphs
