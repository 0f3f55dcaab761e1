"""Coroutines and asynchronous generators, driven by hand and by asyncio inside the program."""

from .oracle import Program, each

DRIVER = '''
import types
@types.coroutine
def suspend(value):
    """Suspends once; what is sent comes back."""
    got = yield value
    return got
def drive(co, *sends):
    """Runs a coroutine to its end; returns what it yielded and its result."""
    out = []
    sends = iter(sends)
    value = None
    while True:
        try:
            out.append(co.send(value))
        except StopIteration as e:
            return out, e.value
        value = next(sends, None)
'''


@each(
    r"""
#: a coroutine that returns
async def f(): return 5
return drive(f())

#: a coroutine that awaits another
async def f(x): return x + 1
async def g(): return await f(1) + await f(2)
return drive(g())

#: a coroutine that suspends
async def f():
    a = await suspend("first")
    b = await suspend("second")
    return a, b
return drive(f(), 1, 2)

#: arguments of a coroutine function
async def f(a, b=2, *c, d, **e): return a, b, c, d, e
return drive(f(1, d=4, z=5))

#: a wrong call of a coroutine function
async def f(a): pass
f()

#: an exception in a coroutine
async def f(): raise ValueError("in f")
async def g(): await f()
drive(g())

#: an exception handled around await
async def f(): raise ValueError("in f")
async def g():
    try:
        await f()
    except ValueError as e:
        return repr(e)
    finally:
        log("finally")
return drive(g())

#: throw into a coroutine
async def f():
    try:
        await suspend("waiting")
    except KeyError as e:
        return ("caught", e.args)
c = f()
c.send(None)
try:
    c.throw(KeyError("k"))
except StopIteration as e:
    return e.value

#: close a coroutine
async def f():
    try:
        await suspend("waiting")
    finally:
        log("finally")
c = f()
c.send(None)
c.close()
return c.cr_frame

#: awaiting the same coroutine twice
async def f(): return 1
async def g():
    c = f()
    await c
    await c
drive(g())

#: awaiting something not awaitable
async def f(): await 5
drive(f())

#: awaiting a plain generator
def g(): yield
async def f(): await g()
drive(f())

#: __await__
class A:
    def __await__(self):
        log("await")
        x = yield "from await"
        return ("result", x)
async def f(): return await A()
return drive(f(), "sent")

#: __await__ returns an iterator
class A:
    def __await__(self): return iter([1, 2])
async def f(): return await A()
return drive(f())

#: __await__ returns no iterator
class A:
    def __await__(self): return 5
async def f(): await A()
drive(f())

#: __await__ returns a coroutine
async def c(): pass
class A:
    def __await__(self): return c()
async def f(): await A()
drive(f())

#: StopIteration in a coroutine
async def f(): raise StopIteration("s")
drive(f())

#: a coroutine never awaited warns
async def f(): pass
f()
log("after")

#: a coroutine is not iterable
async def f(): pass
c = f()
try:
    list(c)
finally:
    c.close()

#: send a value to a fresh coroutine
async def f(): pass
c = f()
try:
    c.send(1)
finally:
    c.close()

#: a finished coroutine
async def f(): pass
c = f()
drive(c)
c.send(None)

#: attributes of a coroutine
async def f(x):
    log((c.cr_running, c.cr_suspended))
    await suspend(1)
c = f(3)
r = [c.__name__, c.__qualname__, c.cr_code is f.__code__, c.cr_running, c.cr_suspended,
     dict(c.cr_frame.f_locals), c.cr_await, c.cr_origin]
c.send(None)
r += [c.cr_await is not None, c.cr_running, c.cr_suspended, c.cr_frame.f_lineno]
c.close()
return r + [c.cr_frame, c.cr_await]

#: inspect.getcoroutinestate
import inspect
async def f():
    log(inspect.getcoroutinestate(c))
    await suspend(1)
c = f()
r = [inspect.getcoroutinestate(c)]
c.send(None)
r.append(inspect.getcoroutinestate(c))
c.close()
return r, inspect.getcoroutinestate(c)

#: types
import types
async def f(): pass
async def g(): yield
c, a = f(), g()
r = type(c) is types.CoroutineType, type(a) is types.AsyncGeneratorType, type(c.__await__())
c.close()
return r

#: coroutine methods and lambdas around them
class C:
    async def m(self, x): return ("m", x)
    @classmethod
    async def k(cls): return cls.__name__
    @staticmethod
    async def s(): return "s"
    async def __call__(self): return "call"
async def f():
    c = C()
    return await c.m(1), await C.k(), await c.s(), await c(), await (lambda: c.m(2))()
return drive(f())

#: a closure in a coroutine
async def f():
    n = 0
    async def up():
        nonlocal n
        n += 1
        await suspend(n)
        return n
    return [await up(), await up()]
return drive(f())

#: values on the stack around await
async def f(x): return await suspend(x)
async def g(): return [1, await f("a"), {"k": await f("b")}, (lambda *a: a)(await f("c"), 5)]
return drive(g(), 10, 20, 30)

#: await in expressions
async def f(x): return x
async def g():
    return (await f(1) < await f(2) < await f(3), await f(0) or await f(4),
            f"{await f(5)}", [await f(i) for i in range(3)], (await f("x")).upper())
return drive(g())

#: asynchronous with
class CM:
    async def __aenter__(self): log("enter"); return await suspend("entering")
    async def __aexit__(self, kind, v, tb): log(("exit", kind)); await suspend("leaving")
async def f():
    async with CM() as x:
        log(x)
    return "done"
return drive(f(), "value")

#: asynchronous with swallows
class CM:
    async def __aenter__(self): pass
    async def __aexit__(self, *a): return await suspend("leaving")
async def f():
    async with CM(): raise KeyError("k")
    return "swallowed"
return drive(f(), True)

#: asynchronous with passes an exception
class CM:
    async def __aenter__(self): pass
    async def __aexit__(self, *a): log(a[0])
async def f():
    async with CM(), CM(): raise KeyError("k")
drive(f())

#: asynchronous with returns from inside
class CM:
    async def __aenter__(self): pass
    async def __aexit__(self, *a): log(a)
async def f():
    for i in range(3):
        async with CM():
            if i == 1: return i
return drive(f())

#: asynchronous with without the methods
async def f():
    async with 5: pass
drive(f())

#: asynchronous with a plain manager
class CM:
    def __enter__(self): pass
    def __exit__(self, *a): pass
async def f():
    async with CM(): pass
drive(f())

#: asynchronous with whose enter is no coroutine
class CM:
    def __aenter__(self): return 5
    def __aexit__(self, *a): return 5
async def f():
    async with CM(): pass
drive(f())

#: asynchronous with whose exit is no coroutine
class CM:
    async def __aenter__(self): pass
    def __aexit__(self, *a): return 5
async def f():
    async with CM(): log("body")
drive(f())

#: asynchronous for
class It:
    def __init__(self, n): self.n = n
    def __aiter__(self): log("aiter"); return self
    async def __anext__(self):
        if not self.n: raise StopAsyncIteration
        self.n -= 1
        await suspend(self.n)
        return self.n
async def f():
    r = []
    async for x in It(3): r.append(x)
    else: log("else")
    return r
return drive(f())

#: asynchronous for with break and continue
async def numbers():
    for i in range(5): yield i
async def f():
    r = []
    async for x in numbers():
        if x == 1: continue
        if x == 3: break
        r.append(x)
    else: log("never")
    return r
return drive(f())

#: asynchronous for over something else
async def f():
    async for x in [1]: pass
drive(f())

#: asynchronous for whose aiter gives no iterator
class It:
    def __aiter__(self): return 5
async def f():
    async for x in It(): pass
drive(f())

#: asynchronous for whose anext is not awaitable
class It:
    def __aiter__(self): return self
    def __anext__(self): return 5
async def f():
    async for x in It(): pass
drive(f())

#: asynchronous for whose anext raises
class It:
    def __aiter__(self): return self
    async def __anext__(self): raise KeyError("anext")
async def f():
    async for x in It(): pass
drive(f())

#: asynchronous comprehensions
async def numbers(n):
    for i in range(n):
        await suspend(i)
        yield i
async def f():
    a = [x async for x in numbers(3)]
    b = {x async for x in numbers(2) if x}
    c = {x: x async for x in numbers(2)}
    d = [y for x in [1] async for y in numbers(x)]
    return a, b, c, d
return drive(f())

#: asynchronous generator expression
async def numbers():
    for i in range(3): yield i
async def f():
    g = (x * 2 async for x in numbers())
    return [x async for x in g], type(g)
return drive(f())

#: await in a comprehension
async def f(x): return await suspend(x)
async def g(): return [await f(i) for i in range(2)], {await f(i): 1 for i in "a"}
return drive(g(), 1, 2, 3)

#: an exception in an asynchronous comprehension
async def numbers():
    yield 1
    yield 0
async def f(): return [1 / x async for x in numbers()]
drive(f())
""",
    prelude=DRIVER,
)
def test_by_hand(program: Program) -> None:
    program.check()


