"""Generators: their protocol, their attributes, their end, and generators that cross the border.

The border is the call of ``run``: in some programs a generator is created on one side and resumed
on the other. ``ARGS`` is made natively before, ``after`` runs natively behind.
"""

from .oracle import Program, each


@each(r"""
#: a simple generator
def g():
    yield 1
    yield 2
return list(g()), tuple(g()), [*g()], sum(g())

#: a generator does nothing until it is resumed
def g():
    log("started")
    yield
i = g()
log("created")
next(i)

#: yield as an expression
def g():
    x = yield 1
    log(x)
    y = yield x
    log(y)
i = g()
return next(i), i.send("a"), next(i, "end")

#: send to a generator that has not started
def g(): yield
g().send(5)

#: send None starts a generator
def g():
    x = yield "first"
    yield x
i = g()
return i.send(None), i.send("second")

#: return value
def g():
    yield 1
    return "value"
i = g()
next(i)
try:
    next(i)
except StopIteration as e:
    return e.value, e.args

#: return of a tuple and of an exception
def g(v):
    return v
    yield
r = []
for v in ((1, 2), ValueError("x"), None, StopIteration(3)):
    try:
        next(g(v))
    except StopIteration as e:
        r.append((e.args, e.value is v))
return r

#: an exhausted generator
def g(): yield
i = g()
list(i)
next(i)

#: an exhausted generator is closed for send and throw
def g(): yield
i = g()
list(i)
try:
    i.send(1)
except StopIteration as e:
    log(repr(e))
i.throw(KeyError("k"))

#: next with a default
def g():
    yield 1
i = g()
return next(i, "d"), next(i, "d"), next(i, "d")

#: a generator that is already running
def g():
    next(i)
    yield
i = g()
next(i)

#: a generator that closes itself
def g():
    i.close()
    yield
i = g()
next(i)

#: arguments are bound at creation
def g(a, b=2, *c, d, **e):
    yield a, b, c, d, e
return next(g(1, d=4, x=5))

#: a wrong call raises at creation
def g(a): yield a
def f():
    i = g()
    log("never")
f()

#: infinite generator, taken in parts
import itertools
def count():
    n = 0
    while True:
        yield n
        n += 1
c = count()
return list(itertools.islice(c, 3)), next(c), [x for x, _ in zip(c, range(2))]

#: several generators in turn
def g(n):
    for i in range(n): yield n, i
a, b = g(2), g(3)
return next(a), next(b), next(a), next(b), list(b), list(a)

#: a recursive generator
def walk(t):
    for x in t:
        if isinstance(x, list): yield from walk(x)
        else: yield x
return list(walk([1, [2, [3, [4]], 5], []]))

#: permutations
def perms(a):
    if len(a) < 2: yield a
    for i, x in enumerate(a):
        for p in perms(a[:i] + a[i + 1:]):
            if len(a) > 1: yield [x] + p
return list(perms([1, 2, 3]))

#: a generator with closures
def make(n):
    def g():
        nonlocal n
        while n > 0:
            yield n
            n -= 1
    return g
g = make(3)
i = g()
return next(i), list(g()), list(i)

#: a generator whose argument is a cell
def g(x):
    f = lambda: x
    while x:
        yield f()
        x -= 1
return list(g(3))

#: a generator with values on the stack while it yields
def g():
    r = [1, (yield "a"), {"k": (yield "b")}, (lambda *a: a)((yield "c"), 5)]
    yield r
i = g()
return next(i), i.send(10), i.send(20), i.send(30)

#: yield in a comprehension's iterable and a conditional
def g():
    x = [i * 2 for i in (yield "items")]
    y = (yield "yes") if (yield "cond") else (yield "no")
    yield x, y
i = g()
return next(i), i.send([1, 2]), i.send(False), i.send("n")

#: yield inside try, except, else, finally
def g():
    try:
        yield "try"
    except KeyError:
        yield "except"
    else:
        yield "else"
    finally:
        yield "finally"
a, b = g(), g()
return list(a), next(b), b.throw(KeyError), next(b), next(b, "end")

#: yield inside with
class CM:
    def __enter__(self): log("enter"); return 5
    def __exit__(self, *a): log(("exit", a[0]))
def g():
    with CM() as x: yield x
return list(g())

#: a generator method, a class method, a property
class C:
    def g(self): yield self.__class__.__name__
    @classmethod
    def k(cls): yield cls.__name__
    @property
    def p(self): yield "p"
    def __iter__(self): yield from "it"
c = C()
return next(c.g()), next(C.k()), next(c.p), list(c)

#: a generator lambda
g = lambda n: (yield n)
i = g(4)
return next(i), type(i)

#: a generator that yields itself
def g():
    yield i
i = g()
return next(i) is i

#: StopIteration in a generator becomes a RuntimeError
def g():
    yield 1
    raise StopIteration(2)
i = g()
next(i)
try:
    next(i)
except RuntimeError as e:
    return str(e), repr(e.__cause__), repr(e.__context__), e.__suppress_context__
""")
def test_protocol(program: Program) -> None:
    program.check()


