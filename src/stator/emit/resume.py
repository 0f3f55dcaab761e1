"""Continuations as native functions: the rest of a program that was stopped in the middle.

Stage: emit. In: `Point`s, where the frames of the program stand (`stator.evaluator.points`). Out: a
function that takes what they hold and goes on in CPython, as if nothing had happened.

The code of one frame is a prefix and the original code, unchanged:

    COPY_FREE_VARS, MAKE_CELL …     as the original begins; CPython looks for them
    push the stack                  values, NULLs, exceptions being handled, lasti
                                    (since 3.14 that is no object: see `_Prefix._raised_at`)
    push the next frame's function and all its values                       (a caller)
    bind the variables
    RESUME
    CALL                                                                    (a caller)
    JUMP_FORWARD to the instruction
    RERAISE …                       where the lasti of 3.14 come from
    NOP                             never reached: it takes the line back to the first one
    the original code               jumps are relative; its exception table is moved

Before RESUME CPython counts a frame as not begun: tracebacks, `sys._getframe`, tracers and signals
don't see how it is restored. RESUME and CALL have the place and the handlers of the instruction
they stand for, the one at the point or, in a caller, the call before it.

All values arrive in the tuple of a `*` parameter, whose slot some variable takes over in the end,
so the tuple is gone when the program goes on. If the original has a positional parameter, there is
one before the `*`, because `super()` looks for it. Code with fewer slots than that gets some more.
"""

from collections.abc import Sequence
from types import CellType, CodeType, FunctionType
from typing import Any, Final, NamedTuple
from weakref import ref

from stator.bytecode import (
    TABLES,
    ArgKind,
    Handler,
    Instruction,
    Positions,
    decode,
    encode_exception_table,
    find_handler,
)
from stator.bytecode.arguments import pair
from stator.emit.assembly import SUBSCRIPT, encode, locate
from stator.evaluator.points import Point, Slot, is_suspendable

_FUNCTION: Final = 0x1 | 0x2
"""CO_OPTIMIZED and CO_NEWLOCALS: variables are in slots, not in a mapping."""
_VARARGS: Final = 0x4
_VARKEYWORDS: Final = 0x8
_NOWHERE: Final[Positions] = (None, None, None, None)
_UNSPLIT: Final = frozenset({"KW_NAMES", "PRECALL"})
"""They leave something outside of the stack for the instruction behind them."""


LASTI_IS_TAGGED: Final = TABLES.python >= (3, 14)
_PASSING: Final = Exception("raised to put a place on the stack, and caught at once")


def resume(points: Sequence[Point], name: str) -> FunctionType:
    """The function that goes on at these points, the outermost first.

    It takes positionally, for each point, the values of `locals`, then those of the stack from the
    bottom; it returns or raises what the outermost frame does. Every point but the last waits
    behind its call for the result of the next one.
    """
    if not points:
        raise ValueError("there is no point to go on at")
    function: FunctionType | None = None
    values = 0
    for point in reversed(points):
        function = _function(point, function, values)
        values += point.size
    assert function is not None
    function.__name__ = name
    return function


def leave(points: Sequence[Point], name: str) -> FunctionType:
    """A function like `resume`'s, which takes one more value: an exception, raised at the point.

    What the program does on its way out happens: `finally` blocks, ends of `with` blocks.
    """
    thrower: Any = _raise
    function: FunctionType = thrower
    values = 1
    for point in reversed(points):
        function = _function(point, function, values, thrown=function is thrower)
        values += point.size
    function.__name__ = name
    return function


def _raise(error: BaseException) -> None:
    raise error


