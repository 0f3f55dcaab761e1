"""Constants, operators, comparisons, subscripts, conversions: one instruction at a time."""

from .oracle import Program, each


@each(r'''
#: integer constants
return 0, 1, -1, 255, 256, 10**30, 0x10, 0b101, 0o17, 1_000

#: float constants
return 0.0, -0.0, 1.5, 1e300 * 1e10, float("nan")

#: complex constants
return 1j, 1 + 2j, -0j, complex(1, -0.0)

#: text and bytes constants
return "", "a", "é\n", b"", b"\x00z", r"\n", "a" "b"

#: singletons
return None, True, False, ..., NotImplemented, __debug__

#: tuple constants
return (), (1,), (1, (2, 3)), ((),)

#: frozenset constant from a membership test
return 2 in {1, 2}, 3 in {1, 2}

#: constants shared inside one function
a = "hello there"; b = "hello there"; c = (1, 2, "x"); d = (1, 2, "x")
return a is b, c is d

#: folded arithmetic
return 2 * 3 + 4, "ab" * 3, (1, 2) + (3,), -(5), ~7, not 1

#: docstring is no value
"""doc"""
''')
def test_constants(program: Program) -> None:
    program.check()


@each(r"""
#: int arithmetic
a, b = 17, 5
return a + b, a - b, a * b, a / b, a // b, a % b, a ** b, divmod(a, b)

#: negative floor and modulo
a, b = -17, 5
return a // b, a % b, a // -b, a % -b, -7 % -3

#: bit operators
a, b = 0b1100, 0b1010
return a & b, a | b, a ^ b, a << 2, a >> 2, ~a, -a, +a

#: float arithmetic
a, b = 7.5, -2.0
return a + b, a - b, a * b, a / b, a // b, a % b, a ** b

#: complex arithmetic
a, b = 1 + 2j, 3 - 1j
return a + b, a - b, a * b, a / b, a ** 2, -a, +a

#: mixed numeric types
return 1 + 2.0, 1 + 2j, True + True, 2 ** -1, 2.0 ** 3, 10 ** 20 // 3.0

#: large integers
a = 2 ** 200
return a + 1, a * a, a >> 190, -a // 7, a % 1000007, hash(a)

#: sequence operators
a, b = [1, 2], (3,)
return a + [3], a * 2, 2 * b, b + (4,), "x" * 3, "a" + "b", b"a" + b"b"

#: set operators
a, b = {1, 2, 3}, {2, 3, 4}
return a & b, a | b, a - b, a ^ b, a <= b, {2} < a

#: dict union
a, b = {"x": 1}, {"x": 2, "y": 3}
return a | b, b | a, list(b | a)

#: percent formatting operator
return "%s-%d-%r" % ("a", 3, None), "%(k)s" % {"k": 1}, b"%d" % 3

#: matrix multiplication operator
class M:
    def __matmul__(self, other): return ("matmul", other)
    def __rmatmul__(self, other): return ("rmatmul", other)
    def __imatmul__(self, other): return ("imatmul", other)
a = b = M()
b @= 3
return a @ 1, 2 @ a, b

#: unary operators
x, y = 5, 0
return -x, +x, ~x, not x, not y, not not y

#: unary on a bool
t = True
return -t, +t, ~5, not t

#: operator precedence
a, b, c = 2, 3, 4
return -a ** b, a + b * c, (a + b) * c, a ** b ** 2, a < b and b < c or c, not a == b

#: evaluation order of a binary operation
def f(x):
    log(x)
    return x
return f(1) + f(2) * f(3) - f(4)

#: operands are evaluated before the type error
def f(x):
    log(x)
    return x
return f(1) + f("a")

#: division by zero
a, b = 1, 0
return a / b

#: integer division by zero
a, b = 1, 0
return a // b

#: modulo by zero
a, b = 1, 0
return a % b

#: float division by zero
a, b = 1.0, 0.0
return a / b

#: zero to a negative power
a = 0
return a ** -1

#: negative shift
a, b = 1, -1
return a << b

#: unsupported operand for plus
a, b = 1, "x"
return a + b

#: unsupported operand in the other order
a, b = "x", 1
return a + b

#: unsupported operand for power
a, b = [], 2
return a ** b

#: unsupported operand for in place
a = 1
a += "x"

#: unsupported operand for shift of strings shows the print hint
a = print
a >> 3

#: bad operand for unary minus
x = "a"
return -x

#: bad operand for unary invert
x = 1.5
return ~x

#: bad operand for unary plus
x = []
return +x

#: overflow error of float power
a = 10.0
return a ** 1000

#: invert of a bool warns [3.12+]
t = True
return ~t
""")
def test_arithmetic(program: Program) -> None:
    program.check()