@each(r"""
#: throw an instance
def g():
    try:
        yield 1
    except ValueError as e:
        yield ("caught", e.args)
i = g()
next(i)
return i.throw(ValueError("x"))

#: throw a class
def g():
    try:
        yield 1
    except ValueError as e:
        yield repr(e)
i = g()
next(i)
return i.throw(ValueError)

#: throw with the old signature warns [3.12+]
def g():
    try:
        yield 1
    except ValueError as e:
        yield repr(e)
i = g()
next(i)
return i.throw(ValueError, "text", None)

#: throw something that is no exception
def g(): yield
i = g()
next(i)
i.throw(5)

#: throw into a generator that has not started
def g():
    log("never")
    yield
g().throw(KeyError("early"))

#: throw that is not handled
def g():
    yield 1
    yield 2
i = g()
next(i)
i.throw(KeyError("k"))

#: throw that is not handled finishes the generator
def g():
    yield 1
    yield 2
i = g()
next(i)
try:
    i.throw(KeyError("k"))
except KeyError:
    pass
return list(i)

#: throw that makes the generator return
def g():
    try:
        yield
    except KeyError:
        return "returned"
i = g()
next(i)
i.throw(KeyError)

#: throw keeps the given traceback
import traceback
def make():
    try:
        1 / 0
    except ZeroDivisionError as e:
        return e
def g(): yield
i = g()
next(i)
i.throw(make())

#: throw GeneratorExit
def g():
    try:
        yield
    except GeneratorExit:
        log("exit")
        raise
i = g()
next(i)
i.throw(GeneratorExit)

#: throw inside a handler sets the context
def g():
    try:
        yield
    except ValueError as e:
        yield type(e.__context__)
i = g()
next(i)
try:
    1 / 0
except ZeroDivisionError:
    return i.throw(ValueError("v"))

#: close runs finally
def g():
    try:
        yield 1
    finally:
        log("finally")
i = g()
next(i)
return i.close()

#: close before the start
def g():
    log("never")
    yield
i = g()
i.close()
return list(i)

#: close twice
def g():
    try:
        yield
    finally: log("finally")
i = g()
next(i)
i.close(); i.close()

#: close ignored with a yield
def g():
    try:
        yield 1
    except GeneratorExit:
        yield 2
i = g()
next(i)
i.close()

#: close where the generator raises
def g():
    try:
        yield 1
    except GeneratorExit:
        raise ValueError("while closing")
i = g()
next(i)
i.close()

#: close where the generator returns a value
def g():
    try:
        yield 1
    except GeneratorExit:
        return "value"
i = g()
next(i)
return i.close()

#: a dropped generator is closed
def g():
    try:
        yield 1
    finally:
        log("finally")
i = g()
next(i)
log("dropping")
del i
log("dropped")

#: a dropped generator that ignores the close
def g():
    try:
        yield 1
    except GeneratorExit:
        yield 2
i = g()
next(i)
del i

#: a dropped generator whose finally raises
def g():
    try:
        yield 1
    finally:
        raise ValueError("finally")
i = g()
next(i)
del i
return "went on"

#: generators are finished in order
def g(n):
    try:
        yield n
    finally:
        log(n)
a, b, c = g(1), g(2), g(3)
for i in (a, b, c): next(i)
del i
del b; log("b gone"); del a; log("a gone"); del c

#: a loop left early closes the generator at once
def g():
    try:
        yield 1
        yield 2
    finally:
        log("finally")
for x in g():
    break
log("after the loop")

#: nested generators are closed from the outside in
def inner():
    try:
        yield 1
    finally:
        log("inner")
def outer():
    try:
        yield from inner()
    finally:
        log("outer")
i = outer()
next(i)
i.close()
""")
def test_throw_and_close(program: Program) -> None:
    program.check()


