"""The tracer: the evaluator's operations, carried out on the traced world.

In: what an instruction asks for, on real objects: shadows, fake tensors, objects made in the trace.
Out: the result, with every read of the world guarded and every torch call recorded. Everything
else CPython does itself (`core`), after the values it will look at have been made ready.
"""

import functools
import gc
import linecache
import sys
import types
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from contextvars import Context
from typing import Any, Final

from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame, is_python_class
from stator.capture.calls import operators
from stator.capture.calls.calls import Calls
from stator.capture.calls.calls_from_c import answer_frame
from stator.capture.calls.python_calls import note, ours
from stator.capture.iterators.iterators_across_breaks import Ahead
from stator.capture.modules.module_calls import ModuleCalls
from stator.capture.modules.module_hooks import Hooks, Number
from stator.capture.numbers.demanded_numbers import demanded, method
from stator.capture.objects import process_answers
from stator.capture.objects.attributes import Attributes
from stator.capture.objects.names import Waiting
from stator.capture.tensors.tensors import Tensors
from stator.capture.texts import formatting
from stator.capture.texts.text import Texts
from stator.capture.texts.type_names import renamed
from stator.capture.texts.warning_filters import INVERSE, TRUTH
from stator.capture.trace.blame import surrounding
from stator.capture.trace.instructions import Instructions
from stator.capture.trace.local_names import keeps_names
from stator.capture.trace.refusals import unseen
from stator.capture.trace.steps import Steps
from stator.capture.trace.writes import Write, Writes
from stator.contracts import Depth
from stator.diagnostics.breaks import Break, Failed, Place
from stator.diagnostics.catalogue import Finalizer, InterpreterState, ValueNeeded
from stator.diagnostics.places import line_of
from stator.effects import Perform
from stator.effects.texts import Text
from stator.evaluator import PACKAGE, Abort
from stator.evaluator.loop import evaluate, evaluate_for
from stator.evaluator.points import (
    Activation,
    Point,
    UnsplittableError,
    activations,
    restore,
)
from stator.graph.recording.interrupts import is_failure, is_interrupt
from stator.objects import TypeSet
from stator.world import MISSING, World

_PLAIN_SIZED: Final = TypeSet(list, dict, OrderedDict, defaultdict)


class Interrupted(Abort):
    """A signal handler has raised; `Tracer.interrupted` is what."""


def _has_left_us(error: BaseException) -> bool:
    """Whether an exception has come out of the tracer's own loop, before that could catch it. What
    the program throws into a generator has not.
    """
    step = core.traceback_of(error)
    while step is not None and not step.tb_frame.f_code.co_filename.startswith(PACKAGE):
        step = step.tb_next
    return step is not None


_STRINGS: Final = objects.TypeSet(str, Text)


class Suspended(Abort):
    """Ends a trace where it is to be split."""


def frames() -> Any:
    """Evaluated, this becomes the frames with which a trace begins."""


def resume(start: Any) -> Any:
    """What is evaluated, with `frames`, when a trace begins in the middle."""
    return start()


def _given_up(frame: Frame) -> BaseException | None:
    """A generator that dies with the trace simply ends: anything else would be shown as ignored."""
    return frame.thrown if type(frame.thrown) is GeneratorExit else None


