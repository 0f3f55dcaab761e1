# mypy: ignore-errors
"""What is said of symbols: the `dynamic` log, the error for marks, and guards that say it once."""

import itertools
import random

import pytest
import sympy
import torch

import stator
from stator.graph.unknown.implied import needed

from .harness import Counting, tensor


@pytest.fixture
def log(capsys):
    """The lines of the log so far, without the function's name and place."""

    def lines():
        written = capsys.readouterr().err.splitlines()
        return [line.partition("): ")[2] for line in written if line.startswith("[stator.dynamic]")]

    stator.set_logs("dynamic")
    yield lines
    stator.set_logs()


def line_of(function, offset):
    return f"{__file__}:{function.__code__.co_firstlineno + offset}"


def program(x, y, n):
    if n > 3:
        x = x + y
    return x, {n: 1}


def test_what_has_changed(log):
    compiled = stator.compile(program, backend="eager")
    compiled(tensor(4, 3), tensor(4, 3), 4)
    assert not log()
    compiled(tensor(5, 3), tensor(5, 3), 6)
    created = [line for line in log() if "is left open" in line]
    symbols = [line.partition("open (")[2].partition(",")[0] for line in created]
    assert created == [
        f"x.size(0) is left open ({symbols[0]}, 5 in this call), since it has changed from 4 to 5",
        f"y.size(0) is left open ({symbols[1]}, 5 in this call), since it has changed from 4 to 5",
        f"n is left open ({symbols[2]}, 6 in this call), since it has changed from 4 to 6",
    ]
    assert len(set(symbols)) == 3


def test_specialized_and_unified(log):
    stator.compile(program, backend="eager", dynamic=True)(tensor(5, 3), tensor(5, 3), 6)
    decided = [line for line in log() if "is left open" not in line]
    line = line_of(program, 2)
    assert decided == [
        f"x.size(1) and y.size(1) are one symbol, because of (x.size(1) == y.size(1)), at {line}",
        f"x.size(0) and y.size(0) are one symbol, because of (x.size(0) == y.size(0)), at {line}",
        f"n must be 6, because of (n == 6), at {line_of(program, 3)}",
    ]


def twice(x):
    return x * 2


@pytest.mark.parametrize(
    ("why", "mark", "options"),
    [
        ("dynamic=True", None, {"dynamic": True}),
        ("it is marked (mark_dynamic)", stator.mark_dynamic, {}),
        ("it is marked (maybe_mark_dynamic)", stator.maybe_mark_dynamic, {}),
        ("it is marked (mark_unbacked)", stator.mark_unbacked, {}),
    ],
)
def test_why_it_is_open(log, why, mark, options):
    x = tensor(4, 3)
    if mark is not None:
        mark(x, 0)
    stator.compile(twice, backend="eager", **options)(x)
    assert log()[0].endswith(f", since {why}")


def test_named_by_a_setting(log):
    with stator.config.patch(dynamic_sources="x*"):
        stator.compile(twice, backend="eager")(tensor(4, 3))
    lines = log()
    assert [line.partition(" ")[0] for line in lines] == ["x.size(0)", "x.size(1)"]
    assert lines[0].endswith(", since config.dynamic_sources names it")


def test_nothing_is_said_of_what_is_fixed(log):
    stator.compile(twice, backend="eager", dynamic=False)(tensor(4, 3))
    assert not log()


def test_the_backend_decides(log):
    def backend(module, inputs):
        int(inputs[0].shape[0])
        return module.forward

    compiled = stator.compile(twice, backend=backend, dynamic=True)
    compiled(tensor(4, 3))
    assert "x.size(0) must be 4, because of (x.size(0) == 4), by the backend" in log()
    (entry,) = compiled.entries()
    why = entry.guards.explain((tensor(5, 3),), twice)
    assert why.expected == "(x.size(0) == 4), because of the backend"


# ---------------------------------------------------------------------- marks that can't be kept


def added(x, y):
    z = x + 1
    return z + y


def chained(x, y, other):
    z = x + other
    return other + y, z


def folded(x):
    n = x.shape[0]
    for step in range(60):
        n = 1000 % (n + step + 2)
    return x if n > 3 else x + 1


def specialized(function, *args):
    compiled = stator.compile(function, backend="eager")
    with pytest.raises(stator.SpecializedError) as caught:
        compiled(*args)
    return str(caught.value).splitlines()


def open_rows(*shape, mark=stator.mark_dynamic, **options):
    x = tensor(*shape)
    mark(x, 0, **options)
    return x