@each(r"""
#: yield from a list
def g(): yield from [1, 2]
return list(g())

#: yield from several kinds
def g():
    yield from "ab"
    yield from {"k": 1}
    yield from range(2)
    yield from (x for x in [9])
    yield from ()
return list(g())

#: yield from returns the value
def a():
    yield 1
    return "result"
def b():
    r = yield from a()
    yield r
return list(b())

#: yield from passes send
def a():
    while True:
        x = yield
        if x is None: return "done"
        log(x)
def b():
    r = yield from a()
    log(r)
    yield "end"
i = b()
next(i)
i.send(1); i.send(2)
return i.send(None)

#: yield from passes throw
def a():
    try:
        yield 1
    except KeyError as e:
        log(repr(e))
        yield "recovered"
def b(): yield from a()
i = b()
next(i)
return i.throw(KeyError("k"))

#: yield from passes close
def a():
    try:
        yield 1
    except GeneratorExit:
        log("a closed")
        raise
def b():
    try:
        yield from a()
    except GeneratorExit:
        log("b closed")
        raise
i = b()
next(i)
i.close()

#: yield from something not iterable
def g(): yield from 5
list(g())

#: yield from an iterator without send
class It:
    def __iter__(self): return self
    def __next__(self): return 1
def g(): yield from It()
i = g()
next(i)
i.send(5)

#: yield from an iterator with send, throw and close
class It:
    def __iter__(self): log("iter"); return self
    def __next__(self): log("next"); return "n"
    def send(self, x): log(("send", x)); return "s"
    def throw(self, *a): log(("throw", len(a), isinstance(a[0], type))); raise StopIteration("t")
    def close(self): log("close")
def g():
    r = yield from It()
    yield r
i, j = g(), g()
r = [next(i), i.send(1), next(i), i.throw(KeyError("k"))]
next(j)
j.close()
return r

#: yield from an iterator without throw
class It:
    def __iter__(self): return self
    def __next__(self): return 1
def g(): yield from It()
i = g()
next(i)
i.throw(KeyError("k"))

#: yield from an iterator whose throw lookup raises
class It:
    def __iter__(self): return self
    def __next__(self): return 1
    @property
    def throw(self): raise ValueError("lookup")
def g(): yield from It()
i = g()
next(i)
i.throw(KeyError("k"))

#: yield from an iterator whose close raises
class It:
    def __iter__(self): return self
    def __next__(self): return 1
    def close(self): raise ValueError("close")
def g(): yield from It()
i = g()
next(i)
i.close()

#: yield from an exhausted generator
def a(): yield 1
x = a()
list(x)
def b():
    r = yield from x
    yield ("r", r)
return list(b())

#: yield from a running generator
def g(): yield from i
i = g()
next(i)

#: yield from a generator that is shared
def a(): yield from range(4)
x = a()
def b(n):
    for v in x:
        yield n, v
return [next(b("p")), next(b("q"))]

#: an exception comes out of yield from
def a():
    yield 1
    raise ValueError("a")
def b():
    try:
        yield from a()
    except ValueError as e:
        yield repr(e)
return list(b())

#: a deep chain of yield from
def g(n):
    if n: yield from g(n - 1)
    yield n
return list(g(20))

#: a deep chain of yield from with send and return
def g(n):
    if n == 0:
        x = yield "bottom"
        return x
    r = yield from g(n - 1)
    return r + 1
i = g(20)
next(i)
try:
    i.send(100)
except StopIteration as e:
    return e.value

#: yield from inside try and finally
def a():
    yield 1
    yield 2
def b():
    try:
        yield from a()
    finally:
        log("finally")
        yield "last"
return list(b())

#: yield from with an error thrown in and the traceback
def a(): yield
def b(): yield from a()
def c(): yield from b()
i = c()
next(i)
i.throw(ValueError("deep"))

#: StopIteration thrown into yield from
def a():
    yield 1
def b():
    r = yield from a()
    log(r)
i = b()
next(i)
i.throw(StopIteration("s"))

#: coroutine in yield from of a plain generator
async def co(): pass
c = co()
def g(): yield from c
try:
    list(g())
finally:
    c.close()
""")
def test_yield_from(program: Program) -> None:
    program.check()


