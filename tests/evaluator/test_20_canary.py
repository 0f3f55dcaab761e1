"""Nothing of the program is touched that CPython would not touch.

A canary notes each call of each of its special methods. The programs below lead canaries through
every kind of instruction; the notes of both runs must be the same, call by call.
"""

import sys

import pytest

from .oracle import Program, check_source, each

CANARY = '''
import sys
def _answers():
    """What each special method of a canary answers, after it was noted."""
    get = object.__getattribute__
    yes = lambda self, *a, **k: True
    me = lambda self, *a, **k: self
    none = lambda self, *a, **k: None
    empty = lambda self, *a, **k: iter(())
    def stop(self): raise StopIteration
    def missing(self, name): raise AttributeError(name)
    def anext(self): raise StopAsyncIteration
    answers = {
        "__repr__": lambda self: "canary", "__str__": lambda self: "canary",
        "__format__": lambda self, spec: "canary", "__bytes__": lambda self: b"canary",
        "__hash__": lambda self: 7, "__bool__": yes, "__len__": lambda self: 1,
        "__length_hint__": lambda self: 1, "__eq__": lambda self, other: self is other,
        "__ne__": lambda self, other: self is not other,
        "__contains__": yes, "__iter__": empty, "__reversed__": empty, "__next__": stop,
        "__getitem__": lambda self, key: (IndexError if key else key),
        "__setitem__": none, "__delitem__": none, "__missing__": me,
        "__getattribute__": get, "__getattr__": missing,
        "__setattr__": object.__setattr__, "__delattr__": object.__delattr__,
        "__dir__": lambda self: ["x"], "__call__": lambda self, *a, **k: (a, k),
        "__get__": me, "__set__": none, "__delete__": none, "__set_name__": none,
        "__enter__": me, "__exit__": none,
        "__index__": lambda self: 0, "__int__": lambda self: 0, "__float__": lambda self: 0.0,
        "__complex__": lambda self: 0j, "__round__": lambda self, n=None: 0,
        "__trunc__": lambda self: 0, "__floor__": lambda self: 0, "__ceil__": lambda self: 0,
        "__fspath__": lambda self: "path", "__sizeof__": lambda self: 16,
        "__copy__": me, "__deepcopy__": me, "__await__": empty,
        "__aiter__": me, "__anext__": anext,
        "__reduce__": lambda self: (object, ()), "__reduce_ex__": lambda self, v: (object, ()),
        "__getstate__": none, "__setstate__": none, "__mro_entries__": lambda self, bases: (),
        "__buffer__": lambda self, flags: memoryview(b""), "__release_buffer__": none,
    }
    for name in ("lt", "le", "gt", "ge"): answers[f"__{name}__"] = yes
    for name in ("neg", "pos", "abs", "invert"): answers[f"__{name}__"] = me
    for name in ("add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or"
                 .split()):
        for prefix in ("", "r", "i"): answers[f"__{prefix}{name}__"] = me
    return answers

def _noting(name, answer, prefix=""):
    def method(self, *args, **kwargs):
        log(f"{prefix}{name} with {len(args)}")
        return answer(self, *args, **kwargs)
    method.__name__ = name
    return method

def _class_of(prefix, cls):
    def getter(self):
        log(f"{prefix}__class__")
        return cls or type(self)
    return property(getter)

class Meta(type):
    """The class of canaries is watched as well: also what is asked of the class is noted."""
    def __instancecheck__(cls, x):
        log("class __instancecheck__")
        return type.__instancecheck__(cls, x)
    def __subclasscheck__(cls, x):
        log("class __subclasscheck__")
        return type.__subclasscheck__(cls, x)
    def __getattribute__(cls, n): log("class attribute " + n); return type.__getattribute__(cls, n)
    def __setattr__(cls, n, v): log("class set " + n); type.__setattr__(cls, n, v)
    def __delattr__(cls, n): log("class delete " + n); type.__delattr__(cls, n)
    def __call__(cls, *a, **k): log("class call"); return type.__call__(cls, *a, **k)
    def __eq__(cls, o): log("class __eq__"); return cls is o
    def __ne__(cls, o): log("class __ne__"); return cls is not o
    def __hash__(cls): log("class __hash__"); return 11
    def __bool__(cls): log("class __bool__"); return True
    def __len__(cls): log("class __len__"); return 1
    def __iter__(cls): log("class __iter__"); return iter(())
    def __contains__(cls, x): log("class __contains__"); return False
    def __getitem__(cls, k): log("class __getitem__"); return k
    def __repr__(cls): log("class __repr__"); return "Canary"
    def __str__(cls): log("class __str__"); return "Canary"
    def __or__(cls, o): log("class __or__"); return o
    def __ror__(cls, o): log("class __ror__"); return o
    def __dir__(cls): log("class __dir__"); return []
    def mro(cls): log("class mro"); return type.mro(cls)

def _body():
    body = {name: _noting(name, answer) for name, answer in _answers().items()}
    body["__class__"] = _class_of("", None)
    body["__module__"] = __name__
    def __new__(cls, *a, **k): log("__new__"); return object.__new__(cls)
    def __init__(self, *a, **k): log("__init__")
    def __init_subclass__(cls, **k): log("__init_subclass__")
    def __class_getitem__(cls, item): log("__class_getitem__"); return item
    async def __aenter__(self): log("__aenter__"); return self
    async def __aexit__(self, *a): log("__aexit__")
    for f in (__new__, __init__, __aenter__, __aexit__): body[f.__name__] = f
    for f in (__init_subclass__, __class_getitem__): body[f.__name__] = classmethod(f)
    return body

Canary = Meta("Canary", (), _body())

class ErrorMeta(Meta):
    """Python 3.11 asks __subclasscheck__ whenever any frame, ours or not, handles an exception."""
    __subclasscheck__ = type.__subclasscheck__

class CanaryError(Exception, metaclass=Meta if sys.version_info >= (3, 12) else ErrorMeta):
    """An exception that notes what is asked of it."""
    def __getattribute__(self, n): log("error attribute " + n); return super().__getattribute__(n)
    def __setattr__(self, n, v): log("error set " + n); super().__setattr__(n, v)
    def __str__(self): log("error __str__"); return "canary error"
    def __repr__(self): log("error __repr__"); return "canary error"
    def __eq__(self, o): log("error __eq__"); return self is o
    def __hash__(self): log("error __hash__"); return 3
    def __bool__(self): log("error __bool__"); return False
    def __len__(self): log("error __len__"); return 0

class CanaryDict(dict):
    """A namespace that notes what is read and written."""
for _name in ("__getitem__ __setitem__ __delitem__ __contains__ __iter__ __len__ __eq__ __bool__ "
              "get pop update keys items values setdefault __missing__").split():
    _base = getattr(dict, _name, None)
    if _name == "__bool__": _base = lambda self: True
    if _name == "__missing__":
        def _base(self, key): raise KeyError(key)
    setattr(CanaryDict, _name, _noting(_name, _base, "dict "))
c, d = Canary(), Canary()
'''


