"""A small grammar of programs for hypothesis.

Comes in: hypothesis' choices. Goes out: the text of a program that always ends. Any statement may
raise, on purpose: which exception, where, and what its handlers do is what the tests compare.

How a program is kept small and finite: loops are bounded, functions call only functions that
were defined before them, values are trimmed by ``small``, and ``tick`` stops what still gets long.
"""

import dataclasses
from collections.abc import Callable

from hypothesis import strategies as st

PRELUDE = '''
import contextlib, functools
class TooLong(BaseException): pass
ticks = 0
def tick():
    global ticks
    ticks += 1
    if ticks > 150: raise TooLong
def small(x):
    """Keeps numbers, texts and lists from growing."""
    if type(x) is int: return x % 1000 if x > 1000 else x
    if type(x) in (str, list, tuple): return x[:6]
    return x
class CM:
    def __init__(self, name, swallow=False): self.name, self.swallow = name, swallow
    def __enter__(self): log(("enter", self.name)); return self.name
    def __exit__(self, kind, value, tb):
        log(("exit", self.name, kind and kind.__name__))
        return self.swallow and kind is not TooLong
class Error(Exception): pass
'''

VARIABLES = ("a", "b", "c", "d")
EXCEPTIONS = ("ValueError", "TypeError", "KeyError", "ZeroDivisionError", "Error", "IndexError")
CAUGHT = (*EXCEPTIONS, "Exception", "LookupError", "(TypeError, Error)", "ArithmeticError")
Draw = Callable[[st.SearchStrategy], object]


@dataclasses.dataclass(frozen=True)
class Scope:
    """What a statement may use at its place."""

    depth: int = 0
    functions: tuple[str, ...] = ()
    generators: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    in_loop: bool = False
    in_function: bool = False
    in_generator: bool = False
    in_handler: bool = False

    def deeper(self, **changes: object) -> "Scope":
        return dataclasses.replace(self, depth=self.depth + 1, **changes)


