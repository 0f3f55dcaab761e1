"""Objects die when CPython lets them die, and evaluation leaves nothing behind.

The collector is off in all these programs, so a reference cycle made by the evaluator would show.
"""

import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

from stator import evaluator

from .oracle import Program, each

# A thing that notes its death under the name it was given.
THING = """
import weakref
class Thing:
    def __init__(self, name):
        self.name = name
        weakref.finalize(self, log, name + " died").atexit = False
"""


@each(
    r"""
#: after del
t = Thing("t")
log("before")
del t
log("after")

#: after rebinding
t = Thing("a")
t = Thing("b")
log("rebound")
t = None
log("end")

#: a value that is not kept
Thing("dropped")
log("next statement")

#: the result of a call that is not kept
def f(): return Thing("result")
f()
log("next statement")

#: an intermediate value
log(Thing("intermediate").name)
log("next statement")

#: values in an expression
x = (Thing("left"), Thing("right"))[0].name + "!"
log("next statement")

#: locals of a function that returned
def f():
    t = Thing("local")
    log("in f")
f()
log("after f")

#: locals of a function die in order
def f():
    a = Thing("a"); b = Thing("b"); c = Thing("c")
f()

#: an argument only the caller held
def f(t):
    log("in f")
    t = None
    log("in f, still")
f(Thing("argument"))
log("after f")

#: an argument that the callee drops
def f(t):
    del t
    log("after del in f")
f(Thing("argument"))
log("after f")

#: an argument in star arguments
def f(*a, **k): log("in f")
f(Thing("star"), k=Thing("keyword"))
log("after f")

#: an argument to a C function
len([Thing("in list")])
log("after len")

#: an argument to a method
class C:
    def m(self, t): log("in m")
C().m(Thing("argument"))
log("after m")

#: the object of a method call
class C(Thing):
    def m(self): log("in m")
C("receiver").m()
log("after m")

#: a returned value is kept
def f():
    t = Thing("t")
    u = Thing("u")
    return t
t = f()
log("after f")
del t
log("end")

#: a cell's contents
def f():
    t = Thing("captured")
    def g(): return t
    return g
g = f()
log("after f")
del g
log("end")

#: a cell that is emptied
t = Thing("captured")
def g(): return t
del t
log("after del")

#: a default argument
def f(t=Thing("default")): pass
log("defined")
del f
log("end")

#: the loop variable
for t in [Thing("a"), Thing("b")]:
    log("loop " + t.name)
log("after the loop")
del t
log("end")

#: the iterated list
for x in [Thing("item")]:
    x = None
log("after the loop")

#: an iterator left by break
def g():
    t = Thing("in generator")
    yield 1
    yield 2
for x in g():
    break
log("after the loop")

#: a comprehension's values
[Thing("element") for _ in range(2)]
log("after the comprehension")

#: a comprehension's variable
r = [None for t in [Thing("variable")]]
log("after the comprehension")

#: a container's contents
a = [Thing("in list"), {"k": Thing("in dict")}]
log("made")
a.clear()
log("cleared")

#: a slot that is overwritten
a = [Thing("old")]
a[0] = Thing("new")
log("overwritten")
del a
log("end")

#: an attribute that is overwritten and deleted
class C: pass
c = C()
c.t = Thing("old")
c.t = Thing("new")
log("overwritten")
del c.t
log("deleted")

#: a global that is deleted
global g
g = Thing("global")
log("made")
del g
log("end")

#: unpacking
a, b = Thing("a"), Thing("b")
log("unpacked")
a, b = b, a
del a
log("deleted")
del b

#: a value under a failed unpacking
try:
    a, b = [Thing("item")]
except ValueError:
    log("failed")
log("end")

#: a walrus
if (t := Thing("walrus")): log("made")
t = None
log("end")

#: a conditional and boolean operators
x = Thing("left") and 1
log("and")
y = 0 or Thing("right")
log("or")
y = None
log("end")

#: a chained comparison's middle
class C(Thing):
    def __lt__(self, o): return True
    __gt__ = __lt__
C("a") < C("b") < C("c")
log("compared")

#: an f-string
f"{Thing('formatted').name}"
log("formatted")

#: a with statement's manager
class CM(Thing):
    def __enter__(self): return Thing("entered")
    def __exit__(self, *a): log("exit")
with CM("manager") as x:
    log("body")
log("after with")
del x
log("end")

#: an exception that was handled
def f():
    t = Thing("local of f")
    raise ValueError(Thing("in args"))
try:
    f()
except ValueError:
    log("handling")
log("handled")

#: an exception kept by its name until the handler ends
try:
    raise ValueError(Thing("in args"))
except ValueError as e:
    log("handling")
log("handled")

#: locals kept alive by a traceback
def f():
    t = Thing("local of f")
    raise ValueError
try:
    f()
except ValueError as e:
    kept = e
    log("handling")
log("handled")
kept.__traceback__ = None
log("traceback dropped")
del kept

#: an exception replaced by another
try:
    try:
        raise ValueError(Thing("first"))
    except ValueError:
        raise KeyError("second") from None
except KeyError as e:
    log("handling")
log("handled")

#: an exception that passed a finally
def f():
    try:
        raise ValueError(Thing("in args"))
    finally:
        log("finally")
try:
    f()
except ValueError:
    pass
log("handled")

#: an exception swallowed by return in finally
def f():
    try:
        raise ValueError(Thing("in args"))
    finally:
        return 1
f()
log("swallowed")

#: an exception swallowed by a with
class CM:
    def __enter__(self): pass
    def __exit__(self, *a): return True
with CM():
    raise ValueError(Thing("in args"))
log("swallowed")

#: an exception that C code swallowed
class C:
    @property
    def x(self): raise AttributeError(Thing("in args"))
hasattr(C(), "x")
log("swallowed")

#: an exception that ended a loop
class It:
    def __iter__(self): return self
    def __next__(self): raise StopIteration(Thing("in args"))
for x in It(): pass
log("ended")

#: values on the stack of a frame that raised
def f():
    return [Thing("on the stack"), 1 / 0]
try:
    f()
except ZeroDivisionError:
    log("handling")
log("handled")

#: a generator that finished
def g():
    t = Thing("local of g")
    yield 1
i = g()
next(i)
log("started")
next(i, None)
log("finished")

#: a generator that is dropped
def g():
    t = Thing("local of g")
    yield 1
i = g()
next(i)
log("started")
del i
log("dropped")

#: a generator that is dropped before it starts
def g(t):
    yield t
i = g(Thing("argument"))
log("made")
del i
log("dropped")

#: a generator's sent value
def g():
    while True: yield
i = g()
next(i)
i.send(Thing("sent"))
log("after send")

#: a generator's yielded value
def g():
    yield Thing("yielded")
    log("resumed")
    yield
i = g()
next(i)
log("after next")
next(i)

#: a generator that raised
def g():
    t = Thing("local of g")
    yield
    1 / 0
i = g()
next(i)
try:
    next(i)
except ZeroDivisionError:
    log("handling")
log("handled")

#: a coroutine's locals
async def f(t):
    u = Thing("local")
    return 1
c = f(Thing("argument"))
try:
    c.send(None)
except StopIteration:
    log("finished")
log("end")

#: a class with its contents
import gc
class C: t = Thing("in class")
del C
log("classes are cycles")
gc.collect()
log("collected")

#: a sort key's argument and result
sorted([1], key=lambda x: (x, Thing("key")))
log("sorted")

#: a map's values
for x in map(lambda n: Thing(f"mapped {n}"), [1, 2]):
    log("loop")
log("after the loop")

#: a partial's arguments
import functools
p = functools.partial(lambda t: log("called"), Thing("bound"))
p()
del p
log("end")

#: a bound method keeps its object
class C(Thing):
    def m(self): pass
m = C("object").m
log("made")
m()
del m
log("end")

#: a match statement's subject
match Thing("subject"):
    case Thing(name=n): log("matched")
log("after match")

#: a match statement's subject that does not match
match [Thing("subject")]:
    case [1]: pass
    case [_, _]: pass
log("after match")

#: an assert's message
try:
    assert False, Thing("message")
except AssertionError:
    log("handling")
log("handled")

#: a delete in the middle of a call's arguments
def f(a, b): return b
t = Thing("t")
def drop():
    nonlocal t
    t = None
    log("dropped")
f(t, drop())
log("after f")

#: deep recursion's locals
def f(n):
    t = Thing(f"level {n}")
    if n: f(n - 1)
    log(f"leaving {n}")
f(2)
log("end")

#: locals() does not keep [3.13+]
def f():
    t = Thing("t")
    locals()
    t = None
    log("dropped")
f()

#: a frame object keeps the locals
import sys
def f():
    t = Thing("t")
    return sys._getframe()
frame = f()
log("returned")
del frame
log("frame dropped")

#: no cycle through a frame that asked for itself
import sys
def f():
    t = Thing("t")
    sys._getframe().f_lineno
f()
log("end")

#: reference counts after many calls
import sys
box = [object()]  # not a variable: since 3.14 those are lent to calls without being counted
def f(x, *y, **z): return [x, y, z]
before = sys.getrefcount(box[0])
for _ in range(20): f(box[0], box[0], k=box[0])
return sys.getrefcount(box[0]) - before
""",
    prelude=THING,
)
def test_lifetimes(program: Program) -> None:
    program.check()


