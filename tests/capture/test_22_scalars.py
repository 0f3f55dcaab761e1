# mypy: ignore-errors
"""Values of tensors as Python numbers: read in the graph, used in the graph, checked in the graph.

Each program is compiled once, on one value; the other values are served by the same graph, or,
where what it assumes of the value does not hold, by the program itself: results and errors are
eager's.

PYTEST_DONT_REWRITE: the programs' own assertions stay as they are written.
"""

import math
import operator
import warnings
from collections import namedtuple

import pytest
import torch

import stator
from tests.versions import TORCH

from .harness import Programs, check, t

programs = Programs()
Pair = namedtuple("Pair", "first second")

INTEGERS = {"zero": 0, "one": 1, "minus two": -2, "six": 6, "large": 40}
FLOATS = {"zero": 0.0, "negative": -1.75, "nan": math.nan, "infinite": math.inf, "large": 1e30}


def matrix():
    return torch.arange(24.0).view(6, 4)


def integer(value=3):
    return lambda: (matrix(), torch.tensor(value))


def real(value=2.5):
    return lambda: (matrix(), torch.tensor(value))


def with_values(make, values, served, claims):
    """`served`: the first graph is right for all of the values."""
    others = {name: make(value) for name, value in values.items()}
    return programs(make(), free=True, **{"keeps" if served else "changes": others}, **claims)


def with_integers(*, served=False, **claims):
    return with_values(integer, INTEGERS, served, claims)


def with_floats(*, served=False, **claims):
    return with_values(real, FLOATS, served, claims)


# ---------------------------------------------------------------------------- integers


@with_integers(served=True, ops=["item"])
def item(x, n):
    return n.item()


@with_integers(served=True)
def conversions(x, n):
    return (
        int(n),
        float(n),
        operator.index(n),
        n.__int__(),
        n.__index__(),
        bool(n.item() == n.item()),
    )


@with_integers(served=True)
def arithmetic(x, n):
    n = n.item()
    return n + 1, 2 * n, n - 7, n // 2, n % 5, -n, +n, n * n, n**2, abs(n), n / 4, n * 0.5, 10 - n


@with_integers()
def division_by_a_value(x, n):
    return 7 // n.item(), 7 % n.item(), 7 / n.item()


@with_integers(served=True)
def comparisons(x, n):
    n = n.item()
    return [n > 2, n >= 3, n == 0, n != 0, n < 1.5, (n > 0) & (n < 5)]


@with_integers(served=True)
def what_it_is(x, n):
    n = n.item()
    return type(n), isinstance(n, int), isinstance(n, float), isinstance(n, torch.SymInt), n is None


@with_integers(served=True)
def kept_in_containers(x, n):
    n = n.item()
    return {"n": n, "list": [n, n + 1]}, (n, (n,)), Pair(n, n + 1), n == None, n != "n"  # noqa: E711


@with_integers()
def slice_stop(x, n):
    return x[: n.item()] * 2


@with_integers()
def slice_bounds(x, n):
    n = n.item()
    return x[n:], x[n : n + 2], x[:, 1:n], x[..., n:], x[1:n:2]


@with_integers()
def slices_from_the_end(x, n):
    n = n.item()
    return x[-n:], x[: -n - 1], x[-n, 1:], x[:, -n]


@with_integers()
def tensors_as_slice_bounds(x, n):
    return x[:n] + 1, x[n:], x[n - 1 : n + 1], x[:, n:]


@with_integers()
def index(x, n):
    return x[n.item()] * 2


@with_integers()
def tensor_as_index(x, n):
    return x[n], x[n, 1:], x[1, :, None]


@with_integers()
def index_among_others(x, n):
    n = n.item()
    rows = torch.tensor([0, 2])
    return x[:, n], x[..., n], x[None, n, 2:], x[rows, n], x[rows, n:], x[n:, None, n - 1]


@with_integers()
def sizes(x, n):
    n = n.item()
    return torch.zeros(n), torch.ones(2, n), torch.arange(n), x[:1].expand(n, 4), x.new_ones(n + 1)


@with_integers()
def tensor_as_size(x, n):
    return torch.zeros(n), torch.arange(n)


@with_integers()
def view(x, n):
    return x.view(n.item(), -1) + 1


@with_integers()
def reshape_of_a_slice(x, n):
    return x[: n.item()].reshape(n.item() * 2, 2)


@with_integers()
def split(x, n):
    return x.split([n.item(), 6 - n.item()])


@with_integers()
def repeated(x, n):
    return x.repeat_interleave(n.item(), dim=0), x.repeat(n.item(), 1)


