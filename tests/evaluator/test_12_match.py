"""Structural pattern matching."""

from .oracle import Program, each


@each(r"""
#: literals
def f(x):
    match x:
        case 0: return "zero"
        case -1: return "minus one"
        case 1.5: return "float"
        case "a": return "text"
        case b"b": return "bytes"
        case 1 + 2j: return "complex"
        case _: return "other"
return [f(x) for x in (0, -1, 1.5, "a", b"b", 1 + 2j, None, False, 0.0)]

#: singletons are compared by identity
def f(x):
    match x:
        case None: return "none"
        case True: return "true"
        case False: return "false"
        case _: return "other"
return [f(x) for x in (None, True, False, 1, 0)]

#: no case matches
match 5:
    case 6: log("never")
return "after"

#: capture
match [1]:
    case x: return x

#: wildcard binds nothing
match 5:
    case _: pass
return "_" in locals()

#: or patterns
def f(x):
    match x:
        case 1 | 2 | 3: return "small"
        case "a" | None: return "odd"
        case [y] | [_, y]: return y
return [f(x) for x in (2, None, "a", [5], [6, 7], 9)]

#: as patterns
match [1, [2, 3]]:
    case [a, [2 as b, _] as c] as d: return a, b, c, d

#: guards
def f(x):
    match x:
        case n if n < 0: return "negative"
        case n if n == 0: return "zero"
        case n: return n
return f(-1), f(0), f(5)

#: guards run in order and only after the pattern
def g(x): log(x); return False
match [1, 2]:
    case [1]: log("never")
    case [1, x] if g(("first", x)): pass
    case [y, 2] if g(("second", y)): pass
    case _: log("default")

#: a guard that raises
match 5:
    case x if x / 0: pass

#: captured names stay after a failed case
match [1, 2]:
    case [a, 3]: pass
    case [b, 2]: pass
return sorted(locals())

#: value patterns
import enum
class Color(enum.Enum):
    RED = 1
    BLUE = 2
class K: x = "value"
def f(v):
    match v:
        case Color.RED: return "red"
        case Color.BLUE: return "blue"
        case K.x: return "k"
return f(Color.RED), f(Color.BLUE), f("value"), f(1)

#: value patterns use equality
class E:
    def __eq__(self, o): log(("eq", o)); return o == 7
match E():
    case 5: log("five")
    case 7: log("seven")

#: a value pattern whose comparison raises
class E:
    def __eq__(self, o): raise ValueError("eq")
match E():
    case 5: pass

#: a value pattern that is missing
class K: pass
match 5:
    case K.nope: pass
""")
def test_simple_patterns(program: Program) -> None:
    program.check()


@each(r"""
#: fixed sequences
def f(x):
    match x:
        case []: return "empty"
        case [a]: return ("one", a)
        case (a, b): return ("two", a, b)
        case [a, b, c]: return ("three", a, b, c)
        case _: return "no"
return [f(x) for x in ([], [1], (1, 2), range(3), "ab", b"ab", {1, 2}, {}, [1] * 4)]

#: star in sequences
def f(x):
    match x:
        case [1, *rest]: return ("first", rest)
        case [*init, 9]: return ("last", init)
        case [a, *_, b]: return ("ends", a, b)
        case [*all]: return ("all", all)
return [f(x) for x in ([1, 2, 3], [2, 9], (3, 4, 5), [7], [], (1,))]

#: nested sequences
match [1, [2, [3, 4, 5]]]:
    case [a, [b, [c, *d]]]: return a, b, c, d

#: strings are no sequences
match "ab":
    case [a, b]: return "sequence"
    case str(s): return s

#: user sequences
import collections.abc
class S(collections.abc.Sequence):
    def __len__(self): log("len"); return 2
    def __getitem__(self, i): log(("item", i)); return (10, 20)[i]
match S():
    case [x]: log("one")
    case [10, y]: return y

#: user sequences with a star
import collections.abc
class S(collections.abc.Sequence):
    def __len__(self): log("len"); return 4
    def __getitem__(self, i):
        log(("item", i))
        if i > 3: raise IndexError
        return i
match S():
    case [a, *b, c]: return a, b, c

#: a class that is not registered is no sequence
class S:
    def __len__(self): return 1
    def __getitem__(self, i): return i
match S():
    case [x]: return "sequence"
    case _: return "not"

#: a class that registers itself
import collections.abc
class S:
    def __len__(self): return 1
    def __getitem__(self, i): return ["item"][i]
collections.abc.Sequence.register(S)
match S():
    case [x]: return x

#: a sequence whose length raises
import collections.abc
class S(collections.abc.Sequence):
    def __len__(self): raise ValueError("len")
    def __getitem__(self, i): return i
match S():
    case [x]: pass

#: a list subclass, a deque, an array, a named tuple
import collections, array
class L(list): pass
P = collections.namedtuple("P", "x y")
def f(v):
    match v:
        case [a, b]: return a, b
        case _: return "no"
return [f(v) for v in (L([1, 2]), collections.deque([3, 4]), array.array("i", [5, 6]), P(7, 8),
                       memoryview(b"ab"), bytearray(b"ab"), iter([1, 2]))]

#: sequence subject built on the spot
a, b = 1, 2
match a, b:
    case 1, x: return x
""")
def test_sequence_patterns(program: Program) -> None:
    program.check()


