"""One compile: trace, call the backend, emit the residual function, install the entry.

Stage: driver. In: a call that no entry fits. Out: an entry, or the decision to run the call as it
is. Such decisions are entries with guards like any other, so which of two paths was seen first
never matters.
"""

import contextlib
import dataclasses
import gc
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, Final

from stator import config, guards
from stator._native._core import CALL_ORIGINAL, CompiledFunction, attach, lookup
from stator.backends import BackendError
from stator.backends.registry import load
from stator.capture import CaptureError, Trace
from stator.capture.restart import split
from stator.capture.shapes import UnknownSymbolError, Wanted
from stator.capture.trace import Task, trace
from stator.diagnostics import progress
from stator.diagnostics.artefacts import Title
from stator.diagnostics.breaks import Break, Place
from stator.driver import announcements, profiling, stance
from stator.driver.abandon import abandon
from stator.driver.attempts import attempting
from stator.driver.backend import compile_recorded
from stator.driver.continuations import LIMIT
from stator.driver.errors import RecompileError, RecompileLimitError, SpecializedError
from stator.driver.failures import Failures
from stator.driver.fallback import is_plain, unbinding
from stator.driver.ledger import (
    NUMBERS,
    Compilation,
    Label,
    Ledger,
    Recompile,
    ledgers_of,
    own_ledger,
    shared_ledger,
)
from stator.driver.naming import name_graph
from stator.driver.notice import notice
from stator.driver.options import Options
from stator.driver.recompiles import limit_reached, reasons, refused, told
from stator.driver.rerun import Rerun
from stator.driver.stance import Stance
from stator.driver.steady import is_steady
from stator.effects.suspension import Exit, Suspension
from stator.emit import residual
from stator.emit.ending import Ending
from stator.evaluator import PACKAGE, InternalError
from stator.evaluator.points import Point
from stator.graph.interrupts import is_interrupt
from stator.graph.modes import interruptible

_ATTEMPTS: Final = 3


class _ChangedError(AssertionError):
    """What was true when a call was traced is not true any more; or it is a bug of ours."""


class _Tracing(threading.local):
    """Whether this thread is tracing: what is called meanwhile is not compiled."""

    now = False


_tracing: Final = _Tracing()
# Tracing changes torch's state for a while, and backends are not made for several threads.
_lock = threading.RLock()


