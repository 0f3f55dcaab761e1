"""What a case of the zoo is, and how the tables of ``cases/`` become cases.

In: tables. Out: ``Entry`` objects, whose ``build()`` makes a fresh model and fresh inputs.
Nothing is downloaded: models are tiny and have random weights.
"""

import copy
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

Inputs = Callable[[], dict[str, Any]]
Settings = Mapping[str, Any]
Driver = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]


def call(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The usual driver: one call."""
    return fn(*args, **kwargs)


@dataclass
class Case:
    """Something to compile, and how to run it."""

    target: Any  # an nn.Module or a function
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    driver: Driver = call
    module: nn.Module | None = None  # whose mode and gradients count, if not the target's


@dataclass(frozen=True)
class Entry:
    """One line of the zoo.

    ``tag`` is the cause that a public corpus of graph breaks (torch 2.10 to 2.12) gives for the
    model, "clean" if it has none there, "local…" if the model is not in it.
    """

    name: str
    family: str
    tag: str
    build: Callable[[], Case]
    train: bool = False  # measured in training mode too
    rtol: float = 1e-4
    atol: float = 1e-5


@dataclass(frozen=True)
class Config:
    """A nested configuration object of transformers, as data."""

    name: str
    settings: Settings


def library(module: str, name: str) -> Any:
    """A class of an optional package, imported when a case needs it."""
    return getattr(importlib.import_module(module), name)


def _resolved(settings: Settings) -> dict[str, Any]:
    """A deep copy, because configuration classes change the dicts they get."""
    return {
        key: library("transformers", value.name)(**_resolved(value.settings))
        if isinstance(value, Config)
        else copy.deepcopy(value)
        for key, value in settings.items()
    }


def hf(
    model: str,
    config: str,
    settings: Settings,
    inputs: Inputs,
    tag: str,
    *,
    train: bool = False,
    module: str = "transformers",
) -> Entry:
    """A model of transformers from its configuration; ``inputs`` gives its keyword arguments."""

    def build() -> Case:
        made = library(module, config)(**_resolved(settings))
        return Case(library(module, model)(made), (), inputs())

    return Entry(model, "hf", tag, build, train)


def ids(batch: int = 2, length: int = 16, vocabulary: int = 99) -> Tensor:
    return torch.randint(3, vocabulary, (batch, length))  # 0, 1, 2 are special tokens


def mask(batch: int = 2, length: int = 16) -> Tensor:
    return torch.ones(batch, length, dtype=torch.long)


def image(size: int = 32) -> Tensor:
    return torch.randn(2, 3, size, size)