@each(r"""
#: mappings
def f(x):
    match x:
        case {"kind": "a", "value": v}: return ("a", v)
        case {"kind": k}: return ("kind", k)
        case {}: return "some mapping"
        case _: return "no"
return [f(x) for x in ({"kind": "a", "value": 1}, {"kind": "b", "z": 2}, {}, {"q": 1}, [], "a")]

#: rest of a mapping
match {"a": 1, "b": 2, "c": 3}:
    case {"a": x, **rest}: return x, rest

#: nested mappings
match {"user": {"name": "n", "tags": ["x", "y"]}}:
    case {"user": {"name": str(n), "tags": [first, *_]}}: return n, first

#: keys that are values
class K:
    A = "a"
    B = 2
match {"a": 1, 2: 3}:
    case {K.A: x, K.B: y}: return x, y

#: a mapping does not use __missing__
import collections
d = collections.defaultdict(list)
match d:
    case {"k": v}: return "matched"
    case _: return dict(d)

#: a user mapping
import collections.abc
class M(collections.abc.Mapping):
    def __getitem__(self, k): log(("item", k)); return {"a": 1}[k]
    def get(self, k, default=None): log(("get", k)); return {"a": 1}.get(k, default)
    def __iter__(self): log("iter"); return iter(["a"])
    def __len__(self): log("len"); return 1
match M():
    case {"b": x}: log("never")
    case {"a": x, **rest}: return x, rest

#: a mapping whose get raises
import collections.abc
class M(dict):
    def get(self, k, d=None): raise ValueError("get")
match M(a=1):
    case {"a": x}: pass

#: duplicate keys by value
class K:
    A = "x"
    B = "x"
match {"x": 1}:
    case {K.A: 1, K.B: 2}: pass

#: an unhashable subject key is no matter
match {"a": [1]}:
    case {"a": [x]}: return x

#: mapping order of evaluation
class K:
    def __hash__(self): return 1
    def __eq__(self, o): log("eq"); return isinstance(o, K)
class N: key = K()
match {K(): 5}:
    case {N.key: v}: return v
""")
def test_mapping_patterns(program: Program) -> None:
    program.check()