class _Layout:
    """What all continuations of one code object share. It must not refer to the code object."""

    __slots__ = (
        "_indices",
        "_positions",
        "bag",
        "cells",
        "code",
        "first",
        "handlers",
        "head",
        "instructions",
        "moved_from",
        "spare",
    )

    code: bytes
    head: bytes
    """COPY_FREE_VARS and MAKE_CELLs."""
    cells: frozenset[int]
    """Slots that the head fills with new cells."""
    first: int
    """The unit of RESUME, where frames begin."""
    bag: int
    """The slot in which the values arrive; there is a positional parameter if it is not 0."""
    spare: int
    """1 if a slot was put behind the variables, before `moved_from`, to make place for it."""
    moved_from: int
    handlers: tuple[Handler, ...]
    instructions: tuple[Instruction, ...]

    def __init__(self, code: CodeType) -> None:
        if code.co_flags & _FUNCTION != _FUNCTION or not is_suspendable(code):
            raise ValueError(f"{code.co_qualname} is not the code of a plain function")
        decoded = decode(code)
        self.bag = 1 if code.co_argcount else 0
        self.moved_from = code.co_nlocals
        self.spare = max(self.bag + 1 - code.co_nlocals, 0)
        self.handlers = decoded.handlers
        self.instructions = decoded.instructions
        self._indices = {step.start: index for index, step in enumerate(decoded.instructions)}
        self._positions: list[Positions] | None = None
        begin = next((step for step in decoded.instructions if step.name == "RESUME"), None)
        if begin is None:
            raise ValueError(f"{code.co_qualname} has no RESUME")
        self.first = begin.unit
        self.code = self._widened(code.co_code) if self.spare else code.co_code
        self.head = self.code[: 2 * begin.start]
        opening = decoded.instructions[: self._indices[begin.start]]
        self.cells = frozenset(self.slot(step.arg) for step in opening if step.name == "MAKE_CELL")

    def slot(self, index: int) -> int:
        """Where a variable of the original is."""
        return index + self.spare if index >= self.moved_from else index

    def _widened(self, code: bytes) -> bytes:
        """The instructions, with the slots they refer to moved to make place for spare ones."""
        widened = bytearray(code)
        for step in self.instructions:
            kind = TABLES.kinds[step.name]
            if kind is ArgKind.LOCAL or kind is ArgKind.CELL:
                arg = self.slot(step.arg)
            elif kind is ArgKind.LOCAL_PAIR:
                left, right = map(self.slot, pair(step))
                arg = left << 4 | right if right < 16 else 1 << 32
            else:
                continue
            encoded = encode(step.name, arg) if arg < 1 << 32 else b""
            if len(encoded) != 2 * (step.next - step.start):
                raise ValueError("too many variables for a continuation")
            widened[2 * step.start : 2 * step.next] = encoded
        return bytes(widened)

    def at(self, unit: int) -> int:
        """The index of the instruction that starts at a unit at which one can go on."""
        index = self._indices.get(unit)
        if index is None or (index and self.instructions[index - 1].name in _UNSPLIT):
            raise ValueError(f"no frame can go on at unit {unit}")
        for step in self.instructions[index:]:
            if step.unit >= self.first:
                break
            if step.name == "COPY_FREE_VARS":
                raise ValueError("the frame has not got its closure yet")
        return index

    def covering(self, unit: int) -> Instruction:
        """The instruction at a unit."""
        return next(step for step in self.instructions if step.start <= unit < step.next)

    def positions(self, code: CodeType, step: Instruction) -> Positions:
        """Where an instruction is in the source; `code` is the code object this was made from."""
        if self._positions is None:
            self._positions = list(code.co_positions())
        return self._positions[step.unit] if step.unit < len(self._positions) else _NOWHERE


_layouts: Final[dict[int, tuple[ref[CodeType], _Layout]]] = {}
"""By id: code objects are compared by their contents, constants included."""


def _layout(code: CodeType) -> _Layout:
    key = id(code)
    known = _layouts.get(key)
    if known is not None and known[0]() is code:
        return known[1]
    layout = _Layout(code)
    _layouts[key] = ref(code, lambda _: _layouts.pop(key, None)), layout
    return layout


