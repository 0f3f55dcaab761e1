"""Strings that are others in each call: those that a program only passes on cost no compile."""

import copy
import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import stator

from .tools import Counting

WORLD = SimpleNamespace()
NOTES: list[Any] = []
TAGS = ["t0", "t1", "t2", "", "t1", "t5", "t6", "t7"]
pytestmark = pytest.mark.usefixtures("no_warnings")


@stator.disable
def note(value: Any) -> None:
    NOTES.append(value)


@dataclasses.dataclass
class Record:
    x: Any
    tag: Any = None


class Name(str):
    """A string with an `__eq__` of its own."""

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


# ---- only passed on


def returned(x: Tensor, t: str) -> Any:
    return x.sin(), t


def in_containers(x: Tensor, t: str) -> Any:
    return x.sin(), [t, {"a": t}, (t,)]


def in_an_attribute(x: Tensor, t: str) -> Any:
    WORLD.tag = t
    return x.sin()


def from_an_attribute(x: Tensor, t: Any) -> Any:
    return WORLD.given.sin(), WORLD.given_tag


def appended(x: Tensor, t: str) -> Any:
    NOTES.append(t)
    return x.sin()


def in_a_new_object(x: Tensor, t: str) -> Any:
    return Record(x.sin(), t)


def in_a_closure(x: Tensor, t: str) -> Any:
    def inner() -> Any:
        return t

    return x.sin(), inner()


def copied(x: Tensor, t: str) -> Any:
    mine = {"t": t, "u": [t]}
    return x.sin(), copy.deepcopy(mine), dict(mine), {**mine, "v": t}


def shown(x: Tensor, t: str) -> Any:
    return x.sin(), f"<{t!r}|{t:>5}>" + t, "-".join(["a", t])


def in_an_exception(x: Tensor, t: str) -> Any:
    try:
        raise ValueError(t)
    except ValueError as error:
        return x.sin(), str(error), error.args


def compared_with_none(x: Tensor, t: Any) -> Any:
    return x.sin() if t is None else x.cos()


def its_type(x: Tensor, t: Any) -> Any:
    return x.sin(), type(t), isinstance(t, str)


def to_a_disabled_function(x: Tensor, t: str) -> Any:
    y = x.sin()
    note(t)
    return y.cos()


# ---- looked at


def equal(x: Tensor, t: str) -> Any:
    return x.sin() if t == "t1" else x.cos()


def true(x: Tensor, t: str) -> Any:
    return (x.sin() if t else x.cos()), t or "nothing"


def a_key(x: Tensor, t: str) -> Any:
    return {t: x.sin()}, {t, "t3"}


def contained(x: Tensor, t: str) -> Any:
    items = [t]
    return (x.sin() if t in ("t1", "t2") else x.cos()), "t1" in items, (t, 1) == ("t1", 1)


def methods(x: Tensor, t: str) -> Any:
    return x.sin(), t.upper(), len(t), t[:1], t * 2, [*t], sorted([t, "t3"])


def an_attribute(x: Tensor, t: str) -> Any:
    return x.sin(), hasattr(WORLD, t), getattr(WORLD, t, 3)


def hashed(x: Tensor, t: str) -> Any:
    return x.sin(), hash((t, 1)) == hash(("t1", 1))


def matched(x: Tensor, t: str) -> Any:
    match t:
        case "t1":
            return x.sin()
        case str():
            return x.cos()


def an_option(x: Tensor, t: str) -> Any:
    return torch.einsum({"t0": "i,i->i", "t1": "i,i->"}.get(t, "i,j->ij"), x, x)


def raises(x: Tensor, t: str) -> Any:
    if t == "t2":
        raise KeyError(t)
    return x.sin()


def same_as_another(x: Tensor, t: str) -> Any:
    return x.sin() if t is WORLD.given_tag else x.cos()


PASSED = [
    returned,
    in_containers,
    in_an_attribute,
    from_an_attribute,
    appended,
    in_a_new_object,
    in_a_closure,
    copied,
    shown,
    in_an_exception,
    compared_with_none,
    its_type,
]
# Not in the arguments, or not in what comes out of the call: left open when they have changed.
OPENED = [from_an_attribute, compared_with_none, its_type]
LOOKED = [
    equal,
    true,
    a_key,
    contained,
    methods,
    an_attribute,
    hashed,
    matched,
    an_option,
    raises,
    same_as_another,
]


