# mypy: ignore-errors
"""What later Pythons have: syntax as text, since this one may not know it, and functions."""

import functools
import linecache
import operator
import pathlib
import re
import sys
import textwrap
import threading

import pytest
import torch

import stator

from .harness import Program, Programs, check, t

programs = Programs()
LOCK, AGAIN = threading.Lock(), threading.RLock()


def one():
    return (t(3),)


def written(since, name, text, make=one, **claims):
    """A program in the syntax of a version, where this Python has it."""
    if sys.version_info < since:
        return
    file = f"<{name}>"
    source = textwrap.dedent(text)
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    namespace = {"torch": torch, "functools": functools, "operator": operator}
    namespace["__name__"] = __name__
    exec(compile(source, file, "exec"), namespace)
    programs.add(name, namespace[name], make, **claims)


written(
    (3, 14),
    "templates",
    """
    def templates(x, number=3):
        made = t"a{number}b{number!r:>4}{x}"
        first, second, third = made.interpolations
        shown = made.strings, first.value, second.conversion, second.format_spec, first.expression
        return third.value + first.value, shown, [type(each).__name__ for each in made]
    """,
    changes={"number": lambda: (t(3), 4)},
)
written(
    (3, 14),
    "kept_templates",
    """
    def kept_templates(x):
        inner = t"{x + 1!s}"
        return inner.values, (t"{inner}and" + t"{[x]}").values, inner.interpolations[0].value
    """,
)
written(
    (3, 14),
    "except_without_parentheses",
    """
    def except_without_parentheses(x):
        try:
            {}["a"]
        except KeyError, ValueError:
            return x + 1
    """,
)
written(
    (3, 14),
    "placeholders",
    """
    def placeholders(x, more=1):
        less = functools.partial(operator.sub, functools.Placeholder, 2)
        gap = functools.Placeholder
        two = functools.partial(torch.lerp, gap, gap, 0.5 * more)
        nested = functools.partial(functools.partial(torch.addcmul, gap, gap, x), x)
        try:
            two(x)
        except TypeError as error:
            return less(x), less(5), two(x, x), nested(x), less.args[1], str(error)
    """,
    changes={"more": lambda: (t(3), 2)},
)
written(
    (3, 14),
    "placeholders_from_before_the_call",
    """
    gap = functools.Placeholder
    ADDED = functools.partial(torch.add, gap, 2)
    CHOSEN = functools.partial(torch.where, gap, gap, 0.0)

    def placeholders_from_before_the_call(x):
        added, chosen = functools.partial(ADDED, x), functools.partial(CHOSEN, x > 0)
        whole = functools.partial(chosen, x, out=None)
        told = added.func is torch.add, len(added.args), chosen.args[1] is gap, whole.keywords
        try:
            functools.partial(ADDED, gap)
        except TypeError as error:
            return added(), chosen(x * 2), functools.partial(ADDED).args[1], told, str(error)
    """,
)
written(
    (3, 14),
    "maps_of_the_same_length",
    """
    def maps_of_the_same_length(x):
        found = list(map(operator.mul, [x, x], [1, 2], strict=True))
        try:
            list(map(operator.mul, [x, x], [1], strict=True))
        except ValueError as error:
            return found, str(error), float.from_number(3), complex.from_number(2)
    """,
    dead=True,
)
written(
    (3, 12),
    "type_parameters",
    """
    def type_parameters(x):
        type Alias = int | str
        def same[T](value: T) -> T:
            return value
        return same(x) + 1, Alias.__name__, same.__type_params__[0].__name__
    """,
)
written(
    (3, 12),
    "generic_classes",
    """
    def generic_classes(x, kind=int):
        class Box[T: kind, *Ts, **P]:
            def __init__(self, value: T):
                self.value = value
            def get(self) -> T:
                return self.value
        class Named[T](Box[T, str, [int]]):
            pass
        box = Named[str](x + 1)
        names = [each.__name__ for each in Box.__type_params__]
        bound = Box.__type_params__[0].__bound__
        # (Asked for twice: the second answer is kept from the first.)
        same = bound is Box.__type_params__[0].__bound__ is kind
        return box.get() * 2, names, same, Box[int, str, [int]].__origin__ is Box
    """,
    changes={"the bound": lambda: (t(3), float)},
)
written(
    (3, 12),
    "type_aliases",
    """
    def type_aliases(x, item=int):
        type Pairs[K] = dict[K, item]
        made = Pairs[str]
        return x + 1, made.__origin__ is Pairs, Pairs.__value__.__args__[1] is item, str(Pairs)
    """,
    changes={"the item": lambda: (t(3), str)},
)
written(
    (3, 13),
    "type_parameters_with_defaults",
    """
    def type_parameters_with_defaults(x):
        class Box[T = int]:
            pass
        (T,) = Box.__type_params__
        return x + 1, T.has_default(), T.__default__ is int, repr(T)
    """,
)
written(
    (3, 15),
    "frozen_dicts",
    """
    def frozen_dicts(x, key="a"):
        made = frozendict(a=x, b=2)
        both = made | {"c": key}
        try:
            hash(made | {"c": []})
        except TypeError as error:
            return made["a"] + 1, list(both), both["c"], made.get(key), len(both), str(error)
    """,
    changes={"the key": lambda: (t(3), "b")},
)
written(
    (3, 15),
    "sentinels",
    """
    def sentinels(x):
        NONE = sentinel("NONE")
        return x + 1, repr(NONE), NONE is NONE, NONE == sentinel("NONE"), NONE.__module__
    """,
)