@with_integers(served=True)
def operand(x, n):
    n = n.item()
    return x * n, x + (n + 1), x > n, x.clamp(max=n), torch.full((2,), n), x.roll(n, 0), 2 - n * x


# With "large" as well, one graph would be wrong for the third time: it is an error then.
@programs(integer(6), changes={k: integer(INTEGERS[k]) for k in ("zero", "one")}, free=True)
def broadcast_of_a_slice(x, n):
    return x[: n.item()] + torch.ones(6, 4)


@with_integers()
def narrow(x, n):
    return x.narrow(0, 1, n.item()), x.narrow(0, n.item(), 1)


@with_integers()
def number_of_a_size(x, n):
    part = x[: n.item()]
    return part.shape[0], len(part), part.numel(), part.sum()


@with_integers(served=True)
def greatest(x, n):
    n = n.item()
    return max(n, 2), min(n, 2), x[: max(n, 1)], sum([n, 1, n]), divmod(n, 4)


@with_integers(served=True)
def tensor_of_numbers(x, n):
    n = n.item()
    return torch.tensor(n), torch.tensor([n, 2]), torch.tensor([[n, 1.5]]), torch.tensor((n, n))


def lengths(*values):
    return lambda: (matrix(), torch.tensor(values))


OTHER_LENGTHS = {"others": lengths(2, 2, 2), "zeros": lengths(0, 0, 6), "wrong": lengths(-1, 1, 6)}


@programs(lengths(1, 2, 3), keeps=OTHER_LENGTHS, free=True)
def as_a_list(x, n):
    return n.tolist(), sum(n.tolist()), n.view(3, 1).tolist(), max(n.tolist()), min(n.tolist())


@programs(lengths(1, 2, 3), changes=OTHER_LENGTHS, free=True)
def split_by_a_list(x, n):
    return [part.sum(0) for part in x.split(n.tolist())]


@programs(lambda: (matrix(), torch.empty(2, 0)), free=True)
def empty_list(x, n):
    return n.tolist(), x + 1


class Counter:
    def __init__(self):
        self.total = 0


@programs(
    lambda: (Counter(), torch.tensor(3)),
    keeps={"other value": lambda: (Counter(), torch.tensor(-1))},
)
def kept_in_an_attribute(counter, n):
    counter.total = n.item()
    return n + 1


# ---------------------------------------------------------------------------- bools


@with_integers(served=True)
def bools(x, n):
    b = (n > 1).item()
    return b, type(b), isinstance(b, bool), isinstance(b, int), b & (n < 5).item(), b + 1, x * b


# ---------------------------------------------------------------------------- floats


@with_floats(served=True, ops=["item"])
def float_item(x, f):
    return f.item()


@with_floats(served=True)
def float_arithmetic(x, f):
    f = f.item()
    return f + 0.1 + 0.2, f - f, f * 0, 3 - f, -f, abs(f), f / 3, float(f), f * f * f


@with_floats(served=True)
def float_comparisons(x, f):
    f = f.item()
    return f == f, f != f, f > 1, f <= 2.5, [f < 0]


@with_floats()
def float_operand(x, f):
    f = f.item()
    return x * f, x + (f + 1), x / (2 * f), x > f, torch.full((2,), f), torch.tensor([f, 1])


@with_floats()
def float_to_int(x, f):
    return int(f), int(f.item() + 0.5)


@with_floats()
def float_rounded(x, f):
    return math.floor(f), math.ceil(f.item()), math.trunc(f.item()), round(f.item())


@with_floats()
def float_divisor(x, f):
    return 1 / f.item()


@with_floats(served=True)
def float_functions(x, f):
    f = f.item()
    return math.isnan(f), math.isinf(f), math.isfinite(f), max(f, 0.0), min(1.0, f)


@with_floats()
def square_root(x, f):
    return math.sqrt(f)


@with_floats()
def slice_by_a_float(x, f):
    return x[: int(f)]


# ---------------------------------------------------------------------------- assignment


@with_integers()
def cache_update(x, n):
    x[:, n : n + 1] = 5.0
    return x.sum()


@programs(integer(1), changes={k: integer(v) for k, v in INTEGERS.items()}, free=True)
def cache_update_of_two(x, n):
    x[:, n : n + 2] = torch.ones(6, 2)
    return x.sum()


@with_integers()
def assignment_by_index(x, n):
    x.add_(1)
    x[n] = 7.0
    x[0, n.item()] = 8.0
    return x.sum()


@with_integers()
def assignment_by_slice(x, n):
    x[: n.item()] += 1
    x[n:, 1] = 0
    x[torch.tensor([0, 1]), n - 3 :] = 2
    return x + 1


