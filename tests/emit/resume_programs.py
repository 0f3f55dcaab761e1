"""Programs over the whole language, to be split at every instruction.

As text, in the notation of tests/evaluator/oracle.py.
"""

from typing import Final

PRELUDE: Final = """\
import sys
class Manager:
    def __init__(self, name, swallow=False): self.name, self.swallow = name, swallow
    def __enter__(self): log(("enter", self.name)); return self
    def __exit__(self, kind, value, tb):
        log(("exit", self.name, kind and kind.__name__, str(value), sys.exc_info()[0]))
        return self.swallow
class Pair:
    __match_args__ = ("left", "right")
    def __init__(self, left, right): self.left, self.right = left, right
    def scaled(self, by, *, plus=0): return self.left * by + plus
def note(value): log(value); return value
def handled(): return sys.exc_info()[1]
def fail(text): raise ValueError(text)
"""

PROGRAMS: Final = r"""
#: arithmetic
def main(a, b):
    c = a + b * 2 - -a // 3
    c **= 2; c %= 97; c <<= 1; c ^= 5
    return c, ~a, +b, not a, a / b, a @ M() if 0 else c & 3 | 4
ARGS = (7, 4)

#: loops with else, break and continue
def main(n):
    out = []
    for i in range(n):
        if i == 1: continue
        for j in "ab":
            if i == 3 and j == "b": break
            out.append((i, j))
        else:
            out.append("whole")
    while n:
        n -= 1
        if n == 1: break
    else:
        out.append("never")
    return out, i, j, n
ARGS = (4,)

#: a while loop with tests for None
def main(items):
    it = iter(items)
    x = next(it)
    seen = 0
    while x is not None:
        seen += x
        x = next(it)
    while x is None:
        x = next(it)
    return seen, x
ARGS = ([1, 2, None, None, 5],)

#: conditions
def main(a, b):
    x = a or b or 5
    y = a and b
    z = x if x > 3 else y
    if a is None: return 1
    elif b is not None: return 2
    return 1 < x < note(10) < 3, a in [0], b not in (), a is not b, z, not (a or b)
ARGS = (0, None)

#: chained comparison
return note(1) < note(2) < note(0) < note(9), note(1) <= note(1) != note(2)

#: walrus
def main(items):
    if (n := len(items)) > 2 and (last := items[-1]):
        return [y := n, y ** 2, last], [z for x in items if (z := x + y)], z
ARGS = ([1, 2, 3],)

#: unpacking
def main(items):
    a, (b, *c), d = items
    *e, f = c + [9]
    (g, h), i = "xy", d
    first, *rest = {1: 2, 3: 4}.items()
    a, b = b, a
    a, b, d = d, a, b
    return a, b, c, d, e, f, g, h, i, first, rest
ARGS = ([1, [2, 3, 4], 5],)

#: displays with stars
a = [1, *note([2, 3]), 4], (*"ab", 5), {*note((1, 2)), 3}
return a, {**note({"a": 1}), "b": 2}, {"k": 1, "l": note(2)}

#: subscripts and slices
def main(items):
    items[1][0] += 7
    items[0:1] = [9, 8]
    del items[-1], items[0]
    first, last = note(0), note(2)
    items[first:first] = items[first:last]
    return items, items[:], items[0:2:2], items[note(0)], items[first:last:last]
ARGS = ([[1], [2, 3], {"k": 5}],)

#: attributes
def main():
    p = Pair(1, 2)
    p.left += 4
    p.more = Pair(p, 3)
    p.more.left.right = 8
    del p.left
    return p.right, hasattr(p, "left"), p.more.right

#: calls of all kinds
def main():
    p = Pair(2, 3)
    def f(a, b=2, *args, k, l=4, **more): return a, b, args, k, l, more
    r = [p.scaled(2), p.scaled(note(3), plus=note(4)), f(1, k=3), f(*[1, 2, 3], k=1, **{"z": 2})]
    r.append(f(1, *note((2, 3)), 4, k=note(5), **dict(l=1)))
    r += [max(1, note(2), key=lambda v: -v), dict(a=1, **{"b": 2}), "{} {x}".format(1, x=note("x"))]
    return r, sorted([3, 1, 2], key=lambda v: -v, reverse=True)

#: an attribute that is called but no method
def main():
    p = Pair(1, 2)
    p.scaled = lambda x, plus=0: x + plus + 1000
    return p.scaled(1), p.scaled(1, plus=2), Pair.scaled(Pair(5, 6), 2)

#: bound methods that are called with stars, and that are not called
def main():
    p = Pair(2, 3)
    r = p.scaled(*note((2,)), **note({"plus": 1})), [].append(*note([1])), "ab".join(note("xy"))
    return r, [f(2) for f in (p.scaled, p.scaled)], (p.scaled, [x for x in note("ab")])[1]

#: all parameters
def main(a, b=2, /, c=3, *args, d, e=5, **more):
    total = a + b + c + d + e
    return total, args, more
ARGS = (1, 2, 3, 4, 5)
KWARGS = {"d": 1, "z": 2}

#: three functions deep
def inner(a, b):
    c = a * b
    if c > 10: raise OverflowError(c)
    return c + 1
def middle(a, *rest):
    total = 0
    for x in rest:
        total += inner(a, x) + 100
    return total
def main(n):
    try:
        return [n, middle(n, 1, 2), middle(n, 3, 4, 5), 7]
    except OverflowError as e:
        return n, str(e), [handled() is e]
ARGS = (2,)

#: a traceback through three functions
def inner(a):
    b = a
    return [b,
            1 // (a -
                  a)]
def middle(a): return 1 + inner(a) + 2
def main():
    x = 5
    return (
        middle(x)
    )

#: recursion
def main(n):
    return [n, *main(n - 1)] if n else []
ARGS = (5,)

#: frames seen from inside
def names(depth):
    frame, found = sys._getframe(depth), []
    while True:
        code = frame.f_code
        found.append((code.co_name, code.co_qualname, frame.f_lineno, code.co_filename))
        found.append((frame.f_globals is globals(), frame.f_builtins is sys._getframe().f_builtins))
        shown = {k: v for k, v in frame.f_locals.items() if type(v) in (int, str)}
        found.append(sorted(shown.items()))
        if code.co_name == "main": return found
        frame = frame.f_back
def main(a, b):
    c = "c"
    def inner(d):
        nonlocal c
        e = d + 1
        c += "c"
        result = [names(0 + 1),
                  a]
        return result
    f = inner(3), inner(
        4
    )
    del b
    return f, c, names(1)
ARGS = (1, 2)

#: locals
def main(a):
    b = 2
    def f(): return b
    seen = sorted(locals())
    del a
    c = 3
    return seen, sorted(locals()), sorted(dir()), sorted(vars())
ARGS = (1,)

#: closures that share cells
def main(a):
    count = 0
    def up(by):
        nonlocal count, a
        count += by
        a = [a]
        return lambda: (count, a)
    first = up(1)
    count += 10
    second = up(note(2))
    return first(), second(), count, a
ARGS = (5,)

#: free variables only
def make():
    x, y = 1, [2]
    def main():
        return [x, note(y), x + note(3)], [lambda: x + 1][0]()
    return main
main = make()

#: one parameter and free variables
def make():
    x = 1
    def main(a):
        return note(x) + a, (lambda: (x, a))()
    return main
main = make()
ARGS = (4,)

#: no variables
return note(1) + len("abc") * max(note(2), 3)

#: a parameter in a cell, deleted and bound again
def main(a, b):
    def read(): return a
    r = [read()]
    del a
    try: read()
    except NameError as e: r.append(str(e))
    a = b
    r.append(read())
    return r
ARGS = (1, 2)

#: cells of a loop
def main():
    fs = []
    for i in range(3):
        def f(j=i): return i, j
        fs.append(f)
    return [f() for f in fs], [g() for g in [lambda: k for k in "ab"]]

#: super and __class__
class Base:
    def hello(self, x): return "base", x
    @property
    def name(self): return "base"
class Derived(Base):
    def hello(self, x):
        first = super().hello(note(x))
        bound = super().hello
        f = lambda: (super(Derived, self).hello(0), x)
        return first, bound(2), __class__.__name__, f(), super().name
    def alone(self): return super().hello(1)
    def captured(self):
        return (lambda: self)() is self, super().hello(note(3))
    def starred(*args):
        try: return super().hello(1)
        except RuntimeError as e: return str(e)
def main():
    d = Derived()
    return d.hello(1), d.alone(), d.captured(), d.starred()

#: super without arguments in a function without parameters
def main():
    try: super()
    except RuntimeError as e: return str(e)

#: deleted and unbound variables
def main(a):
    x = 1
    del x
    try: return x
    except UnboundLocalError as e: log(str(e))
    if note(0): y = 1
    try: y
    except NameError as e: log(str(e))
    del a
    z = 3
    return z, sorted(locals())
ARGS = (1,)

#: globals
G = 1
def main():
    global G, H
    G += note(4)
    H = G
    r = G, H
    del H
    try: H
    except NameError as e: log(str(e))
    return r

#: functions and their attributes
def main(n):
    def g(a, b: int = n, *, c=note(n + 1)) -> str:
        "text"
        return a + b + c + n
    h = lambda q=note(n): q * n
    attributes = g.__defaults__, g.__kwdefaults__, sorted(g.__annotations__)
    return g(1), h(), attributes, g.__qualname__, g.__doc__
ARGS = (2,)

#: classes made in a function
def main(n):
    class A:
        value = n
        def get(self): return self.value + n, __class__.__name__
    class B(A, metaclass=type):
        def get(self): return super().get()
    return B().get(), A.__qualname__, B.__mro__[1] is A
ARGS = (2,)

#: decorators
def main():
    def twice(f): return lambda *a: f(f(*a))
    @twice
    @note
    def g(x): return x + 1
    return g(note(1))

#: imports
def main():
    import os.path as path, math
    from sys import version_info as version, maxsize
    from os import path as again
    try: from sys import no_such_thing
    except ImportError as e: log(type(e))
    return path is again, version[0], maxsize > 1, math.floor(2.5)

#: formatting
def main(a, b): return f"{a:.2f} {b!r:>{4 + note(2)}} {a=} {b}{b!s}{b!a}" + "%s %d" % (b, 3)
ARGS = (3.14159, "ü")

#: comprehensions
def main(items):
    x = "kept"
    a = [x * 2 for x in items]
    b = {k: [i + k for i in range(k)] for k in items if k > 3}
    c = {x for x in items}
    try: d = [1 // (x - 4) for x in items]
    except ZeroDivisionError as e: d = str(e)
    def captured(): return x
    f = [y for x in items for y in range(x) if y % 2]
    return a, b, c, d, x, captured(), f, list(v for v in a)
ARGS = ([3, 4],)

#: a comprehension in a handler
def main(items):
    try: fail("outer")
    except ValueError as e:
        return [(handled() is e, x) for x in items], {handled(): x for x in items}[e]
ARGS = ("ab",)

#: a comprehension that raises in a call
def check(x):
    if x == 2: fail(x)
    return x
def main():
    return [check(x)
            for x in (1, 2, 3)]

#: generators driven by others
def numbers(n):
    try:
        log("start"); r = yield from range(n); log(r)
    finally: log("end")
def main(n):
    total = 0
    for x in numbers(n): total += x
    for x, in ((y,) for y in range(3)): total += x
    g = numbers(2); next(g)
    try: g.throw(KeyError("thrown"))
    except KeyError as e: return total, str(e), handled() is e, list(zip(numbers(2), "ab"))
ARGS = (3,)

#: try with everything
r = []
for v in (0, 1, "a", None):
    try: r.append(1 / v)
    except ZeroDivisionError as e: r.append((str(e), handled() is e))
    except TypeError: r.append(type(handled()))
    else: r.append("else")
    finally: r.append(("finally", handled()))
return r, handled()

#: an exception that nobody catches
def main():
    try: return 1 + "a"
    except ValueError: log("no")
    finally: log(type(handled()))

#: nested handlers
def main():
    try:
        try: {}["k"]
        except KeyError as first:
            log(handled() is first)
            try: int("x")
            except ValueError as second:
                log((handled() is second, second.__context__ is first))
                try: None.attribute
                except AttributeError: log((type(handled()), type(handled().__context__)))
                log(handled() is second)
            log(handled() is first)
            raise
    except KeyError as e: log(handled() is e)
    return handled()

#: raise in handlers
def bare():
    try: fail("bare")
    except ValueError:
        log(str(handled()))
        raise
def cause():
    try: 1 / 0
    except ZeroDivisionError as e: raise KeyError("from") from e
def context():
    try: 1 / 0
    except ZeroDivisionError: raise KeyError("in")
    finally: log(repr(handled().__context__))
def main():
    for f in (bare, cause, context):
        try: f()
        except Exception as e:
            log((repr(e), repr(e.__cause__), repr(e.__context__)))
            log(e.__traceback__.tb_next.tb_lineno)
    raise LookupError("last")

#: bare raise in a function that a handler calls
def again(): raise
def main():
    try: fail("first")
    except ValueError:
        try: again()
        finally: log(type(handled()))

#: raise in nested finally blocks
def main():
    try:
        try:
            try: fail("a")
            finally: log(str(handled())); fail("b")
        finally:
            log((str(handled()), str(handled().__context__)))
    except ValueError as e:
        return str(e), str(e.__context__), handled() is e

#: return in finally
def swallow():
    try:
        try: fail("lost")
        finally: return note("returned")
    finally: log(handled())
def first():
    for i in range(3):
        try:
            if i == 1: return note(i)
        finally: log(("finally", i))
def main(): return swallow(), first(), handled()

#: break and continue in finally and handlers
def main():
    out = []
    for i in range(6):
        try:
            if i == 1: continue
            if i == 4: break
            if i == 2: fail(i)
            out.append(i)
        except ValueError:
            out.append(type(handled()))
            continue
        finally: out.append(("finally", i, handled()))
    for i in range(3):
        try: fail(i)
        finally:
            if i < 2: continue
            break
    return out, i, handled()

#: with
def main():
    with Manager("a") as a, Manager("b"):
        log(a.name)
    with Manager("c", True): fail("swallowed")
    for i in range(4):
        with Manager(i):
            if i == 0: continue
            if i == 1:
                with Manager("inner", True): 1 / 0
            if i == 3: return note("returned"), handled()

#: with and an exception that leaves
def main():
    with Manager("a"):
        with Manager("b"):
            with Manager("c", True): {}["x"]
            log(handled())
            fail("out")

#: with over calls
def work(x):
    with Manager(x):
        if x: fail(x)
        return note(x)
def main():
    with Manager("outer", True):
        r = work(0)
        r = work(1)
    return r

#: with a manager that raises
class Bad(Manager):
    def __exit__(self, *args): log(type(handled())); raise KeyError("exit")
def main():
    try:
        with Bad("bad"): fail("body")
    except KeyError as e: return repr(e.__context__), handled() is e

#: except star
def main():
    try: raise ExceptionGroup("g", [ValueError(1), TypeError(2), KeyError(3)])
    except* ValueError as eg: log((len(eg.exceptions), handled() is eg))
    except* TypeError: log(repr(handled().exceptions))
    except* OSError: log("never")

#: except star that raises
def main():
    try:
        try: raise ExceptionGroup("g", [ValueError(1), TypeError(2)])
        except* (ValueError, TypeError) as eg:
            log(len(eg.exceptions)); raise KeyError("new")
    except* KeyError as eg: log((repr(eg), repr(eg.exceptions[0].__context__)))

#: except star and a plain exception
def main():
    try: fail("plain")
    except* ValueError as eg: log(repr(eg))
    else: log("else")
    finally: log(handled())
    return handled()

#: assert
def main(a):
    assert a == 0, "fine"
    try: assert a, note("message")
    except AssertionError as e: log(str(e))
    assert a
ARGS = (0,)

#: match
def main():
    r = []
    for v in (1, [1, 2, 3], {"a": 1, "b": 2}, Pair(1, 5), "text", (1, (2, 3)), None, [9], 3.5):
        match v:
            case 1 | 2: r.append("literal")
            case [x, (y, z)]: r.append((x, y, z))
            case [x, *rest] if rest: r.append((x, rest))
            case {"a": a, **others}: r.append((a, others))
            case Pair(1, right=right): r.append(right)
            case str() as s: r.append(s)
            case None: r.append("none")
            case [only]: r.append(only)
            case _: r.append("else")
    return r

#: the callers' handled exceptions
def look(): return handled()
def deeper():
    try: {}[1]
    except KeyError as k:
        return look() is k, handled() is k, type(k.__context__)
def main():
    try: fail("x")
    except ValueError as e:
        return deeper(), look() is e, handled() is e

#: an exception passes the callers' handlers
def low(): log("low"); return [][1]
def mid():
    try: return low()
    finally: log(type(handled()))
def high():
    try: return mid()
    except KeyError: log("no")
    except IndexError as e:
        log(e.__traceback__.tb_next.tb_lineno)
        raise RuntimeError("high") from e
def main():
    with Manager("main"):
        return high()

#: callbacks from C
def main():
    class Odd:
        def __init__(self, v): self.v = v
        def __eq__(self, other): log("eq"); return self.v == other.v
        def __hash__(self): return 1
        def __lt__(self, other): return self.v < other.v
        def __add__(self, other): return Odd(self.v + other.v)
        def __getattr__(self, name): return name.upper()
        def __bool__(self): return self.v > 1
        def __iter__(self): return iter([self.v])
        def __getitem__(self, key): return key
        def __contains__(self, x): return x == self.v
    a, b = Odd(2), Odd(1)
    c = (a + b).v, a == b, a.missing, [o.v for o in sorted([a, b])], {a: 1}[Odd(2)]
    return c, bool(b), [*a], a[1:2], 2 in a, a and b and 1

#: lifetimes
class Dies:
    def __init__(self, name): self.name = name
    def __del__(self): log((self.name, "died"))
def keep(x, log):
    log("in")
    del x
    log("deleted")
    return Dies("result")
def main():
    a, b = Dies("a"), Dies("b")
    a = None
    log("a gone")
    b = [b]
    b.clear()
    keep(Dies("argument"), log)
    for x in [Dies(1), Dies(2)]: log(x.name)
    x = None
    del x
    Dies("temporary").name
    c = Dies("cell")
    def use(): return c
    c = use().name
    log("end")

#: template strings [3.14+]
def main(x):
    made = t"{x!r:>{note(5)}} and {note(x)} {{}}"
    return made.strings, made.values, [part.conversion for part in made.interpolations]
ARGS = (7,)

#: types for generic functions [3.12+]
def main(x):
    def first[T](items: list[T]) -> T: return items[note(0)]
    class Box[T]:
        def get(self, v: T) -> T: return v
    type Alias[T] = list[T]
    return first([x]), Box().get(2), Alias.__name__, first.__type_params__[0].__name__
ARGS = (3,)

#: a set comprehension of calls
return {note(x) for x in (1, 2)}, {note(k): note(v) for k, v in [(1, 2)]}

#: del of everything
def main(a, b):
    class O: pass
    o = O(); o.x = [1, 2, 3]
    del o.x[0], o.x[:1], o.x
    del a, b, o
    return sorted(locals())
ARGS = (1, 2)

#: lambda defaults and star expressions in returns
def main(a, *b):
    f = lambda x, *y, z=note(a), **w: (x, *y, z, *w)
    return *b, *f(1, 2, q=3)
ARGS = (1, 2, 3)
"""


def large() -> str:
    """A function whose arguments and jumps need EXTENDED_ARG."""
    lines = ["def main(a):", "    s = 0", "    for i in range(2):", "        if i == 1:"]
    lines += [
        f"            v{n} = a + {1000 + n}; s += v{n} if note_{n} else 0" for n in range(290)
    ]
    lines += ["        else:", "            s -= 1", "    def f(): return s", "    try:"]
    lines += [f"        s += v{n} - {2000 + n}" for n in range(5, 270, 9)]
    lines += ["        s / (a - a)", "    except ZeroDivisionError as e:", "        s += f()"]
    lines += ["    return s, v289, str(e) if note_0 else s"]
    names = [f"note_{n} = {n % 3}" for n in range(290)]
    return "\n".join([*names, *lines, "ARGS = (1,)", ""])