@each(r"""
#: in-place on an int rebinds
a = b = 5
a += 1; a -= 2; a *= 3; a //= 2; a %= 4; a **= 3; a <<= 2; a >>= 1; a &= 0xff; a |= 1; a ^= 3
return a, b

#: in-place true division
a = 7
a /= 2
return a

#: in-place on a list keeps the object
a = b = [1]
a += [2]; a *= 2
return a, b, a is b

#: in-place add of any iterable to a list
a = [1]
a += (2, 3); a += "xy"; a += {4: 5}
return a

#: in-place on a set keeps the object
a = b = {1, 2}
a |= {3}; a &= {2, 3}; a ^= {9}; a -= {2}
return a, a is b

#: in-place on a dict keeps the object
a = b = {1: 2}
a |= {3: 4}; a |= [(5, 6)]
return a, a is b

#: in-place on a tuple item mutates and raises
t = ([1],)
try:
    t[0] += [2]
except TypeError as e:
    return t, str(e)

#: in-place on a subscript evaluates the target once
def f(x):
    log(x)
    return x
d = {"k": 1}
f(d)[f("k")] += f(2)
return d

#: in-place on an attribute evaluates the object once
class C: n = 1
def f():
    log("f")
    return C
f().n += 5
return C.n

#: in-place on a slice
a = [1, 2, 3]
a[1:] += [9]
a[:1] *= 3
return a

#: in-place on an unbound local
x += 1
""")
def test_in_place(program: Program) -> None:
    program.check()


@each(r"""
#: comparisons of numbers
a, b = 1, 2.0
return a < b, a <= b, a == b, a != b, a > b, a >= b

#: comparisons of sequences
return [1, 2] < [1, 3], (1,) < (1, 0), "a" < "b", [1] == (1,), "a" == b"a"

#: not a number
n = float("nan")
return n == n, n != n, n < n, n in [n], [n] == [n]

#: chained comparison
a, b, c = 1, 2, 3
return a < b < c, a < c < b, a < b > a, a == a != b

#: chained comparison evaluates the middle once
def f(x):
    log(x)
    return x
return f(1) < f(2) < f(3), f(3) < f(2) < f(1)

#: chained comparison returns the deciding operand's result
class C:
    def __init__(self, v): self.v = v
    def __lt__(self, other): return self.v
return C([]) < C("never compared") < 1, C("yes") < C("second") < 1

#: identity
a = []; b = a
return a is b, a is not b, a is [], None is None, a is not None

#: membership in containers
return 1 in [1], 1 in (2,), 1 not in {1}, "k" in {"k": 1}, "b" in "abc", 3 in range(5)

#: membership through __contains__
class C:
    def __contains__(self, x): log(x); return []
return 1 in C(), 1 not in C()

#: membership through __iter__
class C:
    def __iter__(self): return iter([1, 2, 3])
return 2 in C(), 9 in C()

#: membership through __getitem__
class C:
    def __getitem__(self, i):
        log(i)
        if i > 3: raise IndexError
        return i * 10
return 20 in C(), 5 in C()

#: membership disabled by None
class C:
    __contains__ = None
return 1 in C()

#: membership in something not iterable
return 1 in 5

#: ordering of unorderable types
a, b = 1, "x"
return a < b

#: ordering of dicts
a, b = {}, {}
return a >= b

#: ordering None
return None > 1

#: comparison result of any type
class C:
    def __eq__(self, o): return ("eq", o)
    def __ne__(self, o): return ("ne", o)
    def __lt__(self, o): return ("lt", o)
    def __ge__(self, o): return ("ge", o)
c = C()
return c == 1, c != 2, c < 3, 4 > c, c >= 5, 6 <= c

#: comparison used as a condition needs a bool
class B:
    def __bool__(self): log("bool"); return False
class C:
    def __lt__(self, o): return B()
if C() < 1:
    return "yes"
return "no"

#: is with a literal only warns at compile time
a = 1000
return (a == 1000) is True
""")
def test_comparisons(program: Program) -> None:
    program.check()


