"""Who compiles when: what happens to a call that no entry fits.

Stage: driver. In: such a call. Out: an entry, or the decision to run the call as it is. Such
decisions are entries with guards like any other, so which of two paths was seen first never
matters. Here it is decided whether to compile, with what, and what is done about failures; a
compile itself traces the call (`tracing.py`) and makes an entry of the trace (`entries.py`).
"""

import dataclasses
import sys
import traceback
import warnings
from types import CodeType, FunctionType
from typing import Any, Final

from stator import config
from stator._native._core import CALL_ORIGINAL, CompiledFunction, attach, lookup
from stator.backends import BackendError
from stator.backends.registry import is_built_in
from stator.capture import CaptureError, Trace
from stator.capture.library.garbage_collection import COLLECTOR
from stator.capture.numbers.assumptions import UnknownSymbolError
from stator.capture.trace.lifetime import compiling
from stator.capture.trace.restart import ReplayError
from stator.capture.trace.task import Task, Trust
from stator.capture.trace.wanted import Wanted
from stator.diagnostics import progress
from stator.diagnostics.breaks import Break, Failed, failures_are_raised
from stator.diagnostics.catalogue import InterpreterState
from stator.diagnostics.places import shown
from stator.distributed.errors import RankDivergence
from stator.driver import announcements, ranks, reproducer, stance
from stator.driver.abandon import abandon
from stator.driver.ahead import CompiledAhead
from stator.driver.attempts import Second
from stator.driver.backend import ValuesInGraphError
from stator.driver.cached import found, keep
from stator.driver.compiling_ahead import compiled_ahead
from stator.driver.entries import (
    ChangedError,
    assemble,
    build,
    install,
    install_original,
    install_twice,
)
from stator.driver.errors import (
    RecompileError,
    RecompileLimitError,
    SideEffectError,
    SpecializedError,
)
from stator.driver.first_steps import runs_once
from stator.driver.forking import expect_traces
from stator.driver.label import Label
from stator.driver.ledger import (
    Compilation,
    Ledger,
    Recompile,
    forget_recent,
    ledgers_of,
    own_ledger,
    shared_ledger,
)
from stator.driver.loading import key_of
from stator.driver.notice import notice
from stator.driver.one_at_a_time import compiling_alone
from stator.driver.options import Options
from stator.driver.recompiles import limit_reached, reasons, refused, told
from stator.driver.replaced_builtins import builtins_are_replaced
from stator.driver.side_effects import follow_policy
from stator.driver.stance import Stance
from stator.driver.tally import Why
from stator.driver.tracers import another_traces
from stator.driver.tracing import TRACING, Captured, captured
from stator.effects.suspension import Exit, Suspension
from stator.emit.ending import Ending
from stator.evaluator import PACKAGE, InternalError
from stator.evaluator.points import Point
from stator.graph.recording.interrupts import interrupt_behind, is_interrupt
from stator.graph.recording.modes import interruptible
from stator.store.folder import Key

_REPLACED: Final = "a builtin function that the compiler itself needs is replaced"
_ATTEMPTS: Final = 3
_MOST_FAILURES: Final = 3  # of ours, before a function is left alone


def compiled_function(
    function: FunctionType, options: Options, *, own: bool = False, label: Label | None = None
) -> CompiledFunction:
    """A function that compiles itself when it is called.

    Functions with the same code share a bucket, and its limit. With `own`, there is a bucket for
    this one, and what it compiles is offered to the others, as far as the limit goes: many modules
    of one class may be alike, or all different. An isolated one takes, but does not give: also not
    what would be compiled behind an entry that it takes. The label is what messages call it.
    """
    expect_traces()
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
    with compiling_alone():
        for ledger in ledgers_of(code):
            ledger.reset()
        if code is None:
            forget_recent()


