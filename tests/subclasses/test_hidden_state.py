"""State that the code of a class of wrappers sees or changes, and its metadata do not tell of."""

import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import stator
from tests.subclasses.classes import Offset
from tests.subclasses.compared import Counted, compared, same

sin = torch.ops.aten.sin.default
SEEN: list[str] = []
TABLE = {"factor": 2.0}
FACTOR = 2.0
SETTINGS = types.ModuleType("settings_of_a_test")
dispatch = Offset.__torch_dispatch__.__func__  # type: ignore[attr-defined]


class Notes:
    """An object that wrappers share."""

    def __init__(self) -> None:
        self.calls = 0
        self.names: list[str] = []


NOTES = Notes()


def reset() -> None:
    global FACTOR
    FACTOR = 2.0
    TABLE["factor"] = 2.0
    SETTINGS.FACTOR = 2.0  # type: ignore[attr-defined]
    ByName.factor = 2.0
    NOTES.calls = 0
    NOTES.names.clear()
    SEEN.clear()


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    sys.modules[SETTINGS.__name__] = SETTINGS
    stator.reset()
    reset()
    yield
    del sys.modules[SETTINGS.__name__]


class Multiplied(Offset):
    """`sin` is multiplied by a number, which is somewhere else in each class."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = dispatch(cls, func, types, args, kwargs)
        return made * cls.number(args[0]) if func is sin else made


class Importing(Multiplied):
    @classmethod
    def number(cls, given: Any) -> float:
        import settings_of_a_test  # type: ignore[import-not-found]  # noqa: PLC0415

        found: float = settings_of_a_test.FACTOR
        return found


class ImportingFrom(Multiplied):
    @classmethod
    def number(cls, given: Any) -> float:
        from settings_of_a_test import FACTOR  # noqa: PLC0415

        found: float = FACTOR
        return found


class ByName(Multiplied):
    factor = 2.0

    @classmethod
    def number(cls, given: Any) -> float:
        found: float = getattr(cls, "factor")  # noqa: B009
        return found


class Global(Multiplied):
    @classmethod
    def number(cls, given: Any) -> float:
        return FACTOR


class InATable(Multiplied):
    @classmethod
    def number(cls, given: Any) -> float:
        return TABLE["factor"]


class Own(Multiplied):
    """An attribute of the tensor, which an instance may have."""

    factor = 2.0

    @classmethod
    def number(cls, given: Any) -> float:
        found: float = given.factor
        return found


class OwnByName(Multiplied):
    @classmethod
    def number(cls, given: Any) -> float:
        found: float = getattr(given, "factor", 2.0)
        return found


BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager"])


def sine(a: Any) -> Any:
    return a.sin()


def set_factor(value: float) -> None:
    global FACTOR
    FACTOR = TABLE["factor"] = ByName.factor = value
    SETTINGS.FACTOR = value  # type: ignore[attr-defined]


@BACKENDS
@pytest.mark.parametrize("cls", [Importing, ImportingFrom, ByName, Global, InATable])
def test_it_changes_between_calls(cls: Any, backend: str) -> None:
    def make() -> Any:
        return (cls(torch.ones(3), 1.0),)

    found = compared(
        sine,
        *[make] * 3,
        backend=backend,
        between=lambda number: set_factor((3.0, 4.0)[number // 2]),
    )
    assert found == [1, 1, 2]


def set_global(a: Any) -> Any:
    global FACTOR
    b = a.sin()
    FACTOR = 5.0
    return b, a.sin()


def set_item(a: Any) -> Any:
    b = a.sin()
    TABLE["factor"] = 5.0
    return b, a.sin()


def set_in_class(a: Any) -> Any:
    b = a.sin()
    type(a).factor = 5.0
    return b, a.sin()


@BACKENDS
@pytest.mark.parametrize(
    ("program", "cls"), [(set_global, Global), (set_item, InATable), (set_in_class, ByName)]
)
@pytest.mark.filterwarnings("ignore")
def test_it_is_set_in_the_call(program: Any, cls: Any, backend: str) -> None:
    counted = Counted(backend)
    compiled: Any = stator.compile(program, backend=counted)
    for _ in range(2):
        reset()
        expected = program(cls(torch.ones(3), 1.0))
        reset()
        same(expected, compiled(cls(torch.ones(3), 1.0)))
    assert len(counted.graphs) == 1
    assert stator.counters()["graph_breaks"] == 1


@BACKENDS
@pytest.mark.parametrize("cls", [Own, OwnByName])
@pytest.mark.filterwarnings("ignore")
def test_an_attribute_of_some_instances(cls: Any, backend: str) -> None:
    """What a backend compiles makes tensors of the class by their metadata: it would be lost."""

    def maker(value: float | None) -> Callable[[], tuple[Any, ...]]:
        def make() -> tuple[Any, ...]:
            made = cls(torch.ones(3), 1.0)
            if value is not None:
                made.factor = value
            return (made,)

        return make

    assert compared(sine, *map(maker, (None, 5.0, None, 6.0)), backend=backend) == [1, 1, 1, 1]


def in_between(a: Any) -> Any:
    b = a * 2
    b.factor = 9.0
    return b.sin()


@BACKENDS
@pytest.mark.filterwarnings("ignore")
def test_an_attribute_that_is_set_in_the_call(backend: str) -> None:
    def make() -> Any:
        return (OwnByName(torch.ones(3), 1.0),)

    compared(in_between, make, make, backend=backend)


class ToPlain(Offset):
    """It tells what was called, and makes plain tensors."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        SEEN.append(str(func))
        return dispatch(cls, func, types, args, kwargs).elem


