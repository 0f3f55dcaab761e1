# mypy: ignore-errors
"""Contexts of `decimal`: the one that runs and those of the world, read and changed.

Each program is called several times with contexts that differ; results, what is raised, and all
that the contexts hold afterwards are eager's.
"""

import decimal
from collections.abc import Callable
from decimal import Context, Decimal, getcontext, localcontext
from typing import Any

import pytest
import torch

import stator
from stator.testing import count

pytestmark = pytest.mark.usefixtures("leaves_no_trace")


@pytest.fixture(autouse=True)
def own_context():
    with localcontext():
        yield


def divides(x, own):
    return x + 1, str(Decimal(1) / Decimal(3))


def is_exact(x, own):
    return x + 1, str(Decimal(1) / Decimal(4))


def divides_by_zero(x, own):
    return x + 1, str(Decimal(1) / Decimal(0))


def handles(x, own):
    try:
        Decimal("text")
    except decimal.InvalidOperation:
        return x + 1, getcontext().flags[decimal.InvalidOperation]


def sets_the_running_one(x, own):
    getcontext().prec = 5
    getcontext().traps[decimal.Inexact] = False
    return x + 1, str(Decimal(2) / 3)


def clears(x, own):
    getcontext().clear_flags()
    return x + 1


def sets_and_breaks(x, own):
    getcontext().prec = 7
    y = x.sum()
    stator.graph_break()
    return y, str(Decimal(2) / 3)


def reads(x, own):
    return x + own.prec, own.rounding, own.flags == own.traps, own.Emax, repr(own)


def computes(x, own):
    third, rounded = own.divide(1, 3), own.create_decimal("1.23456789")
    return x + 1, str(third), str(rounded), own.flags[decimal.Inexact]


def sets(x, own):
    own.prec = 3
    own.rounding = decimal.ROUND_UP
    own.Emin, own.Emax = -10, 10
    own.traps[decimal.Rounded] = True
    try:
        own.divide(2, 3)
    except decimal.Rounded as error:
        return x + 1, type(error), own.flags[decimal.Rounded]


def sets_what_it_may_not(x, own):
    own.prec = 4
    own.prec = -1


def sets_and_sets_back(x, own):
    before = own.prec
    own.prec = before + 1
    own.prec = before
    return x + 1


def copies(x, own):
    other = own.copy()
    other.prec += 1
    return x + 1, other.prec, own.prec, str(other.sqrt(2))


def runs(x, own):
    with localcontext(own) as mine:
        mine.prec += 2
        return x + 1, str(Decimal(1) / 7), mine is own, own.prec


def runs_in_the_place(x, own):
    before = getcontext()
    decimal.setcontext(own)
    try:
        own.prec += 1
        return x + 1, str(Decimal(1) / 7)
    finally:
        decimal.setcontext(before)


def leaves_another_running(x, own):
    decimal.setcontext(own)
    return x + 1


def compares(x, own):
    return x + 1, own is getcontext(), own == getcontext(), own is own.copy()


PROGRAMS = [
    divides,
    is_exact,
    divides_by_zero,
    handles,
    sets_the_running_one,
    clears,
    reads,
    computes,
    sets,
    sets_what_it_may_not,
    sets_and_sets_back,
    copies,
    runs,
    runs_in_the_place,
    compares,
]
SPLIT = [sets_and_breaks, leaves_another_running]
OWN = [
    lambda: Context(prec=5),
    lambda: Context(prec=9),
    lambda: Context(5, traps=[decimal.Inexact]),
]
RUNNING = [
    lambda: Context(prec=6),
    lambda: Context(prec=6, flags=[decimal.Inexact, decimal.Rounded]),
    lambda: Context(prec=8, traps=[]),
]