def outcome(function: Any, x: Tensor, t: Any) -> Any:
    """What a call returns or raises, and what it leaves behind, as text."""
    WORLD.__dict__.clear()
    WORLD.given, WORLD.given_tag = x, t
    NOTES.clear()
    try:
        result: Any = function(x, t)
    except Exception as error:
        result = type(error), error.args
    return str((result, WORLD.__dict__.get("tag"), NOTES))


def compare(function: Any, backend: Any, calls: Any, **options: Any) -> None:
    stator.reset()
    compiled = stator.compile(function, backend=backend, recompile_limit=64, **options)
    for x, t in calls:
        assert outcome(compiled, x, t) == outcome(function, x, t)


@pytest.mark.parametrize("function", PASSED, ids=lambda f: f.__name__)
def test_passed_on(function: Any) -> None:
    backend = Counting()
    compare(function, backend, [(torch.ones(3), t) for t in TAGS])
    assert backend.graphs == 1 + (function in OPENED)


@pytest.mark.parametrize("function", [*PASSED, *LOOKED], ids=lambda f: f.__name__)
@pytest.mark.parametrize("dynamic", [None, True])
def test_like_eager(function: Any, dynamic: bool | None) -> None:
    """Also with other sizes, and where other things come that are no strings."""
    calls: list[tuple[Tensor, Any]] = [(torch.ones(3 + n), t) for n, t in enumerate(TAGS)]
    calls += [(torch.ones(3), t) for t in ("t0", "t9", None, "t1", 5, Name("t1"), "t2")]
    if function in (shown, methods, a_key, an_attribute):  # they need strings
        calls = [(x, t) for x, t in calls if type(t) is str]
    compare(function, "aot_eager", calls, dynamic=dynamic)


def test_what_is_looked_at_is_compiled_for_each() -> None:
    backend = Counting()
    compare(equal, backend, [(torch.ones(3), t) for t in TAGS])
    assert backend.graphs == len(set(TAGS))


def test_one_is_looked_at_and_the_other_is_not() -> None:
    def both(x: Tensor, mode: str, tag: str) -> Any:
        return (x.sin() if mode == "sin" else x.cos()), tag

    backend = Counting()
    compiled = stator.compile(both, backend=backend)
    for n in range(10):
        x, mode, tag = torch.ones(3), ("sin", "cos")[n % 2], f"tag {n}"
        assert str(compiled(x, mode, tag)) == str(both(x, mode, tag))
    assert backend.graphs <= 4


def test_behind_a_break() -> None:
    backend = Counting()
    compare(to_a_disabled_function, backend, [(torch.ones(3), t) for t in TAGS])
    assert backend.graphs == 2


def test_the_string_of_that_moment() -> None:
    """What was at the source when the call began, though the program puts another there."""

    def swapped(x: Tensor, other: str) -> Any:
        before = WORLD.name
        WORLD.name = other
        return x.sin(), before

    compiled = stator.compile(swapped, backend="eager")
    for n in range(6):
        WORLD.name = f"old {n}"
        assert compiled(torch.ones(2), f"new {n}")[1] == f"old {n}"
        assert WORLD.name == f"new {n}"


def test_the_very_string() -> None:
    compiled = stator.compile(returned, backend="eager")
    for n in range(5):
        tag = "".join(["tag ", str(n)])
        assert compiled(torch.ones(2), tag)[1] is tag


class Flagged:
    flag: Any = None


def set_once(c: Any, x: Tensor) -> Tensor:
    if c.flag is None:
        c.flag = "set"
    return x.sin()


def test_a_flag_and_a_size() -> None:
    """Both change at once: the second compile leaves the size open."""
    backend = Counting()
    compiled = stator.compile(set_once, backend=backend)
    found, expected = Flagged(), Flagged()
    for n in (5, 6, 7, 8):
        assert torch.equal(compiled(found, torch.ones(n)), set_once(expected, torch.ones(n)))
        assert found.flag == expected.flag
    assert backend.graphs == 2
    found.flag = None
    compiled(found, torch.ones(9))
    assert found.flag == "set"
