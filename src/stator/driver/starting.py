"""Compiled functions whose entries come from the cache, before the compiler is loaded.

Stage: driver. In: a function to compile. Out: a `CompiledFunction`. If something is stored for it,
its `miss` is a `Start`, which serves calls from what is stored; the first call for which there is
nothing loads the compiler, and with it all that a trace needs, and everything goes on as ever.
Loading that takes as long as torch itself; what is served before needs none of it.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, Final

from stator import config
from stator._native._core import CALL_ORIGINAL, Bucket, CompiledFunction, Entry, attach, lookup
from stator.diagnostics.artefacts import Title
from stator.driver.label import Label
from stator.driver.loading import Found, found, installed, key_of, used
from stator.driver.numbers import NUMBERS
from stator.driver.one_at_a_time import compiling_alone
from stator.driver.options import Options
from stator.driver.tally import TOTALS
from stator.driver.tracers import another_traces
from stator.effects.suspension import Exit, Suspension
from stator.emit.continuation import native
from stator.emit.ending import Ending
from stator.emit.residual import Residual
from stator.evaluator.points import Point
from stator.store import entry, folder
from stator.store.folder import Key
from stator.torchlib.loading import loaded

_COMPILER: Final = "stator.driver.compiler"


def compiled_function(
    function: FunctionType, options: Options, *, own: bool = False, label: Label | None = None
) -> CompiledFunction:
    """A function that compiles itself when it is called (see `compiler.compiled_function`)."""
    if _COMPILER not in sys.modules and not options.isolate:
        label = label or Label.of(function, options.name)
        key = key_of(function, options, label)
        if key is not None and folder.has(key):
            start = Start(options, label, own=own)
            code = function.__code__
            made = CompiledFunction(function, start, name=options.name, bucket=Bucket(code))
            if lookup(code) is None:
                attach(code, made)
            return made
    _name_all()
    module: Any = loaded(_COMPILER)
    compiled: CompiledFunction = module.compiled_function(function, options, own=own, label=label)
    return compiled


def _name_all() -> None:
    """What users call is in place, and marked, before anything of theirs is traced."""
    stator: Any = sys.modules["stator"]
    stator.graph_break  # noqa: B018 - binds all names beside it


def compiler_of(compiled: CompiledFunction) -> Any:
    """The compiler behind a compiled function; it is loaded for that."""
    miss = compiled.miss
    return miss.compiler(compiled) if type(miss) is Start else miss


@dataclass(frozen=True, eq=False)
class Served:
    """An entry that was loaded, for the ledger of a compiler that is loaded later."""

    found: Found
    entry: Entry
    residual: Residual
    number: int


class Start:
    """The `miss` of a compiled function, as long as the cache has what it needs."""

    def __init__(
        self,
        options: Options,
        label: Label,
        *,
        own: bool = False,
        points: tuple[Point, ...] = (),
        continuations: dict[Any, CompiledFunction] | None = None,
    ) -> None:
        self.options = options
        self.label = label
        self.own = own
        self.points = points
        self.served: list[Served] = []
        self.continuations = {} if continuations is None else continuations
        self._compiler: Any = None

    def __call__(self, compiled: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        if self._compiler is None and _COMPILER not in sys.modules:
            if another_traces():
                return CALL_ORIGINAL
            with compiling_alone():
                served = compiled.find(bound) or self._serve(compiled, bound)
            if served is not None:
                return served
        return self.compiler(compiled)(compiled, bound)

    def compiler(self, compiled: CompiledFunction) -> Any:
        """The compiler that takes over, with what was served so far."""
        if self._compiler is None:
            _name_all()
            adopting: Any = loaded("stator.driver.adopting")
            with compiling_alone():
                if self._compiler is None:
                    self._compiler = adopting.adopted(self, compiled)
        return self._compiler

    def aot_compile(self, compiled: CompiledFunction, inputs: Any) -> Any:
        """As of a compiler; it is loaded for that."""
        return self.compiler(compiled).aot_compile(compiled, inputs)

    def _serve(self, compiled: CompiledFunction, bound: tuple[Any, ...]) -> Entry | None:
        function = compiled.__wrapped__
        assert isinstance(function, FunctionType)
        key = key_of(function, self.options, self.label, self.points)
        limit = self.options.recompile_limit or config.recompile_limit
        if key is None or len(self.served) >= limit:
            return None
        known = {each.found.name for each in self.served}
        for each in found(key, function, bound, self.label, known):
            around = each.loaded.around
            if around.draws or around.changed:
                return None  # what they need is the compiler's
            return self._installed(each, function, compiled.bucket)
        return None

    def _installed(self, each: Found, function: FunctionType, bucket: Bucket) -> Entry:
        loaded, label = each.loaded, self.label
        title = Title.of(label.name, next(NUMBERS))
        graph, failed = loaded.graph, None
        if graph is not None:
            graph = entry.around(graph, loaded.around)
            failed = Failed(title, label, possible=loaded.around.rerun)
        ending = None if loaded.suspension is None else self._ending(loaded.suspension)
        made, text = installed(*(loaded, function, label, title, bucket), ending, graph, failed)
        self.served.append(Served(each, made, text, title.number))
        used(each, label)
        TOTALS.loaded += 1
        return made

    def _ending(self, behind: Suspension) -> Ending:
        def compiled(way: Exit | None) -> CompiledFunction | None:
            if way is None or not way.points:
                return None
            return self._behind(way.points)

        return Ending(behind, compiled(behind.way), compiled(behind.other), compiled(behind.caught))

    def _behind(self, points: tuple[Point, ...]) -> CompiledFunction:
        """The continuation at some points: the same points, the same one."""
        place = tuple(point.key for point in points)
        known = self.continuations.get(place)
        if known is None:
            function = native(points)
            start = Start(
                self.options,
                self.label.behind(points),
                points=points,
                continuations=self.continuations,
            )
            known = CompiledFunction(function, start, bucket=Bucket(function.__code__))
            self.continuations[place] = known
        return known


class Failed:
    """What is done when a graph raises; all that is needed for it is loaded then."""

    def __init__(self, title: Title, label: Label, *, possible: bool) -> None:
        self._title = title
        self._label = label
        self._possible = possible
        self._failures: Callable[..., None] | None = None

    def __call__(self, *args: Any) -> None:
        if self._failures is None:
            adopting: Any = loaded("stator.driver.adopting")
            self._failures = adopting.failures(self._title, self._label, self._possible)
        self._failures(*args)


__all__ = ["Failed", "Key", "Start", "compiled_function", "compiler_of"]
