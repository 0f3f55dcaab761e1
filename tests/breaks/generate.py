"""Random programs: trees of statements, rendered as Python text.

Comes in: a seed. Goes out: a `Program`, functions over tensors, ints, lists, dicts and an object,
with loops, conditions, `with`, `try`, closures and calls. A break can be put before any of its
statements, and a program that fails can be made smaller by taking statements out.

Every variable that a statement reads is bound at the start of its function, so a program stays
valid whichever statements are left out.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

BREAK: Final = "stator.graph_break()"
_TENSORS: Final = ("x", "y", "z")
_NUMBERS: Final = ("i", "j")
_BOUND: Final = (
    "y, z, i, j, items, table = x + 1, x * 2, n, 1, [x, n], {'a': x}",
    "y, z, i, j, items, table = x * n, x.flip(0), 2, n + 1, [n], {}",
)


@dataclass(eq=False)
class Node:
    """One statement: its head, and blocks with further heads (`else:`, `except …:`)."""

    head: str
    block: list["Node"] | None = None
    rest: list[tuple[str, list["Node"]]] = field(default_factory=list)
    kept: bool = False  # part of the frame of a function: not to be taken out

    def blocks(self) -> Iterator[list["Node"]]:
        if self.block is not None:
            yield self.block
        yield from (block for _, block in self.rest)

    def lines(self, indent: str = "") -> Iterator[str]:
        yield f"{indent}{self.head}"
        if self.block is not None:
            yield from _block(self.block, indent)
        for head, block in self.rest:
            yield f"{indent}{head}"
            yield from _block(block, indent)


def _block(nodes: list[Node], indent: str) -> Iterator[str]:
    if not nodes:
        yield f"{indent}    pass"
    for node in nodes:
        yield from node.lines(indent + "    ")


@dataclass(eq=False)
class Program:
    """Functions; the last one is called `main`."""

    functions: list[Node]

    @property
    def text(self) -> str:
        return "\n".join(line for node in self.functions for line in node.lines()) + "\n"

    def places(self) -> list[tuple[list[Node], int]]:
        """Where a statement stands: its block and its index there."""
        found: list[tuple[list[Node], int]] = []

        def walk(node: Node) -> None:
            for block in node.blocks():
                for index, child in enumerate(block):
                    found.append((block, index))
                    walk(child)

        for function in self.functions:
            walk(function)
        return found

    def smaller(self, fails: Callable[["Program"], bool]) -> "Program":
        """Without the statements that are not needed to fail."""
        changed = True
        while changed:
            changed = False
            for block, index in reversed(self.places()):
                if index >= len(block) or block[index].kept or block[index].head == BREAK:
                    continue
                node = block.pop(index)
                if fails(self):
                    changed = True
                    continue
                inner = next(iter(node.blocks()), None)
                if inner:  # what is inside, without what is around it
                    block[index:index] = inner
                    if fails(self):
                        changed = True
                        continue
                    del block[index : index + len(inner)]
                block.insert(index, node)
        return self


class Generator:
    """Makes the statements of one program."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.helpers: list[str] = []
        self.names = 0

    def program(self) -> Program:
        functions = []
        for number in range(self.random.choice((0, 1, 1, 2))):
            name = f"helper_{number}"
            functions.append(self.function(f"def {name}(x, n):", 2, 1))
            self.helpers.append(name)
        functions.append(self.function("def main(x, n):", self.random.randrange(3, 5), 2))
        return Program(functions)

    def function(self, head: str, size: int, depth: int) -> Node:
        body = [Node("global COUNT", kept=True), Node(self.random.choice(_BOUND), kept=True)]
        body += self.body(size, depth, False)
        result = "x + y * z + i - j + len(items) + len(table)"
        if head.startswith("def main"):
            result = "x, y, z, i, j, items, table"
        body.append(Node(f"return {result}", kept=True))
        return Node(head, body, kept=True)

    def body(self, size: int, depth: int, loop: bool) -> list[Node]:
        return [node for _ in range(size) for node in self.statement(depth, loop)]

    # ---- expressions

    def tensor(self) -> str:
        pick = self.random.choice
        a, b = pick(_TENSORS), pick(_TENSORS)
        return pick(
            (
                f"{a} + {self.number()}",
                f"{a} * {b}",
                f"{a} - {b}",
                f"{a}.flip(0)",
                f"torch.sin({a})",
                f"torch.where({a} > 0, {a}, {b})",
                f"{a}.clamp(-3, 3)",
                f"{a}[:1] + {b}",
            )
        )

    def number(self) -> str:
        pick = self.random.choice
        a = pick(_NUMBERS)
        return pick(
            (
                str(self.random.randrange(4)),
                a,
                f"{a} + 1",
                f"{a} * 2 % 5",
                "len(items)",
                "len(table)",
                f"max({a}, 1)",
                "COUNT",
            )
        )

    def value(self) -> str:
        return self.tensor() if self.random.random() < 0.6 else self.number()

    def condition(self) -> str:
        pick = self.random.choice
        return pick(
            (
                f"{self.number()} > 1",
                f"{self.number()} % 2",
                "items",
                "'a' in table",
                f"type(items[-1:]) is list and {self.number()}",
            )
        )

    def fresh(self, name: str) -> str:
        self.names += 1
        return f"{name}_{self.names}"

    # ---- statements

    def statement(self, depth: int, loop: bool) -> list[Node]:
        simple = [self.assign, self.number_assign, self.change, self.change, self.call, self.state]
        deep = [self.condition_statement, self.for_loop, self.while_loop, self.with_statement]
        deep += [self.try_statement, self.closure, self.comprehension]
        if depth > 0 and self.random.random() < 0.45:
            made: Callable[..., list[Node]] = self.random.choice(deep)
            return made(depth - 1, loop)
        return [Node(self.random.choice(simple)())]

    def assign(self) -> str:
        return f"{self.random.choice(_TENSORS)} = {self.tensor()}"

    def number_assign(self) -> str:
        name = self.random.choice(_NUMBERS)
        symbol = self.random.choice(("=", "+=", "-="))
        return f"{name} {symbol} {self.number()}"

    def change(self) -> str:
        pick = self.random.choice
        return pick(
            (
                f"items.append({self.value()})",
                f"items[:1] = [{self.value()}, {self.value()}]",
                f"items = items[-2:] + [{self.value()}]",
                f"table[{pick('abc')!r}] = {self.value()}",
                f"table.pop({pick('abc')!r}, None)",
                f"table.setdefault({pick('abc')!r}, []).__class__",
                f"{pick(_TENSORS)}.add_({self.number()})",
                "x, y = y, x",
                "items, table = list(table.values()), dict.fromkeys('ab', x)",
                "del items[1:]",
            )
        )

    def call(self) -> str:
        pick = self.random.choice
        target = pick(_TENSORS)
        calls = [
            f"{target} = OBJECT.method({self.tensor()}, {self.number()})",
            f"{target} = scaled({self.tensor()}, by={self.number()})",
            f"i = sum(range({self.number()} % 4), {self.number()}) % 7",
            f"{target} = (lambda a, b=i: a + b)({self.tensor()})",
            f"{target} = {target} + OBJECT.scale",
        ]
        if self.helpers:
            helper = pick(self.helpers)
            inner = f"{helper}({self.tensor()}, {self.number()})"
            calls += [f"{target} = {inner}", f"{target} = {self.tensor()} + {inner} * {inner}"]
        return pick(calls)

    def state(self) -> str:
        pick = self.random.choice
        return pick(
            (
                f"LOG.append({self.value()})",
                "COUNT += 1",
                f"OBJECT.value = {self.value()}",
                f"OBJECT.items.append({self.number()})",
                f"print('at', {self.number()})",
                f"assert {self.number()} != 99",
            )
        )

    def condition_statement(self, depth: int, loop: bool) -> list[Node]:
        node = Node(f"if {self.condition()}:", self.body(2, depth, loop))
        if self.random.random() < 0.5:
            node.rest.append(("else:", self.body(1, depth, loop)))
        return [node]

    def for_loop(self, depth: int, loop: bool) -> list[Node]:
        name = self.fresh("k")
        over = self.random.choice(("range(2)", "list(items)[:2]", "enumerate('ab')", "(1, 2)"))
        body = self.body(self.random.randrange(1, 3), depth, True)
        if self.random.random() < 0.3:
            jump = self.random.choice(("break", "continue"))
            leaves = Node(f"if {self.condition()}: {jump}")
            body.insert(self.random.randrange(len(body) + 1), leaves)
        node = Node(f"for {name} in {over}:", body)
        if self.random.random() < 0.2:
            node.rest.append(("else:", self.body(1, depth, loop)))
        return [node]

    def while_loop(self, depth: int, loop: bool) -> list[Node]:
        name = self.fresh("w")
        step = Node(f"{name} += 1", kept=True)
        loop_node = Node(f"while {name} < 2:", [step, *self.body(1, depth, True)])
        return [Node(f"{name} = 0", kept=True), loop_node]

    def with_statement(self, depth: int, loop: bool) -> list[Node]:
        manager = self.random.choice(
            (
                "Manager('m')",
                "Manager('s', True)",
                "torch.no_grad()",
                "contextlib.suppress(KeyError)",
                "contextlib.nullcontext()",
            )
        )
        body = self.body(2, depth, loop)
        if "'s'" in manager or "suppress" in manager:
            body.append(Node(f"if {self.condition()}: raise KeyError(i)"))
        return [Node(f"with {manager}:", body)]

    def try_statement(self, depth: int, loop: bool) -> list[Node]:
        body = self.body(1, depth, loop)
        body.append(Node(f"if {self.condition()}: raise KeyError({self.number()})"))
        body += self.body(1, depth, loop)
        node = Node("try:", body)
        if self.random.random() < 0.7:
            handler = self.body(1, depth, loop)
            handler.append(Node("LOG.append(error.args)"))
            if self.random.random() < 0.2:
                handler.append(Node(f"if {self.condition()}: raise"))
            node.rest.append(("except KeyError as error:", handler))
        if not node.rest or self.random.random() < 0.4:
            node.rest.append(("finally:", self.body(1, depth, False)))
        return [node]

    def closure(self, depth: int, loop: bool) -> list[Node]:
        name = self.fresh("inner")
        owned = self.random.choice(_NUMBERS)
        body = [Node(f"nonlocal {owned}", kept=True), *self.closure_body(owned)]
        body.append(Node(f"return a + {owned}", kept=True))
        calls = Node(f"{self.random.choice(_TENSORS)} = {name}({self.tensor()}) + {name}(x)")
        return [Node(f"def {name}(a):", body, kept=True), calls]

    def closure_body(self, owned: str) -> list[Node]:
        pick = self.random.choice
        choices = (f"{owned} += 1", "a = a * 2", f"a = a + {owned}", "LOG.append(1)", "a.mul_(2)")
        return [Node(pick(choices)) for _ in range(2)]

    def comprehension(self, depth: int, loop: bool) -> list[Node]:
        texts = (
            f"items = [{self.tensor()} for _ in range(2)]",
            "items = [a for a in items if a is not None]",
            f"table = {{str(a): {self.tensor()} for a in range(2)}}",
            f"i = sum([a * {self.number()} for a in range(3)]) % 5",
        )
        return [Node(self.random.choice(texts))]


def generate(seed: int) -> Program:
    """A program, the same for the same seed."""
    return Generator(seed).program()


def with_break(seed: int, place: int) -> Program:
    """A program with a break before its statement of this number."""
    made = generate(seed)
    block, index = made.places()[place]
    if block[index].head.startswith(("global", "nonlocal")):
        index += 1
    block.insert(index, Node(BREAK))
    return made
