# mypy: ignore-errors
"""`contextvars`: variables and contexts of the world and of the call."""

import contextlib
import contextvars
import decimal

import pytest
import torch

import stator

from .harness import Change, Programs, check, t
from .test_40_objects import agree

programs = Programs()
WITH_DEFAULT = contextvars.ContextVar("WITH_DEFAULT", default={"size": 7})
LOADED = contextvars.ContextVar("LOADED")
EMPTY = contextvars.ContextVar("EMPTY")


@contextlib.contextmanager
def loaded(value):
    token = LOADED.set(value)
    try:
        yield
    finally:
        LOADED.reset(token)


def one():
    return (t(3),)


def reset():
    WITH_DEFAULT.get().clear()
    WITH_DEFAULT.get()["size"] = 7


CHANGES = {
    "number": Change(one, lambda: loaded(5)),
    "list": Change(one, lambda: loaded([1, 2])),
}


def under():
    return loaded(3)


def captured(fn):
    claims = {"under": under, "changes": CHANGES, "reset": reset, "world": WITH_DEFAULT.get}
    return programs(one, **claims)(fn)


@captured
def reads(x):
    return x + 1, LOADED.get(), LOADED.get(4), EMPTY.get(5), WITH_DEFAULT.get()["size"]


@captured
def changes_what_a_variable_holds(x):
    WITH_DEFAULT.get()["size"] += 1
    return x * WITH_DEFAULT.get()["size"], WITH_DEFAULT.get()


@captured
def sets_and_resets(x):
    first = LOADED.set(10)
    second = LOADED.set(20)
    found = [LOADED.get(), second.old_value, first.var is LOADED, first.old_value]
    LOADED.reset(second)
    found.append(LOADED.get())
    LOADED.reset(first)
    token = EMPTY.set(x)
    missing = token.old_value is contextvars.Token.MISSING
    y = EMPTY.get() + 1
    EMPTY.reset(token)
    return y, found, missing, LOADED.get()


@captured
def runs_in_a_copy(x):
    def inner(number):
        LOADED.set(number)
        return LOADED.get() + WITH_DEFAULT.get()["size"]

    context = contextvars.copy_context()
    found = context.run(inner, number=30)
    kept = context[LOADED], LOADED.get(), LOADED in context, EMPTY in context, context.get(EMPTY, 1)
    return x * found, kept, len(context) >= 1


@captured
def runs_in_a_new_one(x):
    own = contextvars.ContextVar("own", default="nothing")

    def inner():
        found = LOADED.get("none"), own.get()
        own.set(x + 1)
        return found

    context = contextvars.Context()
    found = context.run(inner)
    names = [variable.name for variable in context]
    ((key, value),) = context.items()
    return value, found, names, own.get(), key is own, context == context.copy(), len(context)


@captured
def runs_inside_of_another(x):
    def inner():
        LOADED.set(1)
        other = contextvars.copy_context()
        other.run(LOADED.set, 2)
        return LOADED.get(), other[LOADED]

    return x + 1, contextvars.copy_context().run(inner), LOADED.get()


@captured
def an_exception_leaves_it(x):
    def inner():
        LOADED.set("inner")
        raise ValueError(LOADED.get())

    context = contextvars.copy_context()
    try:
        context.run(inner)
    except ValueError as error:
        return x + 1, str(error), LOADED.get(), context[LOADED]


@captured
def wrong_uses(x):
    found = []
    own = contextvars.ContextVar("own")
    context = contextvars.Context()
    token = LOADED.set(1)
    for use in (
        own.get,
        lambda: context.run(context.run, print),
        lambda: context.copy().run(LOADED.reset, token),
        lambda: own.reset(token),
        lambda: own.reset(3),
        lambda: context[own],
        lambda: context[3],
        contextvars.Token,
        lambda: contextvars.ContextVar(3),
        context.run,
    ):
        try:
            use()
        except (LookupError, RuntimeError, TypeError, ValueError) as error:
            found.append((type(error), str(error).partition("<")[0]))
    LOADED.reset(token)
    return x + len(found), found


@captured
def used_as_keys(x):
    own = contextvars.ContextVar("own")
    table = {LOADED: 1, own: 2}
    return x + table[LOADED], table[own], own == own, own != LOADED, hash(own) == hash(own)


@pytest.mark.parametrize("program", programs, ids=str)
def test_context_variables(program):
    check(program)


def _set_for_good(x):
    LOADED.set(LOADED.get() + 1)
    LOADED.set([LOADED.get(), x])
    return x + LOADED.get()[0], LOADED.get()


def _set_before_it_raises(x):
    EMPTY.set("raised")
    LOADED.set(x * 2)
    raise KeyError(EMPTY.get())


def _set_in_between(x):
    LOADED.set(2)
    y = x * LOADED.get()
    stator.graph_break()
    LOADED.set(LOADED.get() + 1)
    return y + LOADED.get()


def _outcome(function, value):
    """What a call leaves in a context of its own."""

    def within():
        LOADED.set(value)
        try:
            result = function(torch.ones(2))
        except KeyError as error:
            result = repr(error)
        return repr((result, LOADED.get(), EMPTY.get(None)))

    return contextvars.copy_context().run(within)


@pytest.mark.parametrize("fullgraph", [True, False])
@pytest.mark.parametrize("fn", [_set_for_good, _set_before_it_raises, _set_in_between])
def test_set_for_good(fn, fullgraph):
    if fullgraph and fn is _set_in_between:
        pytest.skip("asks for a graph break")
    compiled = stator.compile(fn, backend="eager", fullgraph=fullgraph)
    for value in (3, 3, 8, 3):
        assert _outcome(compiled, value) == _outcome(fn, value)
    assert compiled.statistics()["misses"] == 2
    assert LOADED.get(None) is None


def _own_set_for_good(x):
    own = contextvars.ContextVar("own")
    own.set(x)
    return own.get() + 1


def _another_decimal_context(x):
    def inner():
        decimal.getcontext().prec = 5
        return str(decimal.Decimal(1) / 3)

    return x, contextvars.Context().run(inner), str(decimal.Decimal(1) / 3)


def _a_context_of_the_world(x, context):
    return x + context.run(LOADED.get, 4), context.get(LOADED)


def _kept(x, kept):
    kept.append(contextvars.copy_context())
    return x + 1


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (_own_set_for_good, "set for good"),
        (_another_decimal_context, "of another context"),
    ],
)
def test_what_is_not_captured(fn, reason):
    def within():
        agree(fn, one, reason)

    contextvars.copy_context().run(within)


def test_contexts_of_the_world_are_not_captured():
    agree(_a_context_of_the_world, lambda: (t(3), contextvars.copy_context()), "Context")
    agree(_kept, lambda: (t(3), []), "Context")


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_settings_of_backends_are_not_left_in_the_context(backend):
    def program(x):
        return contextvars.copy_context().run(lambda: x * 2)

    compiled = stator.compile(program, backend=backend)
    for _ in range(2):
        assert compiled(torch.ones(3, requires_grad=True)).tolist() == [2, 2, 2]
    before = list(contextvars.copy_context())
    compiled(torch.ones(4, requires_grad=True))
    assert list(contextvars.copy_context()) == before
    assert compiled.statistics()["misses"] <= 2
