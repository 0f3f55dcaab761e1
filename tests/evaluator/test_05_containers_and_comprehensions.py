"""Lists, tuples, dicts, sets and the comprehensions that build them."""

from .oracle import Program, each


@each(r"""
#: list displays
a = 1
return [], [a], [a, [a]], [*[], *(a,), a]

#: list display of constants is fresh each time
def f(): return [1, 2, 3]
a = f()
a.append(4)
return a, f()

#: tuple displays
a = 1
return (a,), (a, a), (*[a], a), tuple([a])

#: set displays
a = 1
return {a}, {a, 1, 2, 2}, {*"aab"}, {1, 2, 3}

#: dict displays
a = 1
return {}, {"x": a}, {a: a, "y": {}}, {**{}, "z": 1}

#: dict display with a constant key tuple
a = 1
return {"x": a, "y": a + 1, "z": a + 2}

#: dict display: the last of equal keys wins, the first key stays
return {1: "a", 1.0: "b", True: "c"}

#: set display: the first of equal members stays
return {1, True, 1.0}, {0, False}

#: order of evaluation in a dict display
def f(x):
    log(x)
    return x
return {f(1): f(2), f(3): f(4), **f({5: 6}), f(7): f(8)}

#: unhashable in a set display
return {[]}

#: unhashable key in a dict display
return {[]: 1}

#: unhashable key in a dict of constants
k = {}
return {"a": 1, k: 2}

#: hash that raises in a display
class C:
    def __hash__(self): raise ValueError("no hash")
return {C(): 1}

#: big displays
return [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
        26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36], {1: 2, 3: 4, 5: 6, 7: 8, 9: 10, 11: 12,
        13: 14, 15: 16, 17: 18, 19: 20, 21: 22, 23: 24, 25: 26, 27: 28, 29: 30, 31: 32, 33: 34,
        35: 36, 37: 38}

#: list methods
a = [3, 1, 2]
a.append(9); a.extend("x"); a.insert(0, "first"); a.remove(1); p = a.pop(); a.reverse()
return a, p, a.index(3), a.count(2), a.copy() == a

#: dict methods
d = {"a": 1}
d.update(b=2); d.setdefault("c", []).append(3); p = d.pop("a"); q = d.get("zz", "no")
return d, p, q, list(d.items()), list(reversed(d)), d.popitem()

#: set methods
s = {1, 2}
s.add(3); s.discard(9); s.update([4]); s.remove(1)
return s, s.union({9}), s.isdisjoint({8}), frozenset(s)

#: aliasing inside containers
a = [1]
b = [a, a]
b[0].append(2)
return b, b[0] is b[1], [a] * 2

#: a recursive container
a = []; a.append(a); d = {"a": a}; d["d"] = d
return a, d

#: subclass containers
class L(list): pass
class D(dict): x = 1
class T(tuple): pass
l = L([1]); l.extra = 2
return l, D(a=1), T((1, 2)), L([1]) == [1], type(L([1]) + [2]).__name__

#: named tuple
from collections import namedtuple
P = namedtuple("P", "x y", defaults=[5])
p = P(1)
return p, p.x, p._replace(x=3), P._fields, p == (1, 5), repr(p)

#: collections
from collections import Counter, defaultdict, deque, OrderedDict, ChainMap
d = defaultdict(list); d["a"].append(1)
q = deque([1, 2], maxlen=2); q.append(3)
o = OrderedDict(a=1, b=2); o.move_to_end("a")
return Counter("aab"), d, q, o, ChainMap({"a": 1}, {"b": 2})["b"]

#: errors of containers
r = []
for f in (lambda: [].pop(), lambda: {}.popitem(), lambda: [1].remove(2), lambda: set().pop(),
          lambda: [].index(1), lambda: {}["k"], lambda: (1).x, lambda: "".join([1])):
    try:
        f()
    except Exception as e:
        r.append((type(e), str(e), e.args))
return r

#: arguments mutated in place
def main(a, d, s):
    a.append(a[0]); d["new"] = a; s.discard(1); del d["old"]
ARGS = ([1], {"old": 2}, {1, 2})

#: arguments that alias each other
def main(a, b):
    a.append(1)
    b.append(2)
    return a is b
x = []
ARGS = (x, x)

#: itertools pipelines
import itertools as it
return (list(it.chain("ab", [1])), list(it.islice(it.count(3), 3)), list(it.accumulate([1, 2, 3])),
        [(k, list(g)) for k, g in it.groupby("aabbb")], list(it.product("ab", [1, 2])))
""")
def test_containers(program: Program) -> None:
    program.check()


