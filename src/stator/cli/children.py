"""Processes that the program starts: they run on stator as well.

A forked process has inherited everything. A spawned one is a new interpreter, which is sent what
`multiprocessing` calls the preparation data before it imports the program: an object in it is
unpickled there, and sees to it that stator is installed when torch is there, and is to compile
something. What is compiled is told to the process that shows the summary. Loads no torch.
"""

import multiprocessing.spawn
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from stator.cli.processes import listen_in_child
from stator.dropin.arrival import Arrivals
from stator.dropin.first_use import install_at_first_use

_arrivals: Final = Arrivals()


class _Name(str):
    """The name of a process, which brings stator along."""

    def __new__(cls, name: str, options: dict[str, Any], folder: str | None) -> "_Name":
        made = super().__new__(cls, name)
        made.options = options
        made.folder = folder
        return made

    options: dict[str, Any]
    folder: str | None

    def __reduce__(self) -> Any:
        return _arrived, (str(self), self.options, self.folder)


def follow(options: dict[str, Any], folder: str | None = None) -> None:
    """Spawned processes get stator, too, with what was given to `install`.

    `folder` is where they leave what they have to tell, if anyone wants to know.
    """
    spawn: Any = multiprocessing.spawn
    original: Callable[[str], dict[str, Any]] = spawn.get_preparation_data

    def get_preparation_data(name: str) -> dict[str, Any]:
        data = original(name)
        data["name"] = _Name(data["name"], options, folder)
        return data

    spawn.get_preparation_data = get_preparation_data


def _arrived(name: str, options: dict[str, Any], folder: str | None) -> str:
    """Called in the new process; answers with its name."""

    def install(torch: ModuleType) -> None:
        install_at_first_use(torch, options)

    _arrivals.expect("torch", install)
    if folder is not None:
        listen_in_child(folder)
    follow(options, folder)  # for its own children
    return name
