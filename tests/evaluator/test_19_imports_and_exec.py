"""Imports in all forms, and code that is compiled and run while the program runs."""

from .oracle import Program, each

# Modules that exist only inside a program: each has a text, found by a finder on sys.meta_path.
FINDER = '''
import contextlib, importlib.abc, importlib.machinery, linecache, sys
class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules in a dict of texts; a module whose text is None is a package without code."""
    def __init__(self, texts): self.texts = texts
    def find_spec(self, name, path=None, target=None):
        if name in self.texts:
            package = any(other.startswith(name + ".") for other in self.texts)
            return importlib.machinery.ModuleSpec(name, self, is_package=package)
    def create_module(self, spec): return None
    def exec_module(self, module):
        name = module.__spec__.name
        text = self.texts[name] or ""
        module.log = log
        linecache.cache[f"<{name}>"] = (len(text), None, text.splitlines(True), f"<{name}>")
        exec(compile(text, f"<{name}>", "exec"), module.__dict__)
@contextlib.contextmanager
def modules(**texts):
    texts = {name.replace("__", "."): text for name, text in texts.items()}
    finder = Finder(texts)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in texts: sys.modules.pop(name, None)
'''


@each(r"""
#: import
import math
return math.floor(2.5), math.__name__

#: import as
import math as m
return m.__name__

#: import of a submodule binds the top package
import os.path
return os.__name__

#: import of a submodule as
import os.path as p
import xml.dom.minidom as q
return p is __import__("os").path, q.__name__

#: from import
from math import floor, ceil as up
return floor(2.5), up(2.5)

#: from import of a submodule
from xml.dom import minidom
return minidom.__name__

#: star import at module level
def main():
    ns = {}
    exec("from math import *", ns)
    return "floor" in ns, "__doc__" in ns

#: star import respects __all__
def main():
    ns = {}
    exec("from string import *", ns)
    return sorted(n for n in ns if not n.startswith("__"))

#: import inside a class body, a loop, a try
class C:
    import math
    from math import pi
for _ in range(2):
    import math
try:
    import nonexistent_module_q
except ImportError:
    other = None
return C.math is math, C.pi == math.pi, other

#: import into a global
def main():
    global math
    import math
    return "math" in globals()

#: a missing module
import nonexistent_module_q

#: a missing submodule
import os.nonexistent_q

#: a missing submodule of something that is no package
import math.nonexistent_q

#: a missing name
from math import nonexistent_q

#: a missing name with a suggestion
from math import flor

#: a missing name of a package
from xml import nonexistent_q

#: the attributes of an import error
r = []
for text in ("import nonexistent_q", "from math import nonexistent_q", "import math.nope"):
    try:
        exec(text)
    except ImportError as e:
        r.append((type(e), e.name, e.path and "path", str(e).split("(")[0]))
return r

#: a relative import without a package
from . import something

#: a relative import beyond the top
def main():
    exec("from ... import x", {"__package__": "json", "__name__": "json.x"})

#: a relative import
def main():
    ns = {"__package__": "json", "__name__": "json.x"}
    exec("from . import decoder\nfrom .decoder import JSONDecoder as D", ns)
    return ns["D"].__module__, ns["decoder"].__name__

#: __import__ called by hand
r = __import__("os.path"), __import__("os.path", fromlist=["join"])
return [m.__name__ for m in r]

#: __import__ replaced
import builtins
old = builtins.__import__
def fake(name, globals=None, locals=None, fromlist=(), level=0):
    log((name, fromlist, level, globals is not None))
    return old(name, globals, locals, fromlist, level)
builtins.__import__ = fake
try:
    import math
    from os import path, sep as s
    import os.path
finally:
    builtins.__import__ = old

#: __import__ replaced in the namespace only
def main():
    def fake(name, *a): log((name, len(a))); return "module " + name
    ns = {"__builtins__": {"__import__": fake}}
    exec("import a.b.c\nimport x as y", ns)
    return ns["a"], ns["y"]

#: __import__ missing
def main():
    exec("import math", {"__builtins__": {}})

#: import of None in sys.modules
import sys
sys.modules["blocked_q"] = None
try:
    import blocked_q
finally:
    del sys.modules["blocked_q"]

#: import from an object that is no module
import sys
class M:
    x = 5
    def __getattr__(self, n): log(n); raise AttributeError(n)
sys.modules["odd_q"] = M()
try:
    from odd_q import x
    log(x)
    from odd_q import y
finally:
    del sys.modules["odd_q"]

#: importlib
import importlib
m = importlib.import_module("json.decoder")
return m.__name__, importlib.import_module(".encoder", "json").__name__
""")
def test_imports(program: Program) -> None:
    program.check()


