"""stator on a torch that lacks a name: `python -m tests.torchlib.without NAME…`.

torch is loaded once; each name is taken away in a process of its own. There, stator is imported,
and a function and a module are compiled: both must give what they give without stator, or an error
must say in words what is missing. Prints `NAME: outcome` for each: `works`, `words` (a
MissingNameError), `torch` (torch itself can't do without it, in eager, or for
symbolic shapes), or what has gone wrong.
"""

import importlib
import os
import sys
import traceback
import warnings
from typing import Any

import torch
import torch._numpy
import torch.fx.experimental.symbolic_shapes

from .names import taken


def owner_of(path: str) -> tuple[Any, str] | None:
    """What holds the last part of a path; None if this torch has no such name anyway."""
    found: Any = torch
    *parts, last = path.split(".")[1:]
    module = "torch"
    for part in parts:
        module = f"{module}.{part}"
        if hasattr(found, part):
            found = getattr(found, part)
            continue
        try:
            found = importlib.import_module(module)
        except ImportError:
            return None
    if not hasattr(found, last):
        try:
            importlib.import_module(f"{module}.{last}")
        except ImportError:
            return None
    return found, last


def take_away(path: str) -> bool:
    place = owner_of(path)
    if place is None:
        return False
    owner, name = place
    try:
        delattr(owner, name)
    except (AttributeError, TypeError):
        return False  # it is inherited, or can't be taken away
    if path in sys.modules:
        sys.modules[path] = None  # type: ignore[assignment]
    return True


def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    z = torch.relu(x) @ y
    if z.shape[0] > 1:
        z = z + 1
    return z.sum(0)


def results(wrap: Any) -> list[torch.Tensor]:
    torch.manual_seed(0)
    layer = torch.nn.Linear(3, 3)
    x = torch.ones(2, 3)
    first = wrap(program)(x, torch.ones(3, 4))
    second = wrap(layer)(x)
    second.sum().backward()
    assert layer.weight.grad is not None
    return [first, second.detach(), layer.weight.grad]


def outcome(path: str) -> str:
    if not take_away(path):
        return "not there"
    try:
        expected = results(lambda function: function)
        torch.fx.experimental.symbolic_shapes.ShapeEnv()  # which imports more of torch
    except Exception:
        return "torch"
    warnings.simplefilter("ignore")
    try:
        stator = importlib.import_module("stator")
        found = results(lambda function: stator.compile(function, backend="eager"))
    except Exception as error:
        if type(error).__name__ == "MissingNameError" and str(error).startswith("stator needs"):
            return "words"
        return "".join(traceback.format_exception(error)).replace("\n", "\\n")
    same = all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    return "works" if same else "other values"


def main(names: list[str]) -> None:
    for path in names or taken():
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            with os.fdopen(writing, "w") as pipe:
                try:
                    pipe.write(outcome(path))
                except BaseException as error:
                    pipe.write(repr(error))
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as told:
            text = told.read()
        _, status = os.waitpid(child, 0)
        print(f"{path}: {text or f'status {status}'}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