@each(r"""
#: type and names
def outer():
    def gen(): yield
    return gen()
g = outer()
import types
return type(g) is types.GeneratorType, g.__name__, g.__qualname__, repr(g)[:30]

#: names set from outside
def gen(): yield
gen.__name__, gen.__qualname__ = "new", "the.new"
g = gen()
g.__name__ = "newer"
return g.__name__, g.__qualname__, gen().__name__, repr(g)[:25]

#: gi_code
def gen(): yield
return gen().gi_code is gen.__code__

#: gi_running, gi_suspended
def gen():
    log((g.gi_running, g.gi_suspended))
    yield
g = gen()
r = [(g.gi_running, g.gi_suspended)]
next(g)
r.append((g.gi_running, g.gi_suspended))
list(g)
r.append((g.gi_running, g.gi_suspended))
return r

#: gi_frame
def gen(x):
    y = x + 1
    yield y
g = gen(1)
r = [dict(g.gi_frame.f_locals), g.gi_frame.f_lineno, g.gi_frame.f_lasti >= 0]
next(g)
r += [dict(g.gi_frame.f_locals), g.gi_frame.f_lineno, g.gi_frame.f_back]
list(g)
r.append(g.gi_frame)
return r

#: gi_yieldfrom
def a():
    log(g.gi_yieldfrom)
    yield
def b(): yield from inner
inner = a()
g = b()
r = [g.gi_yieldfrom]
next(g)
r.append(g.gi_yieldfrom is inner)
list(g)
r.append(g.gi_yieldfrom)
return r

#: inspect.getgeneratorstate
import inspect
def gen():
    log(inspect.getgeneratorstate(g))
    yield
g = gen()
r = [inspect.getgeneratorstate(g)]
next(g)
r.append(inspect.getgeneratorstate(g))
g.close()
return r, inspect.getgeneratorstate(g)

#: inspect.getgeneratorlocals
import inspect
def gen(a):
    b = a * 2
    yield
    c = 3
    yield
g = gen(1)
r = [dict(inspect.getgeneratorlocals(g))]
next(g)
r.append(dict(inspect.getgeneratorlocals(g)))
next(g)
r.append(dict(inspect.getgeneratorlocals(g)))
return r

#: attributes cannot be set
def gen(): yield
gen().gi_code = None

#: generators are iterators
def gen(): yield
g = gen()
import collections.abc as abc
return iter(g) is g, isinstance(g, abc.Generator), isinstance(g, abc.Iterator), hasattr(g, "send")

#: generators cannot be copied, pickled, indexed or measured
import copy
def gen(): yield
r = []
for f in (copy.copy, copy.deepcopy, len, lambda g: g[0], lambda g: g()):
    try:
        f(gen())
    except TypeError as e:
        r.append(str(e))
return r

#: flags of functions
import inspect
def gen(): yield
async def co(): pass
async def ag(): yield
return [(inspect.isgeneratorfunction(f), inspect.iscoroutinefunction(f),
         inspect.isasyncgenfunction(f)) for f in (gen, co, ag, len)]

#: a generator expression's attributes
g = (x for x in [1])
return g.__name__, g.__qualname__, g.gi_code.co_name, list(g.gi_frame.f_locals)

#: types.coroutine
import types
@types.coroutine
def g():
    r = yield "suspended"
    return r
async def main_():
    return await g()
c = main_()
log(c.send(None))
try:
    c.send("answer")
except StopIteration as e:
    return e.value

#: the frame of a generator inside itself
import sys
def gen():
    yield sys._getframe().f_code.co_name, sys._getframe(1).f_code.co_name
def caller(): return next(gen())
return caller()

#: the line of a suspended generator
def gen():
    yield 1

    yield 2
g = gen()
r = []
for _ in g: r.append(g.gi_frame.f_lineno)
return r
""")
def test_attributes(program: Program) -> None:
    program.check()