class Compiler:
    """Compiles calls of one function: the `miss` of its `CompiledFunction`."""

    def __init__(
        self,
        options: Options,
        label: Label,
        ledger: Ledger,
        shared: Ledger | None = None,
        points: tuple[Point, ...] = (),
        trust: Trust = Trust.SEEN,
    ) -> None:
        self.options = options
        self.label = label
        self.ledger = ledger
        self.shared = shared
        self.points = points  # where it begins, if it is a continuation
        self.trust = trust

        self.key: Key | None = None  # under which entries are stored
        self._forced: dict[object, CompiledFunction] = {}  # the same with other backends

    def __call__(self, compiled: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        if TRACING.now or another_traces():
            return CALL_ORIGINAL  # called from what a trace runs for real, perhaps on fake tensors
        if builtins_are_replaced():
            if self.options.fullgraph:
                raise CaptureError.of(self.label.name, InterpreterState(_REPLACED))
            return CALL_ORIGINAL
        taken = stance.current()
        if taken.name == "eager_on_recompile":
            announcements.declined(self.label, Why.STANCE)
            return CALL_ORIGINAL
        try:
            with compiling_alone():
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

    def aot_compile(self, compiled: CompiledFunction, inputs: Any) -> CompiledAhead:
        """What is compiled for such a call, which is not made."""
        return compiled_ahead(self, compiled, inputs)

    def _served(self, compiled: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        found = compiled.find(bound)  # another thread may have compiled it meanwhile
        return self._compile(compiled, bound) if found is None else found

    def _served_so(self, taken: Stance, compiled: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        """What is done about a call, if the stance is not the default."""
        whole = not self.points and not self.trust  # what has begun goes on as it is
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
                announcements.declined(self.label, Why.STANCE)
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
        key = None
        if self.trust is Trust.SEEN:
            key = key_of(function, self.options, self.label, self.points)
        self.key = key
        with interruptible():
            known = self._from_cache(key, compiled, ledger, bound)
        if known is not None:
            return known.entry
        if not self._may_compile(compiled, function, ledger, bound):
            return CALL_ORIGINAL
        with interruptible(), compiling(), ranks.compiling(self.label):
            made = self._compiled_or_not(function, ledger, bound)
        COLLECTOR.settle()
        return made

    def _from_cache(
        self, key: Key | None, compiled: CompiledFunction, ledger: Ledger, bound: Any
    ) -> Compilation | None:
        """What another process has compiled for such a call."""
        if key is None or limit_reached(ledger, self.options) is not None:
            return None

        def ending(suspension: Suspension) -> Ending:
            return self._ending(ledger, suspension)

        done = found(key, compiled, bound, self.label, ledger, ending)
        if done is not None:
            self._keep(ledger, done)
        return done

    def _compiled_or_not(self, function: FunctionType, ledger: Ledger, bound: Any) -> Any:
        """An entry, or an error; or the decision to run the call as it is, after one."""
        try:
            with progress.compiling(self.label.name, self.label.file, self.label.line):
                return self._install(function, ledger, bound)
        except (CaptureError, RankDivergence, SideEffectError, SpecializedError, Warning) as error:
            announcements.failed(self.label, error)
            raise
        except RecursionError as error:
            announcements.failed(self.label, error)
            if not self.options.fullgraph:
                self._warn(ledger, f"{self.label} runs eagerly where too little stack is left.")
                announcements.suppressed(self.label, Why.STACK)
            raise  # see __call__
        except Exception as error:
            if (interrupt := interrupt_behind(error)) is not None:
                raise interrupt from None  # whatever was made of it on its way
            announcements.failed(self.label, error)
            if is_interrupt(error):
                raise
            failure = self._failure(error)
            if self._is_raised(error):
                try:
                    if isinstance(failure, InternalError):
                        self._report_with(failure, function, bound)
                    raise failure from failure.__cause__
                finally:
                    del failure  # this frame, with the arguments, is in its traceback
            ledger.compiles += 1  # so that it is not tried for ever
            ledger.failures += 1
            text = "".join(traceback.format_exception(failure))
            self._tell(ledger, function, bound, f"{failure}\n  {self.label} runs eagerly.", text)
            announcements.suppressed(self.label, Why.SUPPRESSED)
            return CALL_ORIGINAL

    # ------------------------------------------------------------------ failures of ours

    def _is_raised(self, error: Exception) -> bool:
        """Whether the program ends, as it is to with errors of its own backend."""
        if self.options.fullgraph or config.suppress_errors:
            return self.options.fullgraph
        return config.strict or isinstance(error, BackendError)

    def _may_run_uncompiled(self, trace: Trace) -> bool:
        """Whether a graph runs as it is where one of our backends fails.

        Not if it has sizes that are open: most of what backends fail on is that.
        """
        opened = trace.shapes is not None and trace.shapes.in_use
        strict = self.options.fullgraph or failures_are_raised()
        return not strict and not opened and is_built_in(self.options.backend)

    def _tell(
        self, ledger: Ledger, function: FunctionType, bound: Any, text: str, details: str
    ) -> None:
        """One warning about a failure of ours, with a file for the report."""
        if text not in ledger.warned:
            path = reproducer.written(function, tuple(bound), self.label, self.options, details)
            about = "" if path is None else f"\n  Please report it, with the file {path}"
            self._warn(ledger, text, about)

    def _tell_failed(self, ledger: Ledger, found: Captured) -> None:
        """The same, if the trace has been made around one."""
        failed = found.failed
        assert failed is not None
        if found.error is None:
            what = "It is compiled for these sizes and numbers alone."
        elif found.trace.broken is None:
            what = "The program is split there."
        else:
            what = "This path runs eagerly."
        lines = "\n".join(f"  {line}" for line in shown(failed.places))
        text = f"{self.label}: {failed.reason}\n{lines}\n  {what}"
        self._tell(ledger, found.task.function, found.task.bound, text, failed.text)

    def _report_with(self, error: InternalError, function: FunctionType, bound: Any) -> None:
        """A failure that is raised says where it is written down."""
        text = "".join(traceback.format_exception(error))
        path = reproducer.written(function, tuple(bound), self.label, self.options, text)
        if path is not None:
            error.add_note(f"Please report it, with the file {path}")

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
        if ledger.failures >= _MOST_FAILURES:
            announcements.declined(self.label, Why.FAILED)
            return False
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
            announcements.declined(self.label, Why.LIMIT)
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
        try:
            return reasons(self.label, compiled, function, bound, ledgers)
        except Exception as error:
            if is_interrupt(error) or failures_are_raised():
                raise
            return Recompile(self.label, ())  # it is for the user's eyes only

    def _limit_is_an_error(self) -> bool:
        return self.options.fullgraph or config.fail_on_recompile_limit_hit

    # ------------------------------------------------------------------ one entry

    def _install(self, function: FunctionType, ledger: Ledger, bound: Any) -> Any:
        wanted = self._wanted(function, ledger, bound)
        try:
            return self._entry(function, ledger, bound, wanted)
        except ValuesInGraphError as error:
            announcements.apart(self.label, str(error))
            ledger.continuations.apart = True
            return self._install(function, ledger, bound)
        except (BackendError, UnknownSymbolError) as error:
            if not ledger.dynamics.in_use and type(error) is not UnknownSymbolError:
                raise
            announcements.closed(self.label, str(error))
        except (CaptureError, RankDivergence, SideEffectError, SpecializedError):
            raise
        except (RecursionError, Warning):
            raise
        except Exception as error:
            opened = bool(wanted) or ledger.dynamics.in_use
            if not opened or wanted.never or failures_are_raised() or is_interrupt(error):
                raise
            announcements.closed(self.label, str(error))
            failure = self._failure(error)
            text = f"{failure}\n  It is compiled for these sizes and numbers alone."
            details = "".join(traceback.format_exception(failure))
            self._tell(ledger, function, bound, text, details)
        # Not every backend can do what it is asked for without knowing all sizes.
        ledger.dynamics.closed = True
        return self._entry(function, ledger, bound, ledger.dynamics.wanted(self.options))

    def _entry(self, function: FunctionType, ledger: Ledger, bound: Any, wanted: Wanted) -> Any:
        """Another thread may change what the trace has read before there is an entry: once more.

        Where that goes on, the call runs as it is. A bug of ours says the same each time.
        """
        said = set()
        for attempt in range(_ATTEMPTS):
            try:
                return self._attempt(function, ledger, bound, wanted)
            except (ChangedError, ReplayError) as error:
                said.add(str(error))
                last = attempt == _ATTEMPTS - 1
                if last and (self.options.fullgraph or len(said) == 1):
                    raise
        self._warn(ledger, f"{self.label} runs eagerly: {', '.join(sorted(said))}")
        ledger.compiles += 1  # so that it is not tried for ever
        announcements.declined(self.label, Why.CHANGED)
        return CALL_ORIGINAL

    def _attempt(self, function: FunctionType, ledger: Ledger, bound: Any, wanted: Wanted) -> Any:
        label, options = self.label, self.options
        varied = frozenset(ledger.continuations.varied) if self.trust else frozenset[object]()
        whole, splits = options.fullgraph, ledger.continuations.splits
        apart = ledger.continuations.apart
        inlined = ledger.continuations.inlined
        task = Task(
            *(function, bound, self.points, self.trust, varied, wanted, whole, apart, splits),
            inlined=inlined,
            auto=options.regions == "auto",
        )
        found = captured(task, label, options, ledger)
        if self._opened_elsewhere(found, ledger):
            wanted = ledger.dynamics.wanted(options)
            return self._attempt(function, ledger, bound, wanted)
        trace = found.trace
        if found.failed is not None:
            self._tell_failed(ledger, found)
        if trace.broken is not None:
            return self._eager(ledger, found, trace.broken)
        if trace.plan is None:
            return self._as_it_is(ledger, found, "an operator of torch raises")
        if trace.writes:
            follow_policy(label, trace.writes, _level_outside())
        ending = None if trace.suspension is None else self._ending(ledger, trace.suspension)
        may_fail, may_split = self._may_run_uncompiled(trace), not (whole or apart)
        once = runs_once(trace, found.task)
        built = build(
            trace,
            label,
            options,
            may_fail=may_fail,
            may_split=may_split,
            once=once,
            before=ledger.compilations,
        )
        if built.uncompiled is not None:
            text = f"{label}: {built.uncompiled.problem}\n  The graph runs uncompiled."
            details = "".join(traceback.format_exception(built.uncompiled))
            self._tell(ledger, function, bound, text, details)
        target = assemble(found, built, label, ending, self._second(found))
        done = install(found, built, target, label, ledger)
        self._keep(ledger, done)
        announcements.compiled(label, done, trace.plan, target.residual)
        keep(self.key, done, function, bound, options)
        return done.entry

    def _opened_elsewhere(self, found: Captured, ledger: Ledger) -> bool:
        """Has the ranks agree on a trace; whether others have left sizes open that it has not."""
        if found.trace.broken is not None or found.trace.plan is None:
            return False
        why = ledger.recompiles[-1] if ledger.recompiles else None
        opened = ranks.captured(self.label, found.trace.recorded, ledger.dynamics.sizes, why)
        return ledger.dynamics.open_also(opened)

    def _wanted(self, function: FunctionType, ledger: Ledger, bound: tuple[Any, ...]) -> Wanted:
        """Which sizes and numbers the trace leaves open: those that differ from calls before."""
        if self.options.dynamic is not False:
            seen = [each.guards for each in ledger.compilations]
            for noted in seen if ledger.noticed is None else [ledger.noticed, *seen]:
                ledger.dynamics.learn(noted, bound, function)
        return ledger.dynamics.wanted(self.options)

    def _ending(self, ledger: Ledger, found: Suspension) -> Ending:
        """The compiled continuations behind an instruction."""
        trust = self.trust

        def compiled(way: Exit | None) -> CompiledFunction | None:
            if way is None or not way.points:
                return None
            return ledger.continuations.at(way.points, make, trust=trust)

        def make(function: FunctionType, points: tuple[Point, ...]) -> CompiledFunction:
            code = function.__code__
            mine = own_ledger(code, self.options)
            mine.continuations = ledger.continuations
            label = self.label.behind(points)
            announcements.continued(self.label, label)
            miss = Compiler(self.options, label, mine, points=points, trust=trust)
            return CompiledFunction(function, miss, bucket=mine.bucket)

        return Ending(found, compiled(found.way), compiled(found.other), compiled(found.caught))

    def _second(self, found: Captured) -> Second | None:
        """What runs where it turns out that the graph took too much for granted."""
        retry = found.trace.retry
        if retry is None or retry.plain or found.task.trust is Trust.NOTHING:
            return None
        trust = Trust(found.task.trust + 1)
        ledger = self.ledger.careful
        if ledger is None:
            ledger = own_ledger(self.ledger.bucket.code, self.options, family=self.ledger.family)
            ledger.continuations = self.ledger.continuations
            self.ledger.careful = ledger
        miss = Compiler(self.options, self.label, ledger, points=self.points, trust=trust)

        def make(function: FunctionType) -> CompiledFunction:
            return CompiledFunction(function, miss, bucket=ledger.bucket)

        def hopeless() -> bool:
            return self.options.fullgraph and any(each.eager for each in ledger.compilations)

        return Second(make, ledger.continuations.varied.add, hopeless)

    def _keep(self, ledger: Ledger, done: Compilation) -> None:
        """Counts an entry, and offers it to those who share."""
        ledger.compiles += 1
        ledger.add(done)
        shared = self.shared
        if shared is not None and not self.options.isolate:
            limit = self.options.recompile_limit or config.recompile_limit
            if shared.bucket.code is ledger.bucket.code and len(shared.bucket.entries()) < limit:
                entry = done.entry
                also = shared.bucket.add(
                    entry.guards,
                    entry.target,
                    fetch=entry.fetch,
                    tails=entry.tails,
                    steady=entry.steady,
                )
                done.tally.entries.append(also)
                shared.add(done)

    def _eager(self, ledger: Ledger, found: Captured, broken: Break) -> Any:
        """This path runs as it is, under the guards that say which path it is."""
        error = found.error
        assert error is not None
        if self.options.fullgraph:
            return self._twice(ledger, found, error)
        if not broken.asked and not isinstance(broken, Failed):
            self._warn(ledger, f"{error}\n  This path runs eagerly.")
        return self._as_it_is(ledger, found, error.reason)

    def _twice(self, ledger: Ledger, found: Captured, error: CaptureError) -> Any:
        """There is to be one graph, and its checks fail: most often, the program itself raises.

        So it runs, but not for ever: it was promised that it is captured.
        """

        def told() -> None:
            self._warn(
                ledger,
                f"{error}\n  A call ran eagerly, though fullgraph=True: its values "
                "are others than those that the graph is for.",
            )

        done = install_twice(found, error, told, self.label, ledger)
        self._keep(ledger, done)
        announcements.compiled(self.label, done)
        return done.entry

    def _as_it_is(self, ledger: Ledger, found: Captured, reason: str) -> Any:
        ranks.runs_eagerly(self.label, reason)
        done = install_original(found, reason, self.label, ledger)
        self._keep(ledger, done)
        announcements.compiled(self.label, done)
        return CALL_ORIGINAL

    def _failure(self, error: Exception) -> Exception:
        """What the user gets: whatever is not the backend's fault is a bug of ours."""
        if isinstance(error, BackendError | InternalError):
            return error
        return InternalError.report(f"compile {self.label}", error)

    def _warn(self, ledger: Ledger, text: str, details: str = "") -> None:
        """Once for each text; the details are not the same each time."""
        if text not in ledger.warned:
            ledger.warned.add(text)
            announcements.warned(self.label, text)
            with progress.aside():
                warnings.warn(text + details, stacklevel=_level_outside())


def _same(backend: Any, other: Any) -> bool:
    return backend is other or (isinstance(backend, str) and backend == other)


def _level_outside() -> int:
    """For a warning: how far from the caller it is to a frame that is not stator's."""
    level, frame = 1, sys._getframe(1)
    while frame.f_code.co_filename.startswith(PACKAGE) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level
