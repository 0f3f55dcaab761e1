"""What is written down about a failure of ours, so that it can be reported.

Stage: driver, when stator or torch has failed to compile a call. In: the function, the values of
its parameters, the options, and what was raised. Out: a file with a program that makes the call
again, as far as it can be written, with versions and the traceback; its path. Nothing of the
program is run for it: of objects that are not plain data, only the class is told.
"""

import inspect
import itertools
import os
import platform
import re
import tempfile
import textwrap
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import torch

from stator import config
from stator.driver.label import Label
from stator.driver.options import Options
from stator.guards.tensors import plain
from stator.torchlib.tensors import DisableTorchFunction

_DEEPEST: Final = 3
_MOST: Final = 16  # items of one container
_LONGEST: Final = 200  # characters of one text
_NUMBERS: Final = itertools.count(1)
_BRACKETS: Final[dict[type, tuple[str, str]]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    dict: ("{", "}"),
}
_PLAIN: Final = (int, float, bool, complex, str, bytes, type(None), torch.dtype, torch.device)


def written(
    function: FunctionType, bound: tuple[Any, ...], label: Label, options: Options, text: str
) -> str | None:
    """The path of a file about a failure; None if none could be written. It never raises."""
    try:
        folder = Path(config.artefacts or tempfile.gettempdir()) / f"stator-{os.getpid()}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = re.sub(r"[^\w.-]+", "_", label.name).strip("_") or "function"
        path = folder / f"failure_{next(_NUMBERS)}_{name[:60]}.py"
        lines = _lines(function, bound, label, options, text)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="backslashreplace")
    except Exception:
        return None
    return str(path)


def _lines(
    function: FunctionType, bound: tuple[Any, ...], label: Label, options: Options, text: str
) -> Iterator[str]:
    yield f"# stator failed to compile {label}. Please report it with this file."
    yield f"# stator {_version()}, torch {torch.__version__}, Python {platform.python_version()}"
    yield f"# {platform.platform()}"
    yield "#"
    yield from (f"# {line}".rstrip() for line in text.splitlines())
    yield ""
    yield "import torch"
    yield ""
    yield "import stator"
    yield ""
    yield from _source(function)
    yield ""
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames[:count]
    if len(bound) >= count:
        values = list(zip(names, bound, strict=False))
    else:  # the rest of a call, which begins in the middle
        values = [(f"value{index}", value) for index, value in enumerate(bound)]
    yield f"if __name__ == {'__main__'!r}:"
    yield "    arguments = {"
    for name, value in values:
        yield f"        {name!r}: {_described(value)},"
    yield "    }"
    backend = options.backend if isinstance(options.backend, str) else "eager"
    yield "    stator.config.strict = True"
    yield (
        f"    compiled = stator.compile({_called(function)}, backend={backend!r}, "
        f"fullgraph={options.fullgraph}, dynamic={options.dynamic})"
    )
    yield "    compiled(**arguments)"


def _source(function: FunctionType) -> Iterator[str]:
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except Exception:
        text = f"# the source of {function.__qualname__} is not known"
    yield from text.rstrip().splitlines()


def _called(function: FunctionType) -> str:
    name = function.__name__
    return name if name.isidentifier() else "function"


def _version() -> str:
    try:
        return version("stator")
    except PackageNotFoundError:
        return "?"


def _described(value: Any, depth: int = 0) -> str:
    """An expression for a value; what can't be written is `...`, with its class."""
    kind = type(value)
    if kind in _PLAIN:
        text = repr(value)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]!r}  # and more"
    if kind is torch.Tensor or kind is torch.nn.Parameter:
        return _tensor(plain(value))
    if depth < _DEEPEST and kind in (list, tuple, dict):
        return _container(value, depth + 1)
    return f"...  # {kind.__module__}.{kind.__qualname__}"


def _container(value: Any, depth: int) -> str:
    few = itertools.islice(value.items() if type(value) is dict else value, _MOST)
    if type(value) is dict:
        items = [f"{_described(key, depth)}: {_described(item, depth)}" for key, item in few]
    else:
        items = [_described(item, depth) for item in few]
    more = f"  # of {len(value)}" if len(value) > _MOST else ""
    first, last = _BRACKETS[type(value)]
    # One line each: comments end at the end of one.
    inner = "".join(f"\n{'    ' * (depth + 2)}{_ended(item)}" for item in items)
    return f"{first}{inner}{last}{more}" if items else f"{first}{last}"


def _ended(item: str) -> str:
    text, mark, comment = item.rpartition("  # ")
    return f"{text},{mark}{comment}" if mark and "\n" not in comment else f"{item},"


def _tensor(value: torch.Tensor) -> str:
    with DisableTorchFunction():
        if value.layout is not torch.strided:
            return f"...  # a tensor of layout {value.layout}"
        call = f"torch.empty_strided({tuple(value.shape)}, {value.stride()}, dtype={value.dtype}"
        call += f", device={str(value.device)!r})"
        filled = f"{call}.fill_(1)"
        return f"{filled}.requires_grad_()" if value.requires_grad else filled