@each(
    r"""
#: a module runs once
with modules(mod_q="log('body')\nx = 1"):
    import mod_q
    import mod_q as again
    return mod_q.x, again is mod_q

#: a module that raises
with modules(mod_q="x = 1\n\ndef f():\n    1 / 0\nf()"):
    try:
        import mod_q
    except ZeroDivisionError as e:
        tb, r = e.__traceback__, []
        while tb:
            if tb.tb_frame.f_code.co_filename.startswith("<program") is False:
                r.append((tb.tb_frame.f_code.co_filename.split("/")[-1], tb.tb_lineno))
            tb = tb.tb_next
        return [x for x in r if x[0] == "<mod_q>"], "mod_q" in sys.modules

#: a module with a syntax error
with modules(mod_q="x = = 1"):
    try:
        import mod_q
    except SyntaxError as e:
        return e.filename, e.lineno, e.msg

#: modules that import each other
with modules(a_q="import b_q\nx = 1\nlog(b_q.y)", b_q="import a_q\ny = 2\nlog(hasattr(a_q, 'x'))"):
    import a_q
    return a_q.x, a_q.b_q.y

#: modules that import a name from each other
with modules(a_q="from b_q import y\nx = 1", b_q="from a_q import x\ny = 2"):
    try:
        import a_q
    except ImportError as e:
        return str(e)

#: a package with relative imports
with modules(pkg_q="from . import sub\nfrom .sub import f", pkg_q__sub="def f(): return __name__"):
    import pkg_q.sub
    return pkg_q.f(), pkg_q.sub.__package__

#: from package import submodule
with modules(pkg_q=None, pkg_q__sub="x = 5"):
    from pkg_q import sub
    return sub.x

#: star import from a module with and without __all__
with modules(a_q="x = 1\n_y = 2\ndef f(): pass", b_q="__all__ = ['_z']\n_z = 3\nw = 4"):
    ns = {}
    exec("from a_q import *\nfrom b_q import *", ns)
    return sorted(n for n in ns if n[:2] != "__" and n != "log")

#: star import with a wrong __all__
with modules(a_q="__all__ = ['missing']"):
    exec("from a_q import *", {})

#: star import with an __all__ of numbers
with modules(a_q="__all__ = [5]"):
    exec("from a_q import *", {})

#: module level __getattr__
with modules(a_q="def __getattr__(n):\n    log(n)\n    return n.upper()"):
    import a_q
    from a_q import something
    return a_q.other, something

#: reload
with modules(a_q="x = globals().get('x', 0) + 1"):
    import a_q, importlib
    importlib.reload(a_q)
    return a_q.x

#: functions of an imported module are evaluated too
with modules(a_q="def f(n):\n    return n and f(n - 1) + 1"):
    import a_q
    return a_q.f(10)

#: an import inside an imported function
with modules(a_q="def f():\n    from b_q import x\n    return x", b_q="x = 'b'"):
    import a_q
    return a_q.f()
""",
    prelude=FINDER,
)
def test_own_modules(program: Program) -> None:
    program.check()


@each(r'''
#: compile and eval
code = compile("a + 1", "<c>", "eval")
return eval(code, {"a": 1}), code.co_names

#: compile and exec
ns = {}
exec(compile("x = [i for i in range(3)]", "<c>", "exec"), ns)
return ns["x"]

#: compile single prints
exec(compile("1 + 1", "<c>", "single"))

#: compile of a syntax tree
import ast
tree = ast.parse("def f(x): return x * 2")
ns = {}
exec(compile(tree, "<ast>", "exec"), ns)
return ns["f"](4)

#: a changed syntax tree
import ast
class Double(ast.NodeTransformer):
    def visit_Constant(self, node): return ast.Constant(node.value * 2)
tree = ast.fix_missing_locations(Double().visit(ast.parse("1 + 2", mode="eval")))
return eval(compile(tree, "<ast>", "eval"))

#: a syntax error in exec
exec("def f(:\n  pass")

#: an error in exec has the text's lines
exec("x = 1\ny = 2\nz = x / 0\n")

#: exec in exec
ns = {"log": log}
exec("exec('log(1)')\nexec('x = 2', globals())\nlog(x)", ns)

#: a function made by exec is a real function
ns = {}
exec("def f(a, b=2, *, c=3):\n    'doc'\n    return a, b, c", ns)
f = ns["f"]
return f(1), f.__doc__, f.__defaults__, f.__kwdefaults__, f.__module__

#: a class made by exec
ns = {"__name__": "made"}
exec("class C:\n    x = 1\n    def f(self): return super().__repr__()", ns)
return ns["C"].x, ns["C"].__module__

#: a generator made by exec
ns = {}
exec("def g():\n    yield 1\n    yield from [2, 3]", ns)
return list(ns["g"]())

#: types.FunctionType made by hand
import types
def f(x, y=2): return x, y, z
g = types.FunctionType(f.__code__, {"z": 3}, "g", (5,))
return g(1), g.__name__, g.__defaults__

#: types.FunctionType with a closure
import types
def outer():
    x = 1
    def f(): return x
    return f
f = outer()
g = types.FunctionType(f.__code__, globals(), closure=(types.CellType("other"),))
return f(), g()

#: a changed code object
def f(): return 1
f.__code__ = f.__code__.replace(co_consts=(None, "changed"))
return f()

#: a code object with another name and line
def f(): raise ValueError("x")
f.__code__ = f.__code__.replace(co_name="renamed", co_firstlineno=100)
try:
    f()
except ValueError as e:
    return e.__traceback__.tb_next.tb_frame.f_code.co_name, e.__traceback__.tb_next.tb_lineno

#: runpy-like execution
import types
m = types.ModuleType("m")
exec("def f(): return __name__\nx = f()", m.__dict__)
return m.x, m.f()

#: timeit-like execution
ns = {"log": log}
exec("def inner(it):\n    for i in it:\n        log(i)\n", ns)
ns["inner"](range(2))

#: a doctest
import doctest
def f():
    """
    >>> 1 + 1
    2
    >>> [x for x in range(2)]
    [0, 1]
    >>> 1 / 0
    Traceback (most recent call last):
    ZeroDivisionError: division by zero
    """
t = doctest.DocTestFinder().find(f, "f", globs={})
runner = doctest.DocTestRunner(verbose=False)
return [tuple(runner.run(x)) for x in t]

#: a code interpreter
import code
i = code.InteractiveInterpreter({"x": 1})
return i.runsource("x + 1"), i.runsource("if x:"), i.runsource("x = 5"), i.locals["x"]
''')
def test_compiled_code(program: Program) -> None:
    program.check()
