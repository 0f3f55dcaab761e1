"""Strings, f-strings and the format protocol."""

from .oracle import Program, each


@each(r'''
#: f-string of values
x, y = 5, "a"
return f"{x} and {y}", f"{x}{y}", f"{x}", f"", f"plain"

#: f-string conversions
s = "é'"
return f"{s!r} {s!s} {s!a}"

#: f-string format specifications
x = 3.14159
return f"{x:.2f}|{x:>10.1f}|{x:<8.0f}|{x:+}|{x:e}", f"{255:#x} {255:08b} {1234567:,}"

#: f-string nested format specification
x, width, precision = 3.14159, 10, 3
return f"{x:{width}.{precision}}", f"{x!r:>{width * 2}}"

#: f-string with an equals sign
x = 5
return f"{x=}", f"{x + 1 = }", f"{x=!s:>5}", f"{x=:.1f}"

#: f-string braces
x = 1
return f"{{}}", f"{{{x}}}", f"{ {1: 2}[1] }"

#: f-string with expressions
d = {"k": [1, 2]}
return f"{d['k'][0]} {sum(d['k'])} {[i for i in d['k']]} {(lambda v: v * 2)(3)}"

#: f-string with a conditional and a walrus
x = 3
return f"{'odd' if x % 2 else 'even'} {(y := x + 1)} {y}"

#: f-string over several lines
x = 1
return (f"a{x}"
        f"b{x + 1}"
        "c{x}"), f"""
{x}
"""

#: f-string evaluation order
def f(x):
    log(x)
    return x
return f"{f(1)} {f(2):{f(5)}} {f(3)!r}"

#: f-string of user objects
class C:
    def __str__(self): log("str"); return "S"
    def __repr__(self): log("repr"); return "R"
    def __format__(self, spec): log(("format", spec)); return "F" + spec
c = C()
return f"{c} {c!s} {c!r} {c:spec} {c!r:>5}"

#: f-string of an object with the default format
class C:
    def __str__(self): return "S"
return f"{C()}", f"{C()!s:>4}"

#: f-string with a format specification the type does not know
class C: pass
return f"{C():>4}"

#: f-string with a bad specification for int
x = 5
return f"{x:zz}"

#: f-string whose value raises
x = {}
return f"before {x['k']} after"

#: f-string whose __format__ raises
class C:
    def __format__(self, spec): raise ValueError("bad " + spec)
return f"{C():abc}"

#: f-string whose __format__ returns no string
class C:
    def __format__(self, spec): return 5
return f"{C()}"

#: f-string whose __str__ returns no string
class C:
    def __str__(self): return 5
return f"{C()!s}"

#: f-string whose __repr__ returns no string
class C:
    def __repr__(self): return None
return f"{C()!r}"

#: f-string of None, bool, bytes, tuple
return f"{None} {True} {b'x'} {(1, 'a')} {(1,)}"

#: f-string with nested quotes [3.12+]
d = {"a": 1}
return f"{d["a"]} {f"{f"{1 + 1}"}"} {"\n".join("ab")}"

#: f-string with a comment and a newline [3.12+]
x = 1
return f"{
    x  # comment
}"

#: f-string in a class body and a closure
x = "outer"
class C:
    y = f"{x}!"
    def f(self): return f"{x} {self.y}"
return C.y, C().f()

#: f-string with a subclass of str
class S(str):
    def __format__(self, spec): return "custom"
    def __str__(self): return "as str"
s = S("raw")
return f"{s}", f"{s!s}", f"{s!r}", type(f"{s}").__name__, "%s" % s, str.join(",", [s])

#: f-string that is one str value is a plain str
class S(str): pass
s = S("raw")
r = f"{s}"
return type(r).__name__, r
''')
def test_f_strings(program: Program) -> None:
    program.check()


