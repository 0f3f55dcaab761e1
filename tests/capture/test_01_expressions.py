# mypy: ignore-errors
"""Operators, literals, names and conversions: straight-line code.

PYTEST_DONT_REWRITE: the asserts in programs are theirs.
"""

import math

import pytest
import torch

from .harness import Program, Programs, check, given, t

programs = Programs()
SCALE = 3
PAIR = (2, 5)


def one():
    return (t(3, 4),)


def two():
    return t(3, 4), t(3, 4)


@programs(one, ops=["add"])
def add_constant(x):
    return x + 1


@programs(two, ops=["mul", "add", "sub"])
def arithmetic(x, y):
    return x * y + x - y


@programs(one, ops=["sub", "truediv", "pow"])
def reflected_operators(x):
    return 2 - x, 1 / x, 2**x


@programs(two)
def floor_division_and_modulo(x, y):
    return x // 2, x % 3, 7 % y


@programs(lambda: (t(3, 4), t(4, 2)), ops=["matmul"])
def matrix_product(x, y):
    return x @ y


@programs(one)
def unary_operators(x):
    return -x, +x, abs(x)


@programs(lambda: (t(5, dtype=torch.bool), t(5, dtype=torch.bool)))
def bitwise_operators(a, b):
    return a & b, a | b, a ^ b, ~a


@programs(lambda: (t(5, dtype=torch.int64),))
def shifts(x):
    return x << 2, x >> 1, 1 << x


@programs(two)
def comparisons(x, y):
    return x < y, x <= 0, x > y, 1 >= y, x == y, x != y


@programs(two, ops=["iadd", "imul"])
def augmented_on_arguments(x, y):
    x += y
    x *= 2
    return x


@programs(two, ops=["mul", "isub"])
def augmented_on_temporaries(x, y):
    z = x * 2
    z -= y
    return z


@programs(lambda: (t(2, 3), t(3, 2)))
def augmented_that_rebinds(x, y):
    z = x
    z = z @ y
    return z, x


@programs(one)
def operator_precedence(x):
    return -(x**2) + 2 * x - x / 2


@programs(one, ops=["add"])
def constant_folding_stays_in_python(x):
    n = 2 * 3 + 4**2 // 5 - (7 % 4) | 8
    return x + n


@programs(lambda: (t(3), 2), changes={"number": lambda: (t(3), 7), "type": lambda: (t(3), 2.5)})
def scalar_argument(x, n):
    return x * n + (n - 1)


@programs(
    lambda: (t(3), 2, 3.5, True, None, "a"),
    changes={"text": lambda: (t(3), 2, 3.5, True, None, "b")},
)
def constants_of_all_kinds(x, i, f, b, n, s):
    return x * i + f, b, n, s + "z", (i, f)


@programs(lambda: (3, 4), graphs=0, changes={"number": lambda: (5, 4)})
def no_tensor_at_all(a, b):
    return a * b + a**b, a / b, divmod(a, b)


@programs(lambda: (t(3), 3, 4.5))
def number_results(x, a, b):
    return x + a, a + b, a // 2, -a, a < b, a == 3


@programs(lambda: (t(3), 1 + 2j))
def complex_number(x, c):
    return x * c, c.real, c.conjugate()


@programs(one, ops=["mul"])
def global_constant(x):
    return x * SCALE


@programs(one)
def global_tuple(x):
    a, b = PAIR
    return x * a + b, PAIR


@programs(one)
def module_constant(x):
    return x * math.pi + math.e, math.sqrt(2)


@programs(one, ops=["add"])
def string_formatting(x):
    return x + 1, f"{SCALE:>4}|{math.pi:.3f}|{'a'!r}", "%d-%s" % (1, "x"), "{}{n}".format(1, n=2)


@programs(one)
def fstring_with_shape(x):
    return x * 2, f"{tuple(x.shape)} {x.dtype} {x.ndim}"


@programs(one, ops=["add"])
def string_methods(x):
    name = "Layer_Norm".lower().replace("_", " ").split()
    return x + len(name), "-".join(name), name[0].startswith("lay"), "norm" in name


