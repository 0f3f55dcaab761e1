"""Classes: making them, and everything the data model lets them do."""

import pytest

from .oracle import Program, check_source, each


@each(r'''
#: a simple class
class C:
    """doc"""
    x = 1
    def f(self): return self.x
return C, C().f(), C.__doc__, C.__name__, C.__qualname__, C.__module__

#: inheritance
class A:
    def f(self): return "A"
    def g(self): return self.f()
class B(A):
    def f(self): return "B"
return B().g(), A().g(), issubclass(B, A), B.__mro__ == (B, A, object)

#: multiple inheritance order
class A: x = "A"
class B(A): pass
class C(A): x = "C"
class D(B, C): pass
return D.x, [k.__name__ for k in D.__mro__]

#: inconsistent method resolution order
class A: pass
class B(A): pass
class C(A, B): pass

#: duplicate base
class A: pass
class B(A, A): pass

#: base that is no class
class A(5): pass

#: base that may not be a base
class A(bool): pass

#: layout conflict
class A(int, str): pass

#: bases from a starred expression
bases = (list,)
class C(*bases, **{}): pass
return C([1]) == [1]

#: __mro_entries__
class Proxy:
    def __mro_entries__(self, bases):
        log(len(bases))
        return (dict,)
p = Proxy()
class C(p): pass
return C.__bases__, C.__orig_bases__ == (p,), C(a=1)

#: __mro_entries__ returns no tuple
class Proxy:
    def __mro_entries__(self, bases): return [dict]
class C(Proxy()): pass

#: keyword arguments to a class
class Base:
    def __init_subclass__(cls, /, tag=None, **kw):
        super().__init_subclass__(**kw)
        cls.tag = tag
class C(Base, tag="t"): pass
return C.tag, Base.__init_subclass__.__self__ is Base

#: unexpected keyword to a class
class C(x=1): pass

#: unexpected keyword to __init_subclass__
class A:
    def __init_subclass__(cls): log(cls.__name__)
class B(A): pass
class C(A, x=1): pass

#: __init_subclass__ raises
class A:
    def __init_subclass__(cls): raise ValueError(cls.__name__)
class B(A): pass

#: __set_name__
class D:
    def __set_name__(self, owner, name): log((owner.__name__, name))
class C:
    a = D()
    b = c = D()

#: __set_name__ raises
class D:
    def __set_name__(self, owner, name): raise ValueError("no")
class C:
    a = D()

#: order of __set_name__ and __init_subclass__ and the metaclass
class M(type):
    def __new__(m, n, b, ns):
        log("M.new before")
        r = super().__new__(m, n, b, ns)
        log("M.new after")
        return r
    def __init__(cls, *a): log("M.init")
class D:
    def __set_name__(self, o, n): log("set_name " + n)
class A(metaclass=M):
    def __init_subclass__(cls): log("init_subclass")
class B(A):
    d = D()

#: metaclass
class M(type):
    def hello(cls): return "hello " + cls.__name__
class C(metaclass=M): pass
return C.hello(), type(C).__name__, hasattr(C(), "hello")

#: metaclass is inherited
class M(type): pass
class A(metaclass=M): pass
class B(A): pass
return type(B).__name__

#: metaclass conflict
class M(type): pass
class N(type): pass
class A(metaclass=M): pass
class B(metaclass=N): pass
class C(A, B): pass

#: the most derived metaclass wins
class M(type): pass
class N(M): pass
class A(metaclass=M): pass
class B(metaclass=N): pass
class C(A, B): pass
return type(C).__name__

#: metaclass that is a function
def meta(name, bases, ns, **kw): return name, bases, sorted(ns), kw
class C(list, metaclass=meta, extra=1):
    x = 1
return C

#: metaclass with a bad signature
class M(type):
    def __new__(m, name): pass
class C(metaclass=M): pass

#: __prepare__
class M(type):
    @classmethod
    def __prepare__(m, name, bases, **kw):
        log((name, bases, kw))
        return {"injected": 7}
    def __new__(m, n, b, ns, **kw): return super().__new__(m, n, b, ns)
    def __init__(cls, *a, **kw): pass
class C(metaclass=M, k=1):
    y = injected + 1
return C.y, C.injected

#: __prepare__ returns a mapping that records
class NS(dict):
    def __setitem__(self, k, v):
        log(("set", k))
        super().__setitem__(k, v)
    def __getitem__(self, k):
        log(("get", k))
        return super().__getitem__(k)
    def __delitem__(self, k):
        log(("del", k))
        super().__delitem__(k)
class M(type):
    @classmethod
    def __prepare__(m, name, bases): return NS()
    def __new__(m, n, b, ns): return type.__new__(m, n, b, dict(ns))
class C(metaclass=M):
    x = 1
    y = x
    def f(self): pass
    del x
return sorted(k for k in vars(C) if k[0] != "_")

#: __prepare__ returns no mapping
class M(type):
    @classmethod
    def __prepare__(m, name, bases): return 5
class C(metaclass=M): pass

#: a namespace with __missing__
class NS(dict):
    def __missing__(self, k):
        if k.startswith("__"): raise KeyError(k)
        log(k)
        return k.upper()
class M(type):
    @classmethod
    def __prepare__(m, name, bases): return NS()
class C(metaclass=M):
    x = something
return C.x

#: class body with statements
class C:
    items = []
    for i in range(3):
        items.append(i)
    if items:
        def f(self): return "yes"
    else:
        def f(self): return "no"
    try:
        1 / 0
    except ZeroDivisionError as e:
        error = str(e)
    with open("/dev/null") as fh: pass
return C.items, C().f(), C.error, C.i

#: class body that raises
class C:
    x = 1
    def f(self): pass
    y = x / 0

#: class body raises deep inside
def boom(): raise KeyError("boom")
class A:
    class B:
        x = boom()

#: locals in a class body
class C:
    x = 1
    names = sorted(k for k in locals() if not k.startswith("__"))
    locals()["y"] = 2
return C.names, C.y

#: annotations of a class
class C:
    a: int
    b: str = "x"
    c: undefined if False else float = 1.5
    (d): int = 4
    def __init__(self): self.x: list = []
return C.__annotations__, C.b

#: annotations evaluated in order, values first
def f(x):
    log(x)
    return x
class C:
    a: f("annotation") = f("value")

#: decorators of a class
def deco(n):
    def apply(cls):
        log(n)
        cls.tags = getattr(cls, "tags", ()) + (n,)
        return cls
    return apply
@deco(1)
@deco(2)
class C: pass
return C.tags

#: __class__ cell
class C:
    def f(self): return __class__
    @staticmethod
    def g(): return __class__
    @classmethod
    def h(cls): return __class__ is cls
return C().f() is C, C.g() is C, C.h()

#: __class__ cell is filled after the body
class C:
    def f(): return __class__
    try:
        f()
    except NameError as e:
        error = str(e)
return C.error

#: __classcell__ passed on to type.__new__
class M(type):
    def __new__(m, n, b, ns):
        log("__classcell__" in ns)
        return super().__new__(m, n, b, ns)
class C(metaclass=M):
    def f(self): return __class__
class D(metaclass=M):
    def f(self): return 1
return C().f() is C

#: __classcell__ not passed on
class M(type):
    def __new__(m, n, b, ns):
        ns.pop("__classcell__", None)
        return super().__new__(m, n, b, ns)
class C(metaclass=M):
    def f(self): return __class__

#: __classcell__ of the wrong type
class M(type):
    def __new__(m, n, b, ns): return super().__new__(m, n, b, ns | {"__classcell__": 5})
class C(metaclass=M):
    def f(self): return __class__

#: __classcell__ of another class
cells = []
class M(type):
    def __new__(m, n, b, ns):
        cells.append(ns["__classcell__"])
        return super().__new__(m, n, b, ns | {"__classcell__": cells[0]})
class C(metaclass=M):
    def f(self): return __class__
class D(metaclass=M):
    def f(self): return __class__

#: __build_class__ replaced
import builtins
original = builtins.__build_class__
def build(f, name, *bases, **kw):
    log((name, bases, kw))
    return original(f, name, *bases, **kw)
builtins.__build_class__ = build
try:
    class C(int, metaclass=type): x = 1
finally:
    builtins.__build_class__ = original
return C.x

#: __build_class__ called by hand
import builtins
def body():
    log("body")
return builtins.__build_class__(body, "Made").__name__

#: __build_class__ with bad arguments
import builtins
r = []
for args in ((), (1,), (1, "x"), (lambda: 0, 5)):
    try:
        builtins.__build_class__(*args)
    except TypeError as e: r.append(str(e))
return r

#: __slots__
class C:
    __slots__ = ("a", "b")
c = C()
c.a = 1
return c.a, hasattr(c, "b"), hasattr(c, "__dict__")

#: __slots__ refuse other names
class C:
    __slots__ = "a"
C().z = 1

#: __slots__ unset
class C:
    __slots__ = ["a"]
C().a

#: __slots__ with inheritance
class A: __slots__ = ("a",)
class B(A): __slots__ = ("b", "__dict__")
b = B()
b.a, b.b, b.c = 1, 2, 3
return b.a, b.b, b.__dict__

#: __slots__ conflict with a class variable
class C:
    __slots__ = ("a",)
    a = 1

#: enumerations
import enum
class Color(enum.Enum):
    RED = 1
    GREEN = enum.auto()
    @property
    def nice(self): return self.name.title()
return Color.RED, Color(2), Color["RED"].nice, list(Color), repr(Color.RED)

#: dataclasses
import dataclasses
@dataclasses.dataclass(order=True)
class P:
    x: int
    y: list = dataclasses.field(default_factory=list)
return P(1), P(1) == P(1), P(1) < P(2), dataclasses.asdict(P(3, [4])), repr(P(1))

#: abstract classes
import abc
class A(abc.ABC):
    @abc.abstractmethod
    def f(self): pass
class B(A):
    def f(self): return "f"
log(B().f())
A()

#: generic classes [3.12+]
class C[T, *Ts, **P]:
    x: T
    def f[U](self, a: U) -> T: return a
type Alias[K] = dict[K, int]
def g[T: int](x: T) -> T: return x
return C[int, str, [int]], C.__type_params__, C().f(1), Alias.__value__, g.__type_params__, g(5)

#: type parameter bounds are lazy [3.12+]
def g[T: log("bound") or int](x: T): pass
t, = g.__type_params__
log("made")
return t.__bound__

#: type parameter defaults [3.13+]
class C[T = int, *Ts = *tuple[int, str], **P = [int]]: pass
return [p.__default__ for p in C.__type_params__]

#: type alias errors are lazy [3.12+]
type A = undefined_name
log("fine so far")
A.__value__
''')
def test_making_classes(program: Program) -> None:
    program.check()