def test_the_error_tells_all():
    line = line_of(added, 2)
    assert specialized(added, open_rows(4, 3), tensor(4, 3)) == [
        f"added ({line_of(added, 0)}): what is marked as dynamic is fixed by the program",
        "  x.size(0) must be 4, because of (x.size(0) == 4)",
        f"    at {line} in added",
        "        return z + y",
        "               ^^^^^",
        "  fix: write this line for any size, or use maybe_mark_dynamic",
    ]


def test_the_error_tells_the_way():
    """Two sizes are one, and the other one is fixed."""
    text = specialized(chained, open_rows(4, 3), tensor(4, 3), open_rows(4, 3))
    assert text[1] == "  x.size(0) and other.size(0) are one symbol, because of (x.size(0) == " + (
        "other.size(0))"
    )
    assert text[3].strip() == "z = x + other"
    assert "must be 4" in text[5]
    assert text[7].strip() == "return other + y, z"
    assert len(text) == 10  # each of them once


def test_what_guards_can_not_compute_is_no_secret():
    text = specialized(folded, open_rows(6, 5))
    assert text[1].startswith("  x.size(0) must be 6, because of ")
    assert text[1].endswith(", which guards can't compute")
    assert text[3].strip() == "return x if n > 3 else x + 1"


def test_what_to_do():
    assert specialized(twice, open_rows(1, 3))[-1] == (
        "  fix: use mark_unbacked, for which they are not, or maybe_mark_dynamic"
    )
    assert specialized(twice, open_rows(9, 3, min=2, max=5))[-1] == (
        "  fix: mark a range that this size is in, or don't mark tensors outside of it"
    )


# ---------------------------------------------------------------------- guards


def relations(function, *args):
    told = stator.explain(function, backend="eager", dynamic=True)(*args)
    return [str(guard) for guards in told.guards for guard in guards if "size(" in str(guard)]


def test_guards_say_it_once():
    def several(x, y):
        if x.shape[0] > 3 and x.shape[0] != 2 and x.shape[0] >= 1 and x.shape[1] == 3:
            return x + y
        return x

    line = line_of(several, 1)
    assert relations(several, tensor(5, 3), tensor(5, 3)) == [
        "(x.stride(0) == x.size(1))",
        "(y.stride(0) == y.size(1))",
        f"(x.size(0) > 3), because of {line}",
        f"(x.size(1) == 3), because of {line}",
        f"(3 == y.size(1)), because of {line_of(several, 2)}",
        f"(x.size(0) == y.size(0)), because of {line_of(several, 2)}",
    ]


def test_the_line_is_the_users():
    """Not one of torch's, which compares symbols for `sorted`."""

    def least(x):
        return x[: sorted(x.shape)[0]]

    lines = [each.partition("because of ")[2] for each in relations(least, tensor(5, 3))]
    assert set(lines) == {"", line_of(least, 1)}


def test_an_operator_that_raises_tells_its_line():
    def refused(x, y):
        return x @ y

    counting = Counting()
    compiled = stator.compile(refused, backend=counting, dynamic=True)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        compiled(tensor(2, 3), tensor(4, 5))
    (entry,) = compiled.entries()
    why = entry.guards.explain((tensor(2, 3), tensor(3, 5)), refused)
    assert why.expected == f"(x.size(1) != y.size(0)), because of {line_of(refused, 1)}"
    assert torch.equal(compiled(tensor(2, 3), tensor(3, 5)), tensor(2, 3) @ tensor(3, 5))


A, B = (sympy.Symbol(name, integer=True, positive=True) for name in "ab")


def test_what_is_left_out_follows():
    """Conditions at random: those that are kept mean the same as all of them."""
    generator = random.Random(0)
    relations = [sympy.Ge, sympy.Le, sympy.Gt, sympy.Lt, sympy.Ne, sympy.Eq]

    def condition():
        relation, number = generator.choice(relations), generator.randint(-2, 7)
        factor = generator.choice([1, 1, 2, 3, -1])
        if generator.random() < 0.3:
            return generator.choice([sympy.Eq(A, B), relation(A, factor * B + number)])
        return relation(factor * generator.choice([A, B]) + generator.randint(-2, 2), number)

    left_out = 0
    for _ in range(60):
        most = generator.randint(3, 9)
        ranges = [sympy.Ge(A, 2, evaluate=False), sympy.Le(B, most, evaluate=False)]
        lines = [each for each in (condition() for _ in range(5)) if each.free_symbols]
        conditions = [*ranges, *lines]
        kept = needed(conditions, len(ranges))
        left_out += len(conditions) - len(kept)
        for values in itertools.product(range(8), repeat=2):
            numbers = dict(zip((A, B), map(sympy.Integer, values)))
            answers = [each.xreplace(numbers) == sympy.true for each in conditions]
            assert all(answers) == all(answers[index] for index in kept), (conditions, kept)
    assert left_out > 40
