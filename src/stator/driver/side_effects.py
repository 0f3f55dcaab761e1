"""`config.side_effect_policy`: what is said about objects that a program changes.

Stage: driver, between the trace and the backend. In: what the trace would change in objects that
existed before the call, and in which lines. Out: nothing, a log, a warning, or an error, before
anything is changed.
"""

import warnings

from stator import config
from stator.capture.trace.writes import Write
from stator.diagnostics import logs, progress
from stator.diagnostics.places import Place, shown
from stator.driver import announcements
from stator.driver.errors import SideEffectError
from stator.driver.label import Label

_FIX = "return the new value and let the caller keep it, or set side_effect_policy to 'silent'"


def follow_policy(label: Label, writes: tuple[Write, ...], level: int) -> None:
    """Once for each line; `level` is how far a warning's reader is from the caller."""
    told = dict.fromkeys((announcements.in_words(each.effect), each.place) for each in writes)
    if config.side_effect_policy == "error":
        for words, place in told:
            raise SideEffectError(_text(label, words, place), words, place)
    for words, place in told:
        if not logs.first_time(("side effect", words, place)):
            continue
        text = _text(label, words, place)
        if config.side_effect_policy == "warn":
            with progress.aside():
                warnings.warn(text, stacklevel=level + 1)
        else:
            logs.write("side_effects", text)


def _text(label: Label, words: str, place: Place | None) -> str:
    lines = [f"{label} has a side effect: {words}"]
    lines += [f"  {line}" for line in shown(() if place is None else (place,))]
    lines.append(f"  fix: {_FIX}")
    return "\n".join(lines)