class Writer:
    """Writes one program, choice by choice."""

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.lines: list[str] = []
        self.counter = 0
        self.budget = 45  # statements in all

    # ---- choices ----

    def pick(self, *options: object) -> object:
        return self.draw(st.sampled_from(options))

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(0, 99)) < percent

    def number(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def emit(self, indent: int, line: str) -> None:
        self.lines.append("    " * indent + line)

    # ---- expressions ----

    def atom(self, scope: Scope) -> str:
        kind = self.pick("variable", "variable", "variable", "number", "text", "list", "constant")
        if kind == "variable":
            return self.pick(*VARIABLES)
        if kind == "number":
            return str(self.number(-3, 9))
        if kind == "text":
            return self.pick("''", "'x'", "'abc'", "'%s'")
        if kind == "list":
            return self.pick("[]", "[1]", "[1, 2, 3]", "['p', 'q']", "{'k': 1}", "(4, 5)")
        return self.pick("None", "True", "0", "...")

    def expression(self, scope: Scope, depth: int = 0) -> str:
        if depth >= 2 or self.chance(30):
            return self.atom(scope)
        inner = lambda: self.expression(scope, depth + 1)
        shapes: list[Callable[[], str]] = [
            lambda: f"({inner()} {self.pick('+', '-', '*', '//', '%', '/', '&', '|')} {inner()})",
            lambda: f"({inner()} {self.pick('==', '!=', '<', '<=', 'is', 'in', 'not in')} {inner()})",
            lambda: f"({inner()} < {inner()} <= {inner()})",
            lambda: f"({inner()} {self.pick('and', 'or')} {inner()})",
            lambda: f"({inner()} if {inner()} else {inner()})",
            lambda: f"{self.pick('not ', '-', '~')}{self.atom(scope)}",
            lambda: f"{self.pick(*VARIABLES)}[{inner()}]",
            lambda: f"{self.pick(*VARIABLES)}[{self.number(-2, 2)}:{inner()}]",
            lambda: f"[{inner()}, {inner()}]",
            lambda: f"({inner()}, *{inner()})",
            lambda: f"{{'k': {inner()}, **{self.pick('{}', 'd')}}}",
            lambda: f"f'{{{self.atom(scope)}!r}} {{{self.pick(*VARIABLES)}}}'",
            lambda: f"[({inner()}) for v in {self.iterable(scope)} if {self.pick('v', inner())}]",
            lambda: f"{{v: {self.atom(scope)} for v in {self.iterable(scope)}}}",
            lambda: f"sorted({self.iterable(scope)}, key=lambda v: {inner()})",
            lambda: f"list(map(lambda v: {inner()}, {self.iterable(scope)}))",
            lambda: f"functools.reduce(lambda v, w: {inner()}, {self.iterable(scope)})",
            lambda: f"sum({self.atom(scope)} for v in {self.iterable(scope)})",
            lambda: f"({self.pick(*VARIABLES)} := small({inner()}))",
            lambda: f"(lambda v={self.atom(scope)}, *w, **x: {inner()})({inner()})",
            lambda: f"{self.pick('len', 'str', 'int', 'repr', 'list', 'bool')}({inner()})",
            lambda: f"{self.pick(*VARIABLES)}.{self.pick('append', 'upper', 'items', 'x')}",
        ]
        if scope.functions:
            shapes += [lambda: self.call(self.pick(*scope.functions), scope, inner)] * 4
        if scope.generators:
            shapes += [lambda: f"list({self.pick(*scope.generators)}({inner()}))"] * 2
            shapes.append(lambda: f"next({self.pick(*scope.generators)}({inner()}), 'end')")
        if scope.classes:
            shapes += [lambda: f"{self.pick(*scope.classes)}({inner()}).m({inner()})"] * 2
            shapes.append(lambda: f"({self.pick(*scope.classes)}({inner()}) + {inner()})")
        return self.draw(st.sampled_from(shapes))()

    def call(self, name: str, scope: Scope, inner: Callable[[], str]) -> str:
        shape = self.pick("({0})", "({0}, {1})", "(p={0})", "(*[{0}, {1}])", "()", "({0}, q={1})")
        return name + shape.format(inner(), inner())

    def iterable(self, scope: Scope) -> str:
        if scope.generators and self.chance(30):
            return f"{self.pick(*scope.generators)}({self.atom(scope)})"
        return self.pick("range(3)", "[2, 0, 1]", "'ab'", "(1, None)", "enumerate('xy')", "a", "[]")

    # ---- statements ----

    def block(self, indent: int, scope: Scope, most: int = 3) -> None:
        for _ in range(self.number(1, most)):
            scope = self.statement(indent, scope)

    def statement(self, indent: int, scope: Scope) -> Scope:
        """Write one statement; returns the scope with what it defined."""
        self.budget -= 1
        simple = ["assign"] * 5 + ["log"] * 4 + ["unpack", "in_place", "store", "raise_", "delete"]
        if scope.in_loop:
            simple += ["break", "continue"]
        if scope.in_function:
            simple += ["return_"]
        if scope.in_generator:
            simple += ["yield_"] * 4
        if scope.in_handler:
            simple += ["reraise"]
        nested = ["if_", "for_", "while_", "try_", "try_", "try_", "with_", "match_"]
        if scope.depth < 2:
            nested += ["function", "function", "generator", "class_"]
        if self.budget < 0 or scope.depth >= 4 or self.chance(50):
            kind = self.pick(*simple)
        else:
            kind = self.pick(*nested)
        if kind in ("break", "continue"):
            self.emit(indent, kind)
            return scope
        return getattr(self, kind)(indent, scope) or scope

    def assign(self, indent: int, scope: Scope) -> None:
        self.emit(indent, f"{self.pick(*VARIABLES)} = small({self.expression(scope)})")

    def log(self, indent: int, scope: Scope) -> None:
        self.emit(indent, f"log(str({self.expression(scope)}))")

    def unpack(self, indent: int, scope: Scope) -> None:
        target = self.pick("a, b", "a, *b", "(a, b), c", "*a, d", "a, [b, c]")
        self.emit(indent, f"{target} = {self.expression(scope)}")

    def in_place(self, indent: int, scope: Scope) -> None:
        sign = self.pick("+=", "-=", "|=", "//=")
        self.emit(indent, f"{self.pick(*VARIABLES)} {sign} small({self.expression(scope)})")

    def store(self, indent: int, scope: Scope) -> None:
        target = f"{self.pick(*VARIABLES)}[{self.atom(scope)}]"
        self.emit(indent, f"{target} = small({self.atom(scope)})")

    def delete(self, indent: int, scope: Scope) -> None:
        self.emit(indent, f"del {self.pick('a[0]', 'b[:1]', 'd', 'c.x', 'd[a]')}")

    def raise_(self, indent: int, scope: Scope) -> None:
        cause = self.pick("", "", "", " from None", " from KeyError('cause')")
        self.emit(indent, f"raise {self.pick(*EXCEPTIONS)}({self.atom(scope)}){cause}")

    def reraise(self, indent: int, scope: Scope) -> None:
        self.emit(indent, "raise")

    def return_(self, indent: int, scope: Scope) -> None:
        self.emit(indent, f"return {self.expression(scope)}")

    def yield_(self, indent: int, scope: Scope) -> None:
        shape = self.pick("yield {}", "a = yield {}", "yield from [{}]", "log(str((yield {})))")
        self.emit(indent, shape.format(self.expression(scope)))

    def if_(self, indent: int, scope: Scope) -> None:
        self.emit(indent, f"if {self.expression(scope)}:")
        self.block(indent + 1, scope.deeper())
        if self.chance(30):
            self.emit(indent, f"elif {self.expression(scope)}:")
            self.block(indent + 1, scope.deeper())
        if self.chance(50):
            self.emit(indent, "else:")
            self.block(indent + 1, scope.deeper())

    def for_(self, indent: int, scope: Scope) -> None:
        target = self.pick(*VARIABLES, "a, b", "d['k']")
        self.emit(indent, f"for {target} in {self.iterable(scope)}:")
        self.emit(indent + 1, "tick()")
        self.block(indent + 1, scope.deeper(in_loop=True))
        self.loop_else(indent, scope)

    def while_(self, indent: int, scope: Scope) -> None:
        count = self.fresh("n")
        self.emit(indent, f"{count} = {self.number(1, 3)}")
        self.emit(indent, f"while {count} and {self.pick('True', self.expression(scope))}:")
        self.emit(indent + 1, f"{count} -= 1; tick()")
        self.block(indent + 1, scope.deeper(in_loop=True))
        self.loop_else(indent, scope)

    def loop_else(self, indent: int, scope: Scope) -> None:
        if self.chance(25):
            self.emit(indent, "else:")
            self.block(indent + 1, scope.deeper())

    def try_(self, indent: int, scope: Scope) -> None:
        self.emit(indent, "try:")
        self.block(indent + 1, scope.deeper())
        handlers = self.number(0, 2)
        for _ in range(handlers):
            name = self.pick("", " as e")
            self.emit(indent, f"except {self.pick(*CAUGHT)}{name}:")
            if name:
                self.emit(indent + 1, "log((type(e).__name__, str(e), type(e.__context__)))")
            self.block(indent + 1, scope.deeper(in_handler=True))
        if handlers and self.chance(30):
            self.emit(indent, "else:")
            self.block(indent + 1, scope.deeper())
        if not handlers or self.chance(40):
            self.emit(indent, "finally:")
            self.emit(indent + 1, "log('finally')")
            # A loop left here by a swallowed TooLong would go on for ever, so: no jumps.
            self.block(indent + 1, scope.deeper(in_loop=False, in_function=False), 2)

    def with_(self, indent: int, scope: Scope) -> None:
        name = self.fresh("m")
        swallow = self.pick("", ", True")
        target = self.pick("", " as a", " as (b, *c)")
        self.emit(indent, f"with CM('{name}'{swallow}){target}:")
        self.block(indent + 1, scope.deeper())

    def match_(self, indent: int, scope: Scope) -> None:
        self.emit(indent, f"match {self.expression(scope)}:")
        patterns = ("0 | 1", "[a, *_]", "{'k': b}", "str(c)", "[[a], b]", "int() as d", "None")
        for pattern in self.draw(st.lists(st.sampled_from(patterns), min_size=1, max_size=3)):
            guard = f" if {self.atom(scope)}" if self.chance(25) else ""
            self.emit(indent + 1, f"case {pattern}{guard}:")
            self.block(indent + 2, scope.deeper(), 2)

    # ---- definitions ----

    def names(self, indent: int) -> None:
        """The variables of a new function: its own, or those of the function around it."""
        outer = self.draw(st.sets(st.sampled_from(VARIABLES[1:]), max_size=2))
        if outer and indent > 1:
            self.emit(indent, f"nonlocal {', '.join(sorted(outer))}")
        elif outer:
            self.emit(indent, f"global {', '.join(sorted(outer))}")
        for name, value in (("b", "1"), ("c", "'t'"), ("d", "{'k': [0]}")):
            if name not in outer and self.chance(85):
                self.emit(indent, f"{name} = {value}")

    def function(self, indent: int, scope: Scope) -> Scope:
        name = self.fresh("f")
        parameters = self.pick("a=1", "a, q=2", "a=0, *p, q=3", "p=1, /, a=2", "*a, **p", "p, a=[]")
        self.emit(indent, f"def {name}({parameters}):")
        self.emit(indent + 1, "tick()") if False else None
        self.body(indent + 1, scope.deeper(in_function=True, in_loop=False, in_handler=False,
                                           in_generator=False))
        return dataclasses.replace(scope, functions=(*scope.functions, name))

    def generator(self, indent: int, scope: Scope) -> Scope:
        name = self.fresh("g")
        self.emit(indent, f"def {name}(a):")
        self.body(indent + 1, scope.deeper(in_function=True, in_loop=False, in_handler=False,
                                           in_generator=True))
        self.emit(indent + 1, f"yield {self.atom(scope)}")
        return dataclasses.replace(scope, generators=(*scope.generators, name))

    def class_(self, indent: int, scope: Scope) -> Scope:
        name = self.fresh("C")
        base = self.pick(*scope.classes, "object") if scope.classes else "object"
        self.emit(indent, f"class {name}({base}):")
        self.emit(indent + 1, f"x = {self.pick('5', '[1]', 'None')}")
        self.emit(indent + 1, f"def __init__(self, a): self.x = a; log('{name}')")
        self.emit(indent + 1, "def m(self, a):")
        inside = scope.deeper(in_function=True, in_loop=False, in_handler=False, in_generator=False)
        self.body(indent + 2, inside)
        if base != "object" and self.chance(60):
            self.emit(indent + 2, "return super().m(a)")
        self.emit(indent + 1, f"def __add__(self, other): return {self.pick('self.x', 'other')}")
        if self.chance(50):
            self.emit(indent + 1, "@property")
            self.emit(indent + 1, f"def y(self): return {self.pick('self.x', 'self.z', '1 / 0')}")
        return dataclasses.replace(scope, classes=(*scope.classes, name))

    def body(self, indent: int, scope: Scope) -> None:
        self.names(indent)
        self.emit(indent, "tick()")
        self.block(indent, scope, 4)

    def program(self) -> str:
        self.emit(0, "b, c, d = 2, 'u', {'k': 1}")
        self.emit(0, "def main(a):")
        for name, value in (("b", "3"), ("c", "[3, 1, 2]"), ("d", "{'k': 'v'}")):
            self.emit(1, f"{name} = {value}")
        scope = Scope(in_function=True)
        for _ in range(self.number(2, 6)):
            scope = self.statement(1, scope)
        self.emit(1, "return a, b, c, d")
        self.emit(0, "ARGS = ([1, 2, 3],)")
        return PRELUDE + "\n".join(self.lines) + "\n"


@st.composite
def programs(draw: Draw) -> str:
    return Writer(draw).program()
