"""Continuations, beyond values: tracers, signals, references, threads, depth, refusals."""

import _thread
import gc
import inspect
import itertools
import signal
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any

import pytest

from stator.bytecode import check, decode
from stator.emit import resume as module
from stator.emit.forward import forward
from stator.emit.resume import resume
from stator.evaluator.points import Point, Slot
from tests.emit.splitting import Finished, Impossible, suspend

Event = tuple[str, str, int]


# ---- Points ------------------------------------------------------------------------------------


def point(
    function: Any, opcode: str, nth: int = 0, *, locals: str = "", stack: tuple[Any, ...] = ()
) -> Point:
    """The point before the n-th of some instructions of a function."""
    decoded = decode(function.__code__)
    places = [step.start for step in decoded.instructions if step.name == opcode]
    indices = tuple(decoded.localsplus.index(name) for name in locals.split())
    return Point(function.__code__, function.__globals__, places[nth], indices, stack)


def splits(
    function: Callable[..., Any], *args: Any
) -> Iterator[tuple[int, list[Point], list[Any]]]:
    """A function, split everywhere: after how many instructions, points, values."""
    for count in itertools.count():
        try:
            yield count, *suspend(count, function, *args)
        except Finished:
            return
        except Impossible:
            pass


# ---- Tracers -----------------------------------------------------------------------------------


def helper(n: int) -> int:
    n += 1
    return n


def traced(n: int) -> list[int]:
    s = 0
    for i in range(n):
        s += helper(i)
        try:
            s += 1 // (i - 1)
        except ZeroDivisionError:
            s += 7
    t = [
        s,
        helper(s),
    ]
    while s > 3:
        s -= 5
    return t


def events(install: Callable[[Any], None], call: Callable[[], Any]) -> list[Event]:
    """What a tracer or profiler is told about the two functions."""
    found: list[Event] = []

    def note(frame: FrameType, event: str, arg: object) -> Any:
        if frame.f_code.co_name in {"helper", "traced"} and not event.startswith("c_"):
            assert type(frame.f_lineno) is int
            found.append((event, frame.f_code.co_name, frame.f_lineno))
        return note

    install(note)
    try:
        call()
    finally:
        install(None)
    return found


def once(found: list[Event]) -> list[Event]:
    """Without lines that are reported again, as CPython does after some jumps."""
    lines: list[int] = []
    kept = []
    for event in found:
        if event[0] == "call":
            lines.append(event[2])
        elif event[0] == "return":
            lines.pop()
        elif event[0] == "line":
            again = lines[-1] == event[2]
            lines[-1] = event[2]
            if again:
                continue
        kept.append(event)
    return kept


def test_tracers_see_the_frames_enter_and_go_on() -> None:
    whole = once(events(sys.settrace, lambda: traced(3)))
    for count, points, values in splits(traced, 3):
        function = resume(points, "continuation")
        rest = once(events(sys.settrace, lambda f=function, v=values: f(*v)))  # type: ignore[misc]
        entered = rest[: len(points)]
        assert [event[:2] for event in entered] == [("call", p.code.co_name) for p in points]
        rest = rest[len(points) :]
        assert rest[-1][0] == "return"
        assert rest == whole[-len(rest) :], f"split after {count}"


def test_profilers_see_the_frames_enter_and_leave() -> None:
    whole = events(sys.setprofile, lambda: traced(3))
    for count, points, values in splits(traced, 3):
        function = resume(points, "continuation")
        rest = events(sys.setprofile, lambda f=function, v=values: f(*v))  # type: ignore[misc]
        assert [event[0] for event in rest[: len(points)]] == ["call"] * len(points)
        rest = rest[len(points) :]
        assert rest == whole[-len(rest) :], f"split after {count}"


# ---- Lines -------------------------------------------------------------------------------------

kept: list[FrameType] = []


class Keeps:
    """Keeps the frame of the `with`."""

    def __enter__(self) -> None: ...

    def __exit__(self, *args: object) -> None:
        kept.append(sys._getframe(1))


def leaves() -> None:
    with Keeps():
        helper(1)
        raise LookupError


def test_a_frame_that_raises_again_is_where_it_raised_first() -> None:
    """RERAISE takes the place from the stack, as a unit of the code."""
    with pytest.raises(LookupError):
        leaves()
    line = kept.pop().f_lineno
    raised = 0
    for _, points, values in splits(leaves):
        if not kept and FrameType not in map(type, values):  # else it keeps the evaluator's frame
            with pytest.raises(LookupError):
                resume(points, "continuation")(*values)
            assert kept[0].f_lineno == line
            raised += any(type(kind) is int for kind in points[0].stack)
        kept.clear()
    assert raised >= 3


# ---- Signals -----------------------------------------------------------------------------------


class InterruptError(Exception):
    """What the signal handler below raises."""


