"""Entries from the cache: found for a call, put into its bucket, and stored when they are made.

Stage: driver. In: a call that no entry fits, or a compilation that was just made. Out: a
`Compilation` whose entry another process has compiled; or a file. Guards are checked on the call at
hand before anything is installed, so what is loaded serves it or is left alone.
"""

import re
import time
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Final

from stator import guards
from stator._native._core import CompiledFunction, Entry
from stator.diagnostics.artefacts import Title
from stator.diagnostics.breaks import CaptureError, Place
from stator.driver import loading, profiling
from stator.driver.announcements import Instead
from stator.driver.failures import Failures
from stator.driver.label import Label
from stator.driver.ledger import Compilation, Ledger
from stator.driver.loading import Found, given_by
from stator.driver.naming import name_graph
from stator.driver.numbers import NUMBERS
from stator.driver.options import Options
from stator.driver.rerun import Rerun
from stator.driver.tally import TOTALS, Tally
from stator.effects.suspension import Suspension
from stator.emit.ending import Ending
from stator.emit.residual import Residual
from stator.graph.recording.interrupts import is_interrupt
from stator.guards.reference import Call
from stator.store import entry, files, folder
from stator.store.files import Stored
from stator.store.folder import Key, say
from stator.store.parts import Kernels
from stator.store.reasons import Damaged, Reason, Stale, Unstorable
from stator.store.world import world

EndingOf = Callable[[Suspension], Ending]

# ---------------------------------------------------------------------- found


def found(
    key: Key | None,
    compiled: CompiledFunction,
    bound: tuple[Any, ...],
    label: Label,
    ledger: Ledger,
    ending: EndingOf,
) -> Compilation | None:
    """The entry of another process that fits a call, in the bucket."""
    if key is None or not folder.known(key):
        return None
    function = compiled.__wrapped__
    assert isinstance(function, FunctionType)
    for each in loading.found(key, function, bound, label, ledger.from_cache):
        try:
            made = _installed(each, function, label, ledger, ending)
        except Exception as error:
            if is_interrupt(error):
                raise
            folder.warn(f"{each.name} is ignored: {type(error).__name__}: {error}")
            continue
        ledger.from_cache.add(each.name)
        loading.used(each, label)
        TOTALS.loaded += 1
        return made
    return None


def _installed(
    each: Found, function: FunctionType, label: Label, ledger: Ledger, ending: EndingOf
) -> Compilation:
    loaded = each.loaded
    title = Title.of(label.name, next(NUMBERS))
    tally = Tally(whole=not label.units)
    around = loaded.around
    graph, failed = loaded.graph, None
    if graph is not None:
        rerun = Rerun(
            *(label, Instead(label, tally)),
            possible=around.rerun,
            draws=around.draws,
            changed=around.changed,
        )
        module = getattr(graph, "__self__", None)
        lines = {} if loaded.native or module is None else name_graph(module, title)
        failed = Failures(title, lines, rerun)
        graph = rerun.around(entry.around(graph, around))
    behind = None if loaded.suspension is None else ending(loaded.suspension)
    made, residual = loading.installed(
        *(loaded, function, label, title, ledger.bucket), behind, graph, failed
    )
    profiling.note(residual.function, residual.graph, (title.graph, *loaded.ranges))
    tally.entries.append(made)
    return compilation(each, made, label, residual, title.number, tally)


def compilation(
    each: Found, made: Entry, label: Label, residual: Residual, number: int, tally: Tally
) -> Compilation:
    """What a ledger knows of an entry that was loaded."""
    loaded = each.loaded
    return Compilation(
        made,
        label,
        loaded.guards,
        loaded.code,
        residual.text,
        broken=None if loaded.broken is None else _broken(loaded.broken),
        operators=loaded.operators,
        number=number,
        tally=tally,
        sources=residual.sources,
        cached=True,
        stored=each.stored,
    )


def _broken(told: Sequence[Any]) -> CaptureError:
    name, reason, hint, places, number, title, source = told
    return CaptureError(
        *(str(name), str(reason), str(hint), tuple(Place(*each) for each in places)),
        *(str(number), str(title), str(source)),
    )


# ---------------------------------------------------------------------- stored

NOT_STORED: Final[dict[str, str]] = {}
"""Why the last compiles of functions were not stored, by label."""
_REMEMBERED: Final = 256


def keep(
    key: Key | None,
    made: Compilation,
    function: FunctionType,
    bound: Sequence[Any],
    options: Options,
) -> None:
    """Stores an entry in the cache, if there is one; says why not, if so."""
    if not folder.is_on() or key is None:
        return
    try:
        stored = stored_of(key, made, options)
        check_again(stored, made, Call(tuple(bound), function))
    except Unstorable as error:
        not_stored(made.label, str(error))
        return
    path = folder.keep(key, stored)
    if path is not None:
        say(f"{made.label}: stored as {path}")


_ADDRESS: Final = re.compile(r" at 0x[0-9a-f]+")
"""Data of ours, such as the places of a traceback, is made again as another object."""


def check_again(stored: Stored, made: Compilation, call: Call) -> None:
    """Makes the entry again from what is to be stored, for the call it was made for: what comes
    out must be what went in. Raises Unstorable.
    """
    assert made.parts is not None
    parts = made.parts
    text = files.unpacked(files.packed([stored]))[0]
    try:
        loaded = entry.load(text, call, folder.native_folder())
    except (Stale, Damaged) as error:
        raise Unstorable(Reason.REBUILT, str(error)) from None
    compared = (
        ("guards", list(map(str, parts.guards)), list(map(str, loaded.guards))),
        ("plan", _ADDRESS.sub("", str(parts.plan)), _ADDRESS.sub("", str(loaded.plan))),
        ("inputs", list(map(str, parts.inputs)), list(map(str, loaded.inputs))),
    )
    for what, one, other in compared:
        if one != other:
            raise Unstorable(Reason.REBUILT, f"its {what} are others")
    if not guards.compile(loaded.guards).check(call.locals, call.function):
        raise Unstorable(Reason.REBUILT, "its guards do not hold for the call it was made for")


def not_stored(label: Label, why: str) -> None:
    say(f"{label}: not stored: {why}")
    while len(NOT_STORED) >= _REMEMBERED:
        del NOT_STORED[next(iter(NOT_STORED))]
    NOT_STORED[str(label)] = why


def stored_of(key: Key, made: Compilation, options: Options) -> Stored:
    """An entry as data, with what it depends on; raises Unstorable."""
    parts = made.parts
    if parts is None:
        raise _without_parts(made)
    stored = entry.store(parts)
    native = isinstance(parts.artefact, Kernels)
    stored.header = {
        "key": key.text,
        "label": made.label.name,
        "native": native,
        "call": given_by(options),
        "world": world(native=native),
        "made": time.time(),
        "operators": len(made.operators),
        "guards": len(made.guards),
    }
    return stored


def _without_parts(made: Compilation) -> Unstorable:
    if made.cached:
        return Unstorable(Reason.REBUILT, "it was loaded from the cache")
    return Unstorable(Reason.EAGER, made.eager or "it calls the function itself")
