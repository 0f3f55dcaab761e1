"""Locals, globals, builtins, cells: where a name is found, and what happens when it is not."""

from .oracle import Program, each


@each(r"""
#: local
x = 1
y = x
return x, y

#: multiple targets
a = b = c = [1]
return a is b is c

#: swap
a, b, c = 1, 2, 3
a, b, c = c, a, b
return a, b, c

#: delete a local
x = 1
del x
return x

#: delete an unbound local
del x
x = 1

#: unbound local
print(x)
x = 1

#: unbound local after a loop that did not run
for i in []:
    pass
return i

#: unbound local in a branch
if False:
    y = 1
return y

#: many locals
a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = a8 = a9 = 1
b0 = b1 = b2 = b3 = b4 = b5 = b6 = b7 = b8 = b9 = 2
return a0 + a9 + b0 + b9, sorted(locals())

#: annotated locals are not evaluated
x: undefined_name = 1
y: int
return x

#: annotated attribute target evaluates its annotation not
class C: pass
c = C()
c.x: int = 5
(z): int = 6
return c.x, z
""")
def test_locals(program: Program) -> None:
    program.check()


@each(r"""
#: read a global
x = 1
def main():
    return x

#: write a global
x = 1
def main():
    global x
    x += 1
    return x, globals()["x"]

#: make a global
def main():
    global fresh
    fresh = 5
    return fresh, "fresh" in globals()

#: delete a global
x = 1
def main():
    global x
    del x
    return "x" in globals()

#: delete a missing global
def main():
    global nothing
    del nothing

#: missing global
def main():
    return nothing

#: missing global with a suggestion
def main():
    some_value = 1
    return some_valu

#: missing global that is a builtin's near name
def main():
    return prnt

#: missing global that is a module name
def main():
    return functools

#: global shadows a builtin
len = lambda x: "mine"
def main():
    return len([])

#: builtin found again after the global is gone
def main():
    global len
    len = 5
    a = len
    del len
    return a, len([1])

#: builtins replaced in the namespace
def main():
    f = eval("lambda: len('abc')", {"__builtins__": {"len": lambda s: "fake"}})
    return f()

#: builtins given as a dict without the name
def main():
    f = eval("lambda: len('abc')", {"__builtins__": {}})
    return f()

#: builtins changed while running
import builtins
def main():
    builtins.stator_test_name = 7
    try:
        return stator_test_name
    finally:
        del builtins.stator_test_name

#: global in one function seen in another
def setter():
    global shared
    shared = [1]
def getter():
    return shared
def main():
    setter()
    getter().append(2)
    return shared

#: global declared in a class body
class C:
    global from_class
    from_class = 1
def main():
    class D:
        global from_d
        from_d = 2
    return from_class, from_d, hasattr(D, "from_d")

#: a function of another namespace
def main():
    ns = {"x": "theirs"}
    exec("def f(): return x, len('ab')", ns)
    return ns["f"]()

#: globals with a dict subclass
class G(dict):
    def __missing__(self, key):
        log(key)
        return key.upper()
def main():
    return eval("name + other", G(__builtins__=__builtins__))

#: name lookup in exec with a mapping as locals
class M:
    def __getitem__(self, key):
        log(key)
        if key == "a": return 1
        raise KeyError(key)
    def __setitem__(self, key, value): log((key, value))
    def __delitem__(self, key): log(("del", key))
def main():
    exec("b = a + len('xy')\ndel b", {}, M())

#: name lookup where the mapping raises another error
class M(dict):
    def __getitem__(self, key): raise ValueError(key)
def main():
    exec("a", {}, M(a=1))

#: deleting a missing name at module level
def main():
    exec("del missing", {})

#: name error carries its name
def main():
    try:
        absent
    except NameError as e:
        return e.name, e.args, str(e)

#: unbound local error carries its name
def main():
    try:
        absent
        absent = 1
    except UnboundLocalError as e:
        return e.name, e.args
""")
def test_globals_and_builtins(program: Program) -> None:
    program.check()


