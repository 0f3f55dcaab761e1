"""Scenarios: functions that are given one that compiles, and return what they have seen.

One that compiles nothing is the reference. All that can be told of the results is compared, and the
state of torch afterwards.
"""

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from .describe import describe
from .surroundings import surroundings

Compile: TypeAlias = Callable[[Any], Any]
Scenario: TypeAlias = Callable[[Compile], object]


def seen(function: Scenario, compiling: Compile) -> list[str]:
    """What a scenario returns and leaves behind; a grad_fn counts, its name does not."""
    torch.manual_seed(1)
    lines = describe(function(compiling)) + surroundings()
    return [re.sub(r"grad_fn=(?!None)\S+", "grad_fn", line) for line in lines]


def seen_of_values(function: Scenario, compiling: Compile) -> list[str]:
    """The same, without what AOTAutograd writes on its results (which of their sizes are open)."""
    lines = seen(function, compiling)
    lines = [line for line in lines if "_dynamo_" not in line and "member '" not in line]
    return [re.sub(r" #\d+$", "", line) for line in lines]


def attempt(function: Any, *args: Any) -> Any:
    """What a call returns, or what it raises."""
    try:
        return function(*args)
    except Exception as error:
        return type(error), str(error)
