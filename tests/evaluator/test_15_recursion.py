"""Deep recursion works, infinite recursion ends at the user's limit, and life goes on afterwards.

How deep a program gets depends on the frames of whoever called it, so these programs return
normalised answers: the kind of error, and whether it came at about the limit.
"""

import sys

import pytest

from .oracle import Program, check_source, each


@each(r"""
#: 900 frames of a function
def f(n): return 0 if n == 0 else f(n - 1) + 1
def main():
    return f(880)

#: 900 frames of a method
class C:
    def f(self, n): return 0 if n == 0 else self.f(n - 1) + 1
def main():
    return C().f(880)

#: 900 frames of mutual recursion
def even(n): return True if n == 0 else odd(n - 1)
def odd(n): return False if n == 0 else even(n - 1)
def main():
    return even(880), odd(879)

#: 900 frames of a closure
def main():
    def f(n): return 0 if n == 0 else f(n - 1) + 1
    return f(880)

#: 900 frames with star arguments
def f(*args, **kwargs): return kwargs["n"] if len(args) > 870 else f(*args, 1, **kwargs)
def main():
    return f(n=5)

#: 800 frames with try and finally
count = 0
def f(n):
    global count
    try:
        return f(n - 1) if n else "bottom"
    finally:
        count += 1
def main():
    return f(800), count

#: 800 frames with an exception from the bottom
def f(n):
    if n == 0: raise ValueError("bottom")
    f(n - 1)
def main():
    try:
        f(800)
    except ValueError as e:
        depth, tb = 0, e.__traceback__
        while tb: depth, tb = depth + 1, tb.tb_next
        return depth

#: a chain of 200 generators
def g(n):
    if n: yield from g(n - 1)
    else: yield "bottom"
def main():
    return list(g(200))

#: 100 sort keys inside each other [frames 200]
def f(n): return sorted([n], key=lambda x: f(x - 1) and 0) if n else [1]
def main():
    return f(100)

#: 100 properties inside each other [frames 100]
class Node:
    def __init__(self, child): self.child = child
    @property
    def depth(self): return 1 + self.child.depth if self.child else 0
def main():
    node = None
    for _ in range(101): node = Node(node)
    return node.depth

#: 100 constructors inside each other [frames 100]
class C:
    def __init__(self, n): self.child = C(n - 1) if n else None
def main():
    c, n = C(100), 0
    while c: c, n = c.child, n + 1
    return n

#: 100 times __repr__ inside each other [frames 100]
class C:
    def __init__(self, child): self.child = child
    def __repr__(self): return f"<{self.child!r}>"
def main():
    c = None
    for _ in range(100): c = C(c)
    return repr(c)

#: the ackermann function
def ack(m, n):
    if m == 0: return n + 1
    if n == 0: return ack(m - 1, 1)
    return ack(m - 1, ack(m, n - 1))
def main():
    return ack(2, 5)
""")
def test_deep_and_legal(program: Program) -> None:
    program.check()


# One row: what recurses without end. Each defines go(), which counts its levels in `levels`.
ENDLESS = {
    "a function": """
        def go():
            levels.append(1)
            go()
        """,
    "a method": """
        class C:
            def f(self):
                levels.append(1)
                self.f()
        def go(): C().f()
        """,
    "a lambda": """
        go = lambda: levels.append(1) or go()
        """,
    "star arguments": """
        def go(*args, **kwargs):
            levels.append(1)
            go(*args, **kwargs)
        """,
    "a constructor": """
        class C:
            def __init__(self):
                levels.append(1)
                C()
        def go(): C()
        """,
    "__getattr__": """
        class C:
            def __getattr__(self, name):
                levels.append(1)
                return self.missing
        def go(): C().x
        """,
    "__getattribute__": """
        class C:
            def __getattribute__(self, name):
                levels.append(1)
                return self.x
        def go(): C().x
        """,
    "a property": """
        class C:
            @property
            def x(self):
                levels.append(1)
                return self.x
        def go(): C().x
        """,
    "__eq__": """
        class C:
            def __eq__(self, other):
                levels.append(1)
                return self == other
        def go(): C() == C()
        """,
    "__add__": """
        class C:
            def __add__(self, other):
                levels.append(1)
                return self + other
        def go(): C() + C()
        """,
    "__call__": """
        class C:
            def __call__(self):
                levels.append(1)
                return self()
        def go(): C()()
        """,
    "__getitem__": """
        class C:
            def __getitem__(self, key):
                levels.append(1)
                return self[key]
        def go(): C()[0]
        """,
    "__repr__": """
        class C:
            def __repr__(self):
                levels.append(1)
                return repr(self)
        def go(): repr(C())
        """,
    "__hash__ from a dict": """
        class C:
            def __hash__(self):
                levels.append(1)
                return hash((self,))
        def go(): {C(): 1}
        """,
    "a sort key": """
        def go(x=1):
            levels.append(1)
            return sorted([1], key=go)
        """,
    "map": """
        def go(x=1):
            levels.append(1)
            return list(map(go, [1]))
        """,
    "yield from": """
        def g():
            levels.append(1)
            yield from g()
        def go(): list(g())
        """,
    "a loop over a generator": """
        def g():
            levels.append(1)
            for x in g():
                yield x
        def go(): next(g())
        """,
    "await": """
        async def f():
            levels.append(1)
            await f()
        def go(): f().send(None)
        """,
    "a with statement": """
        class CM:
            def __enter__(self):
                levels.append(1)
                with self: pass
            def __exit__(self, *args): pass
        def go():
            with CM(): pass
        """,
    "a class body": """
        def go():
            levels.append(1)
            class C:
                go()
        """,
    "exec": """
        def go():
            levels.append(1)
            exec("go()", globals())
        """,
}