def guarded(x: object) -> object:
    try:
        return [x]
    except InterruptError as e:
        return e, sys.exc_info()[1], e.__traceback__


def test_an_interrupt_on_entry_finds_the_handler() -> None:
    """A signal comes in before the continuation begins: its first check is RESUME's."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        assert frame is not None and frame.f_code.co_name == "guarded"
        assert set(frame.f_locals) == {"x"}
        raise InterruptError

    step = next(s for s in decode(guarded.__code__).instructions if s.name == "BUILD_LIST")
    function = resume(
        [Point(guarded.__code__, globals(), step.start, (0,), (Slot.VALUE,))], "continuation"
    )
    line = decode(guarded.__code__).line_of(step.unit)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        # From C to C: nothing checks for signals between the two.
        bound = function.__get__(1)
        ((error, handled, tb),) = map(bound, map(_thread.interrupt_main, [signal.SIGINT]))
    finally:
        signal.signal(signal.SIGINT, before)
    assert type(error) is InterruptError and handled is error
    assert tb.tb_frame.f_code.co_name == "guarded" and tb.tb_lineno == line
    assert sys.exc_info() == (None, None, None)


# ---- References --------------------------------------------------------------------------------


class Thing:
    """Can be referred to weakly."""


def drops(thing: object, look: Callable[[], object], other: object) -> list[object]:
    found = [look()]
    del thing
    found.append(look())
    del other
    found.append(look())
    return found


@pytest.mark.parametrize("forwarded", [False, True])
def test_values_die_when_the_program_drops_them(forwarded: bool) -> None:
    decoded = decode(drops.__code__)
    start = next(s.start for s in decoded.instructions if s.name != "RESUME")
    function = resume([Point(drops.__code__, globals(), start, (0, 1, 2), ())], "continuation")
    if forwarded:
        function = forward(function, ["a", "b", "c"], drops.__code__)

    def run() -> tuple[list[object], object]:
        first, second = Thing(), Thing()
        refs = weakref.ref(first), weakref.ref(second)
        values: list[Any] = [second, lambda: [ref() is not None for ref in refs], first]
        del first, second
        return function(values.pop(), values.pop(), values.pop()), refs

    assert run()[0] == [[True, True], [False, True], [False, False]]


def test_nothing_leaks() -> None:
    def runs() -> None:
        for _, points, values in made:
            assert resume(points, "continuation")(*values) == expected

    expected = traced(3)
    made = [entry for entry in splits(traced, 3) if all(type(v) is int for v in entry[2])]
    assert len(made) > 10
    for _ in range(3):
        runs()
    gc.collect()
    before = len(gc.get_objects()), sys.getrefcount(traced.__code__), sys.getrefcount(None)
    for _ in range(20):
        runs()
    gc.collect()
    after = len(gc.get_objects()), sys.getrefcount(traced.__code__), sys.getrefcount(None)
    assert all(abs(a - b) < 10 for a, b in zip(after, before, strict=True))


def test_what_is_known_of_a_code_object_dies_with_it() -> None:
    namespace: dict[str, Any] = {}
    exec("def f(a):\n    return a + 1", namespace)
    f = namespace["f"]
    resume([point(f, "RETURN_VALUE", locals="a", stack=(Slot.VALUE,))], "continuation")
    key = id(f.__code__)
    assert key in module._layouts
    del f
    namespace.clear()
    gc.collect()
    assert key not in module._layouts


# ---- Depth, loops, threads ---------------------------------------------------------------------


def down(n: int) -> int:
    here = n * 2
    if n == 0:
        return len(chain(sys._getframe()))
    return down(n - 1) + here - here


def chain(frame: FrameType | None) -> list[FrameType]:
    found = []
    while frame is not None and frame.f_code.co_name == "down":
        found.append(frame)
        frame = frame.f_back
    return found


def test_a_deep_chain() -> None:
    deep = 0
    for count in range(900, 2400, 11):
        try:
            points, values = suspend(count, down, 120)
        except (Finished, Impossible):
            continue
        if len(points) >= 100:
            assert resume(points, "continuation")(*values) == 121
            deep += 1
    assert deep >= 5


def count_up(n: int) -> int:
    total = 0
    while total < n:
        total += 1
    return total


def test_a_long_loop() -> None:
    function = resume(
        [point(count_up, "COMPARE_OP", -1, locals="n total", stack=(Slot.VALUE,) * 2)], "c"
    )
    assert function(200_000, 0, 0, 200_000) == 200_000


def test_one_continuation_in_many_threads() -> None:
    _, points, values = max(splits(traced, 3), key=lambda entry: len(entry[1]))
    values = [iter(()) if type(value) is type(iter(range(1))) else value for value in values]
    function = resume(points, "continuation")
    expected = function(*values)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.extend(function(*values) for _ in range(300)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 1200


# ---- What is made ------------------------------------------------------------------------------


def test_the_code_is_well_formed_and_looks_like_the_original() -> None:
    for _, points, _values in splits(traced, 3):
        function: Any = resume(points, "continuation")
        code: CodeType = function.__code__
        check(decode(code))
        hash(code)
        original = points[0].code
        assert (code.co_name, code.co_qualname) == ("traced", "traced")
        assert code.co_firstlineno == original.co_firstlineno
        assert list(code.co_lines())[-1][2] == list(original.co_lines())[-1][2]
        assert function.__name__ == "continuation"
        assert function.__globals__ is globals()


def late(a: int, b: int, c: int) -> tuple[int, int, int]:
    return a, b, c


@pytest.mark.parametrize("order", [(2, 1, 0), (1, 2, 0), (1, 0, 2), (0, 2, 1)])
def test_variables_in_any_order(order: tuple[int, ...]) -> None:
    start = next(s.start for s in decode(late.__code__).instructions if "LOAD_FAST" in s.name)
    function = resume([Point(late.__code__, globals(), start, order, ())], "continuation")
    assert function(*order) == (0, 1, 2)


def test_a_cell_is_the_one_that_is_given() -> None:
    def outer(a: int) -> Any:
        def inner() -> int:
            return a

        return inner, a

    function = resume([point(outer, "RETURN_VALUE", locals="a", stack=(Slot.VALUE,))], "c")
    assert function(CellType(1), "value") == "value"
    made = resume([point(outer, "LOAD_DEREF", locals="a inner")], "c")
    cell = CellType(5)
    assert made(cell, "inner") == ("inner", 5)
    cell.cell_contents = 6
    assert made(cell, "inner") == ("inner", 6)


# ---- With parameters ---------------------------------------------------------------------------


def divides(a: int, b: int) -> tuple[float, str]:
    return a / b, sys._getframe(1).f_code.co_name


def test_a_function_that_hands_on_has_parameters_and_is_not_seen() -> None:
    function = forward(divides, ["x", "y"], helper.__code__)  # type: ignore[arg-type]
    assert inspect.signature(function).parameters.keys() == {"x", "y"}
    assert function(6, 3) == function(y=3, x=6) == (2.0, sys._getframe().f_code.co_name)
    assert (function.__code__.co_name, function.__code__.co_filename) == ("helper", __file__)
    found = events(sys.settrace, lambda: function(6, 3))
    assert found == []
    with pytest.raises(ZeroDivisionError) as caught:
        function(1, 0)
    names = [entry.name for entry in caught.traceback]
    assert names == [sys._getframe().f_code.co_name, "divides"]


# ---- What is refused ---------------------------------------------------------------------------


def generator() -> Any:
    yield 1


async def coroutine() -> None:
    pass


class_body: CodeType = next(
    constant
    for constant in compile("class C: x = 1", "<class>", "exec").co_consts
    if type(constant) is CodeType
)


@pytest.mark.parametrize(
    "code",
    [generator.__code__, coroutine.__code__, class_body, compile("x = 1", "<module>", "exec")],
    ids=["generator", "coroutine", "class body", "module"],
)
def test_only_plain_functions(code: CodeType) -> None:
    with pytest.raises(ValueError, match="plain function"):
        resume([Point(code, {}, len(code.co_code) // 2 - 1, (), (Slot.VALUE,))], "continuation")


def test_only_at_instructions() -> None:
    with pytest.raises(ValueError, match="no point"):
        resume([], "continuation")
    code = helper.__code__
    wide = next(s for s in decode(code).instructions if s.next - s.start > 1)
    for unit in (wide.start + 1, 10_000, -1):
        with pytest.raises(ValueError, match="can go on"):
            resume([Point(code, {}, unit, (0,), ())], "continuation")


def test_not_within_a_call() -> None:
    function: FunctionType = lambda f: f(1, a=2)  # type: ignore[assignment]  # noqa: E731
    steps = decode(function.__code__).instructions
    for before, step in itertools.pairwise(steps):
        if before.name in {"KW_NAMES", "PRECALL"}:
            with pytest.raises(ValueError, match="can go on"):
                resume([Point(function.__code__, {}, step.start, (0,), ())], "continuation")


def test_not_before_there_is_a_closure() -> None:
    x = 1
    function: Any = lambda: x  # noqa: E731
    with pytest.raises(ValueError, match="closure"):
        resume([Point(function.__code__, {}, 0, (), ())], "continuation")


def test_a_caller_has_called() -> None:
    inner = point(helper, "RETURN_VALUE", locals="n", stack=(Slot.VALUE,))
    with pytest.raises(ValueError, match="no call"):
        resume([Point(helper.__code__, globals(), 0, (0,), ()), inner], "continuation")
