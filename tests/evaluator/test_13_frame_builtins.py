"""Builtins that look at the calling frame: they must see the program's frames, not the engine's."""

from .oracle import Program, each


@each(r"""
#: locals
def f(a, b=2, *c, **d):
    e = 5
    return locals()
return f(1, x=3)

#: locals without unbound names
def f():
    if False: a = 1
    b = 2
    del b
    c = 3
    return locals()
return f()

#: locals with cells and free variables
def f(x):
    y = 1
    z = 2
    def g(): return x, y, locals()
    return locals(), g()[2]
a, b = f(5)
return {k: v for k, v in a.items() if k != "g"}, b

#: locals in order
def f(b, a):
    d = c = 1
    return list(locals())
return f(1, 2)

#: locals in a class body
class C:
    x = 1
    ns = locals()
    y = 2
return sorted(k for k in C.ns if k[0] != "_"), C.ns is C.__dict__

#: locals in a comprehension
x = 1
return [sorted(locals()) for i in range(1)]

#: locals in a generator
def g(n):
    m = 2
    yield dict(locals())
    m = 3
    yield dict(locals())
return list(g(1))

#: locals called through a variable
f = locals
x = 1
return sorted(f())

#: locals called by map
x = 1
return [type(d) for d in map(lambda _: locals(), [1])]

#: locals with an argument
locals(1)

#: writing to locals does not change them
def f():
    x = 1
    locals()["x"] = 2
    return x
return f()

#: locals twice [<3.13]
def f():
    a = locals()
    b = 1
    c = locals()
    return a is c, sorted(a)
return f()

#: locals twice are snapshots [3.13+]
def f():
    a = locals()
    b = 1
    c = locals()
    return a is c, sorted(a), sorted(c)
return f()

#: globals
x = 1
def main():
    return globals() is main.__globals__, globals()["x"], globals()["__name__"]

#: globals of a function from elsewhere
def main():
    ns = {}
    exec("def f(): return globals()", ns)
    return ns["f"]() is ns

#: globals called through a variable and by C
import functools
def main():
    f = globals
    p = functools.partial(globals)
    called_by_c = list(map(lambda _: globals() is main.__globals__, "a"))
    return f() is globals(), p() is globals(), called_by_c

#: writing to globals
def main():
    globals()["made"] = 5
    return made

#: vars without an argument
def f(a):
    b = 2
    return vars()
return f(1)

#: vars with an argument
class C:
    def __init__(self): self.x = 1
import math
return vars(C()), "f" in vars(C), vars(math) is math.__dict__

#: vars of something without a dict
vars(5)

#: dir without an argument
def f(b, a):
    c = 1
    return dir()
return f(1, 2)

#: dir in a class body
class C:
    x = 1
    names = [n for n in dir() if n[0] != "_"]
return C.names

#: dir with an argument
class C:
    x = 1
    def f(self): pass
return [n for n in dir(C()) if n[0] != "_"], [n for n in dir(C) if n[0] != "_"]
""")
def test_namespaces(program: Program) -> None:
    program.check()


