"""Entries from the cache: found for a call, put into its bucket, and stored when they are made.

Stage: driver. In: a call that no entry fits, or a compilation that was just made. Out: a
`Compilation` whose entry another process has compiled; or a file. Guards are checked on the call at
hand before anything is installed, so what is loaded serves it or is left alone.
"""

import time
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, Final

from stator import config, guards
from stator._native._core import CompiledFunction
from stator.capture.trace.task import Trust
from stator.diagnostics.artefacts import Title
from stator.diagnostics.breaks import CaptureError, Place
from stator.driver import profiling
from stator.driver.announcements import Instead
from stator.driver.failures import Failures
from stator.driver.ledger import NUMBERS, Compilation, Label, Ledger
from stator.driver.naming import name_graph
from stator.driver.options import Options
from stator.driver.rerun import Rerun
from stator.driver.tally import TOTALS, Tally
from stator.effects.suspension import Suspension
from stator.emit import residual
from stator.emit.ending import Ending
from stator.evaluator.points import Point, Slot
from stator.graph.recording.interrupts import is_interrupt
from stator.guards.reference import Call
from stator.store import digests, entry, files, folder
from stator.store.entry import Loaded
from stator.store.files import Stored
from stator.store.folder import Key, say
from stator.store.parts import Kernels
from stator.store.reasons import Damaged, Reason, Stale, Unstorable
from stator.store.world import difference, world

EndingOf = Callable[[Suspension], Ending]


def key_of(
    function: FunctionType,
    options: Options,
    label: Label,
    points: Sequence[Point],
    trust: Trust,
) -> Key | None:
    """What entries of a function are stored under; None: they are not."""
    if type(options.backend) is not str or trust is not Trust.SEEN:
        return None
    code = points[0].code if points else function.__code__
    told = tuple(
        (digests.of_code(p.code), p.unit, list(p.locals), [_kind(k) for k in p.stack], p.behind)
        for p in points
    )
    chosen = repr((options.backend, options.fullgraph, options.dynamic, options.mode))
    given = repr(sorted((name, repr(value)) for name, value in options.options.items()))
    shown = label.name.partition(", resumed in ")[0]
    name = str(function.__module__), shown, code.co_qualname, digests.of_code(code)
    return Key(name, f"{chosen} {given} {options.regions}", told)


def _kind(kind: Any) -> Any:
    return kind.name if type(kind) is Slot else int(kind)


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
    began = time.perf_counter()
    for name, stored in folder.candidates(key):
        if name in ledger.from_cache:
            continue  # it is in the bucket, and does not fit
        try:
            made = _one(stored, function, bound, label, ledger, ending)
        except Stale as error:
            say(f"{label}: {name} is not used: {error}")
            continue
        except (Damaged, Unstorable) as error:
            folder.warn(f"{name} is ignored: {error}")
            continue
        except Exception as error:
            if is_interrupt(error):
                raise
            folder.warn(f"{name} is ignored: {type(error).__name__}: {error}")
            continue
        if made is None:
            say(f"{label}: {name} is for other calls")
            continue
        ledger.from_cache.add(name)
        folder.used(name)
        TOTALS.loaded += 1
        seconds = time.perf_counter() - began
        say(f"{label}: loaded from {name} in {seconds * 1000:.1f} ms")
        return made
    return None


def _one(
    stored: Stored,
    function: FunctionType,
    bound: tuple[Any, ...],
    label: Label,
    ledger: Ledger,
    ending: EndingOf,
) -> Compilation | None:
    """A stored entry in the bucket, if its guards hold for the call."""
    native = bool(stored.header.get("native"))
    other = difference(stored.header.get("world", {}), world(native=native))
    if other is not None:
        raise Stale(other)
    loaded = entry.load(stored, Call(bound, function), folder.native_folder())
    if loaded.native and not native:
        raise Damaged("native code that the header does not mention")
    tree = guards.compile(loaded.guards)
    if not tree.check(bound, function):
        say(f"{label}: {tree.explain(bound, function)}")
        return None
    return _installed(stored, loaded, function, label, ledger, ending)


def _installed(
    stored: Stored,
    loaded: Loaded,
    function: FunctionType,
    label: Label,
    ledger: Ledger,
    ending: EndingOf,
) -> Compilation:
    title = Title.of(label.name, next(NUMBERS))
    tally = Tally(whole=not label.units)
    around = loaded.around
    graph, failed = loaded.graph, None
    if graph is not None:
        instead = Instead(label, tally)
        rerun = Rerun(
            *(label, instead),
            possible=around.rerun,
            draws=around.draws,
            changed=around.changed,
        )
        module = getattr(graph, "__self__", None)
        lines = {} if loaded.native or module is None else name_graph(module, title)
        failed = Failures(title, lines, rerun)
        graph = rerun.around(entry.around(graph, around))
    behind = None if loaded.suspension is None else ending(loaded.suspension)
    made = residual(
        loaded.plan,
        code=function.__code__,
        inputs=loaded.inputs if graph is not None else (),
        graph=graph,
        name=title.name,
        ending=behind,
        namespace=function.__globals__,
        number=title.number,
        about=[*title.about(label, loaded.operators, None), "from the cache"],
        failed=failed,
    )
    profiling.note(made.function, made.graph, (title.graph, *loaded.ranges))
    tree = guards.compile(loaded.guards, outputs=made.sources)
    installed = ledger.bucket.add(
        tree, made.target, fetch=bool(made.sources), tails=behind is not None, steady=loaded.steady
    )
    tally.entries.append(installed)
    return Compilation(
        installed,
        label,
        loaded.guards,
        loaded.code,
        made.text,
        broken=None if loaded.broken is None else _broken(loaded.broken),
        operators=loaded.operators,
        number=title.number,
        tally=tally,
        cached=True,
        stored=stored,
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
    if not config.cache or key is None:
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
        ("plan", str(parts.plan), str(loaded.plan)),
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


_OPTIONS: Final = ("backend", "fullgraph", "dynamic", "mode", "regions")


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
        "call": {
            **{name: getattr(options, name) for name in _OPTIONS},
            "options": dict(options.options) or None,
        },
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
