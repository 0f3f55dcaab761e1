"""Python functions called by C code: each must be evaluated too, and behave as if called natively.

``[frames n]`` counts the evaluated frames, so that a callback that ran natively is noticed.
"""

from .oracle import Program, each


@each(r"""
#: sort key [frames 4]
return sorted([3, 1, 2], key=lambda x: -x), [1].sort()

#: sort key that is a method [frames 4]
class C:
    def key(self, x): log(x); return x % 3
return sorted([3, 1, 5], key=C().key)

#: sort with reversed order [frames 4]
a = ["bb", "a", "ccc"]
a.sort(key=lambda s: len(s), reverse=True)
return a

#: sort by comparison [frames 3]
import functools
def cmp(a, b): log((a, b)); return b - a
return sorted([1, 3, 2], key=functools.cmp_to_key(cmp))

#: sort by __lt__ [frames 5]
class K:
    def __init__(self, v): self.v = v
    def __lt__(self, o): log((self.v, o.v)); return self.v < o.v
return [k.v for k in sorted([K(3), K(1), K(2)])]

#: sort key that raises [frames 2]
return sorted([1, 2], key=lambda x: x / 0)

#: sort that is modified meanwhile [frames 2]
a = [3, 2, 1]
def key(x):
    a.append(x)
    return x
a.sort(key=key)

#: min and max with a key [frames 7]
return min([3, 1, 2], key=lambda x: -x), max("abc", key=lambda c: c == "b")

#: map [frames 4]
return list(map(lambda x: x + 1, [1, 2, 3]))

#: map of several iterables [frames 3]
return list(map(lambda a, b: (a, b), "ab", [1, 2]))

#: map is lazy
m = map(log, [1, 2])
log("made")
next(m)
log("one")
list(m)

#: map whose function raises
return list(map(lambda x: 1 // x, [1, 0]))

#: filter [frames 5]
return list(filter(lambda x: x % 2, range(4))), list(filter(None, [0, 1, ""]))

#: filter tests the truth [frames 4]
class B:
    def __bool__(self): log("bool"); return True
return list(filter(lambda x: B(), [1]))

#: reduce [frames 4]
import functools
return functools.reduce(lambda a, b: a * 10 + b, [1, 2, 3, 4])

#: sum, any, all over user objects [frames 5]
class N:
    def __add__(self, o): return ("add", o)
    def __radd__(self, o): return ("radd", o)
    def __bool__(self): log("bool"); return False
return sum([N()]), sum([N()], 5), any([N(), N()]), all([N()])

#: itertools with functions [frames 8]
import itertools as it
return (list(it.takewhile(lambda x: x < 2, [1, 2, 1])),
        list(it.starmap(lambda a, b: a + b, [(1, 2)])),
        list(it.accumulate([1, 2, 3], lambda a, b: a * b)),
        list(it.filterfalse(lambda x: x, [0, 1])),
        [(k, list(g)) for k, g in it.groupby([1, 3, 2], key=lambda x: x % 2)])

#: iter with a sentinel [frames 4]
n = 0
def up():
    nonlocal n
    n += 1
    return n
return list(iter(up, 3))

#: zip and enumerate over user iterators [frames 5]
class It:
    def __init__(self, n): self.n = n
    def __iter__(self): return self
    def __next__(self):
        self.n -= 1
        if self.n < 0: raise StopIteration
        return self.n
return list(zip(It(2), enumerate(It(2))))
""")
def test_higher_order(program: Program) -> None:
    program.check()