def _function(
    point: Point, callee: FunctionType | None, rest: int, *, thrown: bool = False
) -> FunctionType:
    """The function of one frame: takes its values and, for its callee, `rest` more.

    If something is thrown, the callee is called at the point, not in place of the call before it.
    """
    code = point.code
    layout = _layout(code)
    index = layout.at(point.unit)
    waits = callee is not None and not thrown
    if waits and index == 0:
        raise ValueError("there is no call before the first instruction")
    # One that has not begun has its own RESUME before it.
    begun = point.unit > layout.first
    prefix = _Prefix(layout, len(code.co_consts))
    ends = prefix.write(point, callee, rest, begun=begun)
    step = layout.instructions[index - 1 if waits else index]
    handlers = [
        Handler(start + ends.shift, end + ends.shift, target + ends.shift, depth, lasti)
        for start, end, target, depth, lasti in layout.handlers
    ]
    place = point.behind if thrown and point.behind is not None else step.unit
    cover = find_handler(layout.handlers, place)
    handlers[:0] = prefix.handlers
    if begun and cover is not None:
        target = cover.target + ends.shift
        handlers.insert(0, Handler(ends.hidden, ends.visible, target, cover.depth, cover.lasti))
    # Tracers report a line again behind code that has none: right if it begins there.
    anew = callee is None and _begins_line(layout, code, index)
    raised = [layout.positions(code, layout.covering(unit)) for unit in prefix.raised]
    lines = _lines_of(ends, layout.positions(code, step), code.co_firstlineno, raised, anew=anew)
    variables = code.co_varnames + (".values",) * layout.spare
    parameters = 1 if layout.bag else 0
    constants = [ends.shift + value if lasti else value for lasti, value in prefix.constants]
    made = code.replace(
        co_code=bytes(prefix.code) + layout.code,
        co_consts=code.co_consts + tuple(constants),
        co_exceptiontable=encode_exception_table(handlers),
        co_linetable=lines + code.co_linetable,
        co_stacksize=max(code.co_stacksize, prefix.deepest),
        co_argcount=parameters,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~_VARKEYWORDS | _VARARGS,
        co_varnames=variables,
        co_nlocals=len(variables),
    )
    # The cells that count are values. These are for variables that are not bound any more.
    closure = tuple(CellType() for _ in code.co_freevars)
    return FunctionType(made, point.globals, code.co_name, (None,) * parameters, closure)


class _Ends(NamedTuple):
    """Where the parts of a prefix end, in units."""

    hidden: int
    """What no traceback shows: it restores the frame."""
    resumed: int
    """RESUME, if the frame has begun."""
    entered: int
    """The call of the next frame, if there is one."""
    visible: int
    """The jump."""
    shift: int
    """All of it: the original code begins here."""


def _lines_of(
    ends: _Ends, place: Positions, first: int, raised: Sequence[Positions], *, anew: bool
) -> bytes:
    """The line table of a prefix: it is where the instruction is that it leads to."""
    # Tracers are told where RESUME is, so that must be somewhere.
    begin = (first, None, None, None) if place[0] is None else place
    lines = _Lines(first)
    lines.add(ends.hidden, _NOWHERE)
    lines.add(ends.resumed - ends.hidden, begin)
    lines.add(ends.entered - ends.resumed, place)
    lines.add(ends.visible - ends.entered, _NOWHERE if anew else place)
    for each in raised:
        lines.add(1, each)
    lines.add(1, (first, None, None, None))
    return bytes(lines.table)


class _Lines:
    """A line table in the making."""

    def __init__(self, line: int) -> None:
        self.table = bytearray()
        self._line = line

    def add(self, units: int, place: Positions) -> None:
        if units:
            self.table += locate(units, place, self._line)
            self._line = self._line if place[0] is None else place[0]


def _begins_line(layout: _Layout, code: CodeType, index: int) -> bool:
    steps = layout.instructions
    line = layout.positions(code, steps[index])[0]
    return index == 0 or layout.positions(code, steps[index - 1])[0] != line