class Refusing(Offset):
    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is sin:
            SEEN.append(str(func))
            raise KeyError(func)
        return dispatch(cls, func, types, args, kwargs)


class CountingItself(Offset):
    """Each tensor counts what is done with it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.calls = 0

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args[0].calls += 1
        return dispatch(cls, func, types, args, kwargs)


class Noting(Offset):
    """It is written down in an object that the metadata hold."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        notes: Any = args[0].label
        notes.calls += 1
        notes.names.append(str(func))
        return dispatch(cls, func, types, args, kwargs)


def refused(a: Any) -> Any:
    try:
        return a.sin()
    except KeyError:
        return a * 2


def and_count(a: Any) -> Any:
    return (a * 2).sin(), a.calls


@BACKENDS
@pytest.mark.parametrize(
    ("program", "make"),
    [
        (sine, lambda: ToPlain(torch.ones(3), 1.0)),
        (refused, lambda: Refusing(torch.ones(3), 1.0)),
        (and_count, lambda: CountingItself(torch.ones(3), 1.0)),
        (sine, lambda: Noting(torch.ones(3), 1.0, NOTES)),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_it_is_changed_as_often_as_in_eager(program: Any, make: Any, backend: str) -> None:
    def told() -> Any:
        found = list(SEEN), NOTES.calls, list(NOTES.names)
        reset()
        return found

    compiled: Any = stator.compile(program, backend=backend)
    for _ in range(2):
        given, twin = make(), make()
        expected = program(given), told()
        assert str(expected) == str((compiled(twin), told()))
        assert getattr(given, "calls", 0) == getattr(twin, "calls", 0)


class Listed(Offset):
    """Its metadata are made of a list that it keeps."""

    def __tensor_flatten__(self) -> Any:
        return ["elem"], (self.offset, tuple(self.label))

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return cls(inner["elem"], context[0], list(context[1]))  # type: ignore[arg-type]


def appended(a: Any) -> Any:
    a.label.append(5)
    return a + 1


@BACKENDS
@pytest.mark.filterwarnings("ignore")
def test_metadata_that_the_program_changes(backend: str) -> None:
    def make() -> Any:
        return (Listed(torch.ones(3), 1.0, [1, 2]),)  # type: ignore[arg-type]

    compared(appended, make, make, backend=backend)


class Growing(Offset):
    """Each time it is put together, it is another one."""

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return cls(inner["elem"], context[0] + 1, context[1])


@BACKENDS
@pytest.mark.filterwarnings("ignore")
def test_a_class_that_does_not_put_together_what_it_was(backend: str) -> None:
    make = lambda: (Growing(torch.ones(3), 1.0),)  # noqa: E731
    assert compared(lambda a: a + 1, make, make, backend=backend) == [0, 0]


def part_of_what_is_made(x: Any) -> Any:
    return Offset(x * 2, 2.0).elem + 1


@BACKENDS
@pytest.mark.filterwarnings("ignore")
def test_the_gradient_of_a_part(backend: str) -> None:
    """The wrapper is made between two graphs; the gradient goes by its part, not by itself."""
    make = lambda: (torch.randn(3, requires_grad=True),)  # noqa: E731
    compared(part_of_what_is_made, make, make, backend=backend)