@each(
    r"""
#: locals
a = Canary()
b = a
a, b = b, a
del a
return b

#: globals
def main():
    global c
    x = c
    c = d
    c = x
    return c is x

#: cells
def main():
    x = c
    def f():
        nonlocal x
        y = x
        x = y
        return x
    f()
    del x

#: displays
[c], (c, d), [c, [d]], [*[c]], (*(c,), d)
{1: c}, {"a": c, "b": d}, {**{"k": c}}

#: set and dict keys
{c}, {c: 1}, {c: 1, d: 2}, {*[c]}, {**{c: 1}}

#: constant tuples next to canaries
x = (1, 2, c, (3, c))
return len(x)

#: unpacking
a, b = c, d
a, *b = [c, d]
(a, b), e = (c, d), c

#: unpacking a canary
[] = c

#: subscripts of containers
x = [c, d]
x[0], x[:1], x[-1]
x[0] = d
del x[0]
y = {"k": c}
y["k"]
del y["k"]

#: subscripts of a canary
c[0], c[0:1], c[c]
c[0] = d
c[0:1] = d
del c[0], c[0:1]
c[0] += d

#: a canary as an index
[1, 2][c], "ab"[c], (1, 2)[c:], {}.get(c)

#: attributes
c.x = 1
c.x
c.x += 1
del c.x

#: a missing attribute
c.missing

#: a missing attribute asked for with a default
getattr(c, "missing", None), hasattr(c, "missing")

#: attributes of the class
Canary.x = 1
Canary.x
del Canary.x

#: a canary as a class attribute
class C: x = c
C.x
C().x
C().x = 1
del C().x

#: a canary as an instance attribute
class C: pass
o = C()
o.x = c
o.x
del o.x

#: identity
c is d, c is not d, c is None, None is not c

#: truth
if c: pass
not c
x = c and 1
x = c or 1
1 if c else 2
while c: break
assert c

#: comparisons
c == d, c != d, c < d, c <= d, c > d, c >= d, c == 1, 1 == c, 1 < c, c < d < c

#: membership
c in [c], c in [d], c not in (d,), 1 in c, c in {}, c in {c}

#: arithmetic
c + 1, 1 + c, c - d, c * d, c @ d, c / d, c // d, c % d, c ** d, c << d, c >> d, c & d, c | d, c ^ d

#: reflected arithmetic
1 + c, 1 - c, 1 * c, 1 @ c, 1 / c, 1 // c, 1 ** c, 1 << c, 1 >> c, 1 & c, 1 | c, 1 ^ c, 1 % c

#: in-place arithmetic
x = c
x += 1; x -= 1; x *= 1; x @= 1; x /= 1; x //= 1; x %= 1; x **= 1
x <<= 1; x >>= 1; x &= 1; x |= 1; x ^= 1

#: unary operators
-c, +c, ~c, not c

#: in-place with a canary on the right
a, b, e = [1], {1}, 5
a += c
e += c

#: formatting
f"{c}", f"{c!s}", f"{c!r}", f"{c:x}", f"{c=}", "%s" % c, "{}".format(c), str(c), repr(c)

#: a canary in a formatted container
f"{[c]}", "%s" % [c], repr((c,)), str({1: c})

#: delete and rebind
x = Canary()
x = Canary()
del x

#: iteration
for x in c: pass
[x for x in c], {x for x in c}, {x: x for x in c}, list(x for x in c), [*c], tuple(c)

#: iteration over canaries
for x in [c, d]: pass
[x for x in [c, d]], [x for x in [c] if x], {1: x for x in [c]}

#: walrus and lambda
(x := c), (lambda: c)(), (lambda x: x)(c), (lambda x=c: x)()
""",
    prelude=CANARY,
)
def test_expressions_and_names(program: Program) -> None:
    program.check()