@each(r"""
#: __eq__ and __hash__ from a dict [frames 5]
class K:
    def __init__(self, v): self.v = v
    def __hash__(self): log("hash"); return 1
    def __eq__(self, o): log("eq"); return self.v == o.v
d = {K(1): "a"}
return d.get(K(1)), d.get(K(2), "none")

#: __eq__ that raises inside a dict
class K:
    def __hash__(self): return 1
    def __eq__(self, o): raise ValueError("eq")
d = {K(): 1}
d[K()]

#: __eq__ that changes the dict
class K:
    def __init__(self, v): self.v = v
    def __hash__(self): return 1
    def __eq__(self, o): d.clear(); log("cleared"); return False
d = {K(1): 1}
try:
    d[K(2)]
except KeyError:
    log("key error")
return len(d)

#: __eq__ from list methods [frames 8]
class E:
    def __init__(self, v): self.v = v
    def __eq__(self, o):
        log(("eq", self.v))
        return self.v == getattr(o, "v", o)
a = [E(1), E(2)]
return a.index(2), a.count(E(1)), E(2) in a, a == [1, 2], a.remove(1)

#: __hash__ and __eq__ from a set [frames 6]
class K:
    def __init__(self, v): self.v = v
    def __hash__(self): log("hash"); return self.v % 2
    def __eq__(self, o): log("eq"); return self.v == o.v
return len({K(1), K(3), K(1)}), K(3) in frozenset([K(1), K(3)])

#: __missing__ [frames 3]
class D(dict):
    def __missing__(self, k): log(k); self[k] = []; return self[k]
d = D()
d["x"].append(1)
return d, "%(q)s" % d, "{q}".format_map(d)

#: defaultdict factory [frames 3]
import collections
n = iter(range(5))
d = collections.defaultdict(lambda: next(n))
return d["a"], d["b"], d["a"], dict(d)

#: __index__ [frames 4]
class I:
    def __index__(self): log("index"); return 1
return "abc"[I()], [1, 2, 3][:I()], bin(I()), range(I()), [0] * I()

#: __index__ that raises
class I:
    def __index__(self): raise ValueError("index")
return [1][I()]

#: __iter__ and __next__ [frames 5]
class It:
    n = 0
    def __iter__(self): log("iter"); return self
    def __next__(self):
        if self.n == 2: raise StopIteration
        self.n += 1
        return self.n
return list(It()), tuple(It()), dict(zip(It(), "ab")), max(It())

#: __iter__ as a generator [frames 5]
class C:
    def __iter__(self):
        yield "a"
        yield "b"
a, b = C()
return a, b, "".join(C()), set(C()), [*C()]

#: __getitem__ protocol by C [frames 4]
class C:
    def __getitem__(self, i):
        if i > 2: raise IndexError
        return i
    def __len__(self): return 3
return list(C()), list(reversed(C())), 2 in C()

#: __len__ and __bool__ by C [frames 4]
class C:
    def __len__(self): log("len"); return 2
return len(C()), bool(C()), list(filter(None, [C()])) != [], not C()

#: __contains__ by C [frames 2]
import operator
class C:
    def __contains__(self, x): log(x); return True
return operator.contains(C(), 5)

#: operators by the operator module [frames 5]
import operator
class C:
    def __add__(self, o): return ("add", o)
    def __iadd__(self, o): return ("iadd", o)
    def __lt__(self, o): return ("lt", o)
    def __neg__(self): return "neg"
    def __getitem__(self, k): return ("item", k)
c = C()
return (operator.add(c, 1), operator.iadd(c, 2), operator.lt(c, 3), operator.neg(c),
        operator.itemgetter(4, 5)(c))

#: attribute protocol by C [frames 6]
import operator
class C:
    def __getattr__(self, n): log(n); return n
    def __setattr__(self, n, v): log((n, v))
    def __delattr__(self, n): log(("del", n))
c = C()
setattr(c, "a", 1)
delattr(c, "b")
return getattr(c, "x"), hasattr(c, "y"), operator.attrgetter("p", "q")(c)

#: property by C [frames 3]
import operator
class C:
    @property
    def x(self): log("x"); return self
    y = 5
return getattr(C(), "x").y, operator.attrgetter("x.x.y")(C())

#: descriptors by C [frames 4]
class D:
    def __get__(self, o, t): log("get"); return 1
    def __set__(self, o, v): log(("set", v))
    def __set_name__(self, o, n): log(("name", n))
class C: d = D()
c = C()
setattr(c, "d", 5)
return getattr(c, "d"), getattr(C, "d")

#: __format__, __str__, __repr__ by C [frames 6]
class C:
    def __format__(self, s): log(("format", s)); return "F"
    def __str__(self): log("str"); return "S"
    def __repr__(self): log("repr"); return "R"
c = C()
return "{:x} {!s} {!r}".format(c, c, c), "%s %r" % (c, c), str(c), [c] == repr([c]), repr((c,))

#: __instancecheck__ by C [frames 3]
class M(type):
    def __instancecheck__(c, x): log("instance"); return True
    def __subclasscheck__(c, x): log("subclass"); return True
class C(metaclass=M): pass
return isinstance(5, C), issubclass(int, C), isinstance(5, (str, C))

#: __call__ by C [frames 3]
class C:
    def __call__(self, x): return x * 2
return list(map(C(), [1, 2]))

#: __new__ and __init__ by C [frames 5]
class C:
    def __new__(cls, x): log("new"); return object.__new__(cls)
    def __init__(self, x): log("init"); self.x = x
return [c.x for c in map(C, [1, 2])]

#: int and float subclasses by C [frames 4]
class I(int):
    def __add__(self, o): log("add"); return 100
    def __eq__(self, o): log("eq"); return True
    __hash__ = int.__hash__
return sum([I(1), I(2)], I(0)), I(5) in [7], [I(3)].index(9)

#: rich comparison of containers [frames 4]
class E:
    def __init__(self, v): self.v = v
    def __eq__(self, o): log("eq"); return self.v == o.v
    def __lt__(self, o): log("lt"); return self.v < o.v
return [E(1), E(2)] < [E(1), E(3)], (E(1),) == (E(1),), {"k": E(1)} == {"k": E(1)}

#: divmod, pow, round, abs [frames 5]
class C:
    def __divmod__(self, o): return "divmod"
    def __pow__(self, o, m=None): return ("pow", m)
    def __round__(self, n=None): return "round"
    def __abs__(self): return "abs"
return divmod(C(), 1), pow(C(), 1, 2), round(C(), 1), abs(C())

#: __length_hint__ and __reversed__ [frames 4]
import operator
class C:
    def __length_hint__(self): log("hint"); return 3
    def __iter__(self): return iter("x")
    def __reversed__(self): return "reversed"
return operator.length_hint(C()), list(C()), reversed(C())

#: __del__ does not disturb
class C:
    def __del__(self): log("del")
def f():
    c = C()
    x = [1, 2, 3]
    c = None
    return x
return f(), sorted([2, 1], key=lambda x: C() and x)

#: __del__ that raises
class C:
    def __del__(self): raise ValueError("in del")
def f():
    c = C()
    return 5
return f()

#: __del__ inside a handler leaves the exception alone
import sys
class C:
    def __del__(self):
        log(sys.exc_info()[0])
        try:
            raise KeyError
        except KeyError:
            pass
try:
    1 / 0
except ZeroDivisionError:
    c = C()
    del c
    return sys.exc_info()[0]
""")
def test_special_methods(program: Program) -> None:
    program.check()


