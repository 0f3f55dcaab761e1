"""Generated code as files: what debuggers, profilers and tracebacks find behind its file name.

Stage: all that make code. In: the text of a residual function or of a graph, and for whom it was
made. Out: a file name for its code object, under which `linecache` knows the text for as long as
the code lives. With `config.artefacts`, a folder, they are real files, and stay.
"""

import linecache
import os
import re
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from stator import config

_SHOWN: Final = 8  # operators of a graph that are named


@dataclass(frozen=True)
class Title:
    """What generated code is called: the function it is for, and which compile has made it."""

    name: str
    number: int

    @classmethod
    def of(cls, name: str, number: int) -> "Title":
        """For a label; continuations are called as the function that they are part of."""
        return cls(name.partition(", resumed in ")[0], number)

    def __str__(self) -> str:
        return f"{self.name}#{self.number}"

    @property
    def graph(self) -> str:
        """The graph's name for profilers."""
        return f"stator:{self.name} graph {self.number}"

    def file(self, part: str = "") -> str:
        """The file name of some generated code: `<stator forward#2>`, or that of a real file."""
        if not config.artefacts:
            return f"<stator {self} {part}>" if part else f"<stator {self}>"
        name = re.sub(r"[^\w.-]+", "_", self.name).strip("_") or "function"
        folder = Path(config.artefacts).absolute() / f"stator-{os.getpid()}"
        return str(folder / f"{self.number}_{name}{f'_{part}' if part else ''}.py")

    def about(self, what: object, operators: Sequence[str], broken: str | None) -> list[str]:
        """What is said above the text of a residual function."""
        lines = [f"stator: what runs in place of {what}, compile {self.number}"]
        if operators:
            shown = ", ".join([*operators[:_SHOWN], *["…"][: len(operators) > _SHOWN]])
            lines.append(f"graph: {shown} (see {self.file('graph')})")
        if broken is not None:
            lines.append(f"then: {broken}")
        return lines


def publish(file: str, text: str, owner: Any) -> None:
    """Makes the text known under a name that `Title.file` has given, while the owner lives."""
    if not file.startswith("<") and _written(file, text):
        return
    # Without a time of modification nobody looks for such a file.
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    when_gone(owner, linecache.cache.pop, file, None)


_watched: Final[dict[int, weakref.ref[Any]]] = {}  # by their own ids


def when_gone(owner: Any, function: Callable[..., object], *args: Any) -> None:
    """Calls the function when the owner is freed. `weakref.finalize` would do, but for the table
    it keeps, which programs can see.
    """

    def forget(reference: weakref.ref[Any], ending: Callable[[], bool] = sys.is_finalizing) -> None:
        if not ending():  # the interpreter: names of modules are gone
            _watched.pop(id(reference), None)
            function(*args)

    reference = weakref.ref(owner, forget)
    _watched[id(reference)] = reference


def comments(lines: Sequence[str]) -> str:
    """Lines of text, to stand above the code."""
    return "".join(f"# {line}\n" for text in lines for line in text.splitlines())


def _written(file: str, text: str) -> bool:
    """Whether there is such a file now; a full disk must not keep the program from running."""
    try:
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_text(text, encoding="utf-8")
    except OSError:
        return False
    return True
