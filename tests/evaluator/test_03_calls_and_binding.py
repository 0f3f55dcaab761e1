"""Calls: how arguments reach parameters, and the exact words when they do not fit."""

import pytest

from .oracle import Program, check_source, each

# One row: the parameters of a function, and the calls made to it. Every call is one program, so
# that each wrong call shows its own message and traceback.
SIGNATURES: dict[str, list[str]] = {
    "": ["", "1", "1, 2", "a=1", "*[1]", "**{'a': 1}"],
    "a": ["1", "a=1", "", "1, 2", "1, a=2", "b=1", "1, b=2", "*[1, 2, 3]", "**{'a': 1, 'b': 2}"],
    "a, b": ["1, 2", "b=2, a=1", "", "1", "b=1", "1, 2, 3", "1, 2, 3, 4, c=5", "1, 2, b=3"],
    "a, b, c": ["", "1", "a=1", "c=1", "*(), **{}", "*'xyz'"],
    "a, b=2": ["1", "1, 3", "", "b=1", "1, 2, 3", "a=1, b=5", "1, c=3"],
    "a=1, b=2, c=3": ["", "9", "b=9", "1, 2, 3, 4", "1, 2, 3, 4, d=1", "x=1", "c=1, a=2"],
    "*args": ["", "1, 2", "*'ab', 3", "*[], *[1]", "a=1", "args=1"],
    "**kwargs": ["", "a=1, b=2", "1", "1, 2, a=3", "**{'x y': 1}", "kwargs=1", "self=1"],
    "a, *args, b, c=5, **kwargs": [
        "1, b=2",
        "1, 2, 3, b=4, d=6",
        "1",
        "1, 2",
        "b=1",
        "a=1, b=2",
        "1, a=2, b=3",
        "1, b=2, args=3, kwargs=4",
    ],
    "*, a": ["a=1", "", "1", "1, a=2", "b=1", "a=1, b=2"],
    "*, a, b": ["", "a=1", "1, 2", "1, 2, a=3", "1, 2, a=1, b=2"],
    "*, a, b, c": ["", "b=1"],
    "a, *, b=1": ["1, 2", "1, b=2", "1, 2, b=3", "b=3", "1, 2, 3, b=3"],
    "a, b=1, *, c=2": ["1, 2, 3", "1, 2, 3, c=4", "1, 2, 3, 4, c=4"],
    "a, /": ["1", "a=1", "", "1, 2", "1, a=2", "a=1, b=2"],
    "a, b, /": ["1, 2", "1, b=2", "a=1, b=2", "b=1, a=2"],
    "a, /, b": ["1, 2", "1, b=2", "a=1, b=2", "1"],
    "a, b=5, /, *, c": ["1, c=2", "1, 2, c=3", "1, b=2, c=3", "1"],
    "a, /, **kwargs": ["1", "1, a=2", "a=2", "1, 2"],
    "a, b=2, /, c=3, *args, d, e=5, **kwargs": [
        "1, d=4",
        "1, 2, 3, 4, d=5, a=6, b=7",
        "1, c=9, d=4",
        "1, 2, 3, c=9, d=4",
    ],
}

CALLS = [(parameters, call) for parameters, calls in SIGNATURES.items() for call in calls]


@pytest.mark.parametrize(("parameters", "call"), CALLS, ids=[f"f({p}) as f({c})" for p, c in CALLS])
def test_binding(parameters: str, call: str) -> None:
    check_source(
        f"""
        def f({parameters}):
            return locals()
        def main():
            return f({call})
        """
    )


@pytest.mark.parametrize("call", ["", "1", "1, 2", "a=1", "self=1", "1, self=2", "*[1, 2]"])
@pytest.mark.parametrize("target", ["C().f", "C.f", "C().s", "C().k", "C.k", "C", "C()"])
def test_binding_of_methods(target: str, call: str) -> None:
    check_source(
        f"""
        class C:
            def __init__(self, a=0): self.a = a
            def f(self, a): return ("f", a)
            @staticmethod
            def s(a): return ("s", a)
            @classmethod
            def k(cls, a): return ("k", cls, a)
            def __call__(self, a): return ("call", a)
        def main():
            return {target}({call})
        """
    )


