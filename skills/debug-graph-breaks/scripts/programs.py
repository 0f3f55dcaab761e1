"""A file with a function to compile and the code that calls it, as an object.

    def step(x): ...              # what is compiled; another name can be given
    def main(step): ...           # makes the inputs, calls step, returns the results
    options = {"dynamic": True}   # optional: options of stator.compile

Instead of `main`, a file may have `arguments()`, which returns the arguments of one call, or a
tuple `example_inputs`.
"""

import importlib.util
import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

_numbers: Final = itertools.count(1)


class ProgramError(Exception):
    """The file is not of the form above; the text says what to change."""


@dataclass(frozen=True)
class Program:
    """A program that was loaded: a fresh copy of its module, with no state from before."""

    step: Callable[..., Any]
    main: Callable[[Callable[..., Any]], Any]
    options: dict[str, Any]


def load(target: str, main: str = "main") -> Program:
    """`file.py::step`; without a name, the function is `step`."""
    file, _, name = target.partition("::")
    names = _module(Path(file))
    step = names.get(name or "step")
    if not callable(step):
        known = ", ".join(each for each, value in names.items() if _is_own(value, names))
        raise ProgramError(f"{file} has no function {name or 'step'}. It has: {known or 'none'}")
    return Program(step, _main(names, main, file), dict(names.get("options", {})))


def _is_own(value: Any, names: dict[str, Any]) -> bool:
    return callable(value) and getattr(value, "__module__", None) == names["__name__"]


def _module(file: Path) -> dict[str, Any]:
    if not file.is_file():
        raise ProgramError(f"there is no file {file}")
    name = f"{file.stem}_{next(_numbers)}"  # never the same module twice
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ProgramError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look there
    folder = str(file.resolve().parent)
    if folder not in sys.path:
        sys.path.append(folder)
    spec.loader.exec_module(module)
    return vars(module)


def _main(names: dict[str, Any], main: str, file: str) -> Callable[..., Any]:
    found: Any = names.get(main)
    if callable(found):
        return found  # type: ignore[no-any-return]
    arguments = names.get("arguments", names.get("example_inputs"))
    if arguments is None:
        raise ProgramError(
            f"{file} needs a function main(step), which makes the inputs and calls step, or "
            f"arguments(), which returns the arguments of one call"
        )
    return lambda step: step(*(arguments() if callable(arguments) else arguments))