@each(r"""
#: eval with the caller's names
x = 5
def f(y):
    return eval("x + y")
def main():
    return f(2)

#: eval with a free variable
def main():
    a = 1
    def f():
        b = 2
        a
        return eval("a + b")
    return f()

#: eval that cannot see an outer variable
def main():
    hidden = 1
    def f(): return eval("hidden")
    return f()

#: eval with namespaces
return eval("a + b", {"a": 1}, {"b": 2}), eval("a", {"a": 3}), eval("len('ab')", {})

#: eval adds builtins
d = {}
eval("1", d)
return list(d)

#: eval with a mapping
class M:
    def __getitem__(self, k): log(k); return 7
return eval("a * b", {}, M())

#: eval of a code object
code = compile("x + 1", "<code>", "eval")
x = 4
return eval(code)

#: eval of a code object with free variables
def f():
    y = 1
    def g(): return y
    return g.__code__
eval(f())

#: eval of bytes and of text with spaces
return eval(b"1 + 1"), eval("  2"), eval("\t3")

#: eval of a syntax error
eval("1 +")

#: eval of something else
eval(5)

#: eval with a bad namespace
eval("1", 5)

#: eval with a bad local namespace
eval("1", {}, 5)

#: eval that raises shows its frame
def f(): return eval("1 / 0")
f()

#: eval that calls the caller's function
def f(n): return eval("n if n < 1 else f(n - 1) + n")
def main():
    return f(3)
def f(n): return eval("n if n < 1 else f(n - 1) + n")

#: eval of a lambda and a comprehension
y = 10
f = eval("lambda x: x + 1")
return f(1), eval("[i for i in range(3)]")

#: eval through a variable and through C
x = 3
e = eval
return e("x"), list(map(eval, ["1 + 1"]))

#: eval inside a class body
class C:
    x = 2
    y = eval("x * 3")
return C.y

#: exec makes globals
def main():
    exec("made = 5", globals())
    return made

#: exec does not make locals
def f():
    exec("made = 5")
    return "made" in locals()
return f()

#: exec with namespaces
g, l = {}, {}
exec("x = 1\ndef f(): return 2\nclass C: y = 3", g, l)
return sorted(l), sorted(g), l["C"].y

#: exec of functions that see their globals
ns = {"base": 10}
exec("def f(x): return x + base", ns)
return ns["f"](5)

#: exec in a class body
class C:
    exec("x = 1")
    y = x + 1
return C.x, C.y

#: exec that raises
def f(): exec("def g():\n    1 / 0\ng()")
f()

#: exec with a closure
def f():
    x = 0
    def g():
        nonlocal x
        x += 1
        return x
    exec(g.__code__, {}, closure=g.__closure__)
    return x
return f()

#: exec with a wrong closure
def f():
    x = 0
    def g(): return x
    return g.__code__
exec(f(), {}, closure=())

#: exec with a closure and no free variables
exec("pass", {}, closure=())

#: exec loops and prints
exec("for i in range(3):\n    if i == 1: continue\n    print(i)")

#: exec of a module with everything
lines = [
    "import math",
    "from os import path as p",
    "x: int = 1",
    "def f(a, *, b=2): return a + b",
    "class C:",
    "    y = x",
    "    def m(self): return f(self.y)",
    "z = C().m()",
    "del x",
]
ns = {}
exec("\n".join(lines), ns)
return ns["z"], ns["__annotations__"], "x" in ns, ns["p"].__name__ == "posixpath"

#: exec with a dict subclass that records
class D(dict):
    def __setitem__(self, k, v): log(("set", k)); dict.__setitem__(self, k, v)
    def __getitem__(self, k): log(("get", k)); return dict.__getitem__(self, k)
    def __delitem__(self, k): log(("del", k)); dict.__delitem__(self, k)
exec("a = 1\nb = a\ndel a", {}, D())

#: compile flags inherited from the caller
from __future__ import annotations
def main():
    ns = {}
    exec("def f(x: undefined_name): pass", ns)
    return ns["f"].__annotations__
""")
def test_eval_and_exec(program: Program) -> None:
    program.check()


