"""Branches and loops."""

import pytest

from .oracle import Program, check_source, each


@each(r"""
#: if elif else
def f(n):
    if n < 0:
        return "neg"
    elif n == 0:
        return "zero"
    elif n < 10:
        return "small"
    else:
        return "big"
def main():
    return [f(n) for n in (-1, 0, 5, 50)]

#: if without else
x = 1
if x: y = "set"
return y

#: if None and if not None
def f(x):
    if x is None: return "none"
    if x is not None: return "some"
return f(None), f(0), f(5)

#: if with and, or, not
def f(a, b, c):
    if a and (b or not c): return 1
    if not a or b and c: return 2
    return 3
return [f(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)]

#: constant conditions
if 0: log("never")
if 1: log("always")
if "": log("never")
while 0: log("never")
return 1 if __debug__ else 2

#: nested ifs
def f(a, b):
    if a:
        if b: return "ab"
        return "a"
    if b: return "b"
    return ""
return f(1, 1), f(1, 0), f(0, 1), f(0, 0)

#: pass
if 1:
    pass
else:
    pass

#: assert that holds
assert 1 + 1 == 2, log("never evaluated")
return "fine"

#: assert that fails
x = 1
assert x == 2

#: assert that fails with a message
x = 1
assert x == 2, f"x is {x}"

#: assert that fails with a tuple message
assert [], (1, 2)

#: assert where the name AssertionError is shadowed
AssertionError = ValueError
assert False, "still an assertion error"

#: several statements in one line
a = 1; b = 2; return a + b
""")
def test_branches(program: Program) -> None:
    program.check()


