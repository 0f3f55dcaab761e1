"""Stored entries for a call, without the compiler: found, checked, put into a bucket.

Stage: driver. In: a key and a call. Out: an entry whose guards hold for the call. It is used by the
compiler (`cached.py`), and before that is loaded at all (`starting.py`).
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import IO, Any, Final

from stator import guards
from stator._native._core import Bucket, Entry, GuardTree
from stator.diagnostics.artefacts import Title
from stator.driver.label import Label
from stator.driver.options import Options
from stator.emit import residual
from stator.emit.ending import Ending
from stator.emit.residual import Residual
from stator.evaluator.points import Point, Slot
from stator.guards.reference import Call
from stator.store import digests, entry, files, folder
from stator.store.entry import Loaded
from stator.store.files import Stored
from stator.store.folder import Key, say
from stator.store.reasons import CacheError, Damaged, Stale, Unstorable
from stator.store.world import difference, world

_OPTIONS: Final = ("backend", "fullgraph", "dynamic", "mode", "regions")


def key_of(
    function: FunctionType, options: Options, label: Label, points: Sequence[Point] = ()
) -> Key | None:
    """What entries of a function are stored under; None: they are not."""
    if type(options.backend) is not str:
        return None
    if not all(map(_is_plain, options.options.values())):
        return None  # nothing says that a function of another process is the same one
    code = points[0].code if points else function.__code__
    told = tuple(
        (digests.of_code(p.code), p.unit, list(p.locals), [_kind(k) for k in p.stack], p.behind)
        for p in points
    )
    chosen = repr(tuple(getattr(options, name) for name in _OPTIONS))
    given = repr(sorted((name, repr(value)) for name, value in options.options.items()))
    shown = label.name.partition(", resumed in ")[0]
    name = str(function.__module__), shown, code.co_qualname, digests.of_code(code)
    return Key(name, f"{chosen} {given}", told)


def _is_plain(value: Any) -> bool:
    if type(value) in (list, tuple):
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(map(_is_plain, (*value, *value.values())))
    return type(value) in (bool, int, float, str, type(None))


def given_by(options: Options) -> dict[str, Any]:
    """The arguments of `stator.compile` that are part of a key."""
    given = {name: getattr(options, name) for name in _OPTIONS}
    return {**given, "options": dict(options.options) or None}


def _kind(kind: Any) -> Any:
    return kind.name if type(kind) is Slot else int(kind)


@dataclass(frozen=True, eq=False)
class Found:
    """A stored entry that fits a call."""

    name: str
    stored: Stored
    loaded: Loaded
    seconds: float


def found(
    key: Key, function: FunctionType, bound: tuple[Any, ...], label: Label, known: set[str]
) -> Iterator[Found]:
    """The stored entries that fit a call, but for those that are `known`."""
    for name, stored in folder.candidates(key):
        if name in known:
            continue  # it is in the bucket, and does not fit
        began = time.perf_counter()
        try:
            loaded = _loaded(stored, function, bound, label)
        except Stale as error:
            say(f"{label}: {name} is not used: {error}")
        except (Damaged, Unstorable) as error:
            folder.warn(f"{name} is ignored: {error}")
        except Exception as error:
            folder.warn(f"{name} is ignored: {type(error).__name__}: {error}")
        else:
            if loaded is not None:
                yield Found(name, stored, loaded, time.perf_counter() - began)


def _loaded(
    stored: Stored, function: FunctionType, bound: tuple[Any, ...], label: Label
) -> Loaded | None:
    """A stored entry, if its guards hold for the call."""
    loaded, tree = fitting(stored, function, bound)
    if tree.check(bound, function):
        return loaded
    say(f"{label}: a stored entry is for other calls: {tree.explain(bound, function)}")
    return None


def fitting(
    stored: Stored, function: FunctionType, bound: tuple[Any, ...]
) -> tuple[Loaded, GuardTree]:
    """A stored entry, made again for a call, and its guards; raises Stale or Damaged."""
    native = bool(stored.header.get("native"))
    other = difference(stored.header.get("world", {}), world(native=native))
    if other is not None:
        raise Stale(other)
    loaded = entry.load(stored, Call(bound, function), folder.native_folder())
    if loaded.native and not native:
        raise Damaged("native code that the header does not mention")
    return loaded, guards.compile(loaded.guards)


def used(each: Found, label: Label) -> None:
    """It serves calls from now on."""
    folder.used(each.name)
    say(f"{label}: loaded from {each.name} in {each.seconds * 1000:.1f} ms")


def installed(
    loaded: Loaded,
    function: FunctionType,
    label: Label,
    title: Title,
    bucket: Bucket,
    ending: Ending | None,
    graph: Callable[..., Any] | None,
    failed: Callable[..., None] | None,
) -> tuple[Entry, Residual]:
    """An entry in a bucket that calls a graph as the stored one did."""
    made = residual(
        loaded.plan,
        code=function.__code__,
        inputs=loaded.inputs if graph is not None else (),
        graph=graph,
        name=title.name,
        ending=ending,
        namespace=function.__globals__,
        number=title.number,
        about=[*title.about(label, loaded.operators, None), "from the cache"],
        failed=failed,
    )
    tree = guards.compile(loaded.guards, outputs=made.sources)
    fetch, tails = bool(made.sources), ending is not None
    return bucket.add(tree, made.target, fetch=fetch, tails=tails, steady=loaded.steady), made


def from_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Makes the entries of a file known, and answers the options they were compiled with."""
    found = read(path)
    for each in found:
        known = folder.LOADED.setdefault(str(each.header.get("key")), [])
        known.append(each)
    return dict(found[0].header.get("call", {})) if found else {}


def read(file: str | os.PathLike[str] | IO[bytes]) -> list[Stored]:
    """The entries of a file that is to be trusted and fits the world; raises CacheError."""
    name = os.fspath(file) if isinstance(file, str | os.PathLike) else getattr(file, "name", "it")
    try:
        if isinstance(file, str | os.PathLike):
            found = files.read(Path(file))
        else:
            found = files.read_open(file)
    except Damaged as error:
        raise CacheError(f"{name} can't be loaded: {error}") from None
    differences = [
        difference(each.header.get("world", {}), world(native=bool(each.header.get("native"))))
        for each in found
    ]
    if differences and all(differences):
        raise CacheError(f"{name} was made in another world: {differences[0]}")
    return found