@each(
    r"""
#: arguments
def f(a, b=c, *args, k=d, **kwargs): return a
f(c), f(c, d), f(c, d, c, d), f(a=c), f(c, k=c), f(c, x=d), f(*[c, d]), f(**{"a": c})

#: a canary as star arguments
def f(*args): return args
f(*c)

#: a canary as double star arguments
def f(**kwargs): return kwargs
f(**c)

#: defaults and keyword defaults
def f(a=c, *, b=d): return a, b
f(), f(b=c), f(d)

#: annotations
def f(a: c, *args: d) -> c: pass
x: c = 1

#: wrong calls
def f(a): pass
for args, kwargs in (((), {}), ((c, d), {}), ((c,), {"a": d}), ((c,), {"x": d})):
    try:
        f(*args, **kwargs)
    except TypeError as e:
        log(str(e))

#: calling a canary
c(), c(1), c(1, x=2), c(*[1]), c(**{"x": 1})

#: calling the class
Canary(), Canary(1), Canary(x=1), Canary(*[1])

#: methods of a canary
c.__len__(), c.__add__(1), Canary.__len__(c)

#: a bound method of a canary
m = c.__len__
m()
m.__self__ is c

#: a function called with a canary as self
class C:
    def f(self, x): return x
    g = classmethod(f)
    h = staticmethod(f)
C().f(c), C.f(c, d), C.g(c), C.h(c, d)

#: decorators
@c
def f(): pass
@(lambda f: c)
class C: pass

#: builtins
len(c), bool(c), hash(c), iter(c), abs(c), int(c), float(c), complex(c), round(c), bytes(c)
divmod(c, d), pow(c, d), id(c) == id(c), callable(c), type(c) is Canary, reversed(c), dir(c)

#: isinstance and issubclass
isinstance(c, int), isinstance(c, Canary), isinstance(1, Canary), isinstance(c, (str, list))
issubclass(int, Canary), issubclass(Canary, int)

#: type of a canary
type(c), c.__class__, type(c) is type(d), type(c) == type(d)

#: vars and dict
vars(c), c.__dict__

#: sort and functional builtins
sorted([c, d]), max(c, d), min([c, d], key=lambda x: 1), list(map(lambda x: x, [c]))
list(filter(None, [c])), sum([c], d), any([c]), all([c]), list(zip([c], [d])), list(enumerate([c]))

#: list methods with canaries
a = [c]
a.append(d), a.extend([c]), a.index(c), a.count(d), a.insert(0, c), a.pop(), a.copy(), a.reverse()
[c] == [d], [c] == [c], [c] < [d]

#: functions that return canaries
def f(): return c
f(), [f(), f()], {1: f()}, (f(), (f(),))

#: recursion with canaries
def f(x, n): return f(x, n - 1) if n else x
f(c, 5)

#: a class with a canary in its body
class C:
    x = c
    def f(self): return self.x
    y = [x, d]

#: a class with a canary as a base
class C(c): pass

#: a subclass of the class
class C(Canary): pass
C()

#: a class with a keyword canary
class Base:
    def __init_subclass__(cls, k): pass
class C(Base, k=c): pass

#: super with canaries around
class A:
    def f(self, x): return x
class B(A):
    def f(self, x): return super().f(x)
B().f(c)

#: super of a canary subclass
class C(Canary):
    def __len__(self): return super().__len__()
    def f(self): return super().x
o = C()
len(o)
try:
    o.f()
except AttributeError:
    pass

#: subscript of the class
Canary[c], Canary[0]

#: union of the class
Canary | int, int | Canary
""",
    prelude=CANARY,
)
def test_calls_and_classes(program: Program) -> None:
    program.check()


