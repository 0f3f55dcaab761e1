"""The interception window: who is evaluated, who is not, and what is left behind."""

import gc
import os
import subprocess
import sys
import textwrap
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from stator._native import _core as core
from stator.evaluator import run, statistics
from tests.threads import collecting


def frames_in(fn: Callable[..., Any], *args: Any) -> int:
    """How many frames are evaluated when `fn` is."""
    before = statistics().frames
    run(fn, *args)
    return statistics().frames - before


def test_the_hook_is_not_installed_when_idle() -> None:
    assert not core.hook_installed()
    seen = []

    def program() -> None:
        seen.append(core.hook_installed())  # the call itself runs in a window
        list(map(lambda x: x, [1, 2]))

    run(program)
    assert seen == [True]
    assert not core.hook_installed()


def test_the_hook_is_gone_after_an_exception() -> None:
    def program() -> None:
        sorted([1, 2], key=lambda x: 1 // 0)

    with pytest.raises(ZeroDivisionError):
        run(program)
    assert not core.hook_installed()


def test_callbacks_from_c_are_evaluated() -> None:
    assert frames_in(lambda: sorted([3, 1, 2], key=lambda x: -x)) == 4


def test_callbacks_at_two_depths_are_evaluated() -> None:
    def inner(x: int) -> list[int]:
        return sorted([x, 0], key=lambda y: y)

    assert frames_in(lambda: list(map(inner, [1, 2]))) == 1 + 2 + 4


def test_marked_code_runs_natively_with_all_it_calls() -> None:
    def leaf(x: int) -> int:
        return x

    def marked(x: int) -> int:
        return leaf(x) + sum(map(leaf, [1]))

    core.mark_code(marked.__code__, core.CODE_NATIVE)
    assert frames_in(lambda: marked(1)) == 1
    assert frames_in(lambda: list(map(marked, [1, 2]))) == 1


def test_other_threads_run_natively() -> None:
    counted: list[int] = []
    ready, go = threading.Event(), threading.Event()

    def work(x: int) -> int:
        return x

    def other() -> None:
        go.wait(10)
        before = statistics().frames
        for x in range(1000):
            work(x)
        counted.append(statistics().frames - before)
        ready.set()

    thread = threading.Thread(target=other)
    thread.start()

    def program() -> None:
        go.set()
        ready.wait(10)  # a window of this thread is open while the other one works

    codes = threading.Event.wait.__code__, threading.Event.set.__code__
    for code in codes:
        core.mark_code(code, core.CODE_NATIVE)
    try:
        run(program)
    finally:
        for code in codes:
            core.mark_code(code, core.CODE_EVALUATED)
    thread.join()
    assert counted == [0]


def test_finalizers_run_by_the_collector_are_not_evaluated() -> None:
    log: list[str] = []

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            log.append("gone")

    def program() -> None:
        Cycle()
        gc.collect()

    assert frames_in(program) == 2  # program and __init__
    assert log == ["gone"]


@pytest.mark.parametrize("frozen", [False, True])
def test_what_runs_while_another_thread_collects_is_evaluated(frozen: bool) -> None:
    """Its finalizers let other threads run; it is a collection all the same."""

    def inner() -> int:
        return 1

    def program() -> int:
        return inner() + len(sorted([1, 2], key=lambda n: -n))

    if frozen:
        gc.freeze()
    try:
        with collecting():
            assert frames_in(program) == 4
            assert frames_in(program) == 4
    finally:
        gc.unfreeze()
    assert frames_in(program) == 4


def test_callbacks_of_the_collector_are_not_evaluated() -> None:
    log: list[str] = []

    def note(phase: str, info: dict[str, int]) -> None:
        log.append(phase)

    gc.callbacks.append(note)
    try:
        assert frames_in(lambda: gc.collect()) == 1
    finally:
        gc.callbacks.remove(note)
    assert log == ["start", "stop"]


def test_finalizers_are_known_after_another_thread_has_collected() -> None:
    counted: list[int] = []

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            counted.append(core.frames_evaluated())

    def collect() -> None:
        Cycle()
        counted.append(core.frames_evaluated())
        gc.collect()

    def elsewhere() -> None:
        other = threading.Thread(target=collect)
        other.start()
        other.join()

    def program() -> None:
        elsewhere()
        collect()

    core.mark_code(elsewhere.__code__, core.CODE_NATIVE)
    run(program)
    there, there_too, here, here_too = counted
    assert there == there_too < here == here_too


def test_a_tracer_sees_the_program_and_not_the_evaluator() -> None:
    events: list[str] = []

    def traced() -> int:
        return 1

    def tracer(frame: Any, event: str, arg: Any) -> None:
        events.append(f"{event} {frame.f_code.co_name}")

    def program() -> None:
        sys.settrace(tracer)
        traced()
        sys.settrace(None)

    old = sys.gettrace()
    try:
        run(program)
    finally:
        sys.settrace(old)
    assert events == ["call traced"]


def test_a_profiler_sees_the_program_and_not_the_evaluator() -> None:
    events: list[str] = []

    def profiled() -> int:
        return 1

    def profiler(frame: Any, event: str, arg: Any) -> None:
        if not event.startswith("c_"):
            events.append(f"{event} {frame.f_code.co_name}")

    def program() -> None:
        sys.setprofile(profiler)
        profiled()
        sys.setprofile(None)

    run(program)
    assert events == ["call profiled", "return profiled"]


@pytest.mark.parametrize("switch", [sys.setprofile, sys.settrace], ids=lambda each: each.__name__)
def test_a_tracer_that_was_there_before_is_not_evaluated(switch: Any) -> None:
    events: list[str] = []

    def inner() -> None:
        events.append("")

    def tracer(frame: Any, event: str, arg: Any) -> None:
        inner()

    def program() -> list[int]:
        return sorted(map(lambda n: n + 1, [3, 1, 2]), key=lambda n: -n)

    def evaluated() -> int:
        before = core.frames_evaluated()
        assert run(program) == [4, 3, 2]
        return core.frames_evaluated() - before

    alone = evaluated()
    old = sys.getprofile(), sys.gettrace()
    switch(tracer)
    try:
        traced = evaluated()
    finally:
        sys.setprofile(old[0])
        sys.settrace(old[1])
    assert events
    assert traced == alone > 5


def test_a_hook_that_was_there_before_stays() -> None:
    internals = pytest.importorskip("_testinternalcapi")
    record: list[str] = []

    def plain() -> int:
        return 1

    internals.set_eval_frame_record(record)
    try:
        run(lambda: list(map(lambda x: x, [1])))
        record.clear()
        plain()
        recorded = list(record)
    finally:
        internals.set_eval_frame_default()
    assert "plain" in recorded


def test_a_hook_that_the_program_installs_stays() -> None:
    internals = pytest.importorskip("_testinternalcapi")
    record: list[str] = []

    def plain() -> int:
        return 1

    def program() -> None:
        internals.set_eval_frame_record(record)

    try:
        run(program)
        record.clear()
        plain()
        recorded = list(record)
    finally:
        internals.set_eval_frame_default()
    assert "plain" in recorded
    assert frames_in(lambda: sorted([1], key=lambda x: x)) == 2


def test_the_recursion_limit_set_by_the_program_stays() -> None:
    limit = sys.getrecursionlimit()

    def program() -> None:
        sys.setrecursionlimit(limit + 100)

    try:
        run(program)
        assert sys.getrecursionlimit() == limit + 100
    finally:
        sys.setrecursionlimit(limit)

    def depth(n: int) -> int:
        return 0 if n == 0 else 1 + depth(n - 1)

    assert depth(limit // 2) == limit // 2


def test_a_forked_child_goes_on() -> None:
    def program() -> int:
        pid = os.fork()
        if pid == 0:
            os._exit(sum(map(lambda x: x + 1, [1, 2])))
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    assert run(program) == 5


def script(source: str) -> str:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", textwrap.dedent(source)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_evaluation_while_the_interpreter_shuts_down() -> None:
    out = script(
        """
        import atexit
        from stator.evaluator import run
        atexit.register(lambda: print(run(lambda: sorted([2, 1], key=lambda x: x))))
        class Late:
            def __del__(self, run=run): run(lambda: 1)
        late = Late()
        """
    )
    assert out == "[1, 2]"


def test_a_subinterpreter_is_refused() -> None:
    module = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    pytest.importorskip(module)
    out = script(
        f"""
        import {module} as interpreters
        program = '''if 1:
            try:
                import stator._native._core
                print("imported")
            except ImportError as error:
                print("refused:", error)
            '''
        interpreter = interpreters.create()
        failure = interpreters.run_string(interpreter, program)
        if failure: print(failure)
        """
    )
    assert out.startswith("refused:")


CALLBACKS: dict[str, Callable[[], Any]] = {}


def callback(fn: Callable[[], Any]) -> Callable[[], Any]:
    CALLBACKS[fn.__name__] = fn
    return fn


class Thing:
    def __init__(self, value: int = 0, *rest: int, key: int = 3, **others: int) -> None:
        self.value = value

    def __hash__(self) -> int:
        return self.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thing) and self.value == other.value

    @property
    def successor(self) -> int:
        return self.value + 1

    def __getattr__(self, name: str) -> str:
        return name

    def __format__(self, spec: str) -> str:
        return spec


def numbers(n: int) -> Any:
    for i in range(n):
        yield i


@callback
def sort_key() -> Any:
    return sorted([3, 1, 2], key=lambda x: -x)


@callback
def hash_and_eq() -> Any:
    return {Thing(5): 7}[Thing(5)]


@callback
def attributes() -> Any:
    return Thing(4).successor, Thing(4).missing


@callback
def construction() -> Any:
    return Thing(1, 2, 3, key=4, more=5).value


@callback
def formatting() -> Any:
    return f"{Thing(1):spec}", format(Thing(1), "x")


@callback
def generators() -> Any:
    half = numbers(4)
    next(half)
    return list(numbers(3)), sum(half), [x for x in numbers(2)]


@callback
def generator_throw() -> Any:
    g = numbers(3)
    next(g)
    try:
        g.throw(KeyError)
    except KeyError:
        return g.gi_frame


@callback
def generator_close() -> Any:
    g = numbers(3)
    next(g)
    g.close()


@callback
def exceptions() -> Any:
    try:
        list(map(lambda x: 1 // x, [0]))
    except ZeroDivisionError as error:
        return str(error)


@callback
def kept_frames() -> Any:
    def f() -> Any:
        local = [1]
        return sys._getframe(), local

    frame, _ = f()
    return frame.f_locals["local"]


@callback
def class_statement() -> Any:
    class Local(Thing):
        def __init_subclass__(cls) -> None:
            pass

    return Local(1).value


@callback
def coroutine() -> Any:
    async def inner() -> int:
        return 3

    async def outer() -> int:
        return await inner()

    try:
        outer().send(None)
    except StopIteration as end:
        return end.value


@callback
def keywords() -> Any:
    def f(a: int, /, b: int = 2, *args: int, c: int = 3, **kw: int) -> Any:
        return a, b, args, c, kw

    return f(1, 5, 6, c=7, d=8), f(*[1, 2], **{"c": 3})


ITERATIONS = int(os.environ.get("STATOR_STRESS", "1500"))


@pytest.mark.parametrize("name", CALLBACKS)
def test_nothing_leaks(name: str) -> None:
    """`make stress` runs it with 100,000 iterations."""
    program = CALLBACKS[name]
    for _ in range(100):
        run(program)
    gc.collect()
    code = program.__code__
    before = sys.getallocatedblocks(), sys.getrefcount(code), sys.getrefcount(program)
    for _ in range(ITERATIONS):
        run(program)
    gc.collect()
    after = sys.getallocatedblocks(), sys.getrefcount(code), sys.getrefcount(program)
    assert after[0] - before[0] < 60
    assert after[1:] == before[1:]


@pytest.mark.parametrize("name", CALLBACKS)
def test_same_as_native(name: str) -> None:
    assert run(CALLBACKS[name]) == CALLBACKS[name]()


def test_evaluated_code_is_freed() -> None:
    """The native core keeps what it prepared with the code object: no cycle through it."""
    namespace: dict[str, Any] = {}
    source = "def f(x):\n  try:\n    return [g(y) for y in x]\n  except* ValueError:\n    pass\n"
    exec(source + "def g(y): return y\n", namespace)
    f, g = namespace.pop("f"), namespace["g"]
    references = [weakref.ref(f.__code__), weakref.ref(g.__code__)]
    assert run(f, [1, 2]) == [1, 2]
    namespace.clear()
    del f, g
    gc.collect()
    assert [reference() for reference in references] == [None, None]