@each(r"""
#: super without arguments
class A:
    def f(self, x): return ("A", x)
class B(A):
    def f(self, x): return ("B", super().f(x))
return B().f(1)

#: super in a diamond
class A:
    def f(self): return ["A"]
class B(A):
    def f(self): return ["B"] + super().f()
class C(A):
    def f(self): return ["C"] + super().f()
class D(B, C):
    def f(self): return ["D"] + super().f()
return D().f()

#: super with two arguments
class A:
    def f(self): return "A"
class B(A):
    def f(self): return "B"
class C(B):
    def f(self): return super(B, self).f(), super(C, self).f()
return C().f(), super(C, C()).f()

#: super in a class method
class A:
    @classmethod
    def make(cls): return ("A", cls.__name__)
class B(A):
    @classmethod
    def make(cls): return ("B", super().make())
return B.make()

#: super in __new__
class A:
    def __new__(cls, *a):
        self = super().__new__(cls)
        self.a = a
        return self
class B(A):
    def __new__(cls, *a): return super().__new__(cls, *a, "b")
return B(1).a

#: super in a static method
class A:
    @staticmethod
    def f(): return super().f()
A.f()

#: super in a static method with an argument
class A: pass
class B(A):
    @staticmethod
    def f(x): return super().__init__
B.f(5)

#: super attribute
class A: x = 1
class B(A):
    x = 2
    def f(self): return super().x, self.x
return B().f()

#: super property
class A:
    @property
    def p(self): return "A.p"
class B(A):
    @property
    def p(self): return super().p + " B.p"
return B().p

#: super missing attribute
class A:
    def f(self): return super().nope
A().f()

#: super missing method call
class A:
    def f(self): return super().nope(1, 2)
A().f()

#: super in a nested function
class A:
    def f(self): return "A"
class B(A):
    def f(self):
        def inner(): return super(B, self).f()
        return inner()
return B().f()

#: super without arguments in a nested function
class A:
    def f(self): return "A"
class B(A):
    def f(self):
        def inner(me): return super().f()
        return inner(self)
return B().f()

#: super without arguments in a nested function of the wrong self
class A: pass
class B(A):
    def f(self):
        def inner(me): return super().f()
        return inner(5)
B().f()

#: super in a lambda
class A:
    def f(self): return "A"
class B(A):
    f = lambda self: super().f() + "B"
return B().f()

#: super where self was rebound
class A:
    def f(self): return "A"
class B(A):
    def f(self):
        self = B()
        return super().f()
return B().f()

#: super where self was deleted
class A:
    def f(self):
        del self
        return super().f()
A().f()

#: super where self is a cell
class A:
    def f(self): return "A"
class B(A):
    def f(self):
        g = lambda: self
        return super().f(), g() is self
return B().f()

#: super with only varargs
class A:
    def f(*args): return super().f()
A().f()

#: super outside a class
def f(self): return super()
f(1)

#: super without any argument
class A:
    def f(): return super()
A.f()

#: super in a comprehension
class A:
    def f(self): return "A"
class B(A):
    def f(self): return [super(B, self).f() for _ in range(2)]
return B().f()

#: super in a generator method
class A:
    def f(self): return iter("ab")
class B(A):
    def f(self):
        yield from super().f()
        yield "c"
return list(B().f())

#: super stored and used later
class A:
    def f(self): return "A"
class B(A):
    def f(self):
        s = super()
        return s.f(), s.__thisclass__ is B, s.__self__ is self, type(s)
return B().f()

#: super shadowed by a global
class A:
    def f(self): return "A"
class B(A):
    def f(self): return super().f()
def main():
    return B().f()
def super(*a):
    class S:
        def f(self): return ("mine", a)
    return S()

#: super renamed
sup = super
class A:
    def f(self): return "A"
class B(A):
    def f(self):
        __class__
        return sup().f()
def main():
    return B().f()

#: super set and delete attributes
class A:
    def __setattr__(self, n, v): log(("set", n)); object.__setattr__(self, n, v)
class B(A):
    def __setattr__(self, n, v): super().__setattr__(n, v + 1)
b = B()
b.x = 1
return b.x

#: super of special methods
class L(list):
    def __getitem__(self, i): return ("got", super().__getitem__(i))
    def __len__(self): return super().__len__() + 100
    def __eq__(self, o): return ("eq", super().__eq__(o))
    def append(self, x): super().append(x * 2)
a = L([1, 2])
a.append(3)
return a[2], len(a), a == [1]

#: super with keyword arguments
class A:
    def __init__(self, **kw): self.kw = kw
class B(A):
    def __init__(self, a, **kw): super().__init__(b=a, **kw)
return B(1, c=2).kw

#: a method raising through super
class A:
    def f(self): raise ValueError("from A")
class B(A):
    def f(self): return super().f()
B().f()
""")
def test_super(program: Program) -> None:
    program.check()