@each(
    r"""
#: an exception with a canary argument
try:
    raise ValueError(c)
except ValueError as e:
    pass

#: an exception with a canary argument, kept
try:
    raise ValueError(c, d)
except ValueError as e:
    x = e
x.args

#: an exception with a canary argument through frames
def f(x): raise KeyError(x)
def g(x):
    try:
        f(x)
    finally:
        x = None
try:
    g(c)
except KeyError:
    pass

#: canaries on the stack when an exception comes
def f(): return [c, (d, 1 / 0)]
try:
    c + f()
except ZeroDivisionError:
    pass

#: raising a canary
raise c

#: raising from a canary
raise ValueError from c

#: raising the canary's class
raise Canary

#: catching a canary
try:
    1 / 0
except c:
    pass

#: catching the canary's class
try:
    1 / 0
except Canary:
    pass

#: catching a tuple with a canary
try:
    1 / 0
except (ValueError, c):
    pass

#: a canary exception
try:
    raise CanaryError(1)
except CanaryError as e:
    pass

#: a canary exception class
try:
    raise CanaryError
except Exception:
    pass

#: a canary exception that is not caught at once
def f(): raise CanaryError("x")
def g():
    try:
        f()
    except (ValueError, KeyError):
        pass
    finally:
        pass
try:
    g()
except CanaryError:
    pass

#: a canary exception as a cause and a context
try:
    try:
        raise CanaryError(1)
    except CanaryError as e:
        raise ValueError(2) from e
except ValueError:
    pass

#: a canary exception raised in a handler
try:
    try:
        1 / 0
    except ZeroDivisionError:
        raise CanaryError(1)
except CanaryError:
    pass

#: a canary exception with a bare raise
try:
    try:
        raise CanaryError(1)
    except CanaryError:
        raise
except CanaryError:
    pass

#: a canary exception through a generator
def g():
    try:
        yield 1
    except CanaryError:
        yield 2
i = g()
next(i)
i.throw(CanaryError(1))

#: a canary exception leaves a generator
def g():
    yield 1
    raise CanaryError(1)
try:
    list(g())
except CanaryError:
    pass

#: a canary exception through C
def key(x): raise CanaryError(x)
try:
    sorted([1], key=key)
except CanaryError:
    pass

#: a canary exception leaves the program
def f(): raise CanaryError(1)
f()

#: except star with a canary exception
try:
    raise CanaryError(1)
except* CanaryError:
    pass

#: except star with a group of canaries
try:
    raise ExceptionGroup("g", [ValueError(c), CanaryError(1)])
except* ValueError:
    pass
except* CanaryError:
    pass

#: a canary as a context manager
with c: pass
with c as x: pass
with c, d: pass

#: a canary as a context manager with an exception
with c: 1 / 0

#: canaries in a with body
with c:
    x = [c, d]
    try:
        raise ValueError(c)
    except ValueError:
        pass

#: finally with canaries
def f():
    try:
        return c
    finally:
        d
f()

#: an assert with a canary
try:
    assert not c, d
except AssertionError:
    pass

#: a loop left with canaries on the stack
def f():
    for x in [c, d]:
        for y in [c, d]:
            try:
                if x is d: return y
                continue
            finally:
                y
f()
""",
    prelude=CANARY,
)
def test_exceptions_and_managers(program: Program) -> None:
    program.check()


