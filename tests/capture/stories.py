"""Stories: programs that go on behind the compiled call, told twice.

A story gets a function that compiles (or, in eager, does nothing), calls what it made, changes the
world between the calls and behind them, and returns what it has seen. It must have seen the same in
eager: values, text on standard output, exceptions, random numbers.
"""

import contextlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pytest
import torch

import stator

BACKENDS: Final = ("eager", "aot_eager")
Teller: TypeAlias = Callable[[Callable[..., Any]], Any]


@dataclass(frozen=True)
class Story:
    """`backends` without "aot_eager" says that AOTAutograd itself behaves differently there."""

    name: str
    tell: Callable[[Teller], Any]
    backends: Sequence[str]


class Stories(list[Story]):
    """Those of one file: `@stories` adds the function below it."""

    def __call__(self, tell: Callable[[Teller], Any]) -> Callable[[Teller], Any]:
        self.add(tell.__name__, tell)
        return tell

    def eager(self, tell: Callable[[Teller], Any]) -> Callable[[Teller], Any]:
        self.add(tell.__name__, tell, ("eager",))
        return tell

    def add(
        self, name: str, tell: Callable[[Teller], Any], backends: Sequence[str] = BACKENDS
    ) -> None:
        if any(story.name == name for story in self):
            raise ValueError(f"there is a story named {name!r} already")
        self.append(Story(name, tell, backends))

    @property
    def cases(self) -> list[Any]:
        return [
            pytest.param(story, backend, id=f"{story.name}-{backend}")
            for story in self
            for backend in story.backends
        ]


def attempt(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The result, or the type and text of the exception."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error)[:300]


def seen(value: Any) -> Any:
    """What of a value is compared; which `grad_fn` a tensor has is the backend's own affair."""
    if isinstance(value, torch.Tensor):
        values = value.detach().tolist()
        return values, str(value.dtype), value.requires_grad, value.grad_fn is not None
    if isinstance(value, list | tuple):
        return type(value).__name__, [seen(item) for item in value]
    if isinstance(value, dict):
        return {key: seen(item) for key, item in value.items()}
    return value


def told(tell: Callable[[Teller], Any], compiled: Teller) -> str:
    torch.manual_seed(0)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        result = seen(tell(compiled))
    return f"{result!r}\n{output.getvalue()}\n{torch.rand(2).tolist()}"


def check_story(story: Story, backend: str) -> None:
    expected = told(story.tell, lambda function: function)
    found = told(story.tell, lambda function: stator.compile(function, backend=backend))
    assert found == expected
