"""The page: a template, its style, its scripts and the data, in one file.

Stage: report. In: events. Out: an HTML file. The data is JSON inside of the page, from which the
scripts make what is looked at, when it is looked at; they set text, never markup, so nothing of the
program can become part of the page.
"""

import html
import json
import os
import re
from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from stator.report.data import Event, page_data

# In the order in which they need each other.
SCRIPTS: Final = ("base", "code", "picture", "timeline", "guards", "compile", "views", "app")


# How an editor is asked to open a file, which has to be on the machine of who reads the page.
EDITORS: Final = {
    "vscode": "vscode://file{file}:{line}",
    "cursor": "cursor://file{file}:{line}",
    "pycharm": "pycharm://open?file={file}&line={line}",
}


def build(
    events: Iterable[Event], path: str | os.PathLike[str], *, editor: str | None = None
) -> Path:
    """Writes the page, and answers where it is. Places in files open in an `editor`, if named."""
    target = Path(path)
    target.write_text(render(events, editor=editor), encoding="utf-8")
    return target


def render(events: Iterable[Event], *, editor: str | None = None) -> str:
    """The page as text."""
    if editor is not None and editor not in EDITORS:
        raise ValueError(f"there are no links for {editor!r}, but for {', '.join(EDITORS)}")
    data = page_data(events) | {"editor": None if editor is None else EDITORS[editor]}
    parts = {
        "title": html.escape(_title(data)),
        "style": _asset("report.css"),
        "scripts": "\n".join(_asset(f"{name}.js") for name in SCRIPTS),
        "data": embedded(data),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda mark: parts[mark[1]], _asset("page.html"))


def embedded(data: Any) -> str:
    """JSON that may stand in a script element, whatever texts it contains."""
    text = json.dumps(data, separators=(",", ":"), default=str)  # ASCII: half characters, too
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _title(data: dict[str, Any]) -> str:
    argv = data["runs"][0]["argv"] if data["runs"] else None
    return f"{Path(argv[0]).name} · stator" if argv and argv[0] else "stator report"


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