@each(
    r"""
#: asend
async def g():
    x = yield 1
    log(x)
    y = yield 2
    log(y)
a = g()
async def f():
    return await a.asend(None), await a.asend("x")
return drive(f())

#: asend to a fresh generator
async def g(): yield
async def f(): await g().asend(5)
drive(f())

#: anext
async def g():
    yield 1
a = g()
async def f():
    return await anext(a), await anext(a, "default")
return drive(f())

#: anext at the end
async def g():
    return
    yield
async def f(): await anext(g())
drive(f())

#: athrow
async def g():
    try:
        yield 1
    except KeyError as e:
        yield repr(e)
a = g()
async def f():
    await a.asend(None)
    return await a.athrow(KeyError("k"))
return drive(f())

#: athrow that is not handled
async def g():
    yield 1
a = g()
async def f():
    await a.asend(None)
    await a.athrow(KeyError("k"))
drive(f())

#: aclose
async def g():
    try:
        yield 1
    finally:
        log("finally")
        await suspend("closing")
a = g()
async def f():
    await a.asend(None)
    return await a.aclose()
return drive(f())

#: aclose ignored
async def g():
    try:
        yield 1
    except GeneratorExit:
        yield 2
a = g()
async def f():
    await a.asend(None)
    await a.aclose()
drive(f())

#: aclose before the start
async def g():
    log("never")
    yield
a = g()
async def f():
    await a.aclose()
    return [x async for x in a]
return drive(f())

#: await inside an asynchronous generator
async def g():
    yield await suspend("a")
    yield await suspend("b")
async def f(): return [x async for x in g()]
return drive(f(), 1, 2)

#: StopAsyncIteration inside an asynchronous generator
async def g():
    yield 1
    raise StopAsyncIteration("s")
async def f(): return [x async for x in g()]
drive(f())

#: StopIteration inside an asynchronous generator
async def g():
    yield 1
    raise StopIteration("s")
async def f(): return [x async for x in g()]
drive(f())

#: an exception inside an asynchronous generator
async def g():
    yield 1
    1 / 0
async def f():
    async for x in g(): log(x)
drive(f())

#: an asynchronous generator that is running
async def g():
    yield await suspend("in g")
a = g()
x, y = a.asend(None), a.asend(None)
x.send(None)
y.send(None)

#: awaiting asend twice
async def g(): yield 1
a = g()
async def f():
    x = a.asend(None)
    await x
    await x
drive(f())

#: attributes of an asynchronous generator
async def g():
    log(a.ag_running)
    yield 1
    await suspend("s")
a = g()
r = [a.__name__, a.__qualname__, a.ag_running, a.ag_await, a.ag_code is g.__code__]
async def f(): await a.asend(None)
drive(f())
r += [a.ag_running, a.ag_frame.f_lineno]
n = a.asend(None)
n.send(None)
r += [a.ag_running, a.ag_await is not None]
return r

#: yield inside try in an asynchronous generator
async def g():
    try:
        yield "try"
    except KeyError:
        yield "except"
    finally:
        log("finally")
a = g()
async def f():
    r = [await a.asend(None), await a.athrow(KeyError)]
    return r + [x async for x in a]
return drive(f())

#: asynchronous generator hooks
import sys
async def g(): yield 1
old = sys.get_asyncgen_hooks()
sys.set_asyncgen_hooks(firstiter=lambda a: log("firstiter"), finalizer=lambda a: log("final"))
try:
    async def f():
        async for x in g(): break
    drive(f())
finally:
    sys.set_asyncgen_hooks(*old)

#: asynchronous generators nested
async def inner(n):
    for i in range(n): yield i
async def outer():
    async for x in inner(3):
        async for y in inner(x): yield x, y
async def f(): return [p async for p in outer()]
return drive(f())

#: an asynchronous generator with values on the stack
async def g():
    r = [1, (yield "a"), await suspend("b"), (yield "c")]
    yield r
a = g()
async def f():
    return await a.asend(None), await a.asend(10), await a.asend(30)
return drive(f(), 20)
""",
    prelude=DRIVER,
)
def test_async_generators(program: Program) -> None:
    program.check()


