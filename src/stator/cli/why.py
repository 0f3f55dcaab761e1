"""`stator why`: the page of a reason, or the list of all; what happens to a call of something.

In: a number (`SB0013`, `SR0001`, `13`), the name of a callable (`torch.relu`), a word, or nothing.
Out: the page from the catalogue, with colours on a terminal and as Markdown elsewhere; for a
callable, the rule that a trace has for it.
"""

import argparse
import builtins
import difflib
import importlib
import sys
from collections.abc import Iterable
from typing import Any

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
        found = _named(given.reason)
        return _search(given.reason) if found is None else _tell(given.reason, found)
    if screen.is_terminal(sys.stdout):
        screen.page(text, sys.stdout)
    else:
        print(text, end="")
    return 0


def _named(name: str) -> Any:
    """What a dotted name means: from a module that can be imported, or a builtin; None if nothing.

    A single word is a builtin or else a word to search for.
    """
    if not all(part.isidentifier() for part in name.split(".")):
        return None
    if "." not in name:
        return getattr(builtins, name, None)
    parts = name.split(".")
    if hasattr(builtins, parts[0]):
        parts = ["builtins", *parts]
    for length in range(len(parts) - 1, 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            if not hasattr(value, part):
                raise UsageError(f"there is no {part!r} in {_shown(value)}, for {name}")
            value = getattr(value, part)
        return value
    raise UsageError(f"there is no module {parts[0]!r} that can be imported, for {name}")


def _shown(value: Any) -> str:
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    return name if isinstance(name, str) else repr(value)


def _tell(name: str, value: Any) -> int:
    """The rule for a callable."""
    if not callable(value):
        raise UsageError(f"{name} is of type {type(value).__name__}, which can't be called")
    from stator.capture.calls.rules import rule_of  # noqa: PLC0415 - loads torch, pages don't need it

    rule = rule_of(value)
    print(f"{name} {rule.what}.")
    if rule.breaks is not None:
        print(f"  The graph ends there: {rule.breaks.id}, {rule.breaks.title}.")
        print(f"  `stator why {rule.breaks.id}` shows what to do about it.")
    print(f"  Defined in stator/{rule.where}")
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
