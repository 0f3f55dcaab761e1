"""Context managers."""

from .oracle import Program, each

MANAGER = '''
class CM:
    """Logs its calls; swallows exceptions if asked to."""
    def __init__(self, name, swallow=False):
        self.name, self.swallow = name, swallow
    def __enter__(self):
        log(("enter", self.name))
        return self.name
    def __exit__(self, kind, value, tb):
        log(("exit", self.name, kind, str(value), tb is not None and tb.tb_lineno))
        return self.swallow
'''


@each(
    r"""
#: with
with CM("a"):
    log("body")

#: with as
with CM("a") as x:
    log(x)
return x

#: with as a tuple
with CM("ab") as (x, y):
    return x, y

#: with as an attribute and an item
class C: pass
d = {}
with CM("a") as C.x, CM("b") as d["k"]:
    pass
return C.x, d

#: with as an attribute that cannot be set
with CM("a") as (5).x:
    pass

#: two managers
with CM("a") as a, CM("b") as b:
    log((a, b))

#: two managers in parentheses
with (
    CM("a") as a,
    CM("b"),
):
    log(a)

#: nested withs
with CM("a"):
    with CM("b"):
        log("body")

#: an exception passes
with CM("a"):
    1 / 0

#: an exception is swallowed
with CM("a", swallow=True):
    1 / 0
return "went on"

#: an exception is swallowed by the outer manager
with CM("a", swallow=True), CM("b"):
    {}["k"]
return "went on"

#: an exception is swallowed by the inner manager
with CM("a"), CM("b", swallow=True):
    {}["k"]
return "went on"

#: return inside with
def f():
    with CM("a"):
        return "value"
return f()

#: return inside with inside a loop
def f():
    for i in range(3):
        with CM(i):
            if i == 1: return i
return f()

#: break and continue inside with
for i in range(4):
    with CM(i):
        if i == 0: continue
        if i == 2: break
        log("body")

#: a swallowed exception with values on the stack
def f():
    with CM("a", swallow=True):
        return [1, 2, 1 / 0]
    return "after"
return (0, f(), 2)

#: with inside try
try:
    with CM("a"):
        raise KeyError("k")
except KeyError as e:
    return str(e)

#: try inside with
with CM("a"):
    try:
        raise KeyError("k")
    except KeyError:
        log("handled")

#: with inside finally
def f():
    try:
        return 1
    finally:
        with CM("a"):
            log("body")
return f()

#: with inside except
try:
    1 / 0
except ZeroDivisionError:
    with CM("a", swallow=True):
        raise ValueError("v")
    log("after")

#: with and else of a loop
for i in range(2):
    with CM(i): pass
else:
    log("else")

#: with inside a generator
def g():
    with CM("a"):
        yield 1
        yield 2
return list(g())

#: with inside a generator that is closed
def g():
    with CM("a"):
        yield 1
i = g()
next(i)
i.close()

#: with inside a generator that is thrown into
def g():
    with CM("a", swallow=True):
        yield 1
    yield "after"
i = g()
next(i)
return i.throw(KeyError("k"))

#: an exception in the second manager's expression
with CM("a"), undefined_name:
    pass

#: an exception in the second manager's enter
class Bad:
    def __enter__(self): raise ValueError("enter")
    def __exit__(self, *a): log("never")
with CM("a"), Bad():
    pass

#: an exception in exit
class Bad:
    def __enter__(self): pass
    def __exit__(self, *a): raise ValueError("exit")
with CM("a"), Bad():
    log("body")

#: an exception in exit while another passes
class Bad:
    def __enter__(self): pass
    def __exit__(self, *a): raise ValueError("exit")
with CM("a"), Bad():
    1 / 0

#: the result of exit is tested for truth
class Truth:
    def __bool__(self): log("bool"); return True
class C:
    def __enter__(self): pass
    def __exit__(self, *a): return Truth()
with C(): 1 / 0
with C(): pass

#: the truth of exit's result raises
class Truth:
    def __bool__(self): raise KeyError("bool")
class C:
    def __enter__(self): pass
    def __exit__(self, *a): return Truth()
with C(): 1 / 0

#: exit raises the same exception again
class C:
    def __enter__(self): pass
    def __exit__(self, kind, value, tb): raise value
with C(): 1 / 0

#: exit raises bare
class C:
    def __enter__(self): pass
    def __exit__(self, *a): raise
with C(): 1 / 0

#: exc_info inside exit
import sys
class C:
    def __enter__(self): log(sys.exc_info()[0])
    def __exit__(self, *a): log(sys.exc_info()[0])
with C(): pass
try:
    with C(): 1 / 0
except ZeroDivisionError:
    with C(): pass
with C(): pass

#: exit's arguments without an exception
class C:
    def __enter__(self): pass
    def __exit__(self, *a): log(a)
with C(): pass

#: enter and exit looked up in order
class C:
    def __getattribute__(self, n): log("never"); return object.__getattribute__(self, n)
    def __enter__(self): log("enter")
    def __exit__(self, *a): log("exit")
with C(): pass

#: enter on the instance is not used
class C: pass
c = C()
c.__enter__ = lambda: 1
c.__exit__ = lambda *a: 1
with c: pass

#: no enter
class C:
    def __exit__(self, *a): pass
with C(): pass

#: no exit
class C:
    def __enter__(self): log("never")
with C(): pass

#: an asynchronous manager in a plain with
class C:
    async def __aenter__(self): pass
    async def __aexit__(self, *a): pass
with C(): pass

#: enter and exit that are descriptors
class D:
    def __init__(self, n): self.n = n
    def __get__(self, obj, owner):
        log(("get", self.n))
        return lambda *a: log((self.n, len(a)))
class C:
    __enter__ = D("enter")
    __exit__ = D("exit")
with C(): log("body")

#: exit with the wrong number of parameters
class C:
    def __enter__(self): pass
    def __exit__(self): pass
with C(): pass

#: contextlib.contextmanager
import contextlib
@contextlib.contextmanager
def cm(x):
    log("before")
    try:
        yield x
    except KeyError as e:
        log(repr(e))
    finally:
        log("after")
with cm(1) as a:
    log(a)
with cm(2) as b:
    raise KeyError("k")
return a, b

#: contextlib.contextmanager and an exception that passes
import contextlib
@contextlib.contextmanager
def cm():
    yield
with cm():
    raise ValueError("passes")

#: contextlib.ExitStack
import contextlib
with contextlib.ExitStack() as stack:
    for n in "ab": stack.enter_context(CM(n))
    stack.callback(log, "callback")
    log("body")

#: contextlib.suppress and closing
import contextlib
class C:
    def close(self): log("close")
with contextlib.suppress(KeyError), contextlib.closing(C()):
    raise KeyError("k")
return "went on"

#: a builtin manager
import io, threading
with io.StringIO("text") as f, threading.Lock():
    return f.read(), f.closed

#: a with over many lines shows the right lines
with CM(
    "a",
):
    log("body")
    raise ValueError(
        "over lines",
    )

#: an exception in a with shows only the body's line
def f():
    with CM("a") as x, \
         CM("b") as y:
        log("body")
        x.nope
f()

#: a with in a comprehension's function
def f(i):
    with CM(i): return i
return [f(i) for i in range(2)]

#: recursion inside with
def f(n):
    with CM(n):
        return n and f(n - 1)
return f(2)
""",
    prelude=MANAGER,
)
def test_with(program: Program) -> None:
    program.check()
