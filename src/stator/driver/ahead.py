"""Functions that were compiled ahead of time: they run what was compiled, and compile nothing.

Stage: driver. In: an entry that was just made (`compiling_ahead.py`), or the entries of a file.
Out: a `CompiledAhead`. Nothing here loads the compiler: what is in a file is served without it.
"""

import hashlib
import inspect
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType, MethodType
from typing import IO, Any, Final

from torch import nn

from stator import guards
from stator._native._core import CALL_ORIGINAL, Bucket, CompiledFunction, Entry, GuardTree
from stator.diagnostics.artefacts import Title
from stator.driver.example_inputs import checked
from stator.driver.label import Label
from stator.driver.loading import fitting, installed, read
from stator.driver.modules import called, unwrapped
from stator.driver.numbers import NUMBERS
from stator.driver.one_at_a_time import compiling_alone
from stator.driver.starting import Failed
from stator.driver.tally import TOTALS
from stator.driver.tracers import another_traces
from stator.guards import Source
from stator.store import digests, entry, files, things
from stator.store.entry import Loaded
from stator.store.files import Stored
from stator.store.folder import say
from stator.store.reasons import CacheError, Damaged, Stale, Unstorable
from stator.torchlib.loading import loaded as loaded_module

_CONTENTS: Final = "the file is for another function, or for other code of it"


@dataclass(frozen=True)
class InlinedSource:
    """A function of which something was compiled, by the names that torch has for this."""

    module: str
    firstlineno: int
    lastlineno: int
    checksum: str
    content: str
    """All of its module."""


@dataclass(frozen=True)
class SourceInfo:
    """The functions that were read when something was compiled."""

    inlined_sources: frozenset[InlinedSource]