def _after_fork() -> None:
    """The thread that held the lock does not exist in the child."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_after_fork)


def compiled_function(
    function: FunctionType, options: Options, *, own: bool = False, label: Label | None = None
) -> CompiledFunction:
    """A function that compiles itself when it is called.

    Functions with the same code share a bucket, and its limit. With `own`, there is a bucket for
    this one, and what it compiles is offered to the others, as far as the limit goes: many modules
    of one class may be alike, or all different. An isolated one takes, but does not give: also not
    what would be compiled behind an entry that it takes. The label is what messages call it.
    """
    label = label or Label.of(function, options.name)
    code = function.__code__
    shared = shared_ledger(code, options)
    if own or options.isolate:
        mine = own_ledger(code, options)
        miss = Compiler(options, label, mine, shared)
        others = shared.whole if options.isolate else shared.bucket
        made = CompiledFunction(
            function, miss, name=options.name, bucket=mine.bucket, shared=others
        )
    else:
        miss = Compiler(options, label, shared)
        made = CompiledFunction(function, miss, name=options.name, bucket=shared.bucket)
    if not options.isolate and lookup(code) is None:
        attach(code, made)
    return made


def forget(code: CodeType | None = None) -> None:
    """Drops what was compiled: for one code object, or all. A compile under way comes first."""
    with _lock:
        for ledger in ledgers_of(code):
            ledger.reset()


class Compiler:
    """Compiles calls of one function: the `miss` of its `CompiledFunction`."""

    def __init__(
        self,
        options: Options,
        label: Label,
        ledger: Ledger,
        shared: Ledger | None = None,
        points: tuple[Point, ...] = (),
        careful: bool = False,
    ) -> None:
        self.options = options
        self.label = label
        self.ledger = ledger
        self.shared = shared
        self.points = points  # where it begins, if it is a continuation
        self.careful = careful  # takes nothing for granted that a graph would have to check

        self._forced: dict[object, CompiledFunction] = {}  # the same with other backends

    def __call__(self, compiled: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        if _tracing.now:
            return CALL_ORIGINAL  # called from what a trace runs for real, perhaps on fake tensors
        taken = stance.current()
        if taken.name == "eager_on_recompile":
            return CALL_ORIGINAL
        try:
            with _lock:
                if taken is not stance.DEFAULT:
                    return self._served_so(taken, compiled, bound)
                return self._served(compiled, bound)
        except RecursionError:
            if self.options.fullgraph:
                raise
            return CALL_ORIGINAL  # the program needs less stack than its compiler
        except BaseException as error:
            if not self.points:
                raise
            failure = error
        return abandon(self.points, bound, failure)  # it raises, having left the program

    def _served(self, compiled: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        found = compiled.find(bound)  # another thread may have compiled it meanwhile
        return self._compile(compiled, bound) if found is None else found

    def _served_so(self, taken: Stance, compiled: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        """What is done about a call, if the stance is not the default."""
        whole = not self.points and not self.careful  # what has begun goes on as it is
        if whole and taken.backend is not None and not _same(taken.backend, self.options.backend):
            return self._served_by(taken.backend, compiled, bound)
        found = compiled.find(bound)
        if found is not None:
            return found
        function = compiled.__wrapped__
        assert isinstance(function, FunctionType)
        ledger = self._ledger(compiled)
        if taken.name == "fail_on_recompile":
            why = self._reasons(compiled, function, bound)
            raise RecompileError(refused(why, first=not ledger.compiles), why)
        if taken.first_call and whole and not ledger.compiles and ledger.noticed is None:
            ledger.noticed = notice(function.__code__, bound)
            if taken.first_call == "eager":
                return CALL_ORIGINAL
            return self._served_by(taken.first_call, compiled, bound)
        return self._compile(compiled, bound)

    def _served_by(self, backend: Any, compiled: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        """As if the function had been compiled with another backend."""
        key = backend if isinstance(backend, str) else id(backend)
        other = self._forced.get(key)
        if other is None:
            function = compiled.__wrapped__
            assert isinstance(function, FunctionType)
            options = dataclasses.replace(self.options, backend=backend, mode=None, options={})
            own = self.shared is not None
            other = compiled_function(function, options, own=own, label=self.label)
            self._forced[key] = other
        compiler = other.miss
        assert isinstance(compiler, Compiler)
        return compiler._served(other, bound)

    def _compile(self, compiled: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        function = compiled.__wrapped__
        assert isinstance(function, FunctionType)
        ledger = self._ledger(compiled)
        if not self._may_compile(compiled, function, ledger, bound):
            return CALL_ORIGINAL
        with interruptible():
            return self._compiled_or_not(function, ledger, bound)

    def _compiled_or_not(self, function: FunctionType, ledger: Ledger, bound: Any) -> Any:
        """An entry, or an error; or the decision to run the call as it is, after one."""
        try:
            with progress.compiling(self.label.name, self.label.file, self.label.line):
                return self._install(function, ledger, bound)
        except (CaptureError, SpecializedError) as error:
            announcements.failed(self.label, error)
            raise
        except RecursionError as error:
            announcements.failed(self.label, error)
            if not self.options.fullgraph:
                self._warn(ledger, f"{self.label} runs eagerly where too little stack is left.")
            raise  # see __call__
        except Exception as error:
            announcements.failed(self.label, error)
            if is_interrupt(error):
                raise
            failure = self._failure(error)
            if self.options.fullgraph or not config.suppress_errors:
                try:
                    raise failure from failure.__cause__
                finally:
                    del failure  # this frame, with the arguments, is in its traceback
            ledger.compiles += 1  # so that it is not tried for ever
            self._warn(ledger, f"{failure}\n  {self.label} runs eagerly.")
            return CALL_ORIGINAL

    def _ledger(self, compiled: CompiledFunction) -> Ledger:
        """The function may have got another code, and with it another bucket."""
        bucket = compiled.bucket
        if bucket is not self.ledger.bucket:
            self.ledger = own_ledger(bucket.code, self.options, bucket)
        return self.ledger

    # ------------------------------------------------------------------ limits

    def _may_compile(
        self, compiled: CompiledFunction, function: FunctionType, ledger: Ledger, bound: Any
    ) -> bool:
        """Whether one more variant is allowed; notes why it is needed."""
        limit = limit_reached(ledger, self.options)
        if limit is None:
            if ledger.compiles:
                why = self._reasons(compiled, function, bound)
                ledger.recompiles.append(why)
                announcements.recompiled(why)
                if config.error_on_recompile:
                    raise RecompileError(str(why), why)
            return True
        if ledger.full and not self._limit_is_an_error():
            announcements.declined(self.label)
            return False  # said already; every further call comes here
        why = self._reasons(compiled, function, bound)
        text = told(limit, why)
        if self._limit_is_an_error():
            raise RecompileLimitError(text, why)
        ledger.full = True
        announcements.limited(self.label, text)
        self._warn(ledger, f"{text}\n  From now on, calls that none fits run eagerly.")
        return False

    def _reasons(
        self, compiled: CompiledFunction, function: FunctionType, bound: tuple[Any, ...]
    ) -> Recompile:
        ledgers = [self.ledger] if self.shared is None else [self.ledger, self.shared]
        return reasons(self.label, compiled, function, bound, ledgers)

    def _limit_is_an_error(self) -> bool:
        return self.options.fullgraph or config.fail_on_recompile_limit_hit

    # ------------------------------------------------------------------ one entry

    def _install(self, function: FunctionType, ledger: Ledger, bound: Any) -> Any:
        wanted = self._wanted(function, ledger, bound)
        try:
            return self._entry(function, ledger, bound, wanted)
        except (BackendError, UnknownSymbolError) as error:
            if not ledger.dynamics.in_use and type(error) is not UnknownSymbolError:
                raise
            announcements.closed(self.label, str(error))
        # Not every backend can do what it is asked for without knowing all sizes.
        ledger.dynamics.closed = True
        return self._entry(function, ledger, bound, ledger.dynamics.wanted(self.options))

    def _entry(self, function: FunctionType, ledger: Ledger, bound: Any, wanted: Wanted) -> Any:
        """Another thread may change what the trace has read before there is an entry: once more."""
        for _ in range(_ATTEMPTS - 1):
            with contextlib.suppress(_ChangedError):
                return self._attempt(function, ledger, bound, wanted)
        return self._attempt(function, ledger, bound, wanted)

    def _attempt(self, function: FunctionType, ledger: Ledger, bound: Any, wanted: Wanted) -> Any:
        task = Task(function, bound, self.points, self.careful, wanted)
        began = time.perf_counter()
        watch = announcements.Watch(self.label)
        task, trace = self._opened(ledger, task)
        shapes = trace.shapes
        ledger.dynamics.in_use = shapes is not None and shapes.in_use
        found = None
        if trace.broken is not None and trace.speculated and not self.options.fullgraph:
            found = self._split_as_seen(task, trace)
            if found is None:
                task = dataclasses.replace(task, careful=True)
                trace = self._traced(task)
        watch.traced(trace, time.perf_counter() - began)
        error = ending = None
        if trace.broken is not None:
            # Raised without a name here: this frame, with the arguments, is in its traceback.
            if self.options.fullgraph:
                raise CaptureError.of(self.label.name, trace.broken)
            if trace.error:
                raise _unwanted(self.label, trace.broken)
            error = CaptureError.of(self.label.name, trace.broken)
            may_split = found is None and not trace.broken.whole
            if may_split and len(ledger.continuations) < LIMIT:
                found = self._split(task, trace)
            announcements.broke(error, eager=found is None)
            if found is None:
                return self._eager(function, ledger, trace, error)
            trace = found
            watch.traced(trace, time.perf_counter() - began, "split")
        tracing = time.perf_counter() - began
        if trace.suspension is not None:
            ending = self._ending(ledger, trace.suspension, self.careful)
        if trace.plan is None:
            return self._as_it_is(function, ledger, trace, "an operator of torch raises")
        title = Title.of(self.label.name, next(NUMBERS))
        graph = code = failed = None
        called: tuple[str, ...] = ()
        compiling = 0.0
        if trace.recorded is not None:
            code = trace.recorded.module.code
            called = announcements.operators(trace.recorded.module)
            announcements.recorded(self.label, trace.recorded.module)
            began = time.perf_counter()
            lines = name_graph(trace.recorded.module, title)
            failed = Failures(title, lines, Rerun(self.label, trace))
            graph = compile_recorded(trace.recorded, self.options, title)
            compiling = time.perf_counter() - began
            assert trace.changes is not None
            graph = trace.changes.scopes.around(graph)
            if trace.retry is not None:
                graph = trace.retry.around(graph)
            graph = trace.edges.around(graph)
        graph = trace.prologue.around(graph, retry=trace.retry is not None)
        made = residual(
            trace.plan,
            code=function.__code__,
            inputs=trace.inputs if graph is not None else (),
            graph=graph,
            name=title.name,
            ending=ending,
            namespace=self.points[0].globals if self.points else function.__globals__,
            number=title.number,
            about=title.about(self.label, called, None if error is None else error.reason),
            failed=failed,
        )
        profiling.note(made.function, made.graph, title.graph)
        target: Callable[..., Any] = made.function
        sources = made.sources
        if trace.retry is not None:
            plain = trace.retry.plain or task.careful
            target = attempting(
                target,
                function.__code__,
                # With fullgraph the function itself runs: there is one graph, or none.
                None if plain or self.options.fullgraph else self._careful(),
                fetches=bool(sources),
                tails=ending is not None,
            )
            sources = (*sources, guards.FUNCTION)
        kept = trace.all_guards()
        announcements.decided(self.label, trace.shapes)
        self._check_marks(trace)
        progress.stage("guards")
        tree = guards.compile(kept, outputs=sources)
        if not tree.check(bound, function):
            if trace.shapes is not None and trace.shapes.unbacked:
                raise UnknownSymbolError("the usual is assumed, which is otherwise in this call")
            failure = tree.explain(bound, function)
            raise _ChangedError(f"a guard fails on the call it was made from: {failure}")
        entry = ledger.bucket.add(
            tree,
            target,
            fetch=bool(sources),
            tails=ending is not None or trace.retry is not None,
            steady=is_steady(trace),
        )
        done = Compilation(
            entry,
            self.label,
            kept,
            code,
            made.text,
            broken=error,
            operators=called,
            trace_seconds=tracing,
            backend_seconds=compiling,
            number=title.number,
        )
        self._keep(ledger, done)
        announcements.compiled(self.label, done, trace.plan, made.function)
        return entry

    def _wanted(self, function: FunctionType, ledger: Ledger, bound: tuple[Any, ...]) -> Wanted:
        """Which sizes and numbers the trace leaves open: those that differ from calls before."""
        if self.options.dynamic is not False:
            seen = [each.guards for each in ledger.compilations]
            for noted in seen if ledger.noticed is None else [ledger.noticed, *seen]:
                ledger.dynamics.learn(noted, bound, function)
        return ledger.dynamics.wanted(self.options)

    def _opened(self, ledger: Ledger, task: Task) -> tuple[Task, Trace]:
        """The trace with sizes left open; if more can be captured when they are not, then so."""
        task, trace = self._with_floats(ledger, task)
        if trace.broken is None or trace.broken.asked or not trace.shapes or trace.shapes.marked:
            return task, trace
        plain = dataclasses.replace(task, wanted=Wanted(never=True))
        other = self._traced(plain)
        if other.broken is not None and other.broken.places == trace.broken.places:
            return task, trace
        ledger.dynamics.closed = True
        announcements.closed(self.label, trace.broken.reason)
        return plain, other

    def _with_floats(self, ledger: Ledger, task: Task) -> tuple[Task, Trace]:
        """The trace with floats left open, if the program decides nothing by them."""
        trace = self._traced(task)
        floats = trace.shapes is not None and trace.shapes.floats
        if not floats or (trace.broken is None and not trace.speculated):
            return task, trace
        wanted = dataclasses.replace(task.wanted, floats=frozenset())
        plain = dataclasses.replace(task, wanted=wanted)
        other = self._traced(plain)
        if other.speculated == trace.speculated and _places(other) == _places(trace):
            return task, trace
        ledger.dynamics.fixed_floats = True
        announcements.closed(self.label, "the program decides something by one", "no float")
        return plain, other

    def _check_marks(self, trace: Trace) -> None:
        """What the user has marked as dynamic must be so."""
        broken = [] if trace.shapes is None else trace.shapes.broken_marks()
        if broken:
            raise SpecializedError(self.label, broken)

    def _traced(self, task: Task) -> Trace:
        with _now_tracing():
            load(self.options.backend)
            return trace(task)

    def _split_as_seen(self, task: Task, first: Trace) -> Trace | None:
        """A split of a trace that takes values for granted, if it is right where it broke."""
        assert first.broken is not None
        if first.broken.instruction is None or first.broken.whole:
            return None
        with _now_tracing():
            found = trace(task, first.steps)
        return found if found.suspension is not None else None

    def _split(self, task: Task, first: Trace) -> Trace | None:
        with _now_tracing():
            return split(task, first)

    def _ending(self, ledger: Ledger, found: Suspension, careful: bool) -> Ending:
        """The compiled continuations behind an instruction."""

        def compiled(way: Exit | None) -> CompiledFunction | None:
            if way is None or not way.points:
                return None
            return ledger.continuations.at(way.points, make, careful=careful)

        def make(function: FunctionType, points: tuple[Point, ...]) -> CompiledFunction:
            code = function.__code__
            mine = own_ledger(code, self.options)
            mine.continuations = ledger.continuations
            last = Task(function, (), points).place
            name = self.label.name.partition(", resumed")[0]
            units = tuple(point.unit for point in points)
            label = Label(f"{name}, resumed in {last.function}", last.file, last.line, units)
            announcements.continued(self.label, label)
            miss = Compiler(self.options, label, mine, points=points, careful=careful)
            return CompiledFunction(function, miss, bucket=mine.bucket)

        return Ending(found, compiled(found.way), compiled(found.other), compiled(found.caught))

    def _careful(self) -> Callable[[FunctionType], CompiledFunction]:
        """What runs where it turns out that the graph took too much for granted."""
        code = self.ledger.bucket.code
        ledger = self.ledger.careful
        if ledger is None:
            ledger = own_ledger(code, self.options, family=self.ledger.family)
            ledger.continuations = self.ledger.continuations
            self.ledger.careful = ledger
        miss = Compiler(self.options, self.label, ledger, points=self.points, careful=True)

        def make(function: FunctionType) -> CompiledFunction:
            return CompiledFunction(function, miss, bucket=ledger.bucket)

        return make

    def _keep(self, ledger: Ledger, done: Compilation) -> None:
        """Counts an entry, and offers it to those who share."""
        ledger.compiles += 1
        ledger.add(done)
        shared = self.shared
        if shared is not None and not self.options.isolate:
            limit = self.options.recompile_limit or config.recompile_limit
            if shared.bucket.code is ledger.bucket.code and len(shared.bucket.entries()) < limit:
                entry = done.entry
                shared.bucket.add(
                    entry.guards,
                    entry.target,
                    fetch=entry.fetch,
                    tails=entry.tails,
                    steady=entry.steady,
                )
                shared.add(done)

    def _eager(
        self, function: FunctionType, ledger: Ledger, trace: Trace, error: CaptureError
    ) -> Any:
        """This path runs as it is, under the guards that say which path it is."""
        if trace.broken is None or not trace.broken.asked:
            self._warn(ledger, f"{error}\n  This path runs eagerly.")
        return self._as_it_is(function, ledger, trace, error.reason, error)

    def _as_it_is(
        self,
        function: FunctionType,
        ledger: Ledger,
        trace: Trace,
        reason: str,
        error: CaptureError | None = None,
    ) -> Any:
        """An entry that calls the function itself."""
        kept = trace.all_guards()
        announcements.decided(self.label, trace.shapes)
        if is_plain(function):
            entry = ledger.bucket.add(guards.compile(kept), function)
        else:
            tree = guards.compile(kept, outputs=(guards.FUNCTION,))
            entry = ledger.bucket.add(tree, unbinding(function.__code__), fetch=True)
        done = Compilation(entry, self.label, kept, None, "", eager=reason, broken=error)
        self._keep(ledger, done)
        announcements.compiled(self.label, done)
        return CALL_ORIGINAL

    def _failure(self, error: Exception) -> Exception:
        """What the user gets: whatever is not the backend's fault is a bug of ours."""
        if isinstance(error, BackendError | InternalError):
            return error
        return InternalError.report(f"compile {self.label}", error)

    def _warn(self, ledger: Ledger, text: str) -> None:
        if text not in ledger.warned:
            ledger.warned.add(text)
            announcements.warned(self.label, text)
            with progress.aside():
                warnings.warn(text, stacklevel=_level_outside())


def _same(backend: Any, other: Any) -> bool:
    return backend is other or (isinstance(backend, str) and backend == other)


def _places(trace: Trace) -> tuple[Place, ...] | None:
    """Where a trace was broken off."""
    return None if trace.broken is None else trace.broken.places


def _unwanted(label: Label, broken: Break) -> CaptureError:
    error = CaptureError.of(label.name, broken)
    error.add_note("error_on_graph_break(True) holds where the graph would be split.")
    return error


@contextlib.contextmanager
def _now_tracing() -> Iterator[None]:
    collects = gc.isenabled()
    try:
        gc.disable()  # the program's finalizers would run in the middle, on fake tensors
        _tracing.now = True
        yield
    finally:
        _tracing.now = False
        if collects:
            gc.enable()
        announcements.stepped()


def _level_outside() -> int:
    """For a warning: how far from the caller it is to a frame that is not stator's."""
    level, frame = 1, sys._getframe(1)
    while frame.f_code.co_filename.startswith(PACKAGE) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level