# ---------------------------------------------------------------------------- assertions


@with_integers()
def assertion(x, n):
    assert n.item() > 0, "not positive"
    return x[: n.item()] * 2


@with_integers()
def assertion_on_a_tensor(x, n):
    assert (x[:, 0] < n * 10).all(), f"too large for {n}"
    return x * 2


@with_integers()
def raise_on_a_tensor(x, n):
    if n < 0:
        raise ValueError("negative", 3)
    if (n > 30).any() or n.item() == 1:
        raise KeyError(f"one, or too large: {n.item()}")
    return x * 2


@with_integers()
def assertion_that_is_caught(x, n):
    try:
        assert n > 0
    except AssertionError:
        return x - 1
    return x + 1


@with_integers()
def assertion_after_a_change(x, n):
    x.mul_(2)
    assert n > 0, "changed before"
    return x + 1


@with_integers()
def assertion_after_random_numbers(x, n):
    y = torch.rand(3)
    assert n > 0, "drawn before"
    return y + torch.rand(3)


@with_integers()
def assertion_without_grad(x, n):
    with torch.no_grad():
        assert n > 0, "without grad"
        return x + 1


class Log:
    def __init__(self):
        self.lines = []


@programs(
    lambda: (Log(), matrix(), torch.tensor(3)),
    changes={"negative": lambda: (Log(), matrix(), torch.tensor(-3))},
    free=True,
)
def assertion_after_an_effect(log, x, n):
    log.lines.append("before")
    assert n > 0, "after an effect"
    log.lines.append("after")
    return x + 1


@with_integers()
def checks(x, n):
    n = n.item()
    torch._check(n >= 0, lambda: f"negative: {n}")
    torch._check_value(n <= 6, lambda: "too large")
    if n <= 6:
        return x[:n] + 1
    return x


@with_integers()
def check_of_a_size(x, n):
    n = n.item()
    torch._check(n != 0)
    torch._check_index(n < 6)
    return torch.zeros(n) if n != 0 else x


@with_integers()
def check_of_all(x, n):
    torch._check_tensor_all_with(ValueError, x > n - 5, lambda: f"too small for {n}")
    return x + 1


@with_integers()
def attention_over_a_part(x, n):
    keys = x.view(1, 6, 4)[:, :n]
    mask = torch.arange(n)[None] < n
    seen = torch.nn.functional.scaled_dot_product_attention(x[None, :1], keys, keys, mask)
    return seen.round(decimals=2)  # kernels round otherwise than their decompositions


@with_integers()
def statistics_and_assertion(x, n):
    y = torch.nn.functional.batch_norm(x, torch.zeros(4), torch.ones(4), training=True)
    assert n > 0, "after statistics"
    return y


mean = torch.zeros(4)


def reset():
    mean.zero_()


@with_integers(reset=reset, world=lambda: mean)
def running_statistics_and_assertion(x, n):
    y = torch.nn.functional.batch_norm(x, mean, torch.ones(4), training=True)
    assert n > 0, "after statistics"
    return y


def learner(value=3):
    return lambda: (t(6, 4, grad=True), torch.tensor(value))


@programs(
    learner(),
    changes={name: learner(value) for name, value in INTEGERS.items()},
    free=True,
)
def gradients(x, n):
    y = x[: n.item()] * n.item()
    return (y * y.sum()).sum()


# Before torch 2.13, fake kernels ask for the values of these sizes: a break, with that reason.
ASKED = (
    *("attention_over_a_part", "repeated", "reshape_of_a_slice"),
    *("cache_update_of_two", "assignment_by_slice"),
)


def captured():
    """What this torch can capture."""
    reason = "torch's fake kernels ask for values before 2.13"
    old = pytest.mark.skipif(TORCH < (2, 13), reason=reason)
    return [pytest.param(p, id=str(p), marks=[old] if str(p) in ASKED else []) for p in programs]


@pytest.mark.parametrize("program", captured())
def test_scalars(program):
    check(program)


# ---------------------------------------------------------------------------- what stays a break

refused = Programs()


def refuses(fn):
    refused.add(fn.__name__, fn, integer())
    return fn


@refuses
def key_of_a_dict(x, n):
    return {n.item(): x}  # break


@refuses
def member_of_a_set(x, n):
    return n.item() in {1, 2, 3}  # break


@pytest.mark.parametrize("program", refused, ids=str)
def test_refused(program):
    stator.reset()
    compiled = stator.compile(program.fn, backend="eager", fullgraph=True)
    given = program.given(1)
    with pytest.raises(stator.CaptureError) as caught:
        compiled(*given.args)
    lines = program.fn.__code__.co_firstlineno, caught.value.args
    source = str(caught.value)
    assert __file__ in source and program.name in source, lines


