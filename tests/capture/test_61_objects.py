# mypy: ignore-errors
"""Found by generated programs: abstract classes made in the call, results put into variables."""

import abc

import pytest
import torch

import stator

from .harness import Recording
from .scenarios import plain, x

# ---------------------------------------------------------------- abstract classes of the call


def test_registering_with_a_class_of_the_call() -> None:
    """That a class was none of its subclasses before is no fact about the world."""

    def fn(x):
        class Shape(abc.ABC):
            @abc.abstractmethod
            def area(self): ...

        class Square:
            pass

        before = issubclass(Square, Shape), isinstance(3, Shape)
        Shape.register(Square)
        Shape.register(int)
        return x + 1, before, issubclass(Square, Shape), isinstance(3, Shape), isinstance("", Shape)

    backend = Recording()
    compiled = stator.compile(fn, backend=backend, fullgraph=True)
    for _ in range(2):
        assert plain(compiled(x())) == plain(fn(x()))
    assert backend.graphs == [["add"]]


# ---------------------------------------------------------------- results in variables

COUNT = [0]


@stator.disable
def counted(text=None):
    COUNT[0] += 1
    return COUNT[0] if text is None else f"{text}{COUNT[0]}"


def ints(x):
    first = counted()
    y = x.cos()
    stator.graph_break()
    return y * 2, [first]


def texts(x):
    first = counted("a")
    second = counted("b")
    y = x.cos()
    stator.graph_break()
    return y + 1, f"{first}{second}"


@pytest.mark.parametrize("fn", [ints, texts])
def test_a_result_in_a_variable_is_not_looked_at(fn) -> None:
    """Each call has another one: the part in front of the last break is compiled once."""
    backend = Recording()
    compiled = stator.compile(fn, backend=backend)
    for _ in range(4):
        COUNT[0] += 10
        before = COUNT[0]
        expected = fn(x())
        COUNT[0] = before
        assert plain(compiled(x())) == plain(expected)
    assert backend.graphs.count(["cos"]) == 1


def test_a_variable_that_is_overwritten_by_a_result() -> None:
    log = []

    def items():
        try:
            yield 1
            yield 2
        finally:
            log.append("closed")

    def fn(x):
        held = items()
        next(held)
        held = counted()
        log.append("behind")
        return x + 1

    def unbound(x, early):
        if early:
            found = 1
        else:
            found = counted()
            del found
        y = x + 1
        return y + found

    fn(x())
    expected = list(log)
    log.clear()
    assert torch.equal(stator.compile(fn, backend="eager")(x()), x() + 1)
    assert log == expected == ["closed", "behind"]
    compiled = stator.compile(unbound, backend="eager")
    assert torch.equal(compiled(x(), True), x() + 2)
    for call in (unbound, compiled):
        with pytest.raises(UnboundLocalError, match="found"):
            call(x(), False)