@each(r"""
#: str.format
return "{} {1}".format if False else "{0} {1} {0}".format("a", 2), "{x.real} {y[k]}".format(
    x=5, y={"k": 1}), "{:>{w}}".format("a", w=5)

#: str.format errors
r = []
for t, a in (("{}", ()), ("{k}", ()), ("{0} {}", (1, 2)), ("{:d}", ("x",)), ("{", ()),
             ("{0.x}", (1,)), ("{!z}", (1,))):
    try:
        t.format(*a)
    except Exception as e:
        r.append((type(e), str(e)))
return r

#: str.format calls the user's protocol
class C:
    def __format__(self, spec): return "<" + spec + ">"
    def __getitem__(self, k): return ("item", k)
    def __getattr__(self, n): return ("attr", n)
return "{:spec} {0.name}".replace(" {0.name}", "").format(C()), "{0[k]} {0.n}".format(C())

#: format builtin
class C:
    def __format__(self, spec): return spec * 2
return format(5, "03"), format(C(), "ab"), format("x"), format(1.5, ".3")

#: percent formatting
return ("%s %r %d %5.2f %x %% %c" % ("a", "b", 3, 1.5, 255, "z"), "%-5s|%05d" % ("a", 42),
        "%(a)s %(b)d" % {"a": 1, "b": 2}, "%s" % (None,), "%s" % [1])

#: percent formatting errors
r = []
for t, a in (("%d", "x"), ("%s %s", ("a",)), ("%s", ("a", "b")), ("%(k)s", {}), ("%(k)s", 1),
             ("%z", 1), ("%c", "ab")):
    try:
        t % a
    except Exception as e:
        r.append((type(e), str(e)))
return r

#: percent formatting calls __str__ and __repr__
class C:
    def __str__(self): log("str"); return "S"
    def __repr__(self): log("repr"); return "R"
    def __int__(self): log("int"); return 7
    def __index__(self): log("index"); return 8
    def __float__(self): log("float"); return 1.5
return "%s %r %a" % (C(), C(), C()), "%d" % C(), "%x" % C(), "%.1f" % C()

#: string methods
s = " Hello World "
return (s.strip(), s.lower(), s.split(), s.replace("o", "0"), s.find("W"), s.partition("o"),
        "-".join("abc"), "abc".center(9, "*"), "a,b".split(","), "ab".zfill(5), "x".isalpha(),
        "abc".startswith(("a", "z")), "ß".upper(), "a\tb".expandtabs(4), "abc"[::-1])

#: string translation
return "hello".translate(str.maketrans("el", "ip")), "abc".translate({98: None})

#: string building in a loop
s = ""
for i in range(10): s += str(i)
return s

#: string building with other references keeps them
s = "a"
parts = []
for i in range(3):
    parts.append(s)
    s += "b"
return parts, s

#: encodings
return "é".encode(), b"\xc3\xa9".decode(), "é".encode("latin-1"), "é".encode("ascii", "replace")

#: decoding error
return b"\xff".decode()

#: encoding error carries its attributes
try:
    "aé".encode("ascii")
except UnicodeEncodeError as e:
    return e.start, e.end, e.object, e.reason, str(e)

#: bytes and bytearray
b = bytearray(b"abc")
b[0] = 90; b += b"!"; b.extend([1, 2])
return bytes(b), b.hex(), b"%s" % b"x", b"a".join([b"1", b"2"]), b[1], b[1:3]

#: string comparisons and hash
return "a" < "b", "a" == "a", hash("x") == hash("x"), "é" != "e", max("abc")

#: interning and identity
a = "name"
return a is "name" if False else a == "name", "x" * 3 == "xxx"

#: template strings and textwrap
import string
return string.Template("$a ${b} $$").substitute(a=1, b="two"), string.capwords("ab cd")

#: string.Formatter subclass
import string
class F(string.Formatter):
    def get_value(self, key, args, kwargs):
        log(key)
        return kwargs.get(key, "?") if isinstance(key, str) else args[key]
return F().format("{0} {a} {zz}", 1, a=2)

#: repr of user classes inside containers
class C:
    def __repr__(self): log("repr"); return "C!"
return repr([C(), {C: 1} and (C(),)]), str({"k": C()}), "%s" % [C()]

#: repr that raises inside a container
class C:
    def __repr__(self): raise ValueError("repr")
return repr([1, C()])

#: repr that recurses
class C:
    def __init__(self): self.me = [self]
    def __repr__(self): return f"C({self.me!r})"
import reprlib
C.__repr__ = reprlib.recursive_repr("...")(C.__repr__)
return repr(C())

#: print calls __str__ in order
class C:
    def __init__(self, n): self.n = n
    def __str__(self): log(self.n); return f"<{self.n}>"
print(C(1), C(2), sep=str(C(3)))

#: print to an object with a write method
class W:
    def write(self, s): log(s)
    def flush(self): log("flush")
print("a", 1, file=W(), flush=True)

#: str subclass with operators
class S(str):
    def __add__(self, o): return S(str.__add__(self, o))
    def __mod__(self, o): return ("mod", o)
    def __rmod__(self, o): return ("rmod", o)
return S("a") + "b", S("%s") % 1, "%s" % S("x"), "a%s" % 5
""")
def test_strings(program: Program) -> None:
    program.check()