@each(r"""
#: sys._getframe names the caller
import sys
def f(): return sys._getframe().f_code.co_name, sys._getframe(1).f_code.co_name
def g(): return f()
return g()

#: sys._getframe deeper
import sys
def a(): return [sys._getframe(i).f_code.co_name for i in range(4)]
def b(): return a()
def c(): return b()
def main():
    return c()

#: sys._getframe negative
import sys
return sys._getframe(-5).f_code.co_name

#: sys._getframe too deep
import sys
sys._getframe(100000)

#: sys._getframe in a comprehension, a lambda, a class body
import sys
class C:
    name = sys._getframe().f_code.co_name
return C.name, (lambda: sys._getframe().f_code.co_name)(), [sys._getframe(0).f_lineno for _ in "a"]

#: sys._getframe called by C
import sys
def f(x): return sys._getframe(0).f_code.co_name, sys._getframe(1).f_code.co_name
return list(map(f, [1])), sorted([1], key=f)

#: sys._getframe through a variable and a partial
import sys, functools
g = sys._getframe
p = functools.partial(sys._getframe, 0)
return g().f_code.co_name, p().f_code.co_name

#: sys._getframemodulename [3.12+]
import sys
def f(): return sys._getframemodulename(0), sys._getframemodulename(1)
return f()

#: the frame's lines
import sys
def f():
    a = sys._getframe().f_lineno
    b = sys._getframe().f_lineno

    c = sys._getframe(1).f_lineno
    return a, b, c
r = f()
return r

#: the frame's line over several lines
import sys
def f(*a): return sys._getframe(1).f_lineno
return [
    f(),
    f(
        1,
    ),
    f()]

#: f_back chain up to main
import sys
def f():
    r, frame = [], sys._getframe()
    while frame.f_code.co_name != "main":
        r.append((frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return r, frame.f_lineno
def g(): return f()
def main():
    return g()

#: f_locals
import sys
def f():
    x = 1
    return dict(sys._getframe().f_locals), dict(sys._getframe(1).f_locals)
def g(a):
    b = 2
    return f()
def main():
    return g(5)

#: f_locals with cells
import sys
def g(a):
    b = 2
    def h():
        a, b
        return dict(sys._getframe().f_locals), sorted(sys._getframe(1).f_locals)
    return h()
return g(1)

#: writing to f_locals changes the variable [3.13+]
import sys
def f():
    x = 1
    sys._getframe().f_locals["x"] = 2
    return x
return f()

#: writing to f_locals of the caller [3.13+]
import sys
def f(): sys._getframe(1).f_locals["x"] = "changed"
def g():
    x = "old"
    y = lambda: x
    f()
    return x, y()
return g()

#: f_globals and f_builtins
import sys, builtins
def main():
    f = sys._getframe()
    return f.f_globals is globals(), f.f_builtins is builtins.__dict__

#: f_code and f_lasti
import sys
def f(): return sys._getframe()
fr = f()
g = sys._getframe()
return fr.f_code is f.__code__, g.f_lasti >= 0, g.f_trace, fr.f_back is g or fr.f_back is None

#: the frame after the function returned
import sys
def f(x):
    y = x * 2
    return sys._getframe()
fr = f(4)
return dict(fr.f_locals), fr.f_lineno, fr.f_code.co_name

#: a frame object is one object
import sys
def f(): return sys._getframe() is sys._getframe(), sys._getframe(1)
r, fr = f()
return r, fr is sys._getframe()

#: clearing a finished frame
import sys
def f():
    x = [1]
    return sys._getframe()
fr = f()
fr.clear()
return dict(fr.f_locals)

#: clearing a running frame
import sys
sys._getframe().clear()

#: a frame's repr
import sys
def f(): return repr(sys._getframe())
return f().split("file")[1]

#: inspect.currentframe
import inspect
def f():
    fr = inspect.currentframe()
    return fr.f_code.co_name, fr.f_back.f_code.co_name, fr.f_lineno
return f()

#: inspect.getframeinfo
import inspect
def f():
    i = inspect.getframeinfo(inspect.currentframe())
    return i.function, i.lineno, i.code_context, i.index, i.filename
return f()

#: inspect.stack up to main
import inspect
def f():
    r = []
    for s in inspect.stack(0):
        r.append((s.function, s.lineno))
        if s.function == "main": return r
def g(): return f()
def main():
    return g()

#: inspect.trace
import inspect
def f(): 1 / 0
try:
    f()
except ZeroDivisionError:
    return [(s.function, s.lineno) for s in inspect.trace(0)]

#: inspect.getargvalues
import inspect
def f(a, b=2, *c, **d): return inspect.getargvalues(inspect.currentframe())[:3]
return f(1)

#: traceback.walk_stack up to main
import traceback, sys
def f():
    r = []
    for frame, line in traceback.walk_stack(sys._getframe()):
        r.append((frame.f_code.co_name, line))
        if frame.f_code.co_name == "main": return r
def main():
    return f()

#: traceback.extract_stack has the source lines
import traceback
def f():
    s = traceback.extract_stack()
    return [(x.name, x.line) for x in s[[x.name for x in s].index("main"):]]
def main():
    return f()

#: traceback.print_stack
import traceback, sys
def f(): traceback.print_stack(limit=2)
f()

#: collections.namedtuple finds its module
import collections
return collections.namedtuple("P", "x").__module__

#: enum and typing find their module
import enum, typing
E = enum.Enum("E", "A B")
T = typing.TypeVar("T")
return E.__module__, T.__module__

#: logging finds its caller
import logging
class H(logging.Handler):
    def emit(self, r): log((r.funcName, r.lineno, r.getMessage(), r.levelname))
logger = logging.Logger("test")
logger.addHandler(H())
def f():
    logger.warning("from %s", "f")
f()
logger.error("from main")

#: logging with a stack level
import logging
class H(logging.Handler):
    def emit(self, r): log((r.funcName, r.lineno))
logger = logging.Logger("test")
logger.addHandler(H())
def helper(): logger.warning("x", stacklevel=2)
def f(): helper()
f()

#: logging an exception
import logging
class H(logging.Handler):
    def emit(self, r): log(self.format(r))
logger = logging.Logger("test")
logger.addHandler(H())
def f(): 1 / 0
try:
    f()
except ZeroDivisionError:
    logger.exception("failed")
""")
def test_frames(program: Program) -> None:
    program.check()