@each(r"""
#: and returns an operand
return 0 and 1, 1 and 2, "" and x, [] and 1, 1 and 2 and 3

#: or returns an operand
return 0 or 1, 1 or x, "" or [] or None, 0 or "" or 5

#: short circuit does not evaluate
def f(x):
    log(x)
    return x
return f(0) and f(1), f(2) or f(3), f(0) or f(4), f(5) and f(6)

#: not of objects
class C:
    def __len__(self): log("len"); return 0
class D:
    def __bool__(self): log("bool"); return True
    def __len__(self): log("never"); return 0
return not C(), not D(), not object()

#: truth test once per operand
class B:
    def __init__(self, v): self.v = v
    def __bool__(self): log(self.v); return bool(self.v)
a, b, c = B(0), B(1), B(2)
r = a and b or c
return r.v, (not (a or b)), (1 if (a or c) else 2)

#: __bool__ of the wrong type
class C:
    def __bool__(self): return 1
return not C()

#: __len__ negative
class C:
    def __len__(self): return -1
if C():
    pass

#: __len__ not an integer
class C:
    def __len__(self): return "x"
return bool(C())

#: __bool__ raises
class C:
    def __bool__(self): raise KeyError("k")
x = C() or 1

#: conditional expression
a = 5
return "big" if a > 3 else "small", "big" if a > 9 else "small"

#: conditional expression evaluates one branch
def f(x):
    log(x)
    return x
return f(1) if f(0) else f(2)

#: nested conditional expressions
def g(n): return "neg" if n < 0 else "zero" if n == 0 else "pos"
return g(-1), g(0), g(1)

#: walrus in a condition
data = [1, 2, 3]
if (n := len(data)) > 2:
    return n
return "no"

#: walrus inside an expression
return (y := 5) + y * (y := y + 1), y

#: walrus in a comprehension binds outside
r = [last := x * 2 for x in range(3)]
return r, last

#: lambda
return (lambda: 1)(), (lambda a, *b, c=3, **d: (a, b, c, d))(1, 2, e=4)

#: starred in a display
a = [1, 2]
return [*a, 3, *"xy"], (*a, *a), {*a, 2, 9}, {**{"a": 1}, "b": 2, **{"a": 3}}
""")
def test_logic(program: Program) -> None:
    program.check()