@each(r'''
#: functools.partial [frames 3]
import functools
def f(*a, **k): return a, k
return list(map(functools.partial(f, 1, x=2), [3, 4]))

#: functools.lru_cache [frames 4]
import functools
@functools.lru_cache
def f(n):
    log(n)
    return n if n < 2 else f(n - 1) + f(n - 2)
return f(6), f.cache_info()

#: functools.cache that raises
import functools
@functools.cache
def f(n): raise ValueError(n)
for _ in range(2):
    try:
        f(1)
    except ValueError as e:
        log(str(e))
f(2)

#: functools.cached_property [frames 2]
import functools
class C:
    @functools.cached_property
    def x(self): log("once"); return 5
c = C()
return c.x, c.x, getattr(c, "x")

#: functools.singledispatch [frames 4]
import functools
@functools.singledispatch
def f(x): return "default"
@f.register
def _(x: int): return "int"
@f.register(list)
def _(x): return "list"
return f(1), f([]), f("s"), list(map(f, [True]))

#: functools.singledispatchmethod [frames 3]
import functools
class C:
    @functools.singledispatchmethod
    def f(self, x): return "default"
    @f.register
    def _(self, x: int): return "int"
return C().f(1), C().f("s")

#: functools.wraps [frames 4]
import functools
def deco(f):
    @functools.wraps(f)
    def wrapper(*a, **k): log(f.__name__); return f(*a, **k)
    return wrapper
@deco
def g(x):
    """doc"""
    return x
return g(1), g.__name__, g.__doc__, list(map(g, [2]))

#: re.sub with a function [frames 3]
import re
return re.sub(r"\d+", lambda m: str(int(m[0]) * 2), "1 a 22")

#: re.sub with a function that raises
import re
return re.sub("a", lambda m: 1 / 0, "cat")

#: json hooks [frames 4]
import json
class C: pass
def default(o): log("default"); return {"c": 1}
def hook(d): log(sorted(d)); return tuple(d.items())
return (json.dumps([C()], default=default), json.loads('{"a": {"b": 1}}', object_hook=hook),
        json.loads("1.5", parse_float=lambda s: ("float", s)))

#: weakref callbacks [frames 2]
import weakref
class C: pass
c = C()
r = weakref.ref(c, lambda ref: log(("gone", ref() is None)))
log("before")
del c
log("after")
return r()

#: weakref.finalize and weak containers [frames 2]
import weakref
class C: pass
c = C()
weakref.finalize(c, log, "finalized")
d = weakref.WeakValueDictionary(x=c)
s = weakref.WeakSet([c])
before = len(d), len(s)
del c
return before, len(d), len(s)

#: weakref proxy [frames 3]
import weakref
class C:
    def f(self): return "f"
    def __add__(self, o): return ("add", o)
c = C()
p = weakref.proxy(c)
return p.f(), p + 1

#: copy and deepcopy through __reduce__ [frames 3]
import copy
class C:
    def __init__(self, x): self.x = x
    def __reduce__(self): log("reduce"); return C, (self.x,)
a = C([1])
return copy.copy(a).x is a.x, copy.deepcopy(a).x is a.x

#: pickle through __reduce_ex__ and __setstate__ [frames 3]
import pickle
class C:
    def __getstate__(self): log("getstate"); return [1]
    def __setstate__(self, s): log(("setstate", s))
def main():
    return type(pickle.loads(pickle.dumps(C())))
class C:
    def __getstate__(self): log("getstate"); return [1]
    def __setstate__(self, s): log(("setstate", s))

#: pickle with a persistent id [frames 3]
import pickle, io
class P(pickle.Pickler):
    def persistent_id(self, o):
        if isinstance(o, str): log(o); return o.upper()
class U(pickle.Unpickler):
    def persistent_load(self, pid): return ("loaded", pid)
b = io.BytesIO()
P(b).dump(["a", 1])
b.seek(0)
return U(b).load()

#: heapq and bisect with user objects [frames 4]
import heapq, bisect
class K:
    def __init__(self, v): self.v = v
    def __lt__(self, o): log("lt"); return self.v < o.v
h = [K(3), K(1), K(2)]
heapq.heapify(h)
return h[0].v, bisect.bisect([1, 3, 5], 6, key=lambda x: x * 2)

#: collections.Counter, OrderedDict and deque with user keys [frames 4]
import collections
class K:
    def __init__(self, v): self.v = v
    def __hash__(self): log("hash"); return 1
    def __eq__(self, o): log("eq"); return self.v == o.v
return collections.Counter([K(1), K(1)]).most_common(1)[0][1], collections.deque([K(1)]).count(K(1))

#: str.join, bytes and int over user iterables [frames 3]
class C:
    def __iter__(self): return iter("ab")
    def __bytes__(self): return b"bytes"
return "-".join(C()), bytes(C())

#: print to a user file [frames 3]
class W:
    def write(self, s): log(s)
print("a", "b", file=W())

#: dict.update and dict from user mappings [frames 5]
class M:
    def keys(self): log("keys"); return iter("ab")
    def __getitem__(self, k): log(k); return k * 2
d = {}
d.update(M())
return d, dict(M()), {**M()}

#: type() with user hooks [frames 4]
class D:
    def __set_name__(self, o, n): log(n)
class B:
    def __init_subclass__(cls, **k): log(("sub", cls.__name__, k))
T = type("T", (B,), {"d": D()}, extra=1)
return T.__name__

#: type() with a metaclass [frames 3]
class M(type):
    def __new__(m, n, b, ns): log("new"); return type.__new__(m, n, b, ns)
    def mro(cls): log("mro"); return type.mro(cls)
return M("T", (), {}).__mro__

#: threads started by C [frames 2]
import threading
r = []
t = threading.Thread(target=lambda: r.append(5))
t.start()
t.join()
return r

#: atexit-like callbacks through ExitStack [frames 2]
import contextlib
with contextlib.ExitStack() as s: s.callback(lambda: log("called"))

#: contextvars run [frames 2]
import contextvars
v = contextvars.ContextVar("v", default=0)
def f(): v.set(5); return v.get()
return contextvars.copy_context().run(f), v.get()

#: callbacks within callbacks within callbacks [frames 10]
def key(x): return sum(map(lambda y: y * x, sorted([x, 1], key=lambda z: -z)))
return sorted([3, 1, 2], key=key)

#: an exception through several layers of C
class K:
    def __hash__(self): return max([1], key=lambda x: x / 0)
def f(x): return {K(): x}
return sorted([1], key=f)

#: an exception caught between layers of C
def safe(x):
    try:
        return sum(map(lambda y: y / x, [1]))
    except ZeroDivisionError as e:
        log(str(e))
        return -1
return sorted([0, 1, 2], key=safe)

#: a callback that raises StopIteration ends the C loop
def stop(x):
    if x == 2: raise StopIteration
    return x
return list(map(stop, [1, 2, 3]))

#: a callback that returns from inside a with and a finally [frames 3]
import contextlib
def f(x):
    try:
        with contextlib.nullcontext():
            return x
    finally:
        log(x)
return list(map(f, [1, 2]))

#: ctypes callback [frames 3]
import ctypes
F = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
f = F(lambda x: x + 1)
return f(1), f(41)

#: struct, hash and set operations of user ints
class I:
    def __index__(self): log("index"); return 7
import struct
return struct.pack("B", I()), bytes([I()]), bytearray(2)[:I()], "x" * 3
''')
def test_library_functions(program: Program) -> None:
    program.check()