@each(r"""
#: property
class C:
    def __init__(self): self._x = 0
    @property
    def x(self): log("get"); return self._x
    @x.setter
    def x(self, v): log("set"); self._x = v
    @x.deleter
    def x(self): log("del")
c = C()
c.x = 5; c.x += 1
del c.x
return c.x

#: property without a setter
class C:
    @property
    def x(self): return 1
C().x = 2

#: property without a deleter
class C:
    @property
    def x(self): return 1
del C().x

#: property that raises
class C:
    @property
    def x(self): raise ValueError("inside")
C().x

#: property that raises an attribute error falls to __getattr__
class C:
    @property
    def x(self): raise AttributeError("inside")
    def __getattr__(self, n): return ("fallback", n)
return C().x

#: property that raises an attribute error without __getattr__
class C:
    @property
    def x(self): return self.missing
C().x

#: data descriptor wins over the instance
class D:
    def __get__(self, obj, owner): return ("get", obj is None, owner.__name__)
    def __set__(self, obj, value): log(("set", value))
    def __delete__(self, obj): log("delete")
class C: d = D()
c = C()
c.__dict__["d"] = "instance"
c.d = 1
del c.d
return c.d, C.d

#: non-data descriptor loses to the instance
class D:
    def __get__(self, obj, owner): return "descriptor"
class C: d = D()
c = C()
before = c.d
c.d = "instance"
return before, c.d, C.d

#: descriptor with only __set__
class D:
    def __set__(self, obj, value): obj.__dict__["d"] = value * 2
class C: d = D()
c = C()
first = c.d is C.__dict__["d"]
c.d = 4
return first, c.d

#: descriptor with only __delete__
class D:
    def __delete__(self, obj): log("delete")
class C: d = D()
c = C()
del c.d
c.d = 1

#: descriptor on a metaclass
class D:
    def __get__(self, obj, owner): return (obj and obj.__name__, owner.__name__)
class M(type): d = D()
class C(metaclass=M): pass
return C.d

#: class attribute and metaclass data descriptor
class D:
    def __get__(self, obj, owner): return "from meta"
    def __set__(self, obj, value): log("set")
class M(type): d = D()
class C(metaclass=M): d = "own"
C.d = 1
return C.d, C.__dict__["d"]

#: __get__ on the instance is not used
class D: pass
d = D()
d.__get__ = lambda *a: "never"
class C: x = d
return C().x is d

#: __get__ raises
class D:
    def __get__(self, obj, owner): raise KeyError("get")
class C: d = D()
C().d

#: class method and static method objects
class C:
    @classmethod
    def k(cls): return cls.__name__
    @staticmethod
    def s(): return "s"
class D(C): pass
return C.k(), D().k(), C.s(), D().s(), type(C.__dict__["k"]), C.__dict__["s"]()

#: __getattr__
class C:
    x = 1
    def __getattr__(self, n): log(n); return n.upper()
c = C()
return c.x, c.y, c.__dict__, hasattr(c, "zz"), getattr(c, "w")

#: __getattr__ raises
class C:
    def __getattr__(self, n): raise AttributeError(f"no {n}")
c = C()
r = hasattr(c, "x"), getattr(c, "x", "default")
try:
    c.x
except AttributeError as e:
    return r, str(e), e.name, e.__context__ is None

#: __getattr__ raises another error
class C:
    def __getattr__(self, n): raise ValueError(n)
hasattr(C(), "x")

#: __getattr__ is not used for special methods
class C:
    def __getattr__(self, n): log(n); return lambda *a: 1
len(C())

#: __getattribute__
class C:
    x = 1
    def __getattribute__(self, n):
        log(n)
        return object.__getattribute__(self, n)
    def f(self): return self.x
return C().f()

#: __getattribute__ with __getattr__
class C:
    def __getattribute__(self, n):
        log(("attribute", n))
        raise AttributeError("first")
    def __getattr__(self, n):
        log(("attr", n))
        return "second"
return C().x

#: __getattribute__ raises
class C:
    def __getattribute__(self, n): raise AttributeError("no " + n)
C().x

#: __getattribute__ through super
class C:
    def __init__(self): self.x = 5
    def __getattribute__(self, n):
        return ("seen", super().__getattribute__(n))
return C().x

#: __setattr__ and __delattr__
class C:
    def __setattr__(self, n, v): log(("set", n, v)); self.__dict__[n] = v
    def __delattr__(self, n): log(("del", n)); del self.__dict__[n]
c = C()
c.a = 1; c.a += 1
del c.a
setattr(c, "b", 2)
return c.__dict__

#: __setattr__ raises
class C:
    def __setattr__(self, n, v): raise AttributeError("frozen")
C().x = 1

#: metaclass __getattr__
class M(type):
    def __getattr__(cls, n): return (cls.__name__, n)
class C(metaclass=M): pass
return C.anything

#: module __getattr__
import types
m = types.ModuleType("m")
m.__getattr__ = lambda n: "dynamic " + n
return m.foo

#: __dir__
class C:
    def __dir__(self): return ["b", "a"]
return dir(C())

#: __dict__ replaced
class C: pass
c = C()
c.__dict__ = {"x": 1}
c.y = 2
return c.x, c.__dict__

#: __class__ assigned
class A:
    def f(self): return "A"
class B:
    def f(self): return "B"
a = A()
a.__class__ = B
return a.f(), type(a).__name__

#: __class__ assigned with another layout
class A: pass
a = A()
a.__class__ = int

#: __class__ as a property
class C:
    @property
    def __class__(self): log("asked"); return int
return isinstance(C(), int), C().__class__, type(C()).__name__

#: class attributes changed later
class C:
    def f(self): return 1
c = C()
a = c.f()
C.f = lambda self: 2
b = c.f()
del C.f
return a, b, hasattr(c, "f")

#: bases changed later
class A: x = "A"
class B: x = "B"
class C(A): pass
class Z(object): pass
c = C()
before = c.x
C.__bases__ = (B,)
return before, c.x

#: getattr, setattr, delattr with computed names
class C: pass
c = C()
for n in ("a", "b"): setattr(c, n, n * 2)
delattr(c, "a")
return vars(c), getattr(c, "b"), getattr(c, "zz", None), hasattr(c, "a")

#: getattr with a name that is no string
getattr(5, 5)

#: functools.cached_property
import functools
class C:
    @functools.cached_property
    def x(self): log("computed"); return [1]
c = C()
return c.x is c.x, c.__dict__
""")
def test_attributes(program: Program) -> None:
    program.check()


OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "matmul": "@",
    "lshift": "<<",
    "rshift": ">>",
    "and": "&",
    "or": "|",
    "xor": "^",
}


@pytest.mark.parametrize("name", OPERATORS)
def test_binary_operator_protocol(name: str) -> None:
    """Who is asked, in which order: left, right, subclass first, NotImplemented, in place."""
    sign = OPERATORS[name]
    check_source(
        f"""
        class Left:
            def __{name}__(self, o): log("left"); return NotImplemented
        class Right:
            def __r{name}__(self, o): log("right"); return "right"
        class Sub(Left):
            def __{name}__(self, o): log("sub"); return NotImplemented
            def __r{name}__(self, o): log("sub reflected"); return "sub"
        class Same(Left):
            pass
        class InPlace(Left):
            def __i{name}__(self, o): log("in place"); return ("in place", o)
        class Declines(Right, Left):
            def __i{name}__(self, o): log("declines"); return NotImplemented
        class Off(Left):
            __{name}__ = None
            __i{name}__ = None
        def attempt(f):
            try:
                log(f())
            except TypeError as e:
                log(str(e))
        def in_place(a, b):
            a {sign}= b
            return a
        def main():
            attempt(lambda: Left() {sign} Right())
            attempt(lambda: Left() {sign} Sub())
            attempt(lambda: Left() {sign} Same())
            attempt(lambda: Left() {sign} Left())
            attempt(lambda: Right() {sign} Left())
            attempt(lambda: 1 {sign} Right())
            attempt(lambda: Left() {sign} 1)
            attempt(lambda: Off() {sign} Right())
            attempt(lambda: in_place(InPlace(), 1))
            attempt(lambda: in_place(Declines(), Right()))
            attempt(lambda: in_place(Left(), Right()))
            attempt(lambda: in_place(Off(), Right()))
            attempt(lambda: in_place(Left(), 1))
        """,
        min_frames=20,
    )