@each(r"""
#: closure reads
def outer(x):
    def inner():
        return x
    return inner
def main():
    return outer(5)()

#: closure sees later changes
def main():
    x = 1
    def f(): return x
    a = f()
    x = 2
    return a, f()

#: nonlocal writes
def main():
    n = 0
    def up():
        nonlocal n
        n += 1
        return n
    return up(), up(), n

#: counters are independent
def counter():
    n = 0
    def up():
        nonlocal n
        n += 1
        return n
    return up
def main():
    a, b = counter(), counter()
    return a(), a(), b(), a()

#: closure through several levels
def main():
    def a(x):
        def b(y):
            def c(z):
                return x, y, z
            return c
        return b
    return a(1)(2)(3)

#: nonlocal through several levels
def main():
    x = 0
    def a():
        def b():
            nonlocal x
            x += 10
        b()
        b()
    a()
    return x

#: an argument that is a cell
def main(a=1, *b, c=2, **d):
    def f():
        nonlocal a
        a += 1
        return a, b, c, d
    return f(), a
ARGS = (5, 6)
KWARGS = {"c": 7, "e": 8}

#: loop variable captured late
def main():
    return [f() for f in [lambda: i for i in range(3)]]

#: loop variable captured by a default
def main():
    return [f() for f in [lambda i=i: i for i in range(3)]]

#: unbound free variable
def main():
    def f():
        return x
    f()
    x = 1

#: deleted free variable
def main():
    x = 1
    def f():
        return x
    del x
    return f()

#: delete a free variable from inside
def main():
    x = 1
    def f():
        nonlocal x
        del x
    f()
    return x

#: delete an unbound cell
def main():
    def f(): return x
    del x
    x = 1

#: rebinding after a delete
def main():
    x = 1
    def f(): return x
    del x
    x = 2
    return f()

#: recursive inner function
def main():
    def fact(n):
        return 1 if n < 2 else n * fact(n - 1)
    return fact(10)

#: mutually recursive inner functions
def main():
    def even(n): return n == 0 or odd(n - 1)
    def odd(n): return n != 0 and even(n - 1)
    return even(10), odd(7), even(3)

#: cell contents from outside
def main():
    x = [1]
    def f(): return x
    cell = f.__closure__[0]
    cell.cell_contents = "changed"
    return x, f(), f.__code__.co_freevars

#: an empty cell from outside
def main():
    def f(): return later
    try:
        f.__closure__[0].cell_contents
    except ValueError as e:
        return str(e)
    later = 1

#: closures share one cell
def main():
    x = 0
    def get(): return x
    def put(v):
        nonlocal x
        x = v
    put(9)
    return get(), get.__closure__[0] is put.__closure__[0]

#: a class body does not make a scope for its methods
x = "global"
def main():
    class C:
        x = "class"
        def f(self): return x
        y = x
    return C().f(), C.y

#: class body reads a free variable
def main():
    x = "local"
    class C:
        y = x
        def f(self): return x
    return C.y, C().f()

#: class body that assigns a name does not see the free variable
def main():
    x = "local"
    class C:
        before = x
        x = "class"
        after = x
    return C.before, C.after, x

#: class body that deletes a name does not see the free variable
def main():
    x = "local"
    class C:
        x = "class"
        del x
        y = x
    return C.y

#: class body falls back to global, then builtin
def main():
    class C:
        a = name
        b = len
    return C.a, C.b is len
name = "global"

#: comprehension in a class body
def main():
    class C:
        n = 3
        items = [i for i in range(n)]
        try:
            wrong = [n for i in range(2)]
        except NameError as e:
            error = str(e)
    return C.items, C.error

#: lambda in a class body
def main():
    class C:
        n = 1
        f = lambda self: self.n
    return C().f()

#: nested classes
def main():
    class A:
        x = 1
        class B:
            y = 2
            class C:
                z = 3
    return A.B.C.z, A.B.C.__qualname__

#: walrus to a global from a comprehension
def main():
    global g
    r = [g := i for i in range(4)]
    return r, g

#: walrus to a nonlocal from a comprehension
def main():
    x = 0
    def f():
        nonlocal x
        any((x := i) == 2 for i in range(5))
    f()
    return x

#: exception variable is deleted after its handler
def main():
    try:
        raise ValueError("a")
    except ValueError as e:
        pass
    return e

#: exception variable hides an outer value for good
def main():
    e = "before"
    try:
        raise ValueError("a")
    except ValueError as e:
        inner = str(e)
    return inner, "e" in locals()

#: exception variable in a cell
def main():
    try:
        raise ValueError("a")
    except ValueError as e:
        def f(): return e
        inside = str(f())
    try:
        return f()
    except NameError as error:
        return inside, str(error)

#: the name of a function is a plain local
def main():
    def f(): return "old"
    g = f
    def f(): return "new"
    return g(), f(), g.__name__

#: name mangling in a class
def main():
    class C:
        __x = 1
        def f(self): return self.__x, __name
        def g(self):
            __local = 3
            return sorted(locals())
    return sorted(n for n in vars(C) if "x" in n), C().g(), C()._C__x
""")
def test_closures(program: Program) -> None:
    program.check()


@each(r"""
#: unpack a tuple
a, b = (1, 2)
return a, b

#: unpack a list, a string, a dict, a generator
[a, b] = [1, 2]; c, d = "xy"; e, f = {"k": 1, "l": 2}; g, h = (i for i in range(2))
return a, b, c, d, e, f, g, h

#: nested unpacking
(a, (b, [c, d])), e = (1, (2, (3, 4))), 5
return a, b, c, d, e

#: starred in the middle
a, *b, c = range(5)
return a, b, c

#: starred first and last
*a, b = "xyz"
c, *d = [1]
return a, b, c, d

#: starred nested
a, (b, *c), *d = 1, "xyz", 3, 4
return a, b, c, d

#: too few values
a, b, c = 1, 2

#: too few values from an iterator
a, b = iter([1])

#: too many values
a, b = [1, 2, 3]

#: too many values from an iterator
a, b = iter("abc")

#: too few values for a starred target
a, *b, c = [1]

#: unpack something not iterable
a, b = 5

#: unpack something not iterable with a star
a, *b = None

#: iteration error while unpacking
def g():
    yield 1
    raise KeyError("inside")
a, b = g()

#: unpacking takes one value too many from the iterator
it = iter(range(10))
try:
    a, b = it
except ValueError:
    pass
return next(it)

#: targets are assigned from left to right
i = 0
x = [0, 0, 0]
i, x[i] = 1, 9
return i, x

#: unpack into attributes and items
class C: pass
c, d = C(), {}
c.x, d["y"], *c.rest = 1, 2, 3, 4
return c.x, d, c.rest

#: for with unpacking
r = []
for a, (b, *c) in [(1, "xyz"), (2, [3])]:
    r.append((a, b, c))
return r

#: unpack through __iter__
class C:
    def __iter__(self):
        log("iter")
        return iter([1, 2])
a, b = C()
return a, b

#: unpack through __getitem__
class C:
    def __getitem__(self, i):
        log(i)
        if i == 2: raise IndexError
        return i
a, b = C()
return a, b

#: unpack zero values
[] = ()
() = []
[] = [1]

#: unpack 300 values after a star
a, *b = range(300)
*c, d = range(300)
return a, len(b), len(c), d
""")
def test_unpacking(program: Program) -> None:
    program.check()
