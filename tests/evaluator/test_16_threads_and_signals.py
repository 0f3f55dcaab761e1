"""Several threads at once, and signals that arrive in the middle of evaluated code."""

import signal
from typing import Any

import pytest

from stator import evaluator
from stator._native import _core as core
from tests.threads import outcomes

from .oracle import Program, each


def work(seed: int) -> list[int]:
    """Loops, calls, callbacks from C, exceptions and a generator, different for each seed."""

    def step(x: int) -> int:
        return (x * 31 + seed) % 101

    def numbers(n: int) -> Any:
        x = seed
        for _ in range(n):
            x = step(x)
            yield x

    out: list[int] = []
    for _ in range(10):
        out.extend(sorted(numbers(10), key=lambda v: (v % 7, v)))
        try:
            out.append(out[-1] // (out[-1] % 2))
        except ZeroDivisionError:
            out.append(-1)
    return out


def test_two_threads_evaluate_at_once() -> None:
    before = evaluator.statistics().frames
    found = outcomes(*(lambda n=n: evaluator.run(work, n) for n in range(2)))
    assert found == [work(0), work(1)]
    assert evaluator.statistics().frames > before


def test_four_threads_evaluate_at_once() -> None:
    found = outcomes(*(lambda n=n: evaluator.run(work, n) for n in range(4)))
    assert found == [work(n) for n in range(4)]


def test_one_thread_evaluates_while_another_runs_natively() -> None:
    found = outcomes(
        lambda: evaluator.run(work, 5),
        lambda: [work(6) for _ in range(20)],
        lambda: evaluator.run(work, 7),
    )
    assert found == [work(5), [work(6)] * 20, work(7)]


def test_an_exception_in_one_thread_does_not_disturb_another() -> None:
    def fails() -> None:
        work(1)
        raise ValueError("in a thread")

    found = outcomes(lambda: evaluator.run(fails), lambda: evaluator.run(work, 2))
    assert isinstance(found[0], ValueError)
    assert found[0].args == ("in a thread",)
    assert found[1] == work(2)


def test_deep_recursion_in_two_threads() -> None:
    def deep(n: int) -> int:
        return 0 if n == 0 else deep(n - 1) + 1

    found = outcomes(lambda: evaluator.run(deep, 800), lambda: evaluator.run(deep, 850))
    assert found == [800, 850]


def test_endless_recursion_in_one_thread_only() -> None:
    def endless() -> None:
        endless()

    found = outcomes(lambda: evaluator.run(endless), lambda: evaluator.run(work, 3))
    assert isinstance(found[0], RecursionError)
    assert found[1] == work(3)


@each(r"""
#: threads started by the program
import threading
def main():
    r = {}
    def f(n): r[n] = sum(i * n for i in range(20))
    ts = [threading.Thread(target=f, args=(n,)) for n in range(3)]
    for t in ts: t.start()
    for t in ts: t.join()
    return sorted(r.items())

#: a lock protects a counter
import threading
def main():
    lock, n = threading.Lock(), 0
    def f():
        nonlocal n
        for _ in range(50):
            with lock: n += 1
    ts = [threading.Thread(target=f) for _ in range(3)]
    for t in ts: t.start()
    for t in ts: t.join()
    return n

#: a queue between threads
import queue, threading
def main():
    q, out = queue.Queue(), []
    def consumer():
        while (x := q.get()) is not None: out.append(x * 2)
    t = threading.Thread(target=consumer)
    t.start()
    for i in range(5): q.put(i)
    q.put(None)
    t.join()
    return out

#: a pool
from concurrent.futures import ThreadPoolExecutor
def f(x): return x * x
def main():
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(f, range(5)))

#: an exception from a pool
from concurrent.futures import ThreadPoolExecutor
def f(x): return 1 // x
def main():
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(f, 0)
        return type(future.exception()), str(future.exception())

#: an exception that nobody catches in a thread
import threading
def f(): raise ValueError("nobody")
def main():
    t = threading.Thread(target=f)
    t.start()
    t.join()
    return "went on"

#: thread local data
import threading
data = threading.local()
def main():
    data.x = "main"
    seen = []
    t = threading.Thread(target=lambda: seen.append(hasattr(data, "x")))
    t.start()
    t.join()
    return data.x, seen

#: exc_info belongs to a thread
import sys, threading
def main():
    seen = []
    try:
        1 / 0
    except ZeroDivisionError:
        t = threading.Thread(target=lambda: seen.append(sys.exc_info()))
        t.start()
        t.join()
        return seen, sys.exc_info()[0]

#: a generator handed from thread to thread
import threading
def g():
    for i in range(4): yield i
def main():
    i, out = g(), []
    for _ in range(2):
        t = threading.Thread(target=lambda: out.append((next(i), next(i))))
        t.start()
        t.join()
    return out
""")
def test_threads_of_the_program(program: Program) -> None:
    program.check()


# The frame that is interrupted has no handler of its own in these programs: Python 3.13.0 itself
# does not find it when the signal comes at the end of a call.
SIGNAL_HELPERS = """
import contextlib, signal, time
end = time.monotonic() + 10
def running():
    return time.monotonic() < end
@contextlib.contextmanager
def interrupted(handler=signal.default_int_handler):
    # default_int_handler is C: it adds no frame of its own. Processor time, because on a busy
    # machine a clock on the wall could ring before the loop is reached.
    old = signal.signal(signal.SIGVTALRM, handler)
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.02)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, old)
"""


@each(
    r"""
#: a signal ends a loop
def f():
    while running(): pass
with interrupted():
    try:
        f()
    except KeyboardInterrupt:
        return "interrupted"
return "too late"

#: a signal ends a loop without calls
def f():
    for i in range(10 ** 7): pass
with interrupted():
    try:
        f()
    except KeyboardInterrupt:
        return "interrupted"
return "too late"

#: a signal ends a loop of calls
def f(n): return n + 1
def g():
    n = 0
    while running(): n = f(n)
with interrupted():
    try:
        g()
    except KeyboardInterrupt:
        return "interrupted"
return "too late"

#: a signal ends a loop of callbacks from C
def f():
    while running(): sorted([3, 1, 2], key=lambda x: -x)
with interrupted():
    try:
        f()
    except KeyboardInterrupt:
        return "interrupted"
return "too late"

#: a signal ends a callback from C
def f(x):
    while running(): pass
with interrupted():
    try:
        list(map(f, [1, 2]))
    except KeyboardInterrupt:
        return "interrupted"
return "too late"

#: a signal ends a generator
def f():
    while running(): pass
def g():
    try:
        yield f()
    finally:
        log("finally in g")
with interrupted():
    try:
        for _ in g(): pass
    except KeyboardInterrupt:
        return "interrupted"
return "too late"

#: a signal ends a generator consumed by C
def f():
    while running(): pass
def g():
    yield 1
    yield f()
with interrupted():
    try:
        list(g())
    except KeyboardInterrupt:
        return "interrupted"
return "too late"

#: a signal runs the finally blocks and exits
class CM:
    def __enter__(self): pass
    def __exit__(self, kind, value, tb): log(("exit", kind))
def f():
    while running(): pass
def g():
    with CM():
        try:
            f()
        finally:
            log("finally")
with interrupted():
    try:
        g()
    except KeyboardInterrupt as e:
        names, tb = [], e.__traceback__
        while tb:
            names.append(tb.tb_frame.f_code.co_name)
            tb = tb.tb_next
        return names[:3]
return "too late"

#: the stack is whole after a signal
def f():
    while running(): pass
with interrupted():
    try:
        r = [1, (2, f()), {3: f()}]
    except KeyboardInterrupt:
        r = "interrupted"
def g(n): return n and g(n - 1) + 1
return r, g(50), [x for x in range(3)], sorted([2, 1], key=lambda x: x)

#: a handler that returns lets the program go on
seen = []
with interrupted(lambda number, frame: seen.append(number)):
    n = 0
    while not seen and running(): n += 1
return seen == [signal.SIGVTALRM], n > 0

#: a handler that raises another exception
class Timeout(Exception): pass
def handler(number, frame): raise Timeout("time is up")
def f():
    while running(): pass
with interrupted(handler):
    try:
        f()
    except Timeout as e:
        return e.args, e.__context__
return "too late"
""",
    prelude=SIGNAL_HELPERS,
)
def test_signals(program: Program) -> None:
    assert "'too late'" not in program.check()["value"]


@pytest.mark.parametrize("kind", ["function", "method", "any arguments"])
def test_handlers_are_no_part_of_what_is_evaluated(kind: str) -> None:
    """They may come in the middle of any operation; what they raise is the program's."""
    seen: list[int] = []

    class Handler:
        def method(self, signum: int, frame: Any) -> None:
            handler(signum, frame)

    def handler(signum: int, frame: Any) -> None:
        seen.append(signum)
        raise TimeoutError("now")

    def program() -> str:
        try:
            signal.raise_signal(signal.SIGUSR1)
        except TimeoutError as error:
            return str(error)
        return "nothing"

    called: Any = {
        "function": handler,
        "method": Handler().method,
        "any arguments": lambda *args: handler(*args),
    }[kind]
    before = signal.signal(signal.SIGUSR1, called)
    try:
        start = core.frames_evaluated()
        assert core.run(program) == "now"
        assert core.frames_evaluated() == start + 1
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [signal.SIGUSR1]