@programs(one)
def patterns(x):
    return x + 1, re.sub(r"\d", "#", "a1b2"), re.subn("b+", "c", "abb"), re.split(",", "a,b")


@programs(one)
def locks(x):
    own = threading.Lock()
    with LOCK, AGAIN, AGAIN, own:
        y = x + 1
    return y, own.locked()


@programs(one)
def devices(x):
    with torch.device("cpu"), torch.no_grad():
        return x + torch.zeros(3)


@programs(one)
def paths(x):
    path = pathlib.PurePosixPath("a/b") / "../c.txt"
    return x + len(path.parts), path.suffix, str(path), path.parent.name, path.with_suffix(".py")


def a_test(x):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


def a_test_of_a_tensor(x):
    y = x * 2
    if (y > 0).all():
        return y + 1
    return y - 1


def a_loop(x):
    y = x * 2
    while y.sum() < 100:
        y = y * 3
    return y - 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [a_test, a_test_of_a_tensor, a_loop])
def test_what_a_jump_depends_on_is_in_the_graph(fn, backend: str) -> None:
    """Also where one instruction compares and asks for the truth, as since 3.13."""
    graphs = []

    def keep(module, inputs):
        graphs.append([n.name for n in module.graph.nodes if n.op.startswith("call")])
        return module

    compiled, kept = stator.compile(fn, backend=backend), stator.compile(fn, backend=keep)
    for x in torch.ones(3), -torch.ones(3), torch.zeros(3) + 50, torch.ones(3):
        if fn is a_loop:
            x = x.abs()
        assert torch.equal(compiled(x), fn(x)) and torch.equal(kept(x), fn(x))
    wanted = {a_test: "gt", a_test_of_a_tensor: "all_1", a_loop: "lt"}[fn]
    assert all(wanted in names for names in graphs if "mul" in names and "sum_1" in names)


class Odd:
    """Whose truth is an error, raised in the middle of a test."""

    def __bool__(self):
        raise ValueError("no truth")

    def __lt__(self, other):
        return self


def asks(x, odd):
    y = x + 1
    if odd < 1:
        return y
    return x


def asks_in_a_list(x, odd):
    y = x + 1
    return [y for each in (1, 2) if odd < each]


@pytest.mark.parametrize("fn", [asks, asks_in_a_list])
def test_where_a_test_fails(fn) -> None:
    """The traceback points at what was tested, with columns."""
    found = []
    for call in fn, stator.compile(fn, backend="eager"):
        with pytest.raises(ValueError, match="no truth") as raised:
            call(torch.ones(2), Odd())
        entries = [each for each in raised.traceback if each.name in (fn.__name__, "__bool__")]
        steps = [each._rawentry for each in entries]
        found.append(
            [
                (step.tb_lineno, list(step.tb_frame.f_code.co_positions())[step.tb_lasti // 2])
                for step in steps
            ]
        )
    assert found[0] == found[1]


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)