@each(r"""
#: main itself is a generator, consumed natively [frames 0]
def main(n):
    for i in range(n):
        x = yield i
        log(x)
    return "end"
def after(g):
    r = [next(g), g.send("sent"), next(g)]
    try:
        next(g)
    except StopIteration as e:
        return r, e.value, type(g)
ARGS = (3,)

#: created evaluated, consumed natively by a loop
def main():
    def g():
        yield from (x * 2 for x in range(3))
    return g()
def after(g):
    return [x for x in g]

#: created evaluated, consumed natively by C
def main():
    return (x * x for x in range(4))
after = sum

#: created evaluated, started evaluated, finished natively
def gen():
    log("start")
    x = yield 1
    log(x)
    y = yield 2
    log(y)
    return 3
def main():
    g = gen()
    log(next(g))
    return g
def after(g):
    log(g.send("a"))
    try:
        g.send("b")
    except StopIteration as e:
        return e.value

#: created evaluated, thrown into natively
def main():
    def g():
        try:
            yield 1
        except KeyError as e:
            yield repr(e)
    i = g()
    next(i)
    return i
def after(g):
    return g.throw(KeyError("native"))

#: created evaluated, closed natively
def main():
    def g():
        try:
            yield 1
        finally:
            log("finally")
    i = g()
    next(i)
    return i
def after(g):
    g.close()
    return g.gi_frame

#: created evaluated, dropped natively
def main():
    def g():
        try:
            yield 1
        finally:
            log("finally")
    i = g()
    next(i)
    return [i]
def after(box):
    log("before")
    box.clear()
    log("after")

#: created evaluated, raises natively
def main():
    def g():
        yield 1
        raise ValueError("in the generator")
    return g()
def after(g):
    return list(g)

#: created natively, consumed evaluated
def gen():
    log("start")
    yield 1
    yield 2
def main(g):
    return [x for x in g]
ARGS = (gen(),)

#: created natively, consumed evaluated by C
def main(g):
    return sorted(g)
ARGS = ((-x for x in range(4)),)

#: created and started natively, finished evaluated
def gen():
    x = yield 1
    log(x)
    y = yield 2
    log(y)
    return 3
def main(g):
    log(g.send("a"))
    try:
        g.send("b")
    except StopIteration as e:
        return e.value
g = gen()
next(g)
ARGS = (g,)

#: created and started natively, thrown into evaluated
def gen():
    try:
        yield 1
    except KeyError as e:
        log(repr(e))
        yield "recovered"
def main(g):
    return g.throw(KeyError("k"))
g = gen()
next(g)
ARGS = (g,)

#: created and started natively, an error passes evaluated
def gen():
    yield 1
    yield 1 / 0
def main(g):
    for x in g: log(x)
g = gen()
next(g)
ARGS = (g,)

#: created and started natively, yield from evaluated
def gen():
    r = []
    while True:
        x = yield len(r)
        if x == "stop": return r
        r.append(x)
def main(g):
    def outer():
        result = yield from g
        yield ("result", result)
    o = outer()
    return next(o), o.send
def after(pair):
    return pair[0], pair[1](5), pair[1]("stop")
g = gen()
next(g)
g.send("native")
ARGS = (g,)

#: created and started natively inside a handler
import sys
def gen():
    try:
        1 / 0
    except ZeroDivisionError:
        yield
        log(sys.exc_info()[0])
        yield
    log(sys.exc_info()[0])
def main(g):
    next(g)
    log(sys.exc_info()[0])
    next(g, None)
g = gen()
next(g)
ARGS = (g,)

#: created and started natively inside a loop and a with
class CM:
    def __enter__(self): return self
    def __exit__(self, *a): log("exit")
def gen():
    for i in range(3):
        with CM():
            yield [i, [j for j in range((yield "inner"))]]
def main(g):
    return g.send(2), next(g), g.send(1), g.close()
g = gen()
next(g)
ARGS = (g,)

#: back and forth over the border
def gen(n):
    while True: n += yield n
def step(g): return g.send(1)
def main(g):
    return g, step(g), list(map(g.send, [1, 2]))
def after(t):
    return t[0].send(10), t[1:], step(t[0])
g = gen(0)
next(g)
ARGS = (g,)

#: a native generator that is closed evaluated
def gen():
    try:
        yield
    finally:
        log("finally")
def main(g):
    g.close()
    return g.gi_frame
g = gen()
next(g)
ARGS = (g,)

#: a native generator that dies evaluated
def gen():
    try:
        yield
    finally:
        log("finally")
def main(box):
    log("before")
    box.clear()
    log("after")
g = gen()
next(g)
ARGS = ([g],)
del g

#: a callback from C resumes an evaluated generator
def main():
    def numbers():
        n = 0
        while True:
            n += 1
            yield n
    g = numbers()
    return sorted("cab", key=lambda _: -next(g)), next(g)

#: a generator as the key function's source
def main():
    ranks = iter(x for x in (2, 0, 1))
    return sorted("abc", key=lambda _: next(ranks))
""")
def test_border(program: Program) -> None:
    program.check()