@each(
    r"""
#: yielding canaries
def g(): yield c; yield d
list(g()), [x for x in g()]

#: sending canaries
def g():
    x = yield
    yield x
i = g()
next(i)
i.send(c)

#: returning a canary from a generator
def g():
    return c
    yield
def h():
    x = yield from g()
    yield x
list(h())

#: returning a canary exception from a generator
def g():
    return CanaryError(1)
    yield
def h(): yield (yield from g())
list(h())

#: yield from a canary
def g(): yield from c
list(g())

#: canaries in a suspended generator
def g(a, b=d):
    e = [a, b]
    yield a
    yield (a, (yield b))
i = g(c)
next(i), next(i), i.send(c)
i.close()

#: a dropped generator with canaries
def g(a):
    try:
        yield a
    finally:
        a
i = g(c)
next(i)
del i

#: awaiting a canary
async def f(): return await c
try:
    f().send(None)
except StopIteration:
    pass

#: a coroutine that returns a canary
async def f(x): return x
async def g(): return await f(c)
try:
    g().send(None)
except StopIteration as e:
    e.value

#: asynchronous with a canary
async def f():
    async with c as x: pass
try:
    f().send(None)
except StopIteration:
    pass

#: asynchronous for over a canary
async def f():
    async for x in c: pass
try:
    f().send(None)
except StopIteration:
    pass

#: an asynchronous generator of canaries
async def g():
    x = yield c
    yield x
async def f(): return [x async for x in g()]
try:
    f().send(None)
except StopIteration:
    pass

#: match literals
match c:
    case 1: pass
    case "a": pass
    case None: pass
    case True: pass

#: match sequences and mappings
match c:
    case [x]: pass
    case {"k": x}: pass
    case _: pass

#: match canaries in sequences and mappings
match [c, {"k": d}]:
    case [x, {"k": y}]: pass

#: match the canary's class
match c:
    case int(): pass
    case Canary(x=1): pass
    case Canary(): pass

#: match something else against the canary's class
match 5:
    case Canary(): pass
    case int(): pass

#: match by position
match c:
    case Canary(1): pass

#: match values
class N: v = c
match d:
    case N.v: pass
match c:
    case N.v: pass

#: match with a guard
match c:
    case x if x: pass

#: exec with a canary namespace
exec("x = 1\ny = x\ndel x\nlen\nz: int = 1", {}, CanaryDict())

#: exec with canaries in the namespace
exec("a = c\nb = [a, d]\ndel a", {"c": c, "d": d})

#: a class body in a canary namespace
class M(type):
    @classmethod
    def __prepare__(m, name, bases): return CanaryDict()
    def __new__(m, n, b, ns): return type.__new__(m, n, b, dict(ns))
class C(metaclass=M):
    x = 1
    y = x
    def f(self): pass
    del x

#: globals in a canary dict
exec("def f(): return a + len('b')\nf()", CanaryDict(a=1, __builtins__=__builtins__))

#: import with canaries around
x = c
import math
from os import path as p
x

#: print canaries
print(c, d, sep="-")

#: locals with canaries
a = Canary()
locals()
vars()
dir()
globals()["c"]

#: frames with canaries
import sys
def f(a): return sys._getframe(1).f_locals["x"]
x = c
f(x)

#: a canary as a warning's text
import warnings
warnings.warn("text", UserWarning)
x = c

#: super with a canary class
super(Canary, c).__init__

#: a property of a canary subclass
class C(Canary):
    @property
    def p(self): return 5
C().p

#: slots of a canary subclass
class C(Canary): __slots__ = ("s",)
o = C()
o.s = 1
o.s

#: a type alias and type parameters [3.12+]
type A[T] = list[T]
def f[T](x: T) -> T: return x
f(c)
class G[T](Canary): pass
G()
""",
    prelude=CANARY,
)
def test_generators_and_others(program: Program) -> None:
    program.check()


