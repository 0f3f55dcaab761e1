"""A small grammar of programs for hypothesis.

Comes in: a string of random bytes, the tape, from which every choice is read. Goes out: the text
of a program that always ends. Most expressions fit their place, some do not, on purpose: which
exception comes, where, and what its handlers do is what the tests compare.

How a program is kept small and finite: loops are bounded, functions call only functions that
were defined before them, values are trimmed by ``small``, and ``tick`` stops what still gets long.
"""

import dataclasses
from collections.abc import Callable

from hypothesis import strategies as st

PRELUDE = '''
import functools
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
    def __enter__(self): log(("enter", self.name)); return len(self.name)
    def __exit__(self, kind, value, tb):
        log(("exit", self.name, kind and kind.__name__, tb and tb.tb_lineno))
        return self.swallow and kind is not TooLong
class Error(Exception): pass
i, j, s, xs, d = 2, 3, "module", [7], {"k": 8}
'''

# The variables of every function, by the type they mostly have, and what they start with.
VARIABLES = {"i": "number", "j": "number", "s": "text", "xs": "list", "d": "dict"}
START = {"i": "1", "j": "4", "s": "'abc'", "xs": "[3, 1, 2]", "d": "{'k': 5}"}
EXCEPTIONS = ("ValueError", "TypeError", "KeyError", "ZeroDivisionError", "Error", "IndexError")
CAUGHT = ("Exception", *EXCEPTIONS, "LookupError", "(TypeError, Error)", "ArithmeticError")


@dataclasses.dataclass(frozen=True)
class Scope:
    """What may be written at a place."""

    depth: int = 0
    functions: tuple[str, ...] = ()
    generators: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ("i", "j")
    in_loop: bool = False
    in_function: bool = False
    in_generator: bool = False
    in_handler: bool = False

    def deeper(self, **changes: object) -> "Scope":
        return dataclasses.replace(self, depth=self.depth + 1, **changes)

    def inside(self, in_generator: bool = False) -> "Scope":
        """The scope in the body of a function defined here."""
        names = self.functions, self.generators, self.classes
        return Scope(self.depth + 1, *names, in_function=True, in_generator=in_generator)

    def with_variable(self, name: str) -> "Scope":
        return dataclasses.replace(self, numbers=(*self.numbers, name))