class Tracer(Attributes):
    """The `Operations` of one trace."""

    def __init__(self, tensors: Tensors, world: World) -> None:
        super().__init__(tensors, world)
        self.modules = ModuleCalls(world)
        self.calls = Calls(self)
        self.instructions = Instructions(self)
        self.texts = Texts(self)
        self.ahead = Ahead(self.calls, lambda: self.base)
        self.hooks: Hooks | None = None  # whose numbers are left open
        self.base: types.CodeType | None = None  # of the frame that began: below it are not ours
        self.performed: list[Perform] = []  # what is put off until the graph has run, in order
        self.writes: Writes | None = None  # if somebody wants to know where the world is changed
        self.written: tuple[Write, ...] = ()
        self.stopped: Break | None = None
        self.interrupted: BaseException | None = None  # by a signal handler: the trace is over
        self.stopped_at = 0  # the instruction of the outermost loop
        self.limit = sys.maxsize  # instructions of the outermost loop, before the trace ends
        self.ticks: Any = None  # those left
        self.noted = False  # whether a log wants each instruction
        self.suspended: list[Activation] | None = None  # the frames when they had run out
        self.unfit = False  # the instruction where it was interrupted can't run on its own
        self.before: int | None = None  # a step before which the trace could end, if not here
        self.handled_outside: BaseException | None = None  # what the caller is handling
        self.operators: tuple[Any, ...] | None = None  # what was recorded, once the trace has ended
        self.parameters: dict[int, Waiting] = {}  # of the first frame, those that nobody reads yet
        self.resumed: tuple[Sequence[Point], Sequence[Any]] = ((), ())  # where the trace begins
        self._held: list[Any] = []
        world.evaluated = self._run_ours
        self._shown: dict[tuple[int, int], tuple[types.CodeType, str]] = {}  # lines, by place
        self.depth = 0  # frames that C code has started, the first one included

    # ------------------------------------------------------------------ frames

    def evaluate(self, frame: Frame) -> bool:
        """Runs a frame that C code has started."""
        if frame.thrown is not None and _has_left_us(frame.thrown):
            self.outside(frame, frame.thrown)
        if self.interrupted is not None:
            frame.result = _given_up(frame) or Interrupted()
            frame.finish()
            return False
        if self.stopped is not None or self.suspended is not None:
            frame.result = _given_up(frame) or self.stopped or Suspended()
            frame.finish()
            return False
        if frame.thrown is None:
            try:
                answered = answer_frame(self.calls, frame)
            except Break as signal:
                frame.result = self.stop(frame, signal)
                frame.finish()
                return False
            except BaseException as error:
                if not core.is_user_error(error):
                    error = self.failed(frame, error)
                elif not core.was_raised(error):
                    error = self.outside(frame, error)
                frame.result = error
                frame.finish()
                return False
            if answered:
                return True
        self.depth += 1
        called = method(frame)
        in_window = self.texts.suspend()
        waiting, self.tensors.frame = self.tensors.frame, None
        if self.depth == 1:
            self.base = sys._getframe(1).f_code
            for index, value in self.parameters.items():
                self.put(frame, index, value)
            self.ticks = Steps(self.limit) if self.noted else iter(range(self.limit))
            done = evaluate_for(frame, self.ticks, self.suspend)
        elif self.noted:
            done = evaluate_for(frame, Steps(sys.maxsize), self.suspend)
        else:
            done = evaluate(frame)
        self.tensors.frame = waiting
        frame.result = self.texts.resume(in_window, frame.result)
        self.depth -= 1
        try:
            if done:
                if self.depth:  # C code gets it, and may look into it
                    if self.tensors.is_symbol(frame.result):
                        frame.result = demanded(self.tensors, frame, *called)
                    self.values.ready(frame.result, Depth.DEEP)
                return True
        except Break as signal:
            frame.result = signal
        if objects.is_subtype(type(frame.result), Break):
            self._stopped(frame.result)
        return False

    def outside(self, frame: Frame, exc: BaseException) -> BaseException:
        """A trace is not the program: what a signal handler raises ends it.

        So does what torch raises when it can't reason about sizes.
        """
        if core.traceback_of(exc) is None:
            return exc
        if is_interrupt(exc):
            self.interrupted = exc
            return Interrupted()
        if isinstance(exc, GuardOnDataDependentSymNode):
            return self.stop(frame, ValueNeeded("torch asks for a size or number in a tensor"))
        return self.failed(frame, exc) if is_failure(exc) else exc

    def failed(self, frame: Frame, exc: BaseException) -> BaseException:
        """Code of ours has raised: the trace ends before this instruction."""
        return self.stop(frame, Failed(exc))

    def raised(self, frame: Frame, exc: BaseException) -> BaseException:
        return renamed(self, frame, exc)

    def _stopped(self, signal: Break) -> Break:
        if self.stopped is None:
            if self.calls.deaths.awaited:
                signal.whole = True
            self.stopped = signal
            self.stopped_at = self.steps - 1
        return self.stopped

    @property
    def steps(self) -> int:
        """How many instructions of the outermost loop have begun."""
        return 0 if self.ticks is None else self.limit - int(self.ticks.__length_hint__())

    @property
    def nested(self) -> bool:
        """Whether C code has called the frame that runs, or one of its callers."""
        return self.depth > 1

    def suspend(self, frame: Frame) -> BaseException:
        """The instructions have run out: the trace ends here."""
        kept = keeps_names(frame)  # before anything else refers to what is on the stack
        try:
            self.calls.abandoned.settle(frame)
            self.hold_generators()
            self.suspended = activations(frame, resume.__code__, self.variable)
        except (UnsplittableError, Break):
            self.hold_generators()
            self.suspended = []
        if self.calls.abandoned.outlive(frame):
            lost = "a generator that is given up behind a graph break would be closed too late"
            return self.stop(frame, Finalizer(lost, whole=True))
        if kept:
            lost = "a function goes on with the dict that `locals()` has answered"
            return self.stop(frame, InterpreterState(lost, whole=True))
        pending = self.calls.abandoned.pending()
        if pending is not None:
            self.before = pending
            self.suspended = []
        step: Frame | None = frame
        while step is not None:  # the outermost one is before all others
            if id(step) in self.calls.standing:
                _, self.before = self.calls.standing[id(step)]
                self.suspended = []
            step = step.caller
        return Suspended()

    def close(self) -> None:
        """Lets go of the world: the parts of a tracer refer to each other in circles."""
        parts = self.instructions, self.calls, self.texts, self.values, self.tensors, self.world
        for part in parts:
            part.__dict__.clear()
        self.__dict__.clear()

    def hold_generators(self) -> None:
        """The trace is broken off: suspended generators must not be closed by CPython."""
        self._held += [reference() for reference in self.calls.generators]

    def run_late(self, function: Any, *args: Any) -> None:
        """Evaluates a function of ours when the program itself has returned."""
        ours(self.calls, function)
        self.depth += 1
        try:
            core.run_with(self, function, *args)
        finally:
            self.depth -= 1

    def run_within(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        """Evaluates a function that C code calls, on behalf of a frame that waits for it."""
        return core.run_with(self, function, *args, **kwargs)

    def _run_ours(self, function: Any, *args: Any) -> Any:
        ours(self.calls, function)
        return self.run_within(function, *args)

    def hold(self, value: Any) -> None:
        """It must not be freed before the trace has ended."""
        self._held.append(value)

    def stop(self, frame: Frame, signal: Break) -> Break:
        """Notes why the trace ends, in case C code swallows the signal."""
        return self._stopped(signal.at(frame))

    # ------------------------------------------------------------------ operators

    def binary(self, frame: Frame, op: int, a: Any, b: Any) -> Any:
        if self.calls.abandoned.held:
            self.calls.abandoned.settle(frame)
        a, b = self.tensors.shapes.operands(frame, a, b)
        if type(a) is str and operators.BINARY[op] in formatting.MODULO:
            process_answers.shown(self.world, b)
            result = formatting.percent(self.calls, frame, a, b)
            if result is not MISSING:
                return result
        result = self._operator(frame, operators.BINARY[op], a, b)
        if result is not MISSING:
            return result
        self._ready_operands((a, b), operators.BINARY_NAMES[op])
        if op >= operators.INPLACE:
            self.world.touch(a)
        process_answers.combined(self.world, a, b)
        return core.binary(frame, op, a, b)

    def compare(self, frame: Frame, op: int, a: Any, b: Any) -> Any:
        a, b = self.tensors.shapes.operands(frame, a, b)
        result = self._operator(frame, operators.COMPARE[op], a, b)
        if result is not MISSING:
            return result
        self._ready_operands((a, b), operators.COMPARE_NAMES, Depth.DEEP)
        self.values.compared(a, b)
        return core.compare(frame, op, a, b)

    def identical(self, frame: Frame, a: Any, b: Any) -> bool:
        if self.tensors.is_symbol(a, b):
            return self.tensors.scalars.identical(frame, a, b)
        if type(a) is Text and _STRINGS.holds(type(b)):
            raise unseen(self.world, a, "{} is compared by identity")
        if type(b) is Text and type(a) is str:
            raise unseen(self.world, b, "{} is compared by identity")
        self.world.distinct(a, b)
        return False

    def negative(self, frame: Frame, value: Any) -> Any:
        return self._unary(frame, "__neg__", core.negative, value)

    def positive(self, frame: Frame, value: Any) -> Any:
        return self._unary(frame, "__pos__", core.positive, value)

    def invert(self, frame: Frame, value: Any) -> Any:
        if type(value) is bool and INVERSE.it_does:
            return INVERSE.carry_out(self.calls, core.invert, frame, value)
        return self._unary(frame, "__invert__", core.invert, value)

    def _unary(self, frame: Frame, name: str, plain: Any, value: Any) -> Any:
        result = self._operator(frame, operators.UNARY[name], value)
        if result is not MISSING:
            return result
        self._ready_operands((value,), (name,))
        return plain(frame, value)

    def _operator(self, frame: Frame, function: Any, *operands: Any) -> Any:
        """An operator on tensors, arrays or symbolic numbers; MISSING if there are none."""
        kinds = [type(value) for value in operands if not operators.NUMBERS.holds(type(value))]
        if not kinds:
            return MISSING
        if any(kind is Text for kind in kinds):
            return self.texts.concatenated(frame, function, *operands)
        if any(map(self.tensors.holds, kinds)):
            return self.tensors.operator(frame, function, *operands)
        if any(map(self.arrays.holds, kinds)):
            return self.arrays.operator(frame, function, *operands)
        if self.tensors.is_symbol(*operands):
            return self.tensors.scalars.operate(frame, function, *operands)
        return MISSING

    def _ready_operands(
        self, operands: tuple[Any, ...], names: tuple[str, ...], depth: Depth = Depth.SHALLOW
    ) -> None:
        for value in operands:
            cls = type(value)
            if operators.NUMBERS.holds(cls):
                continue
            self.values.ready(value, depth)
            if is_python_class(cls):
                self.world.protocol(cls, names)

    def tested(self, frame: Frame, value: Any) -> Any:
        """The value, so that a trace may end before a jump, with what it depends on computed."""
        return value

    def truth(self, frame: Frame, value: Any) -> bool:
        cls = type(value)
        if self.tensors.holds(cls):
            return self.tensors.truth(frame, value)
        if self.tensors.is_symbol(value):
            return self.tensors.scalars.truth(frame, value)
        if cls is Text:
            return self.texts.truth(value)
        if id(value) in self.world.opaque and not (
            objects.lookup(cls, "__bool__") or objects.lookup(cls, "__len__")
        ):
            return True
        if value is NotImplemented and TRUTH.it_does:
            return bool(TRUTH.carry_out(self.calls, core.truth, frame, value))
        length = self.length(value)
        if length is not None:
            return length > 0
        self._ready_operands((value,), ("__bool__", "__len__"))
        return core.truth(frame, value)

    def length(self, value: Any) -> int | None:
        """How many items an unfilled plain container has; None: ask CPython."""
        record = self.world.records.get(id(value))
        if record is None or record.filled or record.owner is not None or record.writes:
            return None
        if not _PLAIN_SIZED.holds(type(value)):
            return None
        if record.plain_length is None and self.world.holds_weak(record):
            return None
        return self.world.length(record)

    def contains(self, frame: Frame, container: Any, item: Any) -> bool:
        if type(item) is Number and self.hooks is not None:
            return self.hooks.contains(container, item)
        item = self.texts.settled(frame, item)
        container, item = self.tensors.shapes.searched(frame, container, item)
        if self.tensors.holds(type(container)):
            return self.tensors.contains(frame, container, item)
        if type(container) is types.MappingProxyType:
            (behind,) = gc.get_referents(container)
            container = behind if objects.is_subtype(type(behind), dict) else container
        if id(container) in self.world.opaque:
            container = self.ahead.given(container, calls=True)
        record = self.world.records.get(id(container))
        if (
            record is not None
            and not record.filled
            and self._base_method(container, "__contains__")
        ):
            found = self.world.has_key(record, item)
            if found is not None:
                return found
        self.world.hashed(item)
        names = ("__contains__", "__iter__", "__eq__")
        if type(container) is Context:  # its keys are variables, and nothing else is looked at
            self._ready_operands((container, item), names)
            return core.contains(frame, container, item)
        if objects.is_subtype(type(container), dict) and self._base_method(
            container, "__contains__"
        ):
            self._ready_operands((container,), names)
            self._ready_operands((item,), names, Depth.DEEP)
            self.values.ready_keys(container)
        else:
            self._ready_operands((container, item), names, Depth.DEEP)
            self.values.compared(container, item)
        return core.contains(frame, container, item)

    def _base_method(self, obj: Any, name: str) -> bool:
        """Whether a container's class uses the layout base's own C method."""
        found = self.world.class_attribute(type(obj), name)
        return found is not None and not is_python_class(found.owner)

    # ------------------------------------------------------------------ items

    def getitem(self, frame: Frame, obj: Any, key: Any) -> Any:
        cls = type(obj)
        key = self.texts.settled(frame, key)
        if self.tensors.holds(cls):
            return self.tensors.getitem(frame, obj, key)
        if self.arrays.holds(cls):
            return self.arrays.getitem(frame, obj, self.arrays.key(frame, obj, key))
        key = self.tensors.shapes.plain(frame, key)
        record = self.world.records.get(id(obj))
        if record is not None:
            if not record.filled and self._base_method(obj, "__getitem__"):
                value = self.world.item(record, key)
                if value is not MISSING:
                    return value
            self.world.fill(record)
        elif id(obj) in self.world.opaque:
            raise unseen(self.world, obj, "an item of {} is read")
        self.world.hashed(key)
        self._ready_operands((key,), ("__hash__", "__eq__", "__index__"), Depth.DEEP)
        self.world.protocol(cls, ("__getitem__", "__missing__"))
        if objects.is_subtype(cls, type):
            self.world.protocol(obj, ("__class_getitem__",))
        if objects.is_subtype(cls, defaultdict):
            self.calls.check_held(obj)
        return core.getitem(frame, obj, key)

    def setitem(self, frame: Frame, obj: Any, key: Any, value: Any) -> None:
        if self.calls.abandoned.held:
            self.calls.abandoned.settle(frame)
        if self.tensors.holds(type(obj)):
            self.tensors.setitem(frame, obj, key, value)
            return
        if self.arrays.holds(type(obj)):
            self.arrays.setitem(frame, obj, self.arrays.key(frame, obj, key), value)
            return
        key = self.tensors.shapes.plain(frame, key)
        self.world.touch(obj, key)
        record = self.world.records.get(id(obj))
        unfilled = record is not None and not record.filled
        if unfilled and self._base_method(obj, "__setitem__"):
            assert record is not None
            if self.world.store_item(record, key, value):
                return
        self._ready_store(obj, key, "__setitem__")
        if type(key) is slice:
            self.values.ready(value, Depth.SHALLOW)
            process_answers.iterated(self.world, value)
        core.setitem(frame, obj, key, value)

    def delitem(self, frame: Frame, obj: Any, key: Any) -> None:
        if self.calls.abandoned.held:
            self.calls.abandoned.settle(frame)
        key = self.tensors.shapes.plain(frame, key)
        self.world.touch(obj, key)
        self._ready_store(obj, key, "__delitem__")
        core.delitem(frame, obj, key)

    def _ready_store(self, obj: Any, key: Any, name: str) -> None:
        cls = type(obj)
        record = self.world.records.get(id(obj))
        if record is not None:
            self.world.fill(record)
        elif id(obj) in self.world.opaque:
            raise unseen(self.world, obj, "an item of {} is set")
        self.world.hashed(key)
        self._ready_operands((key,), ("__hash__", "__eq__", "__index__"), Depth.DEEP)
        self.world.protocol(cls, (name,))

    # ------------------------------------------------------------------ iteration

    def iter(self, frame: Frame, obj: Any) -> Any:
        if self.tensors.holds(type(obj)):
            return self.tensors.iter(frame, obj)
        if self.arrays.is_symbolic(obj):
            return self.arrays.iter(frame, obj)
        if id(obj) in self.world.opaque:
            if self.ahead.iterates(obj):
                return obj
            raise unseen(self.world, obj, "{} is iterated over")
        if self.tensors.is_symbol(obj):
            obj = self.tensors.shapes.plain(frame, obj)
        self._ready_operands((obj,), ("__iter__", "__getitem__", "__len__"))
        process_answers.iterated(self.world, obj)
        made = core.iter(frame, obj)
        note(self.calls, made)
        return made

    def next(self, frame: Frame, iterator: Any) -> Any:
        budget = self.tensors.budget
        budget.iterates(frame)
        if id(iterator) in self.world.opaque:
            item = self.ahead.next(frame, iterator)
        elif type(iterator) is types.GeneratorType:
            item = self.texts.passed(frame, core.next, iterator)
        else:
            self.world.protocol(type(iterator), ("__next__",))
            item = core.next(frame, iterator)
        budget.ended(frame, item)
        return item

    def send(self, frame: Frame, receiver: Any, value: Any) -> tuple[bool, Any]:
        if id(receiver) in self.world.opaque:
            if value is not None or not self.ahead.iterates(receiver):
                raise unseen(self.world, receiver, "{} is advanced")
            item = self.ahead.next(frame, receiver)
            return item is core.NULL, None if item is core.NULL else item
        return core.send(frame, receiver, value)

    # ------------------------------------------------------------------ calls

    def call(
        self, frame: Frame, callable: Any, args: list[Any], kwnames: tuple[str, ...] | None
    ) -> Any:
        if self.stopped is not None:
            raise self.stopped
        if callable is frames:
            return restore(frame, *self.resumed, self.put)
        if self.calls.abandoned.held:
            self.calls.abandoned.settle(frame)
        return self.calls.call(frame, callable, args, kwnames)

    def call_ex(self, frame: Frame, callable: Any, args: Any, kwargs: dict[str, Any] | None) -> Any:
        return self.calls.call_ex(frame, callable, args, kwargs)

    def call_native(self, frame: Frame, callable: Any, *args: Any) -> Any:
        return self.instructions.call_native(frame, callable, args)

    def make_function(self, frame: Frame, code: types.CodeType) -> types.FunctionType:
        function = core.make_function(frame, code)
        self.calls.made[id(function)] = function
        return function

    def instruction(self, frame: Frame, thunk: types.FunctionType, *operands: Any) -> Any:
        return self.instructions.instruction(frame, thunk, operands)

    def stack_trace(self, frame: Frame) -> str:
        """The user's lines, as FX prints them; the next node is noted as of the modules there."""
        below = surrounding() if self.depth > 1 else []
        self.tensors.graph.modules = self.modules.at(frame, below)
        known = self._shown
        texts: list[str] = []
        step: Frame | None = frame
        while step is not None:  # often deep: no call for what was shown before
            code = step.code
            at = id(code), step.ip
            found = known.get(at)
            if found is None:
                ours = code.co_filename.startswith(PACKAGE)
                found = known[at] = code, "" if ours else _shown(line_of(step))
            if found[1]:
                texts.append(found[1])
            step = step.caller
        for each in below:
            texts.append(
                _shown(Place(each.f_code.co_filename, each.f_lineno, each.f_code.co_qualname))
            )
        texts.reverse()
        return "\n".join(texts)


@functools.lru_cache(10_000)
def _shown(place: Place) -> str:
    text = linecache.getline(place.file, place.line).strip()
    return f'  File "{place.file}", line {place.line}, in {place.function}\n    {text}'
