# mypy: ignore-errors
"""One thing changes between two calls: tensors and what autograd knows of them, function modes,
floats that are left open, a tensor of another layout."""

import collections
import itertools
import operator
import types

import pytest
import torch

import stator

from .scenarios import Scenarios, play_scenario, x

scenario = Scenarios()


@pytest.mark.parametrize(("play", "graphs"), scenario)
def test_guards(play, graphs) -> None:
    play_scenario(play, graphs)


# ---------------------------------------------------------------------- what autograd knows


def made(output=0):
    leaf = torch.ones(6, requires_grad=True)
    return (leaf * 2).chunk(2)[output]


@scenario(graphs=2)
def whether_a_tensor_retains_its_gradient(compile):
    f = compile(lambda t, x: (x + 1, t.retains_grad))
    t = made()
    yield f(t, x())
    yield f(made(), x())
    t.retain_grad()
    yield f(t, x())
    yield f(t, x())


@scenario(graphs=2)
def which_output_a_tensor_is(compile):
    f = compile(lambda t, x: (x + 1, t.output_nr))
    for output in (0, 0, 1, 0):
        yield f(made(output), x())


@scenario(graphs=1)
def whether_a_tensor_is_a_view(compile):
    f = compile(lambda t, x: (x + 1, t._is_view()))
    whole = torch.ones(6)
    for t in (torch.ones(3), whole[:3], torch.ones(3)):
        yield f(t, x())


@scenario(graphs=3)
def the_old_classes_of_tensors(compile):
    kinds = torch.FloatTensor, torch.DoubleTensor, torch.Tensor
    f = compile(lambda t, x: (x + 1, [isinstance(t, kind) for kind in kinds]))
    for dtype in (torch.float32, torch.float64, torch.int64, torch.float32):
        yield f(torch.ones(3, dtype=dtype), x())


# ---------------------------------------------------------------------- memory


@pytest.mark.filterwarnings("ignore:.*can't be captured")
@pytest.mark.parametrize("which", [lambda t, v: v * 2, lambda t, v: (t * 2, v + 1)])
def test_a_view_whose_data_was_replaced(which) -> None:
    def play(compile):
        f = compile(lambda tensors, x: (x + 1, which(*tensors)))
        whole = torch.arange(6.0).reshape(2, 3)
        view = whole[0]
        yield f([whole, view], x())
        view.data = torch.ones(3, dtype=torch.float64)
        yield f([whole, view], x())

    play_scenario(play, 2)


@pytest.mark.filterwarnings("ignore:.*can't be captured")
def test_a_sparse_tensor_where_memory_was_compared() -> None:
    def play(compile):
        @compile
        def f(t, u, x):
            u.add_(1)
            return x + 1, t.is_sparse

        u = torch.ones(2, 3)
        for t in (torch.ones(2, 3), torch.ones(2, 3).to_sparse(), torch.zeros(2, 3)):
            yield f(t, u, x())
        yield u

    play_scenario(play, 1)


# ---------------------------------------------------------------------- function modes


class Nothing(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, function, kinds, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


def test_the_modes_of_the_trace_are_not_the_program_s() -> None:
    def asked(x):
        return x + 1, torch._C._len_torch_function_stack()

    def enabled(x):
        return x + 1, torch._C._is_torch_function_mode_enabled()

    def answers(x):
        with torch._C.DisableTorchFunctionSubclass():
            off = torch._C._is_torch_function_enabled()
        return x + 1, off, torch._C._is_torch_function_enabled()

    for fn in (asked, enabled, answers):
        compiled = stator.compile(fn, backend="eager", fullgraph=True)
        assert compiled(x())[1:] == fn(x())[1:]
    compiled = stator.compile(asked, backend="eager")
    assert compiled(x())[1] == 0
    with Nothing():
        assert compiled(x())[1] == 1
    assert compiled(x())[1] == 0


@scenario(graphs=2)
def whether_torch_asks_classes(compile):
    f = compile(lambda x: (x + 1, torch._C._is_torch_function_enabled()))
    yield f(x())
    with torch._C.DisableTorchFunctionSubclass():
        yield f(x())
    yield f(x())


# ---------------------------------------------------------------------- which are the same


class Plain:
    pass


SAME = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "__eq__": lambda a, b: a.__eq__(b) is True,
    "operator": operator.eq,
    "in": lambda a, b: a in [b],
    "in a tuple of tuples": lambda a, b: (a,) in ((b,), 1),
    "index": lambda a, b: [1, b, a].index(a),
    "count": lambda a, b: (a, b).count(a),
    "count of a deque": lambda a, b: collections.deque([a, b]).count(a),
    "lists": lambda a, b: [a] == [b],
    "dicts": lambda a, b: {"k": a} == {"k": b},
    "namespaces": lambda a, b: types.SimpleNamespace(k=a) == types.SimpleNamespace(k=b),
    "order of tuples": lambda a, b: (a, 1) < (b, 2) if a is b else None,
    "groups": lambda a, b: len(list(itertools.groupby([a, b]))),
    "a global": lambda a, b: (a == GLOBAL, [b] == [GLOBAL]),
}
GLOBAL = Plain()


@pytest.mark.parametrize("ask", SAME.values(), ids=SAME)
def test_objects_that_become_the_same(ask) -> None:
    def play(compile):
        f = compile(lambda a, b, x: (x + 1, ask(a, b)))
        one, other = Plain(), Plain()
        yield f(one, other, x())
        yield f(other, one, x())
        yield f(one, one, x())
        yield f(Plain(), other, x())
        yield f(GLOBAL, one, x())
        yield f(one, GLOBAL, x())

    play_scenario(play, 4 if ask is SAME["a global"] else 2)


@scenario(graphs=2)
def objects_with_an_equality_of_their_own(compile):
    class Equal:
        def __init__(self, n):
            self.n = n

        def __eq__(self, other):
            return self.n == other.n

    f = compile(lambda a, b, x: (x + 1, a == b, [a] == [b]))
    one = Equal(1)
    yield f(one, Equal(1), x())
    yield f(Equal(1), one, x())
    yield f(one, Equal(2), x())


# ---------------------------------------------------------------------- open numbers


@scenario(graphs=3)
def attributes_that_numbers_do_not_take(compile):
    def tried(change, n):
        try:
            return change(n)
        except AttributeError as error:
            return str(error)

    def store(n):
        n.tag = 1

    def remove(n):
        del n.tag

    changes = store, remove, lambda n: object.__setattr__(n, "tag", 1), lambda n: "real" in dir(n)
    f = compile(lambda n, x: (x + 1, [tried(change, n) for change in changes]))
    for n in (1, 2, 3, 3):
        yield f(n, x())


@scenario(graphs=3)
def a_nan_that_is_looked_for(compile):
    @compile
    def f(rate, x):
        return x + 1, rate in [rate], rate in (1, rate), rate in {rate: 1}, [rate].index(rate)

    for rate in (0.5, 0.25, float("nan"), float("nan")):
        yield f(rate, x())