@each(r"""
#: classes by keyword
class P:
    def __init__(self, x, y): self.x, self.y = x, y
def f(v):
    match v:
        case P(x=0, y=0): return "origin"
        case P(x=0, y=y): return ("y axis", y)
        case P(x=x): return ("x", x)
        case _: return "no"
return [f(v) for v in (P(0, 0), P(0, 5), P(3, 4), 7)]

#: classes by position
class P:
    __match_args__ = ("x", "y")
    def __init__(self, x, y): self.x, self.y = x, y
match P(1, [2, 3]):
    case P(1, [a, b]): return a, b

#: position and keyword mixed
class P:
    __match_args__ = ("x",)
    def __init__(self): self.x, self.y = 1, 2
match P():
    case P(a, y=b): return a, b

#: builtin classes capture themselves
def f(v):
    match v:
        case bool(b): return ("bool", b)
        case int(n): return ("int", n)
        case float(x) | complex(real=x): return ("number", x)
        case str(s): return ("str", s)
        case list([a, *_]) | tuple((a, *_)): return ("seq", a)
        case dict(d): return ("dict", d)
        case bytes() | bytearray(): return "bytes"
return [f(v) for v in (True, 1, 1.5, 2j, "s", [1], (2,), {}, b"")]

#: class without arguments
def f(v):
    match v:
        case int(): return "int"
        case list(): return "list"
        case object(): return "object"
return f(1), f([]), f(None)

#: dataclass
import dataclasses
@dataclasses.dataclass
class P:
    x: int
    y: int = 0
match P(1):
    case P(a, b): return a, b

#: named tuple by class
import collections
P = collections.namedtuple("P", "x y")
match P(1, 2):
    case P(x=a, y=2): return a

#: subclass instances match
class A: x = 1
class B(A): pass
match B():
    case A(x=v): return v

#: missing attribute does not match
class A: pass
match A():
    case A(x=1): return "matched"
    case _: return "no"

#: attribute that raises
class A:
    @property
    def x(self): raise ValueError("x")
match A():
    case A(x=1): pass

#: attributes are read in order and once
class A:
    def __getattr__(self, n): log(n); return 1
match A():
    case A(b=1, a=2): log("never")
    case A(a=1, b=v): return v

#: too many positional patterns
class P:
    __match_args__ = ("x",)
    x = 1
match P():
    case P(1, 2): pass

#: no match args
class P: pass
match P():
    case P(1): pass

#: too many positional patterns for a builtin
match 5:
    case int(1, 2): pass

#: match args is a list
class P:
    __match_args__ = ["x"]
    x = 1
match P():
    case P(1): pass

#: match args with no string
class P:
    __match_args__ = (5,)
match P():
    case P(1): pass

#: the same attribute twice
class P:
    __match_args__ = ("x",)
    x = 1
match P():
    case P(1, x=1): pass

#: something that is no class
def f(): pass
match 5:
    case f(): pass

#: __instancecheck__ decides
class M(type):
    def __instancecheck__(cls, x): log(("check", x)); return x == 5
class C(metaclass=M): pass
def f(v):
    match v:
        case C(): return "C"
        case _: return "no"
return f(5), f(6)

#: metaclass with match args as a property
class M(type):
    @property
    def __match_args__(cls): log("asked"); return ("x",)
class C(metaclass=M): x = 4
match C():
    case C(v): return v

#: an expression tree
class Num:
    __match_args__ = ("n",)
    def __init__(self, n): self.n = n
class Bin:
    __match_args__ = ("op", "a", "b")
    def __init__(self, op, a, b): self.op, self.a, self.b = op, a, b
def ev(e):
    match e:
        case Num(n): return n
        case Bin("+", a, b): return ev(a) + ev(b)
        case Bin("*", Num(0), _) | Bin("*", _, Num(0)): return 0
        case Bin("*", a, b): return ev(a) * ev(b)
        case Bin(op): raise ValueError(f"unknown {op}")
log(ev(Bin("+", Num(1), Bin("*", Num(2), Num(3)))))
log(ev(Bin("*", Num(0), None)))
ev(Bin("+", Num(1), Bin("/", Num(1), Num(2))))

#: command parser
def run(c):
    match c.split():
        case ["go", ("north" | "south") as d]: return d
        case ["get", item] | ["pick", "up", item]: return item
        case ["drop", *items] if items: return items
        case [verb, *_]: return f"cannot {verb}"
        case []: return "say something"
return [run(c) for c in ("go north", "go up", "get key", "pick up x", "drop a b", "drop", "")]

#: match inside a loop with continue and break
r = []
for x in [1, "skip", 2, "stop", 3]:
    match x:
        case int(): r.append(x)
        case "skip": continue
        case "stop": break
return r

#: match inside a function in a try with finally
def f(x):
    try:
        match x:
            case [a, b]: return a / b
    finally:
        log("finally")
log(f([4, 2]))
f([1, 0])

#: match in a generator
def g(items):
    for i in items:
        match i:
            case {"n": n}: yield n
            case [*xs]: yield from xs
return list(g([{"n": 1}, [2, 3], 4]))

#: match binding a cell and a global
def main():
    global found
    def show(): return x
    match (1, 2):
        case (x, found): return show(), found

#: match binding attributes is not possible, names only
class C: pass
match {"x": 1}:
    case {"x": value}: C.x = value
return C.x
""")
def test_class_patterns(program: Program) -> None:
    program.check()