@each(r"""
#: list comprehension
return [x * x for x in range(5)]

#: list comprehension with conditions
return [x for x in range(20) if x % 2 if x % 3]

#: nested loops in a comprehension
return [(x, y) for x in range(3) for y in range(x)]

#: comprehension in a comprehension
return [[y for y in range(x)] for x in range(4)]

#: set comprehension
return {x % 3 for x in range(10)}

#: dict comprehension
return {k: v for k, v in zip("abc", range(3))}

#: dict comprehension evaluates the key first
def f(x):
    log(x)
    return x
return {f(("k", i)): f(("v", i)) for i in range(2)}

#: generator expression
return list(x + 1 for x in range(3)), sum(x for x in (1, 2)), max((x for x in "abc"))

#: the outermost iterable is evaluated at once
def f():
    log("evaluated")
    return [1]
g = (log("body") or x for x in f())
log("created")
return list(g)

#: the outermost iterable of a generator expression must be iterable at once
def f():
    g = (x for x in 5)
    log("never")
f()

#: comprehension variables do not leak
x = "outer"
r = [x for x in range(3)]
return r, x

#: comprehension variable unknown outside
r = [inner for inner in range(3)]
return inner

#: comprehension uses an outer variable of the same name
x = [1, 2]
return [x for x in x]

#: comprehension with closures inside
fs = [lambda: (i, j) for i in range(2) for j in range(2)]
return [f() for f in fs]

#: comprehension captures an outer variable
n = 10
return [x + n for x in range(3)], {x: n for x in "a"}, list(x * n for x in range(2))

#: comprehension variable captured and outer of the same name kept
x = "outer"
fs = [lambda: x for x in range(3)]
return [f() for f in fs], x

#: outer variable is a cell and reused in a comprehension
x = 5
def f(): return x
r = [x for x in range(3)]
return r, x, f()

#: comprehension with unpacking
return [a + b for a, b in [(1, 2), (3, 4)]], [rest for _, *rest in ["abc"]]

#: comprehension over a dict's items
d = {"a": 1, "b": 2}
return {v: k for k, v in d.items()}, [k + str(v) for k, v in d.items()]

#: comprehension with a conditional expression
return ["even" if x % 2 == 0 else "odd" for x in range(3)]

#: comprehension calling a function that raises
def f(x):
    return 1 // x
return [f(x) for x in (2, 1, 0)]

#: comprehension body raises
return [1 // x for x in (2, 1, 0)]

#: exception in a nested comprehension
return [[1 // (x - y) for y in range(3)] for x in range(3)]

#: exception in the condition
return {x for x in (1, 0) if 1 / x}

#: exception caught around a comprehension keeps the outer variable
x = "outer"
try:
    [1 // x for x in (1, 0)]
except ZeroDivisionError:
    pass
return x

#: comprehension in a try with a finally
def f():
    try:
        return [x for x in range(3)]
    finally:
        log("finally")
return f()

#: comprehension with a walrus filter
def f(x): return x * 3
return [y for x in range(5) if (y := f(x)) % 2 == 0], y

#: comprehension reads an unbound outer variable
def f():
    r = [late for _ in range(1)]
    late = 1
f()

#: comprehension variable unbound inside itself
def f():
    return [y for x in [1] if y for y in [x]]
return f()

#: comprehension using locals()
r = [sorted(k for k in locals()) for x in range(1)]
return len(r)

#: iterator in a comprehension is consumed in step
it = iter(range(6))
return [(a, b) for a, b in zip(it, it)], [x for x in it]

#: comprehension mutating the list it walks
a = [1, 2, 3]
return [a.pop() for _ in a], a

#: lambda comprehension default
return [f() for f in [lambda x=x: x for x in "ab"]]

#: deep comprehension nesting
return [[[(a, b, c) for c in range(2)] for b in range(2)] for a in range(2)]

#: comprehension with star in the element
return [(*a, 1) for a in ([2], [3, 4])], [[*a] for a in "ab"]

#: comprehension in a default argument
def f(a=[i for i in range(3)]): return a
return f()

#: comprehension in a decorator and an annotation
def deco(x): return lambda f: (x, f.__annotations__)
@deco([i for i in range(2)])
def f(a: {i: i for i in range(2)}): pass
return f

#: comprehension over a generator that raises
def g():
    yield 1
    raise KeyError("g")
return [x for x in g()]

#: comprehension over a range subclass-like object
class R:
    def __init__(self, n): self.n = n
    def __iter__(self):
        for i in range(self.n): yield i
return [x for x in R(3)], {x for x in R(2)}, {x: x for x in R(2)}, [*R(2)]

#: comprehension at module level
def main():
    ns = {}
    exec("n = 2\nr = [x + n for x in range(n)]\nf = [lambda: x for x in r]\nout = f[0]()", ns)
    return ns["r"], ns["out"], "x" in ns

#: comprehension in a class body
class C:
    xs = [x for x in range(3)]
    ys = {x: [y for y in range(x)] for x in range(3)}
return C.xs, C.ys, hasattr(C, "x")

#: comprehension in a method with __class__ inside
class A:
    def who(self): return "A"
class C(A):
    def g(self): return [__class__ for _ in range(1)], [super(C, self).who() for _ in range(2)]
r = C().g()
return r[0] == [C], r[1]
""")
def test_comprehensions(program: Program) -> None:
    program.check()