@each(r"""
#: while
n, r = 5, []
while n:
    r.append(n)
    n -= 1
return r

#: while else without break
n = 3
while n:
    n -= 1
else:
    return "else"
return "no"

#: while else with break
n = 3
while n:
    n -= 1
    if n == 1: break
else:
    return "else"
return "broke", n

#: while True with break
n = 0
while True:
    n += 1
    if n > 10: break
return n

#: while with continue
n, r = 6, []
while n:
    n -= 1
    if n % 2: continue
    r.append(n)
return r

#: while condition with side effects
r = []
def more():
    r.append(len(r))
    return len(r) < 4
while more(): pass
return r

#: while with a walrus
it = iter([3, 2, 0, 1])
r = []
while (x := next(it)): r.append(x)
return r, x

#: nested loops with break
r = []
for i in range(4):
    for j in range(4):
        if j > i: break
        if (i + j) % 2: continue
        r.append((i, j))
return r

#: for over builtin iterables
r = []
for source in ([1, 2], (3,), "ab", {5: 6}, {7}, range(2), b"z", enumerate("q"), zip("a", "b")):
    for x in source: r.append(x)
return r

#: for else without break
for i in range(3): pass
else: return "else", i

#: for else with break
for i in range(3):
    if i == 1: break
else: return "else"
return "broke", i

#: for else of an empty loop
for i in (): pass
else: return "else"

#: for with return inside
for i in range(10):
    if i == 7: return i

#: for over a list that grows
a = [1]
for x in a:
    if len(a) < 5: a.append(x * 2)
return a

#: for over a list that shrinks
a = [1, 2, 3, 4]
for x in a: a.remove(x)
return a

#: for over a dict that changes
d = {1: 2}
for k in d: d[k + 1] = 3

#: for over a set that changes
s = {1}
for k in s: s.add(k + 1)

#: loop variable keeps its last value
for i in range(3): pass
return i

#: loop variable assigned inside
r = []
for i in range(3):
    r.append(i)
    i = 10
return r, i

#: for into an attribute and an item
class C: pass
d = {}
for C.x in range(3): pass
for d["k"] in "ab": pass
for d["x"], C.y in [(1, 2)]: pass
return C.x, C.y, d

#: for over something not iterable
for x in 5: pass

#: for over None, in a function called from another
def f(x):
    for i in x: pass
f(None)

#: for through __iter__ and __next__
class It:
    def __init__(self): self.n = 0
    def __iter__(self):
        log("iter")
        return self
    def __next__(self):
        log(("next", self.n))
        if self.n == 2: raise StopIteration("ignored")
        self.n += 1
        return self.n
return [x for x in It()], sum(It())

#: for through __getitem__
class C:
    def __getitem__(self, i):
        log(i)
        if i == 3: raise IndexError
        return i * i
return [x for x in C()]

#: for through __getitem__ that raises StopIteration
class C:
    def __getitem__(self, i):
        if i == 3: raise StopIteration
        return i
return [x for x in C()]

#: __iter__ returns something that is no iterator
class C:
    def __iter__(self): return 5
for x in C(): pass

#: __iter__ set to None
class C:
    __iter__ = None
    def __getitem__(self, i): raise IndexError
for x in C(): pass

#: __next__ raises
class C:
    def __iter__(self): return self
    def __next__(self): raise KeyError("next")
for x in C(): pass

#: a subclass of StopIteration ends a loop
class Stop(StopIteration): pass
class C:
    def __iter__(self): return self
    def __next__(self): raise Stop
for x in C(): pass
return "ended"

#: StopIteration raised by the body is not swallowed
for x in [1]:
    raise StopIteration("body")

#: iter with a sentinel
it = iter([1, 2, 0, 3])
r = []
for x in iter(lambda: next(it), 0): r.append(x)
return r

#: an exhausted iterator stays exhausted
it = iter([1])
for x in it: pass
for x in it: return "again"
return "done"

#: break out of a loop with an iterator left half way
it = iter(range(10))
for x in it:
    if x == 3: break
return list(it)

#: loop with try, continue and finally
r = []
for i in range(4):
    try:
        if i == 1: continue
        if i == 3: break
        r.append(i)
    finally:
        r.append("f%d" % i)
return r

#: fibonacci
a, b = 0, 1
while b < 1000: a, b = b, a + b
return a

#: sieve of Eratosthenes
n = 50
flags = [True] * n
for i in range(2, n):
    if flags[i]:
        for j in range(i * i, n, i): flags[j] = False
return [i for i in range(2, n) if flags[i]]

#: collatz
def steps(n):
    count = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        count += 1
    return count
return [steps(n) for n in range(1, 12)]

#: bubble sort
a = [5, 2, 9, 1, 5, 6]
for i in range(len(a)):
    for j in range(len(a) - 1 - i):
        if a[j] > a[j + 1]: a[j], a[j + 1] = a[j + 1], a[j]
return a

#: the traceback of an error in a loop body shows the right line
for i in range(3):
    x = 1
    if i == 2:
        y = [
            x,
            i / 0,
            x,
        ]
""")
def test_loops(program: Program) -> None:
    program.check()


def test_long_jumps() -> None:
    """A body of some hundred instructions needs extended arguments in its jumps."""
    body = "\n".join(f"        total += {n} if i else -{n}" for n in range(300))
    source = f"""
def main():
    total = 0
    for i in range(3):
        if i == 1:
            continue
{body}
        if total > 10 ** 6:
            break
    else:
        total = -total
    return total
"""
    check_source(source)


def test_many_constants_and_names() -> None:
    """More than 256 constants, locals, globals and attributes: extended arguments everywhere."""
    count = range(300)
    assignments = "\n".join(f"    x{n} = {n + 1000}; obj.a{n} = 'c{n}'" for n in count)
    total = " + ".join(f"x{n}" for n in count)
    names = ", ".join(f"g{n}" for n in count)
    source = f"""
class Obj: pass
{"; ".join(f"g{n} = {n}.5" for n in count)}
def main():
    obj = Obj()
{assignments}
    def inner(): return x0 + x299
    return {total}, [{names}], vars(obj), inner()
"""
    check_source(source)


@pytest.mark.parametrize("depth", [5, 19])
def test_deeply_nested_blocks(depth: int) -> None:
    lines = ["def main():", "    r = []"]
    for level in range(depth):
        indent = "    " * (level + 1)
        lines.append(f"{indent}for x{level} in [{level}]:")
    lines.append("    " * (depth + 1) + "r.append((x0, x%d))" % (depth - 1))
    lines.append("    return r")
    check_source("\n".join(lines))