@each(r"""
#: a warning in the function
import warnings
def f(): warnings.warn("text")
f()

#: a warning with stacklevel 1, 2 and 3
import warnings
def f(n): warnings.warn(f"level {n}", UserWarning, stacklevel=n)
def g(n):
    f(n)
g(1)
g(2)
g(3)

#: a warning with a category instance
import warnings
warnings.warn(DeprecationWarning("old"), stacklevel=1)

#: a warning turned into an error
import warnings
warnings.simplefilter("error")
def f(): warnings.warn("now an error", RuntimeWarning)
f()

#: a warning once per place
import warnings
warnings.simplefilter("default")
for i in range(3): warnings.warn("repeated")
warnings.warn("elsewhere")
return sorted(k for k in globals() if "registry" in k)

#: a warning from a comprehension and a lambda
import warnings
[warnings.warn("in a comprehension") for _ in range(1)]
(lambda: warnings.warn("in a lambda"))()

#: a warning from a generator
import warnings
def g():
    warnings.warn("in a generator", stacklevel=1)
    yield
    warnings.warn("for its caller", stacklevel=2)
for _ in g(): pass

#: a warning from a callback of C
import warnings
def key(x):
    warnings.warn("in the key", stacklevel=1)
    return x
sorted([1], key=key)

#: a warning from a callback of C for its caller
import warnings
def key(x):
    warnings.warn("for the caller", stacklevel=2)
    return x
sorted([1], key=key)

#: warnings caught inside
import warnings
with warnings.catch_warnings(record=True) as w:
    warnings.simplefilter("always")
    warnings.warn("inside")
return [(str(x.message), x.lineno, x.category) for x in w]

#: a warning of the interpreter
d = compile("'\\d'", "<text>", "eval")
import warnings
warnings.warn_explicit("explicit", UserWarning, "file.py", 7)

#: a deprecation warning raised by C
import unittest.mock
class C:
    def __index__(self): return True
return [1, 2][C()]

#: a deprecation warning of an int subclass from __int__
class I(int): pass
class C:
    def __int__(self): return I(5)
return int(C())

#: sys.exc_info outside of handlers
import sys
return sys.exc_info(), sys.exception()

#: sys.exc_info in a handler
import sys
try:
    1 / 0
except ZeroDivisionError as e:
    t, v, tb = sys.exc_info()
    return t, v is e, tb is e.__traceback__, tb.tb_lineno

#: sys.exc_info through a variable and C
import sys
f = sys.exc_info
try:
    {}["k"]
except KeyError:
    return f()[0], list(map(lambda _: sys.exc_info()[0], "a"))

#: super through a variable
class A:
    def f(self): return "A"
class B(A):
    def f(self):
        s = super
        __class__
        return s().f()
return B().f()

#: __import__ relative to the caller
def main():
    ns = {"__name__": "json.decoder", "__package__": "json"}
    exec("from . import scanner", ns)
    return ns["scanner"].__name__

#: breakpoint calls the hook
import sys
old = sys.breakpointhook
sys.breakpointhook = lambda *a, **k: log((a, k, sys._getframe(1).f_code.co_name))
try:
    breakpoint(1, x=2)
finally:
    sys.breakpointhook = old

#: input and print replaced
import sys, io
old = sys.stdin
sys.stdin = io.StringIO("typed\n")
try:
    return input("prompt> ")
finally:
    sys.stdin = old

#: help-like builtins see no engine
import inspect
def f(a, b: int = 2, *c, d, **e) -> str: "doc"
return str(inspect.signature(f)), inspect.getdoc(f), inspect.getsource(f)
""")
def test_warnings_and_others(program: Program) -> None:
    program.check()