# Every special method by itself, called by the instruction or builtin that uses it: if one method
# is noted differently, this says which.
USES = {
    "__abs__": "abs(c)",
    "__bytes__": "bytes(c)",
    "__complex__": "complex(c)",
    "__copy__": "__import__('copy').copy(c)",
    "__deepcopy__": "__import__('copy').deepcopy(c)",
    "__dir__": "dir(c)",
    "__divmod__": "divmod(c, 1)",
    "__float__": "float(c)",
    "__format__": "format(c, 'x')",
    "__fspath__": "__import__('os').fspath(c)",
    "__hash__": "hash(c)",
    "__index__": "range(3)[c]",
    "__int__": "int(c)",
    "__next__": "next(c, None)",
    "__rdivmod__": "divmod(1, c)",
    "__reduce_ex__": "__import__('pickle').dumps(c)",
    "__reversed__": "reversed(c)",
    "__round__": "round(c, 1)",
    "__rpow__": "pow(1, c)",
    "__sizeof__": "__import__('sys').getsizeof(c)",
    "__trunc__": "__import__('math').trunc(c)",
    "__floor__": "__import__('math').floor(c)",
    "__ceil__": "__import__('math').ceil(c)",
    "__subclasscheck__": "issubclass(int, Canary)",
    "__instancecheck__": "isinstance(5, Canary)",
}
if sys.version_info >= (3, 12):
    USES["__buffer__"] = "memoryview(c).nbytes"


@pytest.mark.parametrize("method", USES)
def test_one_special_method(method: str) -> None:
    source = CANARY + f"def main():\n    x = {USES[method]}\n    return type(x) is type(c)\n"
    outcome = check_source(source, name=method)
    assert "value" in outcome, outcome["exception"]
    assert any(method in line for line in outcome["events"])