@each(r'''
#: defaults are evaluated once, at definition
def f(x=log("default evaluated") or []):
    x.append(1)
    return x
def main():
    return f() is f(), len(f())

#: defaults evaluated in order
def main():
    def d(n):
        log(n)
        return n
    def f(a=d(1), b=d(2), *, c=d(3), e=d(4)): pass
    return f.__defaults__, f.__kwdefaults__

#: defaults changed from outside
def main():
    def f(a, b=1, *, c=2): return a, b, c
    f.__defaults__ = (7, 8)
    f.__kwdefaults__ = {"c": 9}
    r = f()
    f.__defaults__ = None
    try:
        f()
    except TypeError as e:
        return r, str(e)

#: keyword defaults removed from outside
def main():
    def f(*, c=2): return c
    f.__kwdefaults__ = None
    return f()

#: the code object changed from outside
def main():
    def f(a): return a
    def g(a, b=2): return a, b
    f.__code__ = g.__code__
    f.__defaults__ = (5,)
    return f(1)

#: the qualname in the message is the current one
def main():
    def f(a): pass
    f.__qualname__ = "Some.where"
    f()

#: function attributes
def main():
    def f(a: int, b: "x" = 1) -> str:
        """A doc."""
    f.attr = 1
    return f, f.__name__, f.__qualname__, f.__module__, f.__annotations__, f.__dict__

#: annotations are evaluated in order
def main():
    def a(n):
        log(n)
        return n
    def f(p: a(1), /, q: a(2), *r: a(3), s: a(4), **t: a(5)) -> a(6): pass
    return f.__annotations__

#: starred annotation
def main():
    def f(*args: *tuple[int, str]): pass
    return f.__annotations__

#: decorators apply from the bottom
def main():
    def deco(n):
        log(("make", n))
        def apply(f):
            log(("apply", n))
            return lambda: (n, f())
        return apply
    @deco(1)
    @deco(2)
    def f(): return "f"
    return f()

#: arguments are evaluated from left to right
def main():
    def v(n):
        log(n)
        return n
    def f(*a, **k): return a, k
    return v(f)(v(1), *v([2]), v(3), x=v(4), **v({"y": 5}), z=v(6))

#: star before a keyword, iterated before the keyword is evaluated
def main():
    def g():
        log("iterated")
        yield 1
    def v(n):
        log(n)
        return n
    def f(*a, **k): return a, k
    return f(*g(), x=v(1), *g())

#: star of something not iterable
def f(*a): pass
def main():
    f(*5)

#: star of something not iterable after another
def f(*a): pass
def main():
    f(1, *None, *[2])

#: star of an iterator that raises a type error itself
def f(*a): pass
def bad():
    yield 1
    raise TypeError("mine")
def main():
    f(*bad())

#: double star of something not a mapping
def f(**k): pass
def main():
    f(**5)

#: double star of something not a mapping after a keyword
def f(**k): pass
def main():
    f(a=1, **[1])

#: duplicate keyword from double star
def f(**k): pass
def main():
    f(a=1, **{"a": 2})

#: duplicate keyword between two double stars
def f(**k): pass
def main():
    f(**{"a": 1}, **{"b": 2, "a": 3})

#: duplicate keyword of a method
class C:
    def m(self, **k): pass
def main():
    C().m(a=1, **{"a": 2})

#: duplicate keyword of a C callable
def main():
    dict(a=1, **{"a": 2})

#: keyword that is not a string
def f(**k): pass
def main():
    f(**{1: 2})

#: keyword that is not a string to a C callable
def main():
    dict(**{1: 2})

#: keyword that is a subclass of str
class S(str): pass
def f(a=0, **k): return a, {type(x).__name__: v for x, v in k.items()}
def main():
    return f(**{S("a"): 1, S("b"): 2})

#: a mapping with keys and getitem
class M:
    def keys(self):
        log("keys")
        return ["a", "b"]
    def __getitem__(self, k):
        log(k)
        return k.upper()
def f(**k): return k
def main():
    return f(**M())

#: a mapping that raises
class M:
    def keys(self): return ["a"]
    def __getitem__(self, k): raise ValueError("from getitem")
def f(**k): return k
def main():
    return f(**M())

#: a mapping whose keys raise an attribute error
class M:
    @property
    def keys(self): raise AttributeError("no keys today")
def f(**k): return k
def main():
    return f(**M())

#: kwargs is a fresh dict
def f(**k):
    k["new"] = 1
    return k
def main():
    d = {"a": 1}
    return f(**d), d

#: args is a tuple, and the given tuple where possible
def f(*a): return a
def main():
    t = (1, 2)
    return f(*t) is t, type(f(*[1])), f(*())

#: parameter names keep no keyword order but kwargs does
def f(b=1, **k): return b, list(k)
def main():
    return f(z=1, y=2, b=3, a=4)

#: missing arguments with many names
def f(a, b, c, d, *, e, g): pass
def main():
    f(1)

#: missing keyword-only with positional too many
def f(a, *, k): pass
def main():
    f(1, 2, 3)

#: unexpected keyword with a suggestion
def f(first, second): pass
def main():
    f(1, secnd=2)

#: a nested function's qualname in the message
def main():
    def inner(a): pass
    inner()

#: a lambda's name in the message
def main():
    (lambda a: a)()

#: a method's qualname in the message
class Outer:
    class Inner:
        def method(self, a, b): pass
def main():
    Outer.Inner().method(1)

#: wrong call several frames deep
def a(): b()
def b(): c(1, 2, 3)
def c(x): pass
def main():
    a()

#: comprehension-like names in the message
def main():
    [(lambda x, y: x)(i) for i in range(2)]
''')
def test_functions(program: Program) -> None:
    program.check()


