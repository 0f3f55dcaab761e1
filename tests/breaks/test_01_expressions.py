# mypy: ignore-errors
"""Breaks in the middle of expressions and straight lines: what is on the stack is kept."""

import pytest
import torch

from . import kinds  # noqa: F401 - the breaks that are put in refer to it
from .harness import Constructs, check, t
from .kinds import BREAK

constructs = Constructs()


def two():
    return t(3), t(3)


@constructs(graphs=2)
def straight(x):
    y = x * 2
    z = BREAK(y)
    return z + y


@constructs(graphs=2)
def returned_at_once(x):
    return BREAK(x.sin()) + 1


@constructs()
def tail_position(x):
    y = x.sin()
    return BREAK(y)


@constructs(graphs=3)
def twice(x):
    y = BREAK(x * 2)
    y = BREAK(y * 3)
    return y + x


@constructs(two)
def operands_on_the_stack(x, y):
    return x + BREAK(y) * BREAK(x * 2) - y


def f(a, b, k):
    return a * 2 + b * 3 + k


def g(x):
    return x.sin()


@constructs(two)
def pending_arguments(x, y):
    return f(g(x), BREAK(g(y)), k=BREAK(x))


@constructs(two)
def pending_keywords(x, y):
    return f(b=x * 2, k=BREAK(y), a=BREAK(x + 1))


@constructs(two)
def star_arguments(x, y):
    args = (x, BREAK(y))
    return f(*args, **{"k": BREAK(x)})


@constructs(two)
def star_arguments_mixed(x, y):
    rest = [BREAK(y)]
    return f(x.cos(), *rest, **dict(k=BREAK(x)))


@constructs(two)
def method_with_pending_arguments(x, y):
    return x.mul(2).add(BREAK(y), alpha=2).clamp(min=0)


@constructs(lambda: (t(3), 2, 5))
def chained_comparison(x, a, b):
    y = x + 1
    if 0 < a < len(BREAK(y)) < b:
        return y * 2
    return y * 3


@constructs(lambda: (t(3), True))
def conditional_expression(x, flag):
    y = BREAK(x) if flag else x * 2
    return y - (x if not flag else BREAK(y))


@constructs(lambda: (t(3), 0))
def and_or(x, flag):
    y = flag or BREAK(x)
    return (y * 2, flag and BREAK(x), not flag and BREAK(y))


@constructs()
def walrus(x):
    if (y := BREAK(x * 2)) is not None:
        return y + (z := BREAK(y)) + z
    return x


@constructs()
def f_string(x):
    y = x.sin()
    return f"{y.shape!r:>20}{len(BREAK(y))}{x.dtype}", y + 1


@constructs(two)
def unpacking(x, y):
    a, (b, c) = x * 2, (BREAK(y), x)
    return c, b, a + 1


@constructs(two)
def star_unpacking(x, y):
    first, *rest = [x, BREAK(y), *(x + 1, BREAK(x)), 3]
    *start, last = rest
    return first, rest, start, last


@constructs(two)
def displays(x, y):
    return [x * 2, BREAK(y)], (BREAK(x), y), {"a": x + 1, "b": BREAK(y)}, {1, len(BREAK(x))}


@constructs(two)
def merged_displays(x, y):
    return {**{"a": x}, **{"b": BREAK(y)}}, [*[x], *[BREAK(y)]], {*(1, 2), *range(len(BREAK(x)))}


@constructs()
def slices(x):
    items = [1, 2, 3, 4]
    return x[len(BREAK(x)) - 2 :], items[1 : len(BREAK(x))], x[None, : len(BREAK(x))]


@constructs(lambda: (t(3), t(3, 3)))
def operators(x, m):
    return -BREAK(x), BREAK(x) @ m, x // BREAK(x), x**2 - BREAK(x), ~(BREAK(x) > 0)


@constructs(two)
def same_object_twice(x, y):
    pair = [x * 2]
    both = [pair, pair, x]
    BREAK(y)
    both.append(pair)
    return both, pair


@constructs(two, whole=True)
def views_across(x, y):
    v = x[1:]
    w = x.view(3, 1)
    BREAK(y)
    v += 1
    w.mul_(2)
    return v, w, x


@constructs(lambda: (t(3, grad=True), t(3)), backward=True)
def gradients_across(x, y):
    z = (x * y).sin()
    z = BREAK(z) * x
    return z.sum()


@constructs(two)
def empty_around(x, y):
    BREAK(x)
    return y


@constructs(two)
def constants_only(x, y):
    a = 3
    b = (a, "text", None)
    BREAK(x)
    return a + len(b), b


@constructs()
def printed(x):
    print("before", x.shape)
    y = BREAK(x)
    print("after", len(y))
    return y + 1


@constructs(two)
def asserts(x, y):
    assert len(BREAK(x)) == 3, "three"
    z = x + y
    assert z is not None
    return z * 2


@constructs(two)
def failing_assert(x, y):
    z = BREAK(x)
    assert len(z) == 2, f"two, not {len(BREAK(y))}"
    return z


@constructs(lambda: ({"kind": "pair", "items": [1, t(3)]}, t(3)))
def match_statement(value, x):
    y = x * 2
    match value:
        case {"kind": "single"}:
            return BREAK(x)
        case {"kind": "pair", "items": [int(n), second]} if len(BREAK(y)) == 3:
            return BREAK(second) * n
        case _:
            return x


@constructs(two)
def deleted_variables(x, y):
    z = x * 2
    del x
    w = BREAK(z)
    del z
    try:
        return x  # noqa: F821
    except UnboundLocalError as error:
        return str(error), w + y


@constructs(two)
def deleted_before_and_used(x, y):
    del y
    z = BREAK(x)
    return z + y  # noqa: F821


@constructs(two)
def shadowed_variables(x, y):
    x = y * 2
    y = BREAK(x)
    x, y = y, x
    return x - y * 2


@constructs(lambda: (torch.zeros(()), t(3)))
def zero_dimensional(s, x):
    y = s + 1
    BREAK(x)
    return y, s, x + y


@pytest.mark.parametrize(("construct", "kind", "depth"), constructs.cases())
def test_expressions(construct, kind, depth):
    check(construct, kind, depth)
