"""The tracer: the evaluator's operations, carried out on the traced world.

In: what an instruction asks for, on real objects: shadows, fake tensors, objects made in the trace.
Out: the result, with every read of the world guarded and every torch call recorded. Everything
else CPython does itself (`core`), after the values it will look at have been made ready.
"""

import functools
import linecache
import types
from collections import OrderedDict, defaultdict
from typing import Any, Final

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame, is_python_class
from stator.capture import operators
from stator.capture.attributes import Attributes
from stator.capture.calls import Calls
from stator.capture.instructions import Instructions
from stator.capture.tensors import Tensors
from stator.contracts import Depth
from stator.diagnostics.breaks import Break, Place, stack
from stator.evaluator import InternalError
from stator.evaluator.loop import evaluate
from stator.objects import TypeSet
from stator.world import MISSING, World

_PLAIN_SIZED: Final = TypeSet(list, dict, OrderedDict, defaultdict)


class Tracer(Attributes):
    """The `Operations` of one trace."""

    def __init__(self, tensors: Tensors, world: World) -> None:
        super().__init__(tensors, world)
        self.calls = Calls(self)
        self.instructions = Instructions(self)
        self.stopped: Break | None = None
        self._held: list[Any] = []
        self._depth = 0  # frames that C code has started, the first one included

    # ------------------------------------------------------------------ frames

    def evaluate(self, frame: Frame) -> bool:
        """Runs a frame that C code has started."""
        if self.stopped is not None:
            frame.result = self.stopped
            frame.finish()
            return False
        if frame.thrown is None:
            try:
                answered = self.calls.answer_frame(frame)
            except Break as signal:
                frame.result = self.stop(frame, signal)
                frame.finish()
                return False
            except BaseException as error:
                if not core.is_user_error(error):
                    error = InternalError.at(frame, error)
                frame.result = error
                frame.finish()
                return False
            if answered:
                return True
        self._depth += 1
        done = evaluate(frame)
        self._depth -= 1
        try:
            if done:
                if self._depth:  # C code gets it, and may look into it
                    self.values.ready(frame.result, Depth.DEEP)
                return True
        except Break as signal:
            frame.result = signal
        if type(frame.result) is Break and self.stopped is None:
            self.stopped = frame.result
        return False

    def close(self) -> None:
        """Lets go of the world: the parts of a tracer refer to each other in circles."""
        for part in (self.instructions, self.calls, self.values, self.tensors, self.world, self):
            part.__dict__.clear()

    def hold_generators(self) -> None:
        """The trace is broken off: suspended generators must not be closed by CPython."""
        self._held += [reference() for reference in self.calls.generators]

    def stop(self, frame: Frame, signal: Break) -> Break:
        """Notes why the trace ends, in case C code swallows the signal."""
        signal.at(frame)
        if self.stopped is None:
            self.stopped = signal
        return self.stopped

    # ------------------------------------------------------------------ operators

    def binary(self, frame: Frame, op: int, a: Any, b: Any) -> Any:
        result = self._operator(frame, operators.BINARY[op], a, b)
        if result is not MISSING:
            return result
        self._ready_operands((a, b), operators.BINARY_NAMES[op])
        return core.binary(frame, op, a, b)

    def compare(self, frame: Frame, op: int, a: Any, b: Any) -> Any:
        result = self._operator(frame, operators.COMPARE[op], a, b)
        if result is not MISSING:
            return result
        self._ready_operands((a, b), operators.COMPARE_NAMES, Depth.DEEP)
        return core.compare(frame, op, a, b)

    def identical(self, frame: Frame, a: Any, b: Any) -> bool:
        self.world.distinct(a, b)
        return False

    def negative(self, frame: Frame, value: Any) -> Any:
        return self._unary(frame, "__neg__", core.negative, value)

    def positive(self, frame: Frame, value: Any) -> Any:
        return self._unary(frame, "__pos__", core.positive, value)

    def invert(self, frame: Frame, value: Any) -> Any:
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
        if any(map(self.tensors.holds, kinds)):
            return self.tensors.operator(frame, function, *operands)
        if any(map(self.arrays.holds, kinds)):
            return self.arrays.operator(frame, function, *operands)
        if self.tensors.is_symbol(*operands):
            return self.tensors.symbolic(function, *operands)
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

    def truth(self, frame: Frame, value: Any) -> bool:
        cls = type(value)
        if self.tensors.holds(cls):
            return self.tensors.truth(value)
        if self.tensors.is_symbol(value):
            return bool(self.tensors.symbolic(bool, value))
        if id(value) in self.world.opaque and not (
            objects.lookup(cls, "__bool__") or objects.lookup(cls, "__len__")
        ):
            return True
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
        return self.world.length(record)

    def contains(self, frame: Frame, container: Any, item: Any) -> bool:
        if self.tensors.holds(type(container)):
            return self.tensors.contains(frame, container, item)
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
        self._ready_operands((container, item), ("__contains__", "__iter__", "__eq__"), Depth.DEEP)
        return core.contains(frame, container, item)

    def _base_method(self, obj: Any, name: str) -> bool:
        """Whether a container's class uses the layout base's own C method."""
        found = self.world.class_attribute(type(obj), name)
        return found is not None and not is_python_class(found.owner)

    # ------------------------------------------------------------------ items

    def getitem(self, frame: Frame, obj: Any, key: Any) -> Any:
        cls = type(obj)
        if self.tensors.holds(cls):
            return self.tensors.getitem(frame, obj, key)
        if self.arrays.holds(cls):
            return self.arrays.getitem(frame, obj, key)
        record = self.world.records.get(id(obj))
        if record is not None:
            if not record.filled and self._base_method(obj, "__getitem__"):
                value = self.world.item(record, key)
                if value is not MISSING:
                    return value
            self.world.fill(record)
        elif id(obj) in self.world.opaque:
            raise Break(f"an item of an object of type {cls.__qualname__} is read")
        self.world.hashed(key)
        self._ready_operands((key,), ("__hash__", "__eq__", "__index__"), Depth.DEEP)
        self.world.protocol(cls, ("__getitem__", "__missing__", "__class_getitem__"))
        return core.getitem(frame, obj, key)

    def setitem(self, frame: Frame, obj: Any, key: Any, value: Any) -> None:
        if self.tensors.holds(type(obj)):
            self.tensors.setitem(frame, obj, key, value)
            return
        if self.arrays.holds(type(obj)):
            self.arrays.setitem(frame, obj, key, value)
            return
        record = self.world.records.get(id(obj))
        unfilled = record is not None and not record.filled
        if unfilled and self._base_method(obj, "__setitem__"):
            assert record is not None
            if self.world.store_item(record, key, value):
                return
        self._ready_store(obj, key, "__setitem__")
        if type(key) is slice:
            self.values.ready(value, Depth.SHALLOW)
        core.setitem(frame, obj, key, value)

    def delitem(self, frame: Frame, obj: Any, key: Any) -> None:
        self._ready_store(obj, key, "__delitem__")
        core.delitem(frame, obj, key)

    def _ready_store(self, obj: Any, key: Any, name: str) -> None:
        cls = type(obj)
        record = self.world.records.get(id(obj))
        if record is not None:
            self.world.fill(record)
        elif id(obj) in self.world.opaque:
            raise Break(f"an item of an object of type {cls.__qualname__} is set")
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
            raise Break(f"an object of type {type(obj).__qualname__} is iterated over")
        self._ready_operands((obj,), ("__iter__", "__getitem__", "__len__"))
        made = core.iter(frame, obj)
        self.calls.note(made)
        return made

    def next(self, frame: Frame, iterator: Any) -> Any:
        if id(iterator) in self.world.opaque:
            raise Break(f"an iterator of type {type(iterator).__qualname__} is advanced")
        self.world.protocol(type(iterator), ("__next__",))
        return core.next(frame, iterator)

    def send(self, frame: Frame, receiver: Any, value: Any) -> tuple[bool, Any]:
        if id(receiver) in self.world.opaque:
            raise Break(f"an iterator of type {type(receiver).__qualname__} is advanced")
        return core.send(frame, receiver, value)

    # ------------------------------------------------------------------ calls

    def call(
        self, frame: Frame, callable: Any, args: list[Any], kwnames: tuple[str, ...] | None
    ) -> Any:
        if self.stopped is not None:
            raise self.stopped
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
        """The user's lines, as FX prints them."""
        return "\n".join(map(_shown, stack(frame)))


@functools.lru_cache(10_000)
def _shown(place: Place) -> str:
    text = linecache.getline(place.file, place.line).strip()
    return f'  File "{place.file}", line {place.line}, in {place.function}\n    {text}'
