"""What terminals get to see: tables and pages with colours. Loads rich when it draws something."""

import itertools
import os
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import Any, Final, TextIO


def is_terminal(file: TextIO) -> bool:
    """Whether somebody looks at it as it is written."""
    try:
        return file.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:  # it is closed
        return False


def console(file: TextIO | None = None) -> Any:
    return import_module("rich.console").Console(file=file, highlight=False)


def table(
    title: str,
    rows: Iterable[tuple[str, str]],
    lists: Sequence[tuple[str, Sequence[str]]],
    *,
    file: TextIO,
) -> None:
    """Names and values in a frame, and lists under it."""
    shown = console(file)
    text = import_module("rich.text").Text
    grid = import_module("rich.table").Table(
        title=title, title_style="bold", title_justify="left", show_header=False
    )
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column()
    for name, value in rows:
        grid.add_row(name, text(value))
    shown.print(grid)
    for heading, entries in lists:
        shown.print(text(heading, style="bold"))
        for entry in entries:
            shown.print(text(f"  {entry}"))


# Kinds of lines (diagnostics.explained), in rich's words.
_STYLES: Final = {
    "title": "bold",
    "part": "bold cyan",
    "broken": "bold red",
    "fix": "green",
    "dim": "dim",
}


def lines(found: Iterable[tuple[str, str]], file: TextIO) -> None:
    """Lines of text, each with its kind; in colours, if somebody looks at them."""
    if not is_terminal(file):
        for text, _ in found:
            print(text, file=file)
        return
    shown = console(file)
    text_of = import_module("rich.text").Text
    for kind, group in itertools.groupby(found, key=lambda line: line[1]):
        texts = [text for text, _ in group]
        if kind == "code":
            syntax = import_module("rich.syntax").Syntax
            shown.print(syntax("\n".join(texts), "python", theme="ansi_dark"), soft_wrap=True)
        else:
            shown.print(text_of("\n".join(texts), style=_STYLES.get(kind, "")), soft_wrap=True)


def page(markdown: str, file: TextIO) -> None:
    """A page of Markdown."""
    console(file).print(import_module("rich.markdown").Markdown(markdown))


def grid(head: Sequence[str], rows: Sequence[Sequence[str]], note: str, file: TextIO) -> None:
    """A table whose first column is text and whose others are numbers."""
    shown = console(file)
    drawn = import_module("rich.table").Table()
    for index, name in enumerate(head):
        drawn.add_column(name, justify="right" if index else "left", no_wrap=not index)
    for row in rows:
        drawn.add_row(*row)
    shown.print(drawn)
    shown.print(import_module("rich.text").Text(note, style="dim"))
