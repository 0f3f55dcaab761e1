# mypy: ignore-errors
"""Branches and loops over what is known while tracing, match, with."""

import contextlib

import pytest
import torch

from .harness import Program, Programs, check, t

programs = Programs()


def one():
    return (t(3, 4),)


@programs(
    lambda: (t(3), True),
    ops=["add"],
    changes={"branch": lambda: (t(3), False), "truth": lambda: (t(3), [])},
    keeps={"branch": lambda: (t(3), True)},
)
def branch_on_argument(x, flag):
    if flag:
        return x + 1
    return x - 1


@programs(lambda: (t(3), 1), changes={"mode": lambda: (t(3), 2), "default": lambda: (t(3), 9)})
def elif_chain(x, mode):
    if mode == 1:
        y = x.sin()
    elif mode == 2:
        y = x.cos()
    else:
        y = x
    return y + 1


@programs(one, changes={"shape": lambda: (t(5, 4),), "rank": lambda: (t(4),)})
def branch_on_shape(x):
    if x.dim() == 1:
        return x + 1
    if x.shape[0] > 4:
        return x * 2
    return x.sum(0)


@programs(one, changes={"dtype": lambda: (t(3, 4, dtype=torch.int64),)})
def branch_on_dtype(x):
    return x.sqrt() if x.is_floating_point() else x + 1


@programs(lambda: (t(3, grad=True),), changes={"grad": lambda: (t(3),)})
def branch_on_requires_grad(x):
    return x * 2 if x.requires_grad else x * 3


@programs(lambda: (t(3), None), changes={"presence": lambda: (t(3), t(3))})
def branch_on_none(x, mask):
    if mask is not None:
        x = x * mask
    return x + 1


@programs(lambda: (t(3), [t(3)]), changes={"length": lambda: (t(3), [])})
def branch_on_emptiness(x, items):
    if not items:
        return x
    return x + items[0]


@programs(one, ops=["add"] * 4)
def for_range(x):
    for i in range(4):
        x = x + i
    return x


@programs(lambda: (t(3), 3), changes={"count": lambda: (t(3), 5), "nothing": lambda: (t(3), 0)})
def for_range_of_argument(x, n):
    for i in range(n):
        x = x * 2 + i
    return x


@programs(one)
def for_with_break_and_else(x):
    for i in range(10):
        if i == 3:
            break
        x = x + i
    else:
        x = x * 100
    return x, i


@programs(one)
def for_else_without_break(x):
    for i in range(3):
        if i == 5:
            break
        x = x + i
    else:
        x = x * 100
    return x


@programs(one)
def for_with_continue(x):
    for i in range(6):
        if i % 2:
            continue
        x = x + i
    return x


@programs(one)
def nested_loops(x):
    total = x * 0
    for i in range(2):
        for j in range(3):
            if j > i:
                break
            total = total + x * (i * 10 + j)
    return total


@programs(one)
def while_loop(x):
    n = 0
    while n < 4:
        x = x.relu() + n
        n += 1
    return x, n


@programs(one)
def while_true_with_break(x):
    n = 1
    while True:
        x = x * n
        n *= 2
        if n > 10:
            break
    else:
        x = None
    return x


@programs(lambda: (t(2, 3, 4),))
def loop_over_shape(x):
    for size in x.shape:
        x = x + size
    return x


@programs(lambda: (t(3, 4),))
def loop_over_tensor_rows(x):
    total = 0
    for row in x:
        total = total + row
    return total


@programs(lambda: ([t(3), t(3), t(3)],), changes={"length": lambda: ([t(3)] * 2,)})
def loop_over_list(items):
    total = items[0]
    for item in items[1:]:
        total = total + item
    return total


@programs(lambda: ({"a": t(3), "b": t(3)},), changes={"keys": lambda: ({"a": t(3), "c": t(3)},)})
def loop_over_dict_items(items):
    return {key + "_": value * 2 for key, value in items.items()}


@programs(one)
def loop_with_enumerate_and_zip(x):
    out = []
    for i, (a, b) in enumerate(zip([1, 2, 3], (4, 5, 6)), start=1):
        out.append(x * a + b - i)
    return out


@programs(one)
def loop_over_reversed(x):
    for i in reversed(range(3)):
        x = x * 2 + i
    return x


@programs(one, changes={"rank": lambda: (t(4),), "other": lambda: (t(2, 2, 2),)})
def match_on_shape(x):
    match tuple(x.shape):
        case (n,):
            return x + n
        case (n, m) if n < m:
            return x * m
        case [*sizes]:
            return x - len(sizes)


@programs(
    lambda: (t(3), {"op": "add", "by": 2}),
    changes={
        "op": lambda: (t(3), {"op": "scale", "by": 3}),
        "form": lambda: (t(3), [1, 2]),
        "nothing": lambda: (t(3), None),
    },
)
def match_on_structure(x, command):
    match command:
        case {"op": "add", "by": n}:
            return x + n
        case {"op": str(op), **rest}:
            return x * len(op), rest
        case [a, b] | (a, b, _):
            return x * a + b
        case None | False:
            return x


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


@programs(lambda: (t(3), Point(1, 2)), changes={"value": lambda: (t(3), Point(0, 5))})
def match_on_class(x, point):
    match point:
        case Point(0, y):
            return x - y
        case Point(x=a, y=b) if a < b:
            return x * a + b
    return None


@programs(one)
def nested_conditions(x):
    if x.dim() == 2:
        if x.shape[1] == 4:
            if x.dtype is torch.float32:
                return x + 1
            return x + 2
        return x + 3
    return x + 4


@programs(one)
def early_return_in_loop(x):
    for i in range(5):
        x = x + 1
        if i == 2:
            return x, i
    return x


@contextlib.contextmanager
def scaled(log, by):
    log.append("enter")
    try:
        yield by
    finally:
        log.append("exit")


@programs(lambda: (t(3), []))
def with_statement(x, log):
    with scaled(log, 3) as by:
        log.append("body")
        y = x * by
    return y + len(log)


@programs(lambda: (t(3), []))
def return_inside_with(x, log):
    for i in range(3):
        with scaled(log, i) as by, scaled(log, 2) as again:
            if i == 1:
                return x * by + again
    return None


@programs(one)
def loop_variable_survives(x):
    for n in (1, 2, 3):
        pass
    return x * n


@programs(lambda: (t(3), 4), changes={"count": lambda: (t(3), 6)})
def collatz(x, n):
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        x = x + n
    return x


@programs(one, dead=True)
def try_finally_without_error(x):
    try:
        y = x + 1
    finally:
        y = x + 2
    return y


@programs(one)
def short_circuit_skips_work(x):
    calls = []
    result = (False and calls.append(1)) or (True or calls.append(2))
    return x + len(calls), result


@programs(one)
def any_and_all(x):
    return x + any(n > 2 for n in (1, 2, 3)), all([]), any([])


@programs(one, ops=["relu"] * 40)
def long_loop(x):
    for _ in range(40):
        x = torch.relu(x)
    return x


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)