@each(r"""
#: pipeline of generators
def numbers(n): yield from range(n)
def even(xs): return (x for x in xs if x % 2 == 0)
def squares(xs):
    for x in xs: yield x * x
return list(squares(even(numbers(10))))

#: a scheduler of tasks
from collections import deque
def task(name, n):
    for i in range(n):
        log((name, i))
        yield
def run(tasks):
    queue = deque(tasks)
    while queue:
        t = queue.popleft()
        try:
            next(t)
        except StopIteration:
            continue
        queue.append(t)
run([task("a", 2), task("b", 3), task("c", 1)])

#: running average by send
def average():
    total = count = 0
    value = None
    while True:
        x = yield value
        total += x
        count += 1
        value = total / count
a = average()
next(a)
return [a.send(x) for x in (10, 20, 60)]

#: eight queens, first solution of five
def queens(n, row=0, cols=()):
    if row == n: yield cols
    for c in range(n):
        if all(c != d and abs(c - d) != row - r for r, d in enumerate(cols)):
            yield from queens(n, row + 1, cols + (c,))
return next(queens(5))

#: a parser with lookahead
def tokens(s):
    for c in s: yield c
    while True: yield None
def parse(it):
    r = []
    for c in it:
        if c == "(": r.append(parse(it))
        elif c in (")", None): return r
        else: r.append(c)
return parse(tokens("a(b(c)d)e"))

#: generators in a dict of state machines
def machine():
    state = "off"
    while True:
        event = yield state
        state = {"off": "on", "on": "off"}[state] if event == "toggle" else state
m = {k: machine() for k in "xy"}
for i in m.values(): next(i)
return m["x"].send("toggle"), m["y"].send("other"), m["x"].send("toggle")
""")
def test_programs(program: Program) -> None:
    program.check()