@pytest.mark.parametrize("name", ["lt", "le", "eq", "ne", "gt", "ge"])
def test_comparison_protocol(name: str) -> None:
    sign = {"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "gt": ">", "ge": ">="}[name]
    mirror = {"lt": "gt", "le": "ge", "eq": "eq", "ne": "ne", "gt": "lt", "ge": "le"}[name]
    check_source(
        f"""
        class A:
            def __{name}__(self, o): log("A"); return NotImplemented
        class B:
            def __{mirror}__(self, o): log("B"); return "from B"
        class Sub(A):
            def __{mirror}__(self, o): log("Sub"); return "from Sub"
        class Plain:
            pass
        def attempt(f):
            try:
                log(f())
            except TypeError as e:
                log(str(e))
        def main():
            attempt(lambda: A() {sign} B())
            attempt(lambda: A() {sign} Sub())
            attempt(lambda: A() {sign} A())
            attempt(lambda: B() {sign} A())
            attempt(lambda: 1 {sign} B())
            attempt(lambda: A() {sign} 1)
            attempt(lambda: Plain() {sign} Plain())
            attempt(lambda: A() {sign} B() {sign} A())
        """,
        min_frames=9,
    )


@each(r"""
#: unary operators
class C:
    def __neg__(self): return "neg"
    def __pos__(self): return "pos"
    def __invert__(self): return "invert"
    def __bool__(self): return False
c = C()
return -c, +c, ~c, not c

#: operators looked up on the type only
class C: pass
c = C()
c.__add__ = lambda o: "never"
c.__neg__ = lambda: "never"
try:
    c + 1
except TypeError as e: log(str(e))
-c

#: operator that raises
class C:
    def __add__(self, o): raise ValueError("add")
C() + 1

#: reflected operator that raises
class C:
    def __radd__(self, o): raise ValueError("radd")
1 + C()

#: item protocol
class C:
    def __getitem__(self, k): log(("get", k)); return k
    def __setitem__(self, k, v): log(("set", k, v))
    def __delitem__(self, k): log(("del", k))
    def __len__(self): return 3
c = C()
c[1] = 2; c[1:2] = 3; c["a", "b"] = 4; c[0] += 5
del c[9], c[:]
return c[-1], c[::2], len(c)

#: item protocol on the instance is not used
class C: pass
c = C()
c.__getitem__ = lambda k: k
c[1]

#: __eq__ without __hash__
class C:
    def __eq__(self, o): return True
return C.__hash__, {C()}

#: __eq__ and __hash__ in dicts and sets
class K:
    def __init__(self, v): self.v = v
    def __eq__(self, o): log(("eq", self.v, o.v)); return self.v == o.v
    def __hash__(self): log(("hash", self.v)); return 1
d = {K(1): "a", K(2): "b"}
return d[K(2)], K(1) in d, len({K(1), K(1)})

#: __hash__ of the wrong type
class C:
    def __hash__(self): return "x"
hash(C())

#: __index__
class I:
    def __index__(self): log("index"); return 2
return [1, 2, 3][I()], range(5)[I()], hex(I()), "abc" * I(), list(range(I()))

#: __int__, __float__, __complex__, __bytes__
class C:
    def __int__(self): return 1
    def __float__(self): return 2.0
    def __complex__(self): return 3j
    def __bytes__(self): return b"4"
c = C()
return int(c), float(c), complex(c), bytes(c)

#: __int__ of the wrong type
class C:
    def __int__(self): return "1"
int(C())

#: __contains__, __iter__, __reversed__
class C:
    def __contains__(self, x): return x == 1
    def __iter__(self): yield from "ab"
    def __reversed__(self): return "reversed"
c = C()
return 1 in c, 2 in c, list(c), reversed(c)

#: __length_hint__
class C:
    def __iter__(self): return iter([1, 2])
    def __length_hint__(self): log("hint"); return 10
return list(C())

#: __instancecheck__ and __subclasscheck__
class M(type):
    def __instancecheck__(cls, x): log(("instance", x)); return x == 5
    def __subclasscheck__(cls, x): log(("subclass", x.__name__)); return x is str
class C(metaclass=M): pass
return isinstance(5, C), isinstance(6, C), issubclass(str, C), issubclass(int, (C, int))

#: __subclasshook__
import abc
class Sized(abc.ABC):
    @classmethod
    def __subclasshook__(cls, other):
        return hasattr(other, "__len__") or NotImplemented
return isinstance([], Sized), isinstance(5, Sized)

#: __format__, __str__, __repr__, __bytes__ fallbacks
class R:
    def __repr__(self): return "R"
class S:
    def __str__(self): return "S"
return str(R()), repr(R()), f"{R()}", str(S()), f"{S()}", "%s" % R()

#: __call__ with keywords
class C:
    def __call__(self, *a, **k): return a, k
return C()(1, *[2], x=3, **{"y": 4})

#: __del__ runs at the right moment
class C:
    def __del__(self): log("del")
c = C()
log("before")
del c
log("after")

#: __missing__
class D(dict):
    def __missing__(self, k): log(k); return k * 2
d = D(a=1)
return d["a"], d["b"], "b" in d, d.get("b")

#: __copy__ and __deepcopy__
import copy
class C:
    def __copy__(self): return "copied"
    def __deepcopy__(self, memo): return "deep"
return copy.copy(C()), copy.deepcopy([C()])

#: __reduce__ and friends
import copy
class C:
    def __init__(self): self.x = [1]
    def __getstate__(self): log("getstate"); return {"x": self.x}
    def __setstate__(self, s): log("setstate"); self.__dict__.update(s)
c = C()
d = copy.deepcopy(c)
return d.x, d.x is c.x

#: __sizeof__ and __dir__
import sys
class C:
    def __sizeof__(self): return 1000
return sys.getsizeof(C()) >= 1000

#: __round__, __trunc__, __floor__, __ceil__
import math
class C:
    def __round__(self, n=None): return ("round", n)
    def __trunc__(self): return "trunc"
    def __floor__(self): return "floor"
    def __ceil__(self): return "ceil"
c = C()
return round(c), round(c, 1), math.trunc(c), math.floor(c), math.ceil(c)

#: total ordering
import functools
@functools.total_ordering
class C:
    def __init__(self, v): self.v = v
    def __eq__(self, o): return self.v == o.v
    def __lt__(self, o): return self.v < o.v
return C(1) <= C(2), C(2) > C(1), sorted([C(3), C(1)])[0].v, max(C(1), C(5)).v

#: number subclass operators
class I(int):
    def __add__(self, o): return I(int.__add__(self, o) + 100)
    __radd__ = __add__
return I(1) + 2, 2 + I(1), sum([I(1), I(2)]), I(3) * 2

#: an operator defined as a C function, a class, a partial
import functools
class C:
    __add__ = lambda self, o: ("lambda", o)
    __len__ = functools.partial(int, 7)
    __getitem__ = staticmethod(lambda k: ("static", k))
    __contains__ = classmethod(lambda cls, x: cls.__name__ == x)
c = C()
return c + 1, len(c), c[2], "C" in c

#: an operator found through a descriptor
class D:
    def __get__(self, obj, owner):
        log(owner.__name__)
        return lambda *a: ("from descriptor", a)
class C:
    __add__ = D()
    __call__ = D()
    __getitem__ = D()
c = C()
return c + 1, c(2), c[3]
""")
def test_special_methods(program: Program) -> None:
    program.check()