class CompiledAhead:
    """A function compiled for calls like one: it runs what was compiled, or raises.

    Where a guard fails, the call is a `RecompileError` that says which.
    """

    def __init__(
        self,
        function: FunctionType,
        serving: "Serving",
        stored: Sequence[Stored] | str,
        first: tuple[Any, ...] = (),
    ) -> None:
        self.__wrapped__ = function
        self._serving = serving
        self._stored = stored  # or why nothing can be stored
        self._first = first  # what a method is bound to
        self._compiled = CompiledFunction(function, serving, bucket=serving.bucket)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._compiled(*self._first, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<{self._serving.label}, compiled ahead of time>"

    def bound_to(self, *first: Any) -> "CompiledAhead":
        """The same, with its first arguments given."""
        return CompiledAhead(self.__wrapped__, self._serving, self._stored, first)

    def save_compiled_function(
        self, path: str | os.PathLike[str], external_data: Mapping[str, Any] | None = None
    ) -> None:
        """Writes it into a file, as `stator.save` does; `CacheError` if that is not possible.

        `external_data`, which torch has, is not needed: objects are found by name or path.
        """
        if isinstance(self._stored, str):
            raise CacheError(f"{self._serving.label} can't be saved: {self._stored}")
        files.write(Path(path), files.packed(self._stored))

    def disable_guard_check(self) -> None:
        """From now on what was compiled runs for every call, whether it is right for it or not.

        That is as unsafe as it sounds: a wrong result, or memory that does not belong to a tensor.
        """
        self._serving.unguarded()

    def source_info(self) -> SourceInfo:
        """The function itself, and those that guards or a file name."""
        stored = () if isinstance(self._stored, str) else self._stored
        found = [self.__wrapped__, *_functions(stored)]
        return SourceInfo(frozenset(source for each in found for source in _source_of(each)))


def _functions(stored: Sequence[Stored]) -> Iterator[FunctionType]:
    for each in stored:
        for row in each.body[0]:
            if row[0] == "function":
                try:
                    found = things.follow(row[1], row[2])
                except Stale:
                    continue
                if type(found) is FunctionType:
                    yield found


def _source_of(function: FunctionType) -> Iterator[InlinedSource]:
    module = sys.modules.get(function.__module__)
    try:
        lines, first = inspect.getsourcelines(function.__code__)
        content = "" if module is None else inspect.getsource(module)
    except (OSError, TypeError):
        return
    told = hashlib.sha256("".join(lines).encode()).hexdigest()
    yield InlinedSource(function.__module__, first, first + len(lines), told, content)


class Serving:
    """The `miss` of such a function: it loads what a file has for a call, or raises."""

    def __init__(self, label: Label, function: FunctionType, stored: Sequence[Stored] = ()) -> None:
        self.label = label
        self.bucket = Bucket(function.__code__)
        self._left = list(stored)
        self._guarded = True
        self._made: list[tuple[Entry, tuple[Source, ...]]] = []

    def __call__(self, compiled: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        if another_traces():
            return CALL_ORIGINAL  # as functions do that were compiled in the usual way
        with compiling_alone():
            why: list[str] = []
            served = compiled.find(bound) or self._served(compiled, bound, why)
        if served is not None:
            return served
        function = compiled.__wrapped__
        assert isinstance(function, FunctionType)
        for made, _ in self._made:
            if made.guards is not None:
                why.append(_failed(made.guards, bound, function))
        errors: Any = loaded_module("stator.driver.errors")
        lines = "".join(f"\n  - {each}" for each in why)
        raise errors.RecompileError(f"{self.label} was compiled ahead of time for others:{lines}")

    def add(self, made: Entry, sources: tuple[Source, ...]) -> Entry:
        """Serves calls by an entry of another bucket."""
        kept = self._added(made, made.guards)
        self._made.append((kept, sources))
        return kept

    def unguarded(self) -> None:
        with compiling_alone():
            if len(self._made) + len(self._left) > 1:
                raise RuntimeError(
                    f"{self.label} has more than one entry: its guards say which one is right"
                )
            self._guarded = False
            for made, sources in self._made:
                tree = guards.compile((), outputs=sources) if sources else None
                self._made = [(self._added(made, tree), sources)]
                self.bucket.remove(made)  # never without an entry: others may call it now

    def _added(self, made: Entry, tree: GuardTree | None) -> Entry:
        return self.bucket.add(
            tree, made.target, fetch=made.fetch, tails=made.tails, steady=made.steady
        )

    def _served(
        self, compiled: CompiledFunction, bound: tuple[Any, ...], why: list[str]
    ) -> Entry | None:
        """What the file has for a call; else why it is not right for it."""
        function = compiled.__wrapped__
        assert isinstance(function, FunctionType)
        if compiled.bucket is not self.bucket:
            why.append("the function has another code now")
            return None
        for each in self._left:
            try:
                found, tree = fitting(each, function, bound)
            except (Stale, Damaged, Unstorable) as error:
                why.append(str(error))
                continue
            if found.suspension is not None:
                why.append("it is split: stator.load compiles what is behind that")
            elif self._guarded and not tree.check(bound, function):
                why.append(_failed(tree, bound, function))
            else:
                self._left.remove(each)
                return self._installed(found, function)
        return None

    def _installed(self, found: Loaded, function: FunctionType) -> Entry:
        title, around = Title.of(self.label.name, next(NUMBERS)), found.around
        graph, failed = found.graph, None
        if graph is not None and (around.draws or around.changed):
            adopting: Any = loaded_module("stator.driver.adopting")
            graph, failed = adopting.watched(graph, title, self.label, around)
        elif graph is not None:
            graph = entry.around(graph, around)
            failed = Failed(title, self.label, possible=around.rerun)
        if not self._guarded:
            found = replace(found, guards=())
        made, residual = installed(
            *(found, function, self.label, title, self.bucket, None), graph, failed
        )
        self._made.append((made, residual.sources))
        say(f"{self.label}: loaded from a file")
        TOTALS.loaded += 1
        return made


def _failed(tree: GuardTree, bound: tuple[Any, ...], function: FunctionType) -> str:
    found = tree.explain(bound, function)
    if found is None:
        return "its guards hold by now"
    return f"{found.path}: expected {found.expected}, got {found.actual}"


# ---------------------------------------------------------------------- from files


def from_file(
    file: str | os.PathLike[str] | IO[bytes],
    model: Any = None,
    f_globals: Mapping[str, Any] | None = None,
) -> CompiledAhead:
    """What was compiled, from a file; raises CacheError."""
    found = read(file)
    if not found:
        raise CacheError("there is nothing in the file")
    told = str(found[0].header.get("key"))
    name, _, points = json.loads(told)
    if points:
        raise CacheError("there is no function in the file, only what is behind a break")
    first: tuple[Any, ...] = ()
    if model is None:
        function = _named(name, f_globals)
    else:
        function, first = _function_of(model)
    if digests.of_code(function.__code__) != name[3]:
        raise CacheError(f"{function.__qualname__} can't be loaded: {_CONTENTS}")
    same = [each for each in found if each.header.get("key") == told]
    label = Label.of(function, str(name[1]))
    return CompiledAhead(function, Serving(label, function, same), same, first)


def _function_of(model: Any) -> tuple[FunctionType, tuple[Any, ...]]:
    """The function that is compiled for something, and what it is bound to."""
    if isinstance(model, nn.Module):
        module = unwrapped(model)
        return called(module, "__call__")[0], (module,)
    if isinstance(model, MethodType):
        function, first = _function_of(model.__func__)
        return function, (model.__self__, *first)
    if isinstance(model, CompiledFunction):
        model = model.__wrapped__
    if not isinstance(model, FunctionType):
        raise TypeError(
            "stator.load_compiled_function() needs a function, a method or a module, not an "
            f"object of type {type(model).__qualname__}"
        )
    return model, ()


def _named(name: Sequence[str], f_globals: Mapping[str, Any] | None) -> FunctionType:
    """The function of a file, by its name; nothing of the program is imported for it."""
    module, _, path, told = name
    begin, _, rest = path.partition(".")
    try:
        if f_globals is None:
            found = things.follow(module, path)
        else:
            found = f_globals[begin]
            found = things.followed(found, rest) if rest else found
    except (Stale, KeyError):
        hint = "give it to load_compiled_function, or the f_globals where it is"
        raise CacheError(f"{module}.{path} is not found by its name: {hint}") from None
    for each in _behind(found):
        if digests.of_code(each.__code__) == told:
            return each
    raise CacheError(f"{module}.{path} can't be loaded: {_CONTENTS}")


def _behind(found: Any) -> Iterator[FunctionType]:
    """A function, and those that it wraps."""
    seen: set[int] = set()
    while id(found) not in seen:
        seen.add(id(found))
        if isinstance(found, CompiledFunction | staticmethod | classmethod):
            found = found.__wrapped__
        elif type(found) is FunctionType:
            yield found
            found = found.__dict__.get("__wrapped__", found)


# ---------------------------------------------------------------------- methods


class OfMethod:
    """The `aot_compile` of a compiled method: it is found in the function, which knows no self."""

    def __init__(self, function: CompiledFunction, owner: Any, *, bound: bool = True) -> None:
        # Not the function itself, which holds this.
        self._compiled = function.__wrapped__, function.miss
        self._buckets = function.bucket, function.shared
        self._owner = owner
        self._bound = bound

    def __call__(self, inputs: Any, /) -> CompiledAhead:
        bucket, shared = self._buckets
        function = CompiledFunction(*self._compiled, bucket=bucket, shared=shared)
        made: CompiledAhead = function.aot_compile(checked(inputs, self._owner))
        return made.bound_to(self._owner) if self._bound else made
