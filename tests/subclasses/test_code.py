"""What the code of a class reads and changes: guarded, put back, or a reason to break."""

import contextlib
import io
from typing import Any

import pytest
import torch

import stator
from tests.subclasses.classes import Offset
from tests.subclasses.compared import Counted

SEEN: dict[str, int] = {}
TOTAL = 0
FACTOR = [2.0]


class Speaker:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, line: str) -> None:
        self.lines.append(line)


SPEAKER = Speaker()


def remember(func: Any) -> None:
    SEEN[str(func)] = SEEN.get(str(func), 0) + 1


class Printing(Offset):
    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        print(func)
        return super().__torch_dispatch__(func, types, args, kwargs)


class Totalling(Offset):
    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        global TOTAL
        TOTAL += 1
        return super().__torch_dispatch__(func, types, args, kwargs)


class Remembering(Offset):
    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        remember(func)
        return super().__torch_dispatch__(func, types, args, kwargs)


class Speaking(Offset):
    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        SPEAKER.say(str(func))
        return super().__torch_dispatch__(func, types, args, kwargs)


class Multiplying(Offset):
    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = super().__torch_dispatch__(func, types, args, kwargs)
        return made * FACTOR[0] if func is torch.ops.aten.sin.default else made


def closed_over() -> Any:
    counts = [0]

    class Enclosed(Offset):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            counts[0] += 1
            return super().__torch_dispatch__(func, types, args, kwargs)

    return Enclosed, counts


def program(a: Any) -> Any:
    return (a * 2).sin()


def told() -> Any:
    found = TOTAL, dict(SEEN), list(SPEAKER.lines)
    globals()["TOTAL"] = 0
    SEEN.clear()
    SPEAKER.lines.clear()
    return found


@pytest.mark.parametrize("cls", [Printing, Totalling, Remembering, Speaking])
@pytest.mark.filterwarnings("ignore")
def test_as_often_as_in_eager(cls: Any) -> None:
    compiled: Any = stator.compile(program, backend="aot_eager")
    found = []
    for function in (program, compiled):
        given = cls(torch.ones(3), 1.0)
        told()
        with contextlib.redirect_stdout(io.StringIO()) as text:
            for _ in range(3):
                function(given)
        found.append((told(), text.getvalue()))
    assert found[0] == found[1]


@pytest.mark.filterwarnings("ignore")
def test_a_variable_of_an_enclosing_function() -> None:
    cls, counts = closed_over()
    program(cls(torch.ones(3), 1.0))
    in_eager, counts[0] = counts[0], 0
    compiled: Any = stator.compile(program, backend="aot_eager")
    compiled(cls(torch.ones(3), 1.0))
    assert counts[0] == in_eager


def test_an_item_of_a_global_list() -> None:
    counted = Counted("aot_eager")
    compiled: Any = stator.compile(program, backend=counted)
    given = Multiplying(torch.ones(3), 1.0)
    try:
        for factor in (2.0, 3.0, 3.0):
            FACTOR[0] = factor
            assert torch.equal(compiled(given).elem, program(given).elem)
    finally:
        FACTOR[0] = 2.0
    assert len(counted.graphs) == 2


def test_the_reason_says_what_it_is() -> None:
    given = Printing(torch.ones(3), 1.0)
    with contextlib.redirect_stdout(io.StringIO()):
        explained = stator.explain(program)(given)
    assert "calls print" in str(explained)


def made_and_split(x: Any) -> Any:
    made = Offset(x * 2, 3.0)
    stator.graph_break()
    return (made + 1).elem, made.offset


def test_a_tensor_is_made_before_a_split() -> None:
    counted = Counted()
    compiled: Any = stator.compile(made_and_split, backend=counted)
    for _ in range(2):
        found, offset = compiled(torch.ones(3))
        assert torch.equal(found, torch.full((3,), 6.0)) and offset == 3.0
    assert counted.graphs == [["mul", "offset"], ["add", "getattr_1"]]


class Noting(Offset):
    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args[0].label.append(str(func))
        return super().__torch_dispatch__(func, types, args, kwargs)


@pytest.mark.filterwarnings("ignore")
def test_what_a_tensor_refers_to_is_changed_as_often_as_in_eager() -> None:
    compiled: Any = stator.compile(program, backend="aot_eager")
    found = []
    for function in (program, compiled):
        given: Any = Noting(torch.ones(3), 1.0, [])  # type: ignore[no-untyped-call]
        for _ in range(3):
            function(given)
        found.append(given.label)
    assert found[0] == found[1]


def kept_open(x: Any, n: int) -> Any:
    return Offset(x * n, n)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_open_number_does_not_leave_in_a_tensor(backend: str) -> None:
    compiled: Any = stator.compile(kept_open, backend=backend, dynamic=True, fullgraph=True)
    for number in (3, 4, 5):
        assert type(compiled(torch.ones(2), number).offset) is int
