# mypy: ignore-errors
"""From torch's conditions to native guards."""

import itertools
import math
import random

import pytest
import sympy
import torch
from torch.utils._sympy.functions import (
    CeilToInt,
    FloatPow,
    FloatTrueDiv,
    FloorDiv,
    IntTrueDiv,
    Mod,
    OpaqueUnaryFn_sqrt,
    PythonMod,
    RoundToInt,
    ToFloat,
    TruncToInt,
)

from stator.guards import Guard, Holds, Int, Local, OffsetOf, compile
from stator.guards.reference import check
from stator.guards.symbolic import translated
from stator.guards.tensors import calibrate

A, B, C = (sympy.Symbol(name, integer=True) for name in "abc")
PLACES = {A: Int(Local(0)), B: Int(Local(1)), C: Int(Local(2))}
CONDITIONS = [
    sympy.Eq(A, B),
    sympy.Ne(A * B, 6),
    A + 2 * B < C,
    A - B >= -3,
    sympy.Eq(FloorDiv(A, 3), B),
    sympy.Eq(PythonMod(A, 4), 1),
    sympy.Eq(PythonMod(A - B, 3), 0),
    sympy.Or(A > 5, sympy.And(B < 2, C > 1)),
    sympy.Not(sympy.Or(sympy.Eq(A, B), sympy.Eq(B, C))),
    sympy.Max(A, B, C) < 5,
    sympy.Min(A, B) + 1 > C,
    A**2 + B**3 > C,
    sympy.Abs(A - B) <= 2,
    sympy.Eq(A * (B + 1) - C, 0, evaluate=False),
]


@pytest.mark.parametrize("condition", CONDITIONS, ids=str)
def test_means_the_same(condition):
    expr = translated(condition, PLACES.get)
    assert expr is not None
    guards = [Guard(None, Holds(expr))]
    tree = compile(guards)
    answers = set()
    for values in itertools.product(range(-3, 8), repeat=3):
        expected = bool(condition.xreplace(dict(zip((A, B, C), map(sympy.Integer, values)))))
        assert tree.check(values, None) is expected
        assert check(guards, values) is expected
        answers.add(expected)
    assert answers == {True, False}


# With what CPython says.
FLOATS = [
    (sympy.Gt(IntTrueDiv(A, B), 1.5), lambda a, b: a / b > 1.5),
    (sympy.Eq(FloatTrueDiv(ToFloat(A), ToFloat(B)), 0.1), lambda a, b: a / b == 0.1),
    (sympy.Le(0.1 * ToFloat(A), 0.7), lambda a, b: a * 0.1 <= 0.7),
    (sympy.Ge(ToFloat(A) + 0.5, ToFloat(B)), lambda a, b: a + 0.5 >= b),
    (sympy.Eq(TruncToInt(0.7 * ToFloat(A)), B), lambda a, b: int(a * 0.7) == b),
    (sympy.Eq(CeilToInt(IntTrueDiv(A, 3)), B), lambda a, b: math.ceil(a / 3) == b),
    (sympy.Eq(RoundToInt(IntTrueDiv(A, 2)), B), lambda a, b: round(a / 2) == b),
    (sympy.Lt(OpaqueUnaryFn_sqrt(ToFloat(A)), B), lambda a, b: math.sqrt(a) < b),
    (sympy.Lt(FloatPow(ToFloat(A), -0.5), 0.4), lambda a, b: a**-0.5 < 0.4),
    (sympy.Gt(sympy.Max(0.3 * ToFloat(A), 1.5), B), lambda a, b: max(a * 0.3, 1.5) > b),
    (sympy.Ne(ToFloat(A), 2.0), lambda a, b: a != 2.0),
]


@pytest.mark.parametrize(("condition", "meaning"), FLOATS, ids=lambda each: str(each)[:40])
def test_floats_mean_the_same(condition, meaning):
    expr = translated(condition, PLACES.get)
    assert expr is not None
    guards = [Guard(None, Holds(expr))]
    tree = compile(guards)
    for values in itertools.product(range(-7, 30), repeat=2):
        try:
            expected = meaning(*values) is True
        except (ZeroDivisionError, ValueError, TypeError):  # of a complex number
            expected = False
        assert tree.check((*values, 0), None) is expected, values
        assert check(guards, (*values, 0)) is expected, values


