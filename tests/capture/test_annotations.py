# mypy: ignore-errors
"""Annotations of functions, classes and modules; since 3.14 they are made when they are needed."""

import dataclasses
import functools
import sys
import typing

import pytest
import torch

import stator
from stator.capture import capture

from .harness import Program, Programs, check, t

programs = Programs()
DEFERRED = sys.version_info >= (3, 14)
deferred = pytest.mark.skipif(not DEFERRED, reason="annotations are made at once before 3.14")


class Box:
    def __init__(self, value):
        self.value = value


BOX = Box(3)
annotated_here: BOX = 1


class Annotated:
    first: BOX
    second: int


def annotated(first: BOX, second: int = 0) -> float: ...


def fresh():
    """The world as it was; nobody has asked for the annotations yet."""
    global annotated, Annotated, BOX
    BOX = Box(3)

    class Annotated:
        first: BOX
        second: int

    def annotated(first: BOX, second: int = 0) -> float: ...


def put_back():
    """The world as it was; somebody has asked."""
    BOX.value = 3
    for holder, more in (Annotated, {}), (annotated, {"return": float}):
        holder.__annotations__.clear()
        holder.__annotations__.update({"first": BOX, "second": int}, **more)


def seen():
    return Annotated.__annotations__


def one():
    return (t(3),)


def other_value():
    BOX.value = 5
    return one()


def other_of_class():
    Annotated.__annotations__["first"] = Box(7)
    return one()


def other_of_function():
    annotated.__annotations__["first"] = Box(8)
    return one()


def more_of_module():
    sys.modules[__name__].__annotations__["one_more"] = int
    return one()


OF_CLASS = {"value": other_value, "annotation": other_of_class}
OF_FUNCTION = {"value": other_value, "annotation": other_of_function}


def of_a_class(x):
    return x * Annotated.__annotations__["first"].value


def of_a_function(x):
    return x * annotated.__annotations__["first"].value


for fn, changes in (of_a_class, OF_CLASS), (of_a_function, OF_FUNCTION):
    claims = {"ops": ["mul"], "changes": changes}
    programs.add(fn.__name__, fn, one, reset=put_back, world=seen, **claims)
    programs.add(f"{fn.__name__}_first", fn, one, reset=fresh, hits=False, **claims)


@programs(
    one,
    ops=["mul"],
    reset=lambda: sys.modules[__name__].__annotations__.pop("one_more", None),
    changes={"one": more_of_module},
)
def of_a_module(x):
    return x * len(sys.modules[__name__].__annotations__)


@programs(one, ops=["mul"], reset=put_back, world=seen)
def written(x):
    Annotated.__annotations__["third"] = 4
    annotated.__annotations__.pop("first")
    return x * len(Annotated.__annotations__)


@programs(one, ops=["add"], reset=put_back, world=seen)
def the_same_each_time(x):
    return (
        x + 1,
        Annotated.__annotations__ is Annotated.__annotations__,
        annotated.__annotations__ is annotated.__annotations__,
    )


@programs(one, ops=["add"])
def of_new_ones(x):
    def made(first: int, second: "str" = "") -> float: ...

    @dataclasses.dataclass
    class Made:
        first: int = 1
        second: typing.Any = None

    hints = typing.get_type_hints(made)
    return x + Made().first, made.__annotations__, Made.__annotations__, hints, repr(Made(2))


@programs(one, ops=["add"], reset=put_back)
def wrapped(x):
    @functools.wraps(annotated)
    def inside(*args):
        return x + 1

    return inside(), sorted(inside.__annotations__)


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)


def test_a_class_is_not_changed_while_tracing() -> None:
    fresh()

    def changes(x):
        Annotated.__annotations__["third"] = BOX
        return x * Annotated.__annotations__["first"].value

    capture(changes, (torch.ones(2),))
    assert list(Annotated.__annotations__) == ["first", "second"]
    assert Annotated.__annotations__["first"] is BOX


def keeps_a_function(x):
    def kept(first: NotThere, second: x = 0) -> BOX:  # noqa: F821
        return second

    return kept, x + 1


@deferred
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_kept_without_being_asked(backend: str) -> None:
    """A function that is returned makes its annotations later, or fails to."""
    x = torch.ones(2)
    kept, result = stator.compile(keeps_a_function, backend=backend, fullgraph=True)(x)
    assert torch.equal(result, x + 1)
    with pytest.raises(NameError, match="NotThere"):
        _ = kept.__annotations__
    library = __import__("annotationlib")
    found = library.get_annotations(kept, format=library.Format.FORWARDREF)
    assert found["return"] is BOX and found["second"] is x


@deferred
def test_of_compiled_functions() -> None:
    """Neither functions nor modules make them when they are compiled."""

    def forward(first: NotThere):  # noqa: F821
        return first + 1

    class Layer(torch.nn.Module):
        def forward(self, first: NotThere):  # noqa: F821
            return first + 1

    x = torch.ones(2)
    compiled = stator.compile(forward, backend="eager", fullgraph=True)
    assert compiled.__annotate__ is forward.__annotate__
    assert torch.equal(compiled(x), x + 1)
    assert torch.equal(stator.compile(Layer(), backend="eager", fullgraph=True)(x), x + 1)


def refused(x):
    class Odd:
        first: NotThere  # noqa: F821

    try:
        return x, Odd.__annotations__
    except NameError as error:
        return x + 1, str(error)


@deferred
def test_those_that_cannot_be_made() -> None:
    x = torch.ones(2)
    expected = refused(x)
    found = stator.compile(refused, backend="eager", fullgraph=True)(x)
    assert torch.equal(found[0], expected[0]) and found[1:] == expected[1:]