@each(r"""
#: list index
a = [10, 20, 30]
return a[0], a[-1], a[True]

#: list index out of range
a = [1]
return a[5]

#: list index of the wrong type
a = [1]
return a["x"]

#: tuple index of the wrong type
a = (1,)
return a[1.0]

#: string index of the wrong type
a = "abc"
return a[None]

#: dict subscript
d = {"a": 1, (1, 2): 3, None: 4}
return d["a"], d[1, 2], d[None]

#: dict key error
d = {"a": 1}
return d["b"]

#: key error with a tuple
d = {}
return d[1, 2]

#: unhashable dict key
d = {}
return d[[]]

#: slices
a = list(range(10))
return a[2:5], a[:3], a[7:], a[::2], a[::-1], a[8:2:-2], a[-3:], a[:], a[100:]

#: slice object
class C:
    def __getitem__(self, k): return k
return C()[1:2], C()[1:2:3], C()[:], C()[1, 2:3, ...], C()[...]

#: slice store and delete
a = list(range(8))
a[1:3] = "xyz"; a[::3] = [0] * len(a[::3]); del a[2:4]; del a[-1]
return a

#: slice bounds through __index__
class I:
    def __init__(self, n): self.n = n
    def __index__(self): log(self.n); return self.n
a = list(range(10))
return a[I(1):I(6):I(2)], a[I(3)]

#: slice of the wrong type
a = [1, 2]
return a["x":]

#: extended slice of the wrong size
a = [1, 2, 3, 4]
a[::2] = [1, 2, 3]

#: zero slice step
a = [1]
return a[::0]

#: subscript of something not subscriptable
x = 5
return x[0]

#: subscript of a function
def f(): pass
return f[0]

#: subscript of None
x = None
return x["a"]

#: store to something without item assignment
x = (1,)
x[0] = 2

#: delete from something without item deletion
x = "abc"
del x[0]

#: delete items
a = {"x": 1, "y": 2}; b = [1, 2, 3]
del a["x"], b[0]
return a, b

#: delete a missing key
a = {}
del a["x"]

#: generic alias by subscript of a class
return list[int], dict[str, int], tuple[int, ...]

#: __class_getitem__
class C:
    def __class_getitem__(cls, item): return (cls.__name__, item)
return C[int], C[1, 2]

#: subscript of a class without __class_getitem__
class C: pass
return C[int]

#: order of a subscript store
def f(x):
    log(x)
    return x
d = {}
f(d)[f("k")] = f("v")
d[f("a")], d[f("b")] = f(1), f(2)
return d

#: attribute chain
import os
return os.path.sep.join("ab"), (1).real, "x".upper().lower()

#: missing attribute of an instance
class C: pass
return C().nope

#: missing attribute of a class
class C: pass
return C.nope

#: missing attribute of a module
import math
return math.nope

#: missing attribute with a suggestion
class C:
    blech = 1
return C().bluch

#: missing attribute of None
x = None
return x.append

#: set attribute of a builtin
x = 5
x.y = 1

#: set attribute of a builtin type
int.y = 1

#: delete a missing attribute
class C: pass
del C().x
""")
def test_subscripts_and_attributes(program: Program) -> None:
    program.check()


@each(r"""
#: conversions
return int("12"), float("1.5"), str(12), bool([]), list("ab"), tuple([1]), bytes([1]), set("a")

#: failing conversion
return int("x")

#: repr and ascii
return repr("é"), ascii("é"), repr([1, "a", None]), str(1.0)

#: repr of a recursive list
a = []; a.append(a)
return repr(a)

#: star expression in return
a = [1, 2]
return 0, *a, 3

#: star expression in subscript
class C:
    def __getitem__(self, k): return k
a = [1, 2]
return C()[0, *a], C()[*a]

#: not iterable in star expression
return [*5]

#: not a mapping in double star
return {**5}

#: not a mapping in double star, a list
return {**[1]}

#: print statement
print("a", 1, None, sep="-", end="!\n")
print()

#: print to standard error
import sys
print("oops", file=sys.stderr)

#: long expression with many values on the stack
return [1, [2, [3, [4, [5, [6, [7, [8, [9, [10, (1, (2, (3,)))]]]]]]]]]]

#: very deep parentheses
x = 1
return ((((((((((x + 1) * 2) - 3) * 4) + 5) * 6) - 7) * 8) + 9) * 10)
""")
def test_assorted(program: Program) -> None:
    program.check()
