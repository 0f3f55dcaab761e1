"""What may change between calls of a function that has seen a wrapper."""

from typing import Any

import pytest
import torch
from torch import nn

import stator
from tests.subclasses import classes
from tests.subclasses.classes import (
    Config,
    Counting,
    Logging,
    Offset,
    Scaled,
    Switched,
    Tagged,
    aten,
)
from tests.subclasses.compared import Counted, compared, same


def made(offset: float = 2.0, label: str = "x", shape: Any = (3, 4), dtype: Any = None) -> Any:
    return lambda: (Offset(torch.randn(*shape, dtype=dtype), offset, label),)


def added(a: Any) -> Any:
    return a + 1 + a.offset


CHANGES = {
    "nothing": (made(), [1, 1, 1]),
    "a number of the metadata": (made(3.0), [1, 2, 2]),
    "a string of the metadata": (made(label="y"), [1, 2, 2]),
    "the dtype": (made(dtype=torch.float64), [1, 2, 2]),
    "the number of dimensions": (made(shape=(2, 3, 4)), [1, 2, 2]),
    "the class": (lambda: (Tagged(torch.randn(3, 4), 2.0),), [1, 2, 2]),
}


@pytest.mark.parametrize("name", CHANGES)
def test_change(name: str) -> None:
    other, graphs = CHANGES[name]
    assert compared(added, made(), other, made(), backend="aot_eager") == graphs


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sizes_are_left_open(backend: str) -> None:
    sizes = [made(shape=(n, 4)) for n in (3, 5, 7, 8)]
    assert compared(added, *sizes, backend=backend) == [1, 2, 2, 2]


def test_plain_or_not() -> None:
    assert compared(lambda a: a * 2, made(), lambda: (torch.randn(3),)) == [1, 2]


def test_a_global_that_the_class_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    def between(number: int) -> None:
        monkeypatch.setattr(classes, "SWITCH", number % 2 == 0)

    make = lambda: (Switched(torch.randn(3), 1.0),)  # noqa: E731
    found = compared(lambda a: a * 2, make, make, make, backend="aot_eager", between=between)
    assert found == [1, 2, 2]


def test_another_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    before = Offset.__dict__["__torch_dispatch__"]

    def dispatch(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = before.__func__(cls, func, types, args, kwargs)
        return made + 0.5 if func is aten.mul.Tensor else made

    def between(number: int) -> None:
        if number:
            monkeypatch.setattr(Offset, "__torch_dispatch__", classmethod(dispatch))

    assert compared(lambda a: a * 2, made(), made(), backend="aot_eager", between=between)[0] == 1


def test_another_entry_in_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    def doubled(func: Any, args: Any, kwargs: Any) -> Any:
        given, other = args
        return Scaled(given.data_, given.scale * other * 2, given.config, given.dtype)

    def between(number: int) -> None:
        if number:
            monkeypatch.setitem(classes.HANDLED, aten.mul.Tensor, doubled)

    make = lambda: (Scaled.from_float(torch.randn(3, 4)),)  # noqa: E731
    found = compared(lambda a: a * 2, make, make, backend="aot_eager", between=between)
    assert found == [1, 2]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(Offset(torch.randn(4, 4), 1.0))
        given = Scaled.from_float(torch.randn(3, 4))
        self.quantized = nn.Parameter(given, requires_grad=False)

    def forward(self, x: Any) -> Any:
        return (x + self.weight).elem + 0, nn.functional.linear(x, self.quantized)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_parameters_change(backend: str) -> None:
    model, counted, x = Model(), Counted(backend), torch.randn(4, 4)
    compiled = stator.compile(model, backend=counted)

    def graphs() -> int:
        same(model(x), compiled(x))
        return len(counted.graphs)

    weight: Any = model.weight
    quantized: Any = model.quantized
    assert [graphs() for _ in range(4)] == [1] * 4
    weight.offset = 3.0
    assert graphs() == 2
    weight.offset = 1.0
    assert graphs() == 2
    with torch.no_grad():
        weight.elem.mul_(2)
    weight.elem.data = torch.randn(4, 4)
    assert graphs() == 2
    quantized.scale = quantized.scale * 2
    quantized.data_ = quantized.data_.clone()
    quantized.config = Config(1, "int8")
    assert graphs() == 2
    quantized.config.group = 7
    assert graphs() == 3
    model.weight = nn.Parameter(Offset(torch.randn(4, 4), 1.0))
    assert graphs() == 3


def shared(a: Any, b: Any) -> Any:
    a.mul_(2)
    return b + 1


def test_memory_that_is_shared() -> None:
    def apart() -> Any:
        return Offset(torch.ones(3), 1.0), torch.ones(3)

    def part_and_whole() -> Any:
        part = torch.ones(3)
        return Offset(part, 1.0), part

    def two_of_one() -> Any:
        part = torch.ones(3)
        return Offset(part, 1.0), Offset(part, 1.0)

    def part_first() -> Any:
        return part_and_whole()[::-1]

    compared(shared, apart, part_and_whole, two_of_one, part_first, apart, backend="aot_eager")
    compared(shared, two_of_one, apart, backend="aot_eager")
    compared(lambda a, b: (b.mul_(2), a + 1)[1], part_first, apart, backend="aot_eager")


@pytest.mark.parametrize("cls", [Logging, Counting])
def test_what_the_class_changes_is_changed_as_in_eager(cls: Any) -> None:
    def told() -> Any:
        found = len(classes.CALLED), Counting.calls
        classes.CALLED.clear()
        Counting.calls = 0
        return found

    def program(a: Any) -> Any:
        return (a * 2).sin() + a

    compiled: Any = stator.compile(program, backend="eager")
    given = cls(torch.randn(3), 1.0)
    told()
    for _ in range(3):
        compiled(given)
    of_compiled = told()
    for _ in range(3):
        program(given)
    assert of_compiled == told() != (0, 0)