class _Prefix:
    """The instructions before the original ones."""

    def __init__(self, layout: _Layout, constants: int) -> None:
        self.layout = layout
        self.code = bytearray(layout.head)
        self.constants: list[tuple[bool, Any]] = []
        """Behind the original ones; marked are units of the original code (lasti)."""
        self.handlers: list[Handler] = []
        self.raised: list[int] = []
        """Units of the original that an instruction of the prefix stands for: see `_raised_at`."""
        self._detours: list[tuple[int, int]] = []
        self._base = constants
        self._depth = 0
        self.deepest = 0

    @property
    def _units(self) -> int:
        return len(self.code) // 2

    def write(self, point: Point, callee: FunctionType | None, rest: int, *, begun: bool) -> _Ends:
        """All of it: restores the frame, calls the next one, jumps."""
        self._push_stack(point)
        if callee is not None:
            self._push_call(callee, point.size, rest)
        self._bind(point.locals, point.size + rest)
        hidden = self._units
        if begun:
            self._add("RESUME")
        resumed = self._units
        if callee is not None:
            if "PRECALL" in TABLES.opmap:
                self._add("PRECALL", rest)
            self._add("CALL", rest)
        entered = self._units
        self._add("JUMP_FORWARD", point.unit + 1 + len(self._detours))
        visible = self._units
        self._raise()
        self._add("NOP")
        return _Ends(hidden, resumed, entered, visible, self._units)

    def _add(self, name: str, arg: int = 0) -> None:
        self.code += encode(name, arg)

    def _pushes(self, count: int, room: int = 0) -> None:
        """Notes that values were pushed, and that there were `room` more for a while."""
        self._depth += count
        self.deepest = max(self.deepest, self._depth + room)

    def _constant(self, value: object, lasti: bool = False) -> None:
        self._add("LOAD_CONST", self._base + len(self.constants))
        self.constants.append((lasti, value))

    def _load(self, slot: int) -> None:
        self._add("LOAD_DEREF" if slot in self.layout.cells else "LOAD_FAST", slot)

    def _value(self, number: int) -> None:
        """Push one of the function's arguments."""
        bag = self.layout.bag
        if number < bag:
            self._load(number)
        else:
            self._load(bag)
            self._constant(number - bag)
            self._add(*SUBSCRIPT)

    def _slice(self, *bounds: int | None) -> None:
        """Push a slice of the arguments in the bag."""
        self._load(self.layout.bag)
        for bound in bounds:
            self._constant(bound)
        self._add("BUILD_SLICE", len(bounds))
        self._add(*SUBSCRIPT)

    def _push_stack(self, point: Point) -> None:
        number = len(point.locals)
        for kind in point.stack:
            if kind is Slot.NULL:
                self._add("PUSH_NULL")
            elif kind is Slot.VALUE or kind is Slot.ITERATOR:
                self._value(number)
                number += 1
            elif kind is Slot.HANDLED:
                self._value(number)
                number += 1
                self._add("PUSH_EXC_INFO")
                self._add("POP_TOP")
            elif LASTI_IS_TAGGED:
                self._raised_at(int(kind))
            else:
                self._constant(int(kind), lasti=True)
            self._pushes(1, room=1)

    def _raised_at(self, unit: int) -> None:
        """Push a lasti as no instruction does since 3.14: have an exception raised and caught.

        Where it was raised is then on the stack: at an instruction with the original's place in the
        source, which is all that is ever asked of it. The instruction is behind RESUME, because a
        frame that is at one before has not begun.
        """
        self._constant(_PASSING)
        self.code += encode("EXTENDED_ARG") + encode("JUMP_FORWARD")
        self._detours.append((self._units, self._depth))
        self.raised.append(unit)
        self._add("POP_TOP")

    def _raise(self) -> None:
        """Where the detours of `_raised_at` lead: each raises, and is caught behind its jump."""
        for behind, depth in self._detours:
            distance = self._units - behind
            self.code[2 * behind - 3] = distance >> 8
            self.code[2 * behind - 1] = distance & 0xFF
            self.handlers.append(Handler(self._units, self._units + 1, behind, depth, True))
            self._add("RERAISE")

    def _push_call(self, callee: FunctionType, own: int, rest: int) -> None:
        """Push a function and its arguments, which are those behind the caller's own."""
        if TABLES.null_first:
            self._add("PUSH_NULL")
        self._constant(callee)
        if not TABLES.null_first:
            self._add("PUSH_NULL")
        self._pushes(2)
        begin = own - self.layout.bag
        count = rest
        if begin < 0 and count:
            self._value(0)
            begin, count = 0, count - 1
        if count:
            # Unpacking puts the first one on top; here the last one belongs there.
            self._slice(None, begin - 1 if begin else None, -1)
            self._add("UNPACK_SEQUENCE", count)
        self._pushes(rest, room=4)

    def _bind(self, variables: tuple[int, ...], given: int) -> None:
        """Store the variables, and clear the slots that hold something else."""
        layout = self.layout
        slots = [layout.slot(index) for index in variables]
        apart = slots[: layout.bag]
        packed = slots[layout.bag :]
        if packed:
            if len(packed) == given - layout.bag:
                self._load(layout.bag)
            else:
                self._slice(None, len(packed))
            self._add("UNPACK_SEQUENCE", len(packed))
        self._pushes(0, room=max(len(packed) + 1, 4))
        # From here on the values are on the stack: nothing is lost when the bag's slot is taken.
        for slot in apart:
            if slot or slot in layout.cells:
                self._load(0)
                self._add("STORE_FAST", slot)
        for slot in packed:
            self._add("STORE_FAST", slot)
        for slot in sorted(layout.cells.union(range(layout.bag + 1)).difference(slots)):
            self._add("DELETE_FAST", slot)