@programs(one)
def chained_comparison_of_numbers(x):
    n = x.shape[0]
    return x + (1 if 0 < n <= 3 else 2), 1 < n < 3


@programs(one)
def boolean_operators_keep_values(x):
    return x + (0 or 5), None or "d", 0 and 1, not 3, [] or (1,)


@programs(lambda: (t(3), None), changes={"value": lambda: (t(3), t(3))})
def is_none(x, y):
    return x if y is None else x + y


@programs(two)
def identity_of_tensors(x, y):
    z = x
    return z is x, x is y, x is not y, z + 1


@programs(one)
def walrus(x):
    return (n := x.shape[0] + 1) * x, n


@programs(one)
def conditional_expression(x):
    return x * 2 if x.dim() == 2 else x * 3


@programs(one, ops=["add"])
def starred_expressions(x):
    a = [1, 2]
    return [*a, x + 1, *(3, 4)], {**{"k": 1}, "l": a}, (*a, *a)


@programs(lambda: given(t(3), scale=2.0), changes={"scale": lambda: given(t(3), scale=3.0)})
def keyword_argument(x, *, scale):
    return x * scale


@programs(one)
def unpacking_assignment(x):
    (a, b), *rest = (x + 1, x + 2), 3, 4
    return a * b, rest


@programs(one)
def multiple_targets(x):
    a = b = x + 1
    b = b * 2
    return a, b


@programs(one)
def swap(x):
    a, b = x + 1, x - 1
    a, b = b, a
    return a, b


@programs(one)
def delete_a_local(x):
    y = x + 1
    z = y * 2
    del y
    return z


@programs(one, raises=UnboundLocalError)
def unbound_local(x):
    if x.dim() == 2:
        del x
    return x


@programs(one, raises=NameError)
def unknown_global(x):
    return x + no_such_name  # noqa: F821


@programs(one, dead=True)
def unused_result(x):
    x.cos()
    return x.sin()


@programs(one)
def returns_its_argument(x):
    return x


@programs(two)
def returns_arguments_again(x, y):
    return y, x, y, (x, [y])


@programs(one)
def returns_nothing(x):
    x.add_(1)


@programs(one)
def the_same_result_twice(x):
    y = x + 1
    return y, y, [y]


@programs(one)
def equal_results_are_different_objects(x):
    return x + 1, x + 1


@programs(lambda: (t(3), 10**30, -(2**70)))
def big_integers(x, a, b):
    return x + 1, a * b, a % 97, b >> 60


@programs(lambda: (t(3), float("nan"), float("inf"), -0.0))
def special_floats(x, n, i, z):
    return x * z, n, i, z, n == n, i > 0


@programs(one)
def integer_methods(x):
    return x + (5).bit_length(), (0.5).as_integer_ratio(), int("12"), float("1.5"), bool(3)


@programs(one)
def builtin_functions(x):
    return x * max(1, 5, 3), min([4, 2]), sum([1, 2, 3]), abs(-4), round(2.567, 1), pow(2, 5, 7)


@programs(one)
def sum_of_tensors(x):
    return sum([x, x + 1, x + 2]), sum((x,), x)


@programs(one)
def assertions(x):
    assert x.shape == (3, 4), "wrong shape"
    return x + 1


@programs(one, raises=AssertionError)
def failing_assertion(x):
    assert x.dim() == 7, f"wanted 7, got {x.dim()}"
    return x + 1


@programs(lambda: (t(3), [1, 2, 3]))
def membership(x, items):
    return x + 1, 2 in items, 9 not in items, "a" in "cat"


@programs(lambda: (t(3), b"ab", bytearray(b"cd")))
def byte_strings(x, a, b):
    return x + a[0], a + bytes(b), b[1:], a.hex()


@programs(one)
def docstring_and_annotations(x):
    """A program with annotated locals."""
    y: torch.Tensor = x + 1
    z: "int" = 3
    return y * z


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)
