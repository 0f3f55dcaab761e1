"""Processes that the program starts: they run on stator as well.

A forked process has inherited everything. A spawned one is a new interpreter, which is sent what
`multiprocessing` calls the preparation data before it imports the program: an object in it is
unpickled there, and installs stator when torch is imported. Loads no torch.
"""

import multiprocessing.spawn
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from stator.dropin.arrival import Arrivals

_arrivals: Final = Arrivals()


class _Name(str):
    """The name of a process, which brings stator along."""

    def __new__(cls, name: str, options: dict[str, Any]) -> "_Name":
        made = super().__new__(cls, name)
        made.options = options
        return made

    options: dict[str, Any]

    def __reduce__(self) -> Any:
        return _arrived, (str(self), self.options)


def follow(options: dict[str, Any]) -> None:
    """Spawned processes get stator, too, with what was given to `install`."""
    spawn: Any = multiprocessing.spawn
    original: Callable[[str], dict[str, Any]] = spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        data = original(name)
        data["name"] = _Name(data["name"], options)
        return data

    spawn.get_preparation_data = get_preparation_data


def _arrived(name: str, options: dict[str, Any]) -> str:
    """Called in the new process; answers with its name."""

    def install(torch: ModuleType) -> None:
        import_module("stator.dropin.switch").install(**options)

    _arrivals.expect("torch", install)
    follow(options)  # for its own children
    return name