def outcome(function: Callable[..., Any], running: Context, own: Context) -> Any:
    before = getcontext()
    decimal.setcontext(running)
    try:
        try:
            result = function(torch.ones(2), own)
        except (ArithmeticError, ValueError) as error:
            result = type(error), str(error)
        left = "own" if getcontext() is own else "running" if getcontext() is running else "?"
        return str(result), repr(running), repr(own), left
    finally:
        decimal.setcontext(before)


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda fn: fn.__name__)
def test_as_in_eager(program: Callable[..., Any], fullgraph: bool) -> None:
    compiled = stator.compile(program, backend="eager", fullgraph=fullgraph)
    calls = [(0, 0), (1, 0), (2, 0), (0, 1), (0, 2), (0, 0), (2, 0)]
    for one, other in calls:
        running, own = RUNNING[one], OWN[other]
        assert outcome(compiled, running(), own()) == outcome(program, running(), own())
    assert sum(count(compiled)) == len(calls)
    assert count(compiled).hits >= 2


@pytest.mark.parametrize("program", SPLIT, ids=lambda fn: fn.__name__)
def test_in_parts(program: Callable[..., Any]) -> None:
    compiled = stator.compile(program, backend="eager")
    for running in RUNNING[:2]:
        for own in OWN:
            assert outcome(compiled, running(), own()) == outcome(program, running(), own())


@pytest.mark.parametrize("program", [*PROGRAMS, *SPLIT], ids=lambda fn: fn.__name__)
def test_a_context_that_runs_or_is_a_template(program: Callable[..., Any]) -> None:
    compiled = stator.compile(program, backend="eager")
    for own in (Context(5), decimal.BasicContext.copy(), Context(5)):
        other = own.copy()
        assert outcome(compiled, Context(6), own) == outcome(program, Context(6), other)
    for _ in range(2):
        one, other = Context(6), Context(6)
        assert outcome(compiled, one, one) == outcome(program, other, other)
    kept = decimal.BasicContext.copy()
    found = outcome(compiled, Context(6), decimal.BasicContext)
    state = repr(decimal.BasicContext)
    _put_back(kept)
    assert found == outcome(program, Context(6), decimal.BasicContext)
    assert state == repr(decimal.BasicContext)
    _put_back(kept)


def _put_back(kept: Context) -> None:
    for name in ("prec", "rounding", "Emin", "Emax", "capitals", "clamp"):
        setattr(decimal.BasicContext, name, getattr(kept, name))
    decimal.BasicContext.flags, decimal.BasicContext.traps = dict(kept.flags), dict(kept.traps)


def test_two_names_of_one_context() -> None:
    def program(x, a, b):
        a.prec = 3
        b.divide(1, 3)
        b.prec += 1
        return x + 1, a.prec, a.flags[decimal.Inexact]

    for first in (False, True):
        compiled = stator.compile(program, backend="eager", fullgraph=True)
        for same in (first, not first, first):
            found, expected = [], []
            for function, results in ((compiled, found), (program, expected)):
                a = Context(prec=5)
                b = a if same else Context(prec=5)
                results += [str(function(torch.ones(1), a, b)), repr(a), repr(b)]
            assert found == expected


# ---------------------------------------------------------------------------- numbers of tensors


class Own(Decimal):
    pass


def from_a_float(x):
    return str(Decimal.from_float(x[0].item())), str(Own.from_float(x[1].item()))


def made(x):
    return str(Decimal(x[0].item())), str(Own(int(x[1].item())))


def with_precision(x):
    context = Context(prec=int(x[0].item()))
    context.Emax = int(x[1].item())
    return str(context.divide(1, 3)), context.Emax


def with_local_precision(x):
    with localcontext() as context:
        context.prec = int(x[1].item())
        return str(Decimal(1) / 3)


def multiplied(x):
    return str(Decimal(3) * int(x[0].item())), Decimal(3) < x[1].item()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "program",
    [from_a_float, made, with_precision, with_local_precision, multiplied],
    ids=lambda fn: fn.__name__,
)
def test_numbers_of_tensors(program: Callable[..., Any], backend: str) -> None:
    compiled = stator.compile(program, backend=backend)
    for number in (2.0, 3.0, 2.0, 5.0):
        x = torch.tensor([number, number + 2])
        assert compiled(x) == program(x)
