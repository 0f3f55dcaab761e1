"""`stator why`: the page of a reason, or the list of all.

In: a number (`SB0013`, `SR0001`, `13`), a word, or nothing. Out: the page from the catalogue, with
colours on a terminal and as Markdown elsewhere.
"""

import argparse
import difflib
import sys
from collections.abc import Iterable

from stator.cli import screen
from stator.cli.errors import UsageError
from stator.diagnostics.catalogue import all_reasons, page
from stator.diagnostics.catalogue.pages import Reason
from stator.diagnostics.catalogue.recompiles import all_recompile_reasons


def main(given: argparse.Namespace) -> int:
    if given.reason is None:
        print("Why a graph ends:")
        _list(all_reasons())
        print("\nWhy something is compiled again:")
        _list(all_recompile_reasons())
        return 0
    try:
        text = page(given.reason)
    except KeyError:
        return _search(given.reason)
    if screen.is_terminal(sys.stdout):
        screen.page(text, sys.stdout)
    else:
        print(text, end="")
    return 0


def _search(word: str) -> int:
    """Reasons that speak of something; a number that is none is a mistake."""
    reasons: list[Reason] = [*all_reasons(), *all_recompile_reasons()]
    found = [
        each
        for each in reasons
        if any(word.lower() in text.lower() for text in (each.title, each.what, each.example))
    ]
    if found and not any(letter.isdigit() for letter in word):
        _list(found)
        return 0
    close = difflib.get_close_matches(word.upper(), [each.id for each in reasons], 3)
    hint = f"Did you mean {' or '.join(close)}?" if close else "`stator why` lists them all"
    raise UsageError(f"there is no reason {word!r}. {hint}")


def _list(reasons: Iterable[Reason]) -> None:
    for each in reasons:
        print(f"  {each.id}  {each.title}")