def test_arguments_and_result_are_not_kept() -> None:
    """After run() only the caller holds what went in and what came out."""
    marker = object()

    def identity(value: Any) -> Any:
        return value

    before = sys.getrefcount(marker)
    result = evaluator.run(identity, marker)
    assert result is marker
    del result
    assert sys.getrefcount(marker) == before


def test_an_exception_that_left_is_not_kept() -> None:
    marker = object()

    def fails(value: Any) -> None:
        raise ValueError(value)

    before = sys.getrefcount(marker)
    with pytest.raises(ValueError):
        evaluator.run(fails, marker)
    sys.exc_info()
    gc.collect()  # pytest's own traceback object may be part of a cycle
    assert sys.getrefcount(marker) <= before + 1


def plain(n: int) -> int:
    total = 0
    for i in range(n):
        total += i
    return total


def with_calls(n: int) -> list[int]:
    def double(x: int, *rest: int, **names: int) -> int:
        return x * 2

    return [double(i, 1, k=2) for i in range(n)]


def with_exceptions(n: int) -> str:
    try:
        try:
            return str(n // 0)
        except ZeroDivisionError as error:
            raise KeyError(n) from error
    except KeyError as error:
        return str(error)
    finally:
        n += 1


def with_generators(n: int) -> list[int]:
    def numbers() -> Any:
        try:
            yield from range(n)
        finally:
            pass

    first = next(numbers())
    return [first, *numbers(), *(x for x in numbers())]


def with_callbacks(n: int) -> list[int]:
    return sorted(map(lambda x: -x, range(n)), key=lambda x: x % 3)


@pytest.mark.parametrize(
    "function", [plain, with_calls, with_exceptions, with_generators, with_callbacks]
)
def test_nothing_grows(function: Callable[[int], Any]) -> None:
    """2,000 evaluations with the collector off need no more memory than the first ones."""
    for _ in range(20):
        evaluator.run(function, 3)
    gc.collect()
    gc.disable()
    try:
        before = sys.getallocatedblocks()
        for _ in range(2000):
            evaluator.run(function, 3)
        grown = sys.getallocatedblocks() - before
    finally:
        gc.enable()
    assert grown < 500, f"{grown} blocks more after 2,000 evaluations"


def leaves_with_an_exception(n: int) -> None:
    raise ValueError([n])


def test_nothing_grows_when_exceptions_leave() -> None:
    def once() -> None:
        try:
            evaluator.run(leaves_with_an_exception, 3)
        except ValueError:
            pass

    for _ in range(20):
        once()
    gc.collect()
    gc.disable()
    try:
        before = sys.getallocatedblocks()
        for _ in range(2000):
            once()
        grown = sys.getallocatedblocks() - before
    finally:
        gc.enable()
    assert grown < 500, f"{grown} blocks more after 2,000 evaluations"