ENDLESS_MAIN = """
import sys
levels = []
def attempt(function):
    levels.clear()
    try:
        function()
    except RecursionError as error:
        return str(error).startswith("maximum recursion depth exceeded"), type(error)
def about_the_limit():
    # Calls through C may count twice or more, and the caller's frames count too.
    return sys.getrecursionlimit() * 0.15 < len(levels) < sys.getrecursionlimit() * 1.2
def fine(n=100): return n and fine(n - 1)
def main():
    first = attempt(go), about_the_limit()
    return first, fine(), attempt(go), about_the_limit(), fine()
"""


@pytest.mark.parametrize("kind", ENDLESS)
def test_endless_recursion_through(kind: str) -> None:
    """It ends with RecursionError, again and again, and shallow calls work in between."""
    if kind == "star arguments" and sys.version_info[:2] == (3, 15):
        pytest.skip("CPython 3.15.2 does not count these frames itself: its recursion never ends")
    main = ENDLESS_MAIN.replace("\n", "\n        ")
    check_source(main + ENDLESS[kind], min_frames=100)


@each(r"""
#: plain functions reach nearly the limit
import sys
def f(n):
    global deepest
    deepest = n
    f(n + 1)
def main():
    try:
        f(0)
    except RecursionError:
        return sys.getrecursionlimit() - 150 < deepest < sys.getrecursionlimit()

#: a lower limit is respected
import sys
def f(n):
    global deepest
    deepest = n
    f(n + 1)
def main():
    here, frame = 0, sys._getframe()
    while frame: here, frame = here + 1, frame.f_back
    old = sys.getrecursionlimit()
    sys.setrecursionlimit(here + 200)
    try:
        f(0)
    except RecursionError:
        return 100 < deepest <= 200
    finally:
        sys.setrecursionlimit(old)

#: a higher limit is respected
import sys
def f(n): return n and f(n - 1) + 1
def main():
    sys.setrecursionlimit(5000)
    return f(3000)

#: a limit that is changed and changed back
import sys
def f(n): return n and f(n - 1) + 1
def main():
    old = sys.getrecursionlimit()
    sys.setrecursionlimit(old * 2)
    r = f(old + 200)
    sys.setrecursionlimit(old)
    try:
        f(old + 200)
    except RecursionError:
        return r, "limited again"

#: a limit too low for the present depth
import sys
def f(n):
    if n: return f(n - 1)
    try:
        sys.setrecursionlimit(50)
    except RecursionError as e:
        return str(e).split(" at ")[0]
def main():
    return f(100)

#: a limit that is no number
import sys
sys.setrecursionlimit("x")

#: a recursion error is caught half way up
def f(n):
    try:
        return f(n + 1)
    except RecursionError:
        return "caught"
def main():
    return f(0)

#: a recursion error passes finally blocks
count = 0
def f():
    global count
    try:
        f()
    finally:
        count += 1
def main():
    try:
        f()
    except RecursionError:
        return count > 500

#: a recursion error's traceback has the user's frames only
def f(): f()
def main():
    try:
        f()
    except RecursionError as e:
        names, tb = set(), e.__traceback__
        while tb: names.add(tb.tb_frame.f_code.co_name); tb = tb.tb_next
        return names

#: a recursion error with a handler that recurses again
def f(n):
    try:
        f(n + 1)
    except RecursionError:
        if n < 5: f(n + 1)
        raise
def main():
    try:
        f(0)
    except RecursionError as e:
        return type(e), type(e.__context__)

#: many recursion errors leave the depth as it was
def f(): f()
def deep(n): return n and deep(n - 1) + 1
def main():
    for _ in range(5):
        try:
            f()
        except RecursionError:
            pass
    return deep(850)

#: a generator abandoned by a recursion error can be used again
def f(): f()
def g():
    while True:
        try:
            f()
        except RecursionError:
            yield "recovered"
def main():
    i = g()
    return next(i), next(i)
""")
def test_limits(program: Program) -> None:
    program.check()