def test_large_integers_are_no_floats():
    expr = translated(sympy.Gt(IntTrueDiv(A, B), 0.5), PLACES.get)
    guards = [Guard(None, Holds(expr))]
    for a, b in ((2**53, 3), (2**53 + 1, 3), (3, -(2**53) - 1), (2**62, 2**62)):
        expected = max(abs(a), abs(b)) <= 2**53 and a / b > 0.5
        assert compile(guards).check((a, b, 0), None) is expected
        assert check(guards, (a, b, 0)) is expected


def test_division_by_zero_does_not_hold():
    expr = translated(sympy.Eq(FloorDiv(A, B), FloorDiv(A, B + 1), evaluate=False), PLACES.get)
    assert not compile([Guard(None, Holds(expr))]).check((4, 0), None)


@pytest.mark.parametrize(
    "condition",
    [
        ToFloat(A) * ToFloat(B) * 0.1 > 2.5,
        sympy.Eq(FloatTrueDiv(A, B), sympy.Rational(1, 3), evaluate=False),
        sympy.Eq(A, sympy.Integer(2) ** 70),
        A**9 > B,
        sympy.Eq(sympy.Symbol("unknown"), 3),
        sympy.Eq(A / 2, B),
    ],
    ids=str,
)
def test_what_can_not_be_computed(condition):
    assert translated(condition, PLACES.get) is None


def test_deep_expressions():
    deep = A
    for step in range(100):
        deep = PythonMod(B + step, 2 + deep, evaluate=False)
    assert translated(sympy.Eq(deep, 1, evaluate=False), PLACES.get) is None


def test_nonnegative_remainders():
    a, b = (sympy.Symbol(name, integer=True, positive=True) for name in "ab")
    expr = translated(sympy.Eq(Mod(a, b), 1), {a: Int(Local(0)), b: Int(Local(1))}.get)
    tree = compile([Guard(None, Holds(expr))])
    for x, y in itertools.product(range(1, 9), repeat=2):
        assert tree.check((x, y), None) is (x % y == 1)


def test_offsets():
    x = Local(0)
    guards = [Guard(None, Holds(OffsetOf(x) == 6))]
    calibrate()  # a guard on the tensor does so in a program
    tree = compile(guards)
    base = torch.arange(12).reshape(4, 3)
    for start in range(4):
        expected = start == 2
        assert tree.check((base[start:],), None) is expected
        assert check(guards, (base[start:],)) is expected
    assert not tree.check((5,), None)
    assert not check(guards, (5,))


def test_random_conditions():
    generator = random.Random(0)

    def number(depth):
        if depth == 0:
            return generator.choice([A, B, C, sympy.Integer(generator.randint(-4, 4))])
        left, right = number(depth - 1), number(depth - 1)
        kind = generator.choice(["+", "-", "*", "//", "%", "max"])
        match kind:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "//":
                return FloorDiv(left, sympy.Integer(generator.randint(1, 5)))
            case "%":
                return PythonMod(left, sympy.Integer(generator.randint(1, 5)))
        return sympy.Max(left, right)

    tried = 0
    for _ in range(120):
        relation = generator.choice([sympy.Eq, sympy.Lt, sympy.Ge, sympy.Ne])
        condition = relation(number(2), number(2))
        if condition in (sympy.true, sympy.false):
            continue
        expr = translated(condition, PLACES.get)
        if expr is None:
            continue
        tried += 1
        tree = compile([Guard(None, Holds(expr))])
        for _ in range(20):
            values = tuple(generator.randint(-9, 9) for _ in range(3))
            expected = condition.xreplace(dict(zip((A, B, C), map(sympy.Integer, values))))
            assert tree.check(values, None) is bool(expected), (condition, values)
    assert tried > 60