# ---------------------------------------------------------------------------- values that decide

deciding = Programs()


def decides(fn):
    deciding.add(fn.__name__, fn, integer())
    return fn


@decides
def branch(x, n):
    return x + 1 if n.item() > 2 else x - 1


@decides
def loop_over_a_range(x, n):
    return [x for _ in range(n.item())]


@decides
def loop_over_a_tensor_range(x, n):
    return [x for _ in range(n)]


@decides
def repeated_list(x, n):
    return [0] * n, [x] * n.item()


@decides
def item_of_a_list(x, n):
    return [x, 2, 3, 4][n.item()]


@decides
def loop_over_found_ones(x, n):
    return [row for row in x[x > n].nonzero()]


@decides
def list_of_unknown_length(x, n):
    return x[x > n].tolist()


@decides
def nan_compared(x, n):
    f = (n * math.nan).item()
    return x + 1 if f == f else x


@decides
def comparison_of_both_sides(x, n):
    if n > 0:
        x = x + 1
    return x


@pytest.mark.parametrize("program", deciding, ids=str)
def test_values_that_decide(program):
    """What happens depends on the value: taken for granted or not, it is what eager does."""
    stator.reset()
    compiled = stator.compile(program.fn, backend="eager")
    for _ in range(2):
        for value in (3, *INTEGERS.values()):
            with warnings.catch_warnings(action="ignore"):
                found = seen(program, compiled, integer(value))
            assert found == seen(program, program.fn, integer(value))


# ---------------------------------------------------------------------------- backends


def plain(value):
    """Values, types and shapes; AOTAutograd leaves notes on tensors, which are not looked at."""
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)} {value.requires_grad} {value.tolist()}"
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(plain, value)]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return f"{type(value).__name__} {vars(value) if hasattr(value, '__dict__') else value!r}"


def seen(program, fn, make):
    given = program.given(1, make)
    torch.manual_seed(1)
    result = error = None
    try:
        result = fn(*given.args)
    except Exception as raised:
        error = raised
    return plain(
        [result, repr(error), given.args, torch.rand(1), program.world and program.world()]
    )


def compare(program, backend):
    stator.reset()
    compiled = stator.compile(program.fn, backend=backend, fullgraph=True)
    for make in [None, *program.keeps.values(), *program.changes.values()]:
        expected = seen(program, program.fn, make)
        assert seen(program, compiled, make) == expected
    if not program.changes:
        assert compiled.statistics()["misses"] == 1


@pytest.mark.parametrize("program", captured())
def test_aot_eager(program):
    """The graphs have what AOTAutograd needs, and still check what they assume."""
    compare(program, "aot_eager")


class InductorError(RuntimeError):
    """As Inductor wraps what goes wrong in it."""


def needs_values(module, inputs):
    raise RuntimeError("GuardOnDataDependentSymNode: Eq(u0, 1)")


def fails_over_a_size(module, inputs):
    raise InductorError("RuntimeError: can not broadcast Size([6, 2]) to Size([6, u20])")


@pytest.mark.parametrize("backend", [needs_values, fails_over_a_size])
def test_a_backend_that_needs_values_is_done_without(backend):
    def sliced(x, n):
        return x[: n.item()] + 1

    stator.reset()
    x, n = integer()()
    with pytest.warns(UserWarning, match="runs uncompiled"):
        found = stator.compile(sliced, backend=backend, fullgraph=True)(x, n)
    assert torch.equal(found, sliced(x, n))
    with pytest.raises(stator.BackendError):
        stator.compile(lambda x: x + 1, backend=backend)(x)


def test_other_failures_of_inductor_are_told():
    def fails(module, inputs):
        raise InductorError("RuntimeError: there is no compiler")

    stator.reset()
    with pytest.raises(stator.BackendError, match="no compiler"):
        stator.compile(lambda x, n: x[: n.item()] + 1, backend=fails)(*integer()())


INDUCTOR = (
    "slice_bounds",
    "slices_from_the_end",
    "index",
    "index_among_others",
    "sizes",
    "operand",
    "float_comparisons",
    "float_to_int",
    "broadcast_of_a_slice",
    "assertion",
    "assertion_on_a_tensor",
    "assertion_after_a_change",
    "assignment_by_index",
    "assignment_by_slice",
    "cache_update_of_two",
    "split_by_a_list",
)


@pytest.mark.parametrize("name", INDUCTOR)
def test_inductor(name):
    (program,) = (program for program in programs if program.name == name)
    compare(program, "inductor")