@each(r"""
#: main itself is a coroutine function, driven natively [frames 0]
async def f(x): return x + 1
async def main():
    return await f(1)
def after(co):
    try:
        co.send(None)
    except StopIteration as e:
        return e.value, type(co)

#: main itself is an asynchronous generator, driven natively [frames 0]
async def main():
    yield 1
    yield 2
def after(agen):
    r = []
    for _ in range(3):
        try:
            agen.asend(None).send(None)
        except (StopIteration, StopAsyncIteration) as e:
            r.append((type(e), e.args))
    return r, type(agen)

#: a coroutine made natively is awaited evaluated
async def f(x): log("f"); return x * 2
async def g(co): return await co
def main(co):
    try:
        g(co).send(None)
    except StopIteration as e:
        return e.value
ARGS = (f(4),)

#: asyncio.run
import asyncio
async def f(x):
    await asyncio.sleep(0)
    return x * 2
def main():
    return asyncio.run(f(4))

#: asyncio.gather keeps the order
import asyncio
async def f(n):
    for i in range(n):
        log((n, i))
        await asyncio.sleep(0)
    return n
async def g(): return await asyncio.gather(f(2), f(1), f(3))
def main():
    return asyncio.run(g())

#: asyncio tasks, an exception and a cancellation
import asyncio
async def fails(): raise ValueError("task")
async def sleeps():
    try:
        await asyncio.sleep(100)
    except asyncio.CancelledError:
        log("cancelled")
        raise
async def g():
    t = asyncio.create_task(sleeps())
    u = asyncio.create_task(fails())
    await asyncio.sleep(0)
    t.cancel()
    r = await asyncio.gather(t, u, return_exceptions=True)
    return [type(x) for x in r]
def main():
    return asyncio.run(g())

#: an exception leaves asyncio.run
import asyncio
async def f(): raise KeyError("out")
async def g(): await f()
def main():
    try:
        asyncio.run(g())
    except KeyError as e:
        names = []
        tb = e.__traceback__
        while tb:
            if tb.tb_frame.f_globals is globals():
                names.append((tb.tb_frame.f_code.co_name, tb.tb_lineno))
            tb = tb.tb_next
        return names

#: asyncio.Queue between a producer and a consumer
import asyncio
async def producer(q):
    for i in range(3): await q.put(i)
    await q.put(None)
async def consumer(q):
    r = []
    while (x := await q.get()) is not None: r.append(x)
    return r
async def g():
    q = asyncio.Queue(1)
    return (await asyncio.gather(producer(q), consumer(q)))[1]
def main():
    return asyncio.run(g())

#: asyncio task group
import asyncio
async def f(x):
    await asyncio.sleep(0)
    if x == 1: raise ValueError(x)
    return x
async def g():
    try:
        async with asyncio.TaskGroup() as tg:
            ts = [tg.create_task(f(i)) for i in range(3)]
    except* ValueError as e:
        log([repr(x) for x in e.exceptions])
    return [t.done() for t in ts]
def main():
    return asyncio.run(g())

#: asyncio with an asynchronous generator and a lock
import asyncio
async def numbers():
    for i in range(3):
        await asyncio.sleep(0)
        yield i
async def g():
    lock = asyncio.Lock()
    r = []
    async for x in numbers():
        async with lock: r.append(x)
    return r
def main():
    return asyncio.run(g())

#: asyncio closes what is left of an asynchronous generator
import asyncio
async def numbers():
    try:
        yield 1
        yield 2
    finally:
        log("finally")
async def g():
    async for x in numbers():
        return x
def main():
    return asyncio.run(g())

#: contextvars in tasks
import asyncio, contextvars
v = contextvars.ContextVar("v", default="none")
async def f(x):
    before = v.get()
    v.set(x)
    await asyncio.sleep(0)
    return before, v.get()
async def g():
    v.set("outer")
    return await asyncio.gather(f(1), f(2)), v.get()
def main():
    return asyncio.run(g())

#: contextlib.asynccontextmanager
import asyncio, contextlib
@contextlib.asynccontextmanager
async def cm():
    log("before")
    try:
        yield 5
    finally:
        log("after")
async def g():
    async with cm() as x: return x
def main():
    return asyncio.run(g())
""")
def test_asyncio_and_border(program: Program) -> None:
    program.check()
