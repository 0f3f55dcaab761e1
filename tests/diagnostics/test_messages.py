"""What a user reads when a program can't be captured."""

import pickle
from typing import Any

import pytest
import torch

import stator
from stator.diagnostics.breaks import Break, CaptureError, Place

WEIGHTS = memoryview(bytes([1, 2]))


def refused(function: Any, *args: Any) -> CaptureError:
    compiled = stator.compile(function, backend="eager", fullgraph=True)
    with pytest.raises(stator.CaptureError) as caught:
        compiled(*args)
    return caught.value


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = WEIGHTS

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weights[0]


def test_the_whole_message() -> None:
    def program(model: Model, x: torch.Tensor) -> Any:
        return model(x + 1)

    error = refused(program, Model(), torch.ones(3))
    lines = str(error).splitlines()
    forward, called = (f.__code__.co_firstlineno + 1 for f in (Model.forward, program))
    name = program.__qualname__
    assert lines[0] == f"{name} can't be captured as one graph: {error.reason}"
    assert lines[1:5] == [
        f"  at {__file__}:{forward} in Model.forward",
        "      return x * self.weights[0]",
        "                 ^^^^^^^^^^^^^^^",
        lines[4],
    ]
    assert lines[4].startswith("  called from torch/nn/modules/module.py:")
    assert lines[5] == f"  called from {__file__}:{called} in {name}"
    assert lines[6] == "  the object is model.weights"
    assert lines[7:] == [f"  fix: {error.hint}", f"  [{error.id}] {error.title}"]
    assert error.id == "SB0017"
    assert error.source == "model.weights"


def test_an_object_made_in_the_call_has_no_source() -> None:
    def program(x: torch.Tensor) -> Any:
        return x, f"{x}".upper()

    error = refused(program, torch.ones(3))
    assert error.id == "SB0016"
    assert error.source == ""
    assert "the object is" not in str(error)


def test_names_in_messages_are_only_texts() -> None:
    """An attribute may have any name: nothing of it is filled in."""

    def program(x: torch.Tensor, name: str) -> Any:
        setattr(WEIGHTS, name, 1)
        return x

    error = refused(program, torch.ones(3), "{}{0}%s")
    what = "an attribute of an object of type memoryview that existed before the call is set"
    assert error.reason == f"{what}: {{}}{{0}}%s"


class Loud:
    """Shows itself, and compares, by user code."""

    def __repr__(self) -> str:
        raise AssertionError("asked for its text")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    __hash__ = object.__hash__


def test_no_code_of_the_program_runs_for_a_message() -> None:
    keys = {Loud(): WEIGHTS}

    def program(x: torch.Tensor, keys: dict[Any, Any]) -> Any:
        for weights in keys.values():
            x = x * weights[0]
        return x

    assert refused(program, torch.ones(3), keys).id in ("SB0017", "SB0020")


def test_a_break_in_a_function_that_c_code_calls() -> None:
    """C code passes the signal on, whatever class it is of, and the first place is the user's."""

    def program(x: torch.Tensor) -> Any:
        def key(n: int) -> Any:
            stator.graph_break("in a key")
            return n

        return x * sorted([3, 1, 2], key=key)[0]

    error = refused(program, torch.ones(3))
    assert error.id == "SB0001"
    assert [place.function.rpartition(".")[2] for place in error.places] == ["program", "key"]


class Swallows:
    """C code asks it for an attribute, and takes any exception for a no."""

    @property
    def name(self) -> str:
        stator.graph_break("in a property")
        raise AttributeError("name")


@pytest.mark.parametrize("ask", [hasattr, lambda obj, name: getattr(obj, name, None)])
def test_a_break_that_is_swallowed_on_its_way(ask: Any) -> None:
    held = Swallows()

    def program(x: torch.Tensor) -> Any:
        try:
            return x * (1 if ask(held, "name") else 2)
        except BaseException:
            return x

    error = refused(program, torch.ones(3))
    assert error.id == "SB0001"
    assert error.places[-1].function == "Swallows.name"


class TestErrors:
    cause = Break("it is so", "do that").about("x.y")
    cause.places = (Place("file.py", 3, "f", (1, 2)),)

    def test_what_a_break_says(self) -> None:
        error = CaptureError.of("f", self.cause)
        assert (error.reason, error.hint, error.source) == ("it is so", "do that", "x.y")
        assert error.places == self.cause.places
        assert error.id == error.title == ""

    def test_errors_travel(self) -> None:
        error = CaptureError.of("f", self.cause)
        copied = pickle.loads(pickle.dumps(error))
        assert type(copied) is CaptureError
        assert str(copied) == str(error)
        assert vars(copied) == vars(error)

    def test_no_source(self) -> None:
        assert Break("it is so").about(None).source == ""