@each(r"""
#: calling something not callable
x = 5
return x()

#: calling None
return None(1)

#: calling a string
x = "abc"
return x(1, 2)

#: calling a module
import os
return os()

#: calling an instance without __call__
class C: pass
return C()(1)

#: __call__ on the instance is not used
class C: pass
c = C()
c.__call__ = lambda: 1
return c()

#: __call__ of several levels
class A:
    def __call__(self, *a): return ("A", a)
class B:
    __call__ = A()
return B()(1)

#: __call__ set to None
class C:
    __call__ = None
return C()()

#: __call__ as a static method, class method and builtin
class S:
    @staticmethod
    def __call__(*a): return a
class K:
    @classmethod
    def __call__(cls, *a): return cls.__name__, a
class L:
    __call__ = len
return S()(1), K()(2), L.__call__([1])

#: bound methods
class C:
    def m(self, *a, **k): return a, k
c = C()
m = c.m
return m(1, x=2), m.__self__ is c, C.m(c, 3), m.__func__ is C.m

#: a method of a builtin
a = []
f = a.append
f(1); f(2)
return a, f.__self__ is a, list.append(a, 3), a

#: wrong number of arguments to a builtin
return len()

#: wrong number of arguments to a builtin, too many
return len([], [])

#: wrong type of argument to a builtin
return len(5)

#: keyword to a builtin that takes none
return len(obj=[])

#: wrong number of arguments to a method descriptor
return [].append()

#: unbound method descriptor without an argument
return list.append()

#: unbound method descriptor of the wrong type
return list.append({}, 1)

#: builtin with keywords
return sorted([3, 1], reverse=True), int("ff", base=16), "a-b".split(sep="-")

#: unexpected keyword to a builtin type
return int(foo=1)

#: a builtin given a starred call
return max(*[1, 5, 3]), print(*"ab", **{"sep": "-"}), dict([("a", 1)], b=2)

#: method call on an attribute that is a function
class C: pass
c = C()
c.f = lambda *a: a
return c.f(1)

#: method call where the class attribute is a C function
class C:
    f = len
    g = staticmethod(len)
return C().f([1, 2]), C().g([1])

#: method call on a module
import math
return math.floor(1.5), math.gcd(4, 6)

#: method call on a class
return str.upper("a"), dict.fromkeys("ab", 1), int.from_bytes(b"a", "big")

#: class with __init__
class C:
    def __init__(self, a, b=2): self.v = a, b
return C(1).v, C(a=3, b=4).v

#: class whose __init__ returns something
class C:
    def __init__(self): return 5
return C()

#: class with __new__
class C:
    def __new__(cls, *a):
        log(("new", a))
        return super().__new__(cls)
    def __init__(self, *a): log(("init", a))
return type(C(1, 2)).__name__

#: class whose __new__ returns another type
class C:
    def __new__(cls): return 5
    def __init__(self): log("never")
return C()

#: class whose __new__ returns a subclass instance
class C:
    def __new__(cls, *a): return object.__new__(D)
    def __init__(self, *a): log("C.init")
class D(C):
    def __init__(self, *a): log(("D.init", a))
return type(C(1)).__name__

#: class without __init__ given arguments
class C: pass
return C(1)

#: class with __new__ only given arguments
class C:
    def __new__(cls, a): return object.__new__(cls, a)
return C(1)

#: metaclass __call__
class M(type):
    def __call__(cls, *a):
        log(("meta", a))
        return super().__call__(*a, "extra")
class C(metaclass=M):
    def __init__(self, *a): self.a = a
return C(1).a

#: functools.partial
import functools
def f(*a, **k): return a, k
p = functools.partial(f, 1, x=2)
return p(3, y=4), functools.partial(p, 5)(), p.func is f

#: partial with a missing argument
import functools
def f(a, b): pass
functools.partial(f, 1)()

#: functools.partialmethod
import functools
class C:
    def f(self, *a): return a
    g = functools.partialmethod(f, 1)
return C().g(2)

#: operator helpers
import operator
class C:
    def f(self, *a, **k): return a, k
    x = 5
call = operator.methodcaller("f", 2, k=3)
return operator.itemgetter(1)("abc"), call(C()), operator.attrgetter("x")(C)

#: types.MethodType made by hand
import types
def f(self, x): return self, x
return types.MethodType(f, "me")(5), types.MethodType(len, "abc")()

#: function called through __get__
def f(self, x): return self, x
return f.__get__(1)(2), f.__get__(None, int) is f

#: function called through its __call__
def f(x): return x
return f.__call__(1), f.__call__.__call__(2), type(f).__call__(f, 3)

#: call with 300 positional arguments
def f(*a): return len(a), sum(a)
return f(*range(300))

#: recursion with an accumulator
def f(n, acc=()):
    return acc if n == 0 else f(n - 1, acc + (n,))
return f(5)

#: abs of a user object
class C:
    def __abs__(self): return "abs"
    def __round__(self, n=None): return ("round", n)
    def __divmod__(self, o): return ("divmod", o)
    def __pow__(self, o, m=None): return ("pow", o, m)
c = C()
return abs(c), round(c), round(c, 2), divmod(c, 3), pow(c, 2), pow(c, 2, 5), c ** 7

#: super class constructor of a builtin subclass
class L(list):
    def __init__(self, *a): super().__init__(a)
return L(1, 2, 3), L()

#: constructing through type
T = type("T", (int,), {"x": 1})
return T(5) + 1, T.x, T.__name__

#: a class call that raises keeps its frames
class C:
    def __init__(self): self.boom()
    def boom(self): raise ValueError("boom")
C()
""")
def test_callables(program: Program) -> None:
    program.check()