class Writer:
    """Writes one program, choice by choice. An empty tape makes the simplest choice."""

    def __init__(self, tape: bytes) -> None:
        self.tape = iter(tape)
        self.lines: list[str] = []
        self.counter = 0
        self.budget = 40  # statements in all

    # ---- choices ----

    def number(self, low: int, high: int) -> int:
        return low + next(self.tape, 0) % (high - low + 1)

    def pick(self, *options: str) -> str:
        return options[self.number(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        return self.number(0, 99) >= 100 - percent

    def one_of(self, shapes: list[Callable[[], str]]) -> str:
        return shapes[self.number(0, len(shapes) - 1)]()

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def emit(self, indent: int, line: str) -> None:
        self.lines.append("    " * indent + line)

    # ---- expressions ----

    def any(self, scope: Scope, level: int = 0) -> str:
        kinds = (self.num, self.text, self.list, self.dict, self.condition)
        return kinds[self.number(0, 4)](scope, level)

    def of_type(self, kind: str, scope: Scope) -> str:
        if self.chance(7):
            return self.any(scope)
        makers = {"number": self.num, "text": self.text, "list": self.list, "dict": self.dict}
        return makers[kind](scope)

    def num(self, scope: Scope, level: int = 0) -> str:
        if level >= 2 or not self.chance(70):
            return self.pick(*scope.numbers, str(self.number(-2, 9)))
        level += 1
        num = lambda: self.num(scope, level)
        shapes = [
            lambda: f"({num()} {self.pick('+', '-', '*', '//', '%', '&', '|', '^')} {num()})",
            lambda: f"({num()} if {self.condition(scope, level)} else {num()})",
            lambda: f"({self.pick('-', '+', '~')}{num()})",
            lambda: f"len({self.list(scope, level)})",
            lambda: f"xs[{num()}]",
            lambda: f"d[{self.pick(repr('k'), repr('k'), num())}]",
            lambda: f"sum({self.list(scope, level)})",
            lambda: f"({self.pick('i', 'j')} := {num()})",
            lambda: f"({num()} {self.pick('and', 'or')} {num()})",
            lambda: (
                f"(lambda v, *w, x={num()}: {self.num(scope.with_variable('v'), level)})({num()})"
            ),
            lambda: f"functools.reduce(lambda v, w: {num()} + w, {self.list(scope, level)}, 0)",
            lambda: f"max({num()}, {num()}, key=lambda v: {num()})",
            lambda: f"int({self.text(scope, level)})",
        ]
        if scope.functions:
            shapes += [lambda: self.call(self.pick(*scope.functions), num)] * 5
        if scope.generators:
            shapes += [lambda: f"next({self.pick(*scope.generators)}({num()}), 0)"] * 2
        if scope.classes:
            shapes += [lambda: f"{self.pick(*scope.classes)}({num()}).m({num()})"] * 3
            shapes += [lambda: f"({self.pick(*scope.classes)}({num()}) + {num()})"]
            shapes += [lambda: f"{self.pick(*scope.classes)}({num()}).{self.pick('x', 'y')}"]
        return self.one_of(shapes)

    def call(self, name: str, num: Callable[[], str]) -> str:
        shapes = ("({0})", "({0}, {1})", "(i={0})", "(*[{0}, {1}])", "({0}, j={1})", "()")
        return name + self.pick(*shapes).format(num(), num())

    def text(self, scope: Scope, level: int = 0) -> str:
        if level >= 2 or not self.chance(60):
            return self.pick("s", "'x'", "'12'", "''")
        level += 1
        return self.one_of(
            [
                lambda: f"({self.text(scope, level)} + {self.text(scope, level)})",
                lambda: f"str({self.num(scope, level)})",
                lambda: f"f'{{{self.pick('xs', 'd', 'j')}!r}} {{{self.pick('s', 'i')}:>4}}'",
                lambda: f"s[{self.num(scope, level)}:]",
                lambda: f"({self.text(scope, level)}).upper()",
                lambda: f"','.join(str(v) for v in {self.list(scope, level)})",
                lambda: f"('%s' % ({self.any(scope, level)},))",
            ]
        )

    def list(self, scope: Scope, level: int = 0) -> str:
        if level >= 2 or not self.chance(65):
            return self.pick("xs", "[1, 2]", "[]", "list(range(3))")
        level += 1
        inside = scope.with_variable("v")
        shapes = [
            lambda: f"[{self.num(scope, level)}, {self.num(scope, level)}]",
            lambda: f"[*{self.list(scope, level)}, {self.num(scope, level)}]",
            lambda: f"({self.list(scope, level)} + {self.list(scope, level)})",
            lambda: f"[{self.num(inside, level)} for v in {self.list(scope, level)}]",
            lambda: f"[v for v in {self.list(scope, level)} if {self.condition(inside, level)}]",
            lambda: f"[v + w for v in range(2) for w in {self.list(scope, level)}]",
            lambda: f"sorted({self.list(scope, level)}, key=lambda v: {self.num(inside, level)})",
            lambda: f"list(map(lambda v: {self.num(inside, level)}, {self.list(scope, level)}))",
            lambda: f"list({self.num(inside, level)} for v in {self.list(scope, level)})",
            lambda: f"xs[{self.num(scope, level)}:]",
            lambda: f"list({self.dict(scope, level)}.values())",
        ]
        if scope.generators:
            shapes += [
                lambda: f"list({self.pick(*scope.generators)}({self.num(scope, level)}))"
            ] * 4
        return self.one_of(shapes)

    def dict(self, scope: Scope, level: int = 0) -> str:
        if level >= 2 or not self.chance(60):
            return self.pick("d", "{'k': 1}", "{}")
        level += 1
        return self.one_of(
            [
                lambda: f"{{'k': {self.num(scope, level)}, 'm': {self.any(scope, level)}}}",
                lambda: f"{{**{self.dict(scope, level)}, 'n': {self.num(scope, level)}}}",
                lambda: f"{{v: {self.any(scope, level)} for v in {self.list(scope, level)}}}",
                lambda: f"({self.dict(scope, level)} | {self.dict(scope, level)})",
            ]
        )

    def condition(self, scope: Scope, level: int = 0) -> str:
        level += 1
        num = lambda: self.num(scope, level)
        return self.one_of(
            [
                lambda: f"{num()} {self.pick('<', '<=', '==', '!=', '>', '>=', 'is')} {num()}",
                lambda: f"{num()} < {num()} <= {num()}",
                lambda: f"{num()} {self.pick('in', 'not in')} {self.list(scope, level)}",
                lambda: f"not {self.any(scope, level)}" if level < 2 else "not i",
                lambda: self.list(scope, level),
                lambda: f"({num()} and {self.text(scope, level)})",
                lambda: f"'k' in {self.dict(scope, level)}",
            ]
        )

    # ---- statements ----

    def block(self, indent: int, scope: Scope, most: int = 3) -> None:
        for _ in range(self.number(1, most)):
            scope = self.statement(indent, scope)

    def statement(self, indent: int, scope: Scope) -> Scope:
        """Write one statement; returns the scope with what it defined."""
        self.budget -= 1
        simple = ["assign"] * 6 + ["log"] * 5 + ["unpack", "in_place", "store", "raise_", "delete"]
        if scope.in_loop:
            simple += ["break_", "continue_"]
        if scope.in_function and scope.depth:
            simple += ["return_"]
        if scope.in_generator:
            simple += ["yield_"] * 6
        if scope.in_handler:
            simple += ["reraise"]
        nested = ["if_", "for_", "while_", "try_", "try_", "try_", "with_", "match_"]
        if scope.depth < 2:
            nested += ["function", "function", "generator", "generator", "class_"]
        write_nested = self.budget > 0 and scope.depth < 4 and self.chance(55)
        kind = self.pick(*(nested if write_nested else simple))
        return getattr(self, kind)(indent, scope) or scope

    def assign(self, indent: int, scope: Scope) -> None:
        name = self.pick(*VARIABLES)
        self.emit(indent, f"{name} = small({self.of_type(VARIABLES[name], scope)})")

    def log(self, indent: int, scope: Scope) -> None:
        self.emit(indent, f"log(str({self.any(scope)}))")

    def unpack(self, indent: int, scope: Scope) -> None:
        target = self.pick("i, j", "i, *xs", "(i, j), s", "*xs, j", "i, d['k']")
        value = self.pick("(1, 2)", "[3, 4, 5]", "((6, 7), 'y')", self.list(scope))
        self.emit(indent, f"{target} = {value}")

    def in_place(self, indent: int, scope: Scope) -> None:
        name = self.pick(*VARIABLES)
        sign = {"number": self.pick("+=", "-=", "//=", "|="), "dict": "|="}.get(
            VARIABLES[name], "+="
        )
        self.emit(indent, f"{name} {sign} small({self.of_type(VARIABLES[name], scope)})")

    def store(self, indent: int, scope: Scope) -> None:
        target = self.pick("xs[0]", "d['k']", "xs[i]", "d[s]", "xs[:1]", "s[0]")
        self.emit(indent, f"{target} = small({self.any(scope)})")

    def delete(self, indent: int, scope: Scope) -> None:
        self.emit(indent, f"del {self.pick('xs[0]', 'xs[:1]', 'd', 's.x', 'd[s]', 'j')}")

    def raise_(self, indent: int, scope: Scope) -> None:
        cause = self.pick("", "", "", " from None", " from KeyError('cause')")
        self.emit(indent, f"raise {self.pick(*EXCEPTIONS)}({self.pick('i', 's', 'xs')}){cause}")

    def reraise(self, indent: int, scope: Scope) -> None:
        self.emit(indent, "raise")

    def break_(self, indent: int, scope: Scope) -> None:
        self.emit(indent, "break")

    def continue_(self, indent: int, scope: Scope) -> None:
        self.emit(indent, "continue")

    def return_(self, indent: int, scope: Scope) -> None:
        self.emit(indent, f"return {self.num(scope)}")

    def yield_(self, indent: int, scope: Scope) -> None:
        shape = self.pick("yield {}", "i = (yield {}) or 1", "yield from [{}]", "log((yield {}))")
        self.emit(indent, shape.format(self.num(scope)))

    def if_(self, indent: int, scope: Scope) -> None:
        self.emit(indent, f"if {self.condition(scope)}:")
        self.block(indent + 1, scope.deeper())
        if self.chance(30):
            self.emit(indent, f"elif {self.condition(scope)}:")
            self.block(indent + 1, scope.deeper())
        if self.chance(50):
            self.emit(indent, "else:")
            self.block(indent + 1, scope.deeper())

    def for_(self, indent: int, scope: Scope) -> None:
        target, source = self.pick("i", "j", "d['k']"), self.list(scope)
        if scope.generators and self.chance(50):
            source = f"{self.pick(*scope.generators)}({self.num(scope)})"
        elif self.chance(20):
            target, source = "i, s", "enumerate('xy')"
        self.emit(indent, f"for {target} in {source}:")
        self.emit(indent + 1, "tick()")
        self.block(indent + 1, scope.deeper(in_loop=True))
        self.loop_else(indent, scope)

    def while_(self, indent: int, scope: Scope) -> None:
        count = self.fresh("n")
        self.emit(indent, f"{count} = {self.number(1, 3)}")
        self.emit(indent, f"while {count} and {self.pick('True', self.condition(scope))}:")
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
                self.emit(indent + 1, "log((type(e), str(e), type(e.__context__)))")
            self.block(indent + 1, scope.deeper(in_handler=True))
        if handlers and self.chance(30):
            self.emit(indent, "else:")
            self.block(indent + 1, scope.deeper())
        if not handlers or self.chance(40):
            self.emit(indent, "finally:")
            self.emit(indent + 1, "log('finally')")
            self.block(indent + 1, scope.deeper(), 2)

    def with_(self, indent: int, scope: Scope) -> None:
        swallow, target = (
            self.pick("", ", True"),
            self.pick("", " as i", " as d['k']", " as (i, j)"),
        )
        second = self.pick("", "", ", CM('second')")
        self.emit(indent, f"with CM('{self.fresh('m')}'{swallow}){target}{second}:")
        self.block(indent + 1, scope.deeper())

    def match_(self, indent: int, scope: Scope) -> None:
        self.emit(indent, f"match {self.any(scope)}:")
        for _ in range(self.number(1, 3)):
            pattern = self.pick(
                "0 | 1", "[i, *xs]", "{'k': j, **d}", "str(s)", "[i, j]", "int() as j", "None"
            )
            guard = f" if {self.condition(scope)}" if self.chance(25) else ""
            self.emit(indent + 1, f"case {pattern}{guard}:")
            self.block(indent + 2, scope.deeper(), 2)

    # ---- definitions ----

    def function(self, indent: int, scope: Scope) -> Scope:
        name = self.fresh("f")
        parameters = self.pick(
            "i, j=2", "i=1, *p, j=3", "i=0, j=0, /, **p", "i, j=i", "*, i=1, j=2"
        )
        if self.chance(15):
            self.emit(indent, "@functools.cache")
        self.emit(indent, f"def {name}({parameters}):")
        self.body(indent + 1, scope.inside())
        self.emit(indent + 1, f"return {self.num(scope.inside())}")
        return dataclasses.replace(scope, functions=(*scope.functions, name))

    def generator(self, indent: int, scope: Scope) -> Scope:
        name = self.fresh("g")
        self.emit(indent, f"def {name}(i, j=1):")
        self.body(indent + 1, scope.inside(in_generator=True))
        self.emit(indent + 1, f"yield {self.num(scope.inside())}")
        return dataclasses.replace(scope, generators=(*scope.generators, name))

    def class_(self, indent: int, scope: Scope) -> Scope:
        name = self.fresh("C")
        base = self.pick("object", *scope.classes)
        self.emit(indent, f"class {name}({base}):")
        self.emit(indent + 1, f"x = {self.num(scope)}")
        self.emit(indent + 1, f"def __init__(self, i): self.x = i; log('{name}')")
        self.emit(indent + 1, "def m(self, i, j=2):")
        self.body(indent + 2, scope.inside())
        result = "super().m(i)" if base != "object" and self.chance(60) else "self.x + i"
        self.emit(indent + 2, f"return {result}")
        self.emit(
            indent + 1, f"def __add__(self, i): return {self.pick('self.x + i', 'self.m(i)')}"
        )
        self.emit(indent + 1, "@property")
        self.emit(indent + 1, f"def y(self): return {self.pick('self.x', 'self.z', 'self.x // 0')}")
        return dataclasses.replace(scope, classes=(*scope.classes, name))

    def body(self, indent: int, scope: Scope) -> None:
        """The variables of a new function (its own, those around it, the module's) and its code."""
        outer = [name for name in ("s", "xs", "d") if self.chance(35)]
        if outer:
            # An inner function could not say nonlocal to what is global around it.
            kind = self.pick("nonlocal", "global") if scope.depth >= 2 else "nonlocal"
            self.emit(indent, f"{kind} {', '.join(outer)}")
        for name in ("s", "xs", "d"):
            if name not in outer and not self.chance(5):
                self.emit(indent, f"{name} = {START[name]}")
        self.emit(indent, "tick()")
        self.block(indent, scope, 4)

    def program(self) -> str:
        self.emit(0, "def main(xs):")
        for name in ("i", "j", "s", "d"):
            self.emit(1, f"{name} = {START[name]}")
        scope = Scope(in_function=True)
        for kind in ("function", "generator", "class_"):
            if self.chance(50):
                scope = getattr(self, kind)(1, scope)
        for _ in range(self.number(2, 6)):
            if self.chance(30):  # an exception may leave the program here
                scope = self.statement(1, scope)
                continue
            self.emit(1, "try:")
            self.block(2, scope, 3)
            self.emit(1, "except Exception as e:")
            self.emit(2, "log((type(e), str(e), type(e.__context__)))")
        self.emit(1, "return i, j, s, xs, d")
        self.emit(0, "ARGS = ([1, 2, 3],)")
        return PRELUDE + "\n".join(self.lines) + "\n"


def programs() -> st.SearchStrategy[str]:
    return st.binary(min_size=300, max_size=1200).map(lambda tape: Writer(tape).program())
