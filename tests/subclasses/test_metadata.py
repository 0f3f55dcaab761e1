"""What a wrapper is besides its parts: compared as deep as it goes, without the program's `==`."""

import threading
from typing import Any

import pytest
import torch

import stator
from tests.subclasses.classes import Config, Offset, two
from tests.subclasses.compared import Counted, compared


class Equal:
    """Objects that say they are equal to everything."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        raise AssertionError("nobody asks")

    __hash__ = None  # type: ignore[assignment]


class Own(dict[str, int]):
    """Not a plain dict."""


class Near(Offset):
    """Metadata that is near enough will do."""

    @classmethod
    def __metadata_guard__(cls, before: Any, now: Any) -> bool:
        return bool(abs(before[0] - now[0]) < 1)


KINDS = {
    "numbers": lambda value: value,
    "lists": lambda value: [value, (value, "x")],
    "dicts": lambda value: {"a": 1, "b": {"c": value}},
    "objects": lambda value: Config(value, "mode"),
    "objects with their own ==": Equal,
    "dtypes": lambda value: (torch.float16, torch.float32, torch.float64)[value % 3],
}


@pytest.mark.parametrize("kind", KINDS)
def test_kind(kind: str) -> None:
    counted = Counted("aot_eager")
    compiled: Any = stator.compile(lambda a: a * 2, backend=counted)
    found = []
    for value in (1, 2, 2, 1):
        given = Offset(torch.ones(2), KINDS[kind](value))
        assert torch.equal(compiled(given).elem, torch.full((2,), 2.0))
        found.append(len(counted.graphs))
    assert found == [1, 2, 2, 2]


def test_a_class_that_is_not_known_is_not_trusted() -> None:
    compiled: Any = stator.compile(lambda a: a.elem * a.offset["k"], backend="aot_eager")
    for value in (1, 2, 2, 3):
        assert compiled(Offset(torch.ones(1), Own(k=value))).item() == value


def test_changed_in_place() -> None:
    counted = Counted()
    compiled: Any = stator.compile(lambda a: a.elem * a.offset["k"], backend=counted)
    given = Offset(torch.ones(1), {"k": 1})
    assert compiled(given).item() == 1
    given.offset["k"] = 2
    assert compiled(given).item() == 2


def test_a_guard_of_the_class() -> None:
    makers = [lambda v=v: (Near(torch.ones(2), v),) for v in (1.0, 1.5, 3.0, 3.2)]
    counted = Counted()
    compiled: Any = stator.compile(lambda a: a * 2, backend=counted)
    for make in makers:
        compiled(*make())
    assert len(counted.graphs) == 2


def test_threads() -> None:
    compiled: Any = stator.compile(lambda a: (a * 2).sin(), backend="aot_eager")
    found: list[bool] = []

    def work(number: int) -> None:
        expected = (torch.ones(3) * number * 2).sin()
        for _ in range(10):
            made = compiled(Offset(torch.ones(3) * number, float(number)))
            found.append(torch.equal(made.elem, expected) and made.offset == number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 30 and all(found)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_open_sizes(backend: str) -> None:
    def program(a: Any) -> Any:
        return (a * 2).sum(1) * a.shape[0]

    assert compared(program, *[lambda n=n: (two(n, 4),) for n in (3, 5, 7)], backend=backend) == [
        1,
        2,
        2,
    ]
    small: Any = stator.compile(program, backend=backend, dynamic=True)
    for size in (4, 2, 1, 0, 9):
        given = two(size, 4)
        assert torch.equal(small(given).a, program(given).a)
