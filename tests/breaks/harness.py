"""The oracle of the break tests: a program that is split, against the same in eager.

Comes in: constructs, ordinary functions that say `BREAK(e)` where they are to be split. Goes out:
for each kind of break and each depth a `Split`, the construct with the break put in, which `check`
compares with eager (results, effects, exceptions, output, torch's state), and of which it claims
how much was captured: how many graphs, nothing run as it is, nothing compiled in a second call.
"""

import ast
import collections
import contextlib
import copy
import difflib
import functools
import io
import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, Final

import pytest

from tests.capture.harness import (
    Make,
    MismatchError,
    Outcome,
    Program,
    Recording,
    call,
    compile_with,
    module,
    reset_engine,
    t,
)

from . import kinds

WHOLE: Final = "runs eagerly"  # in the warning of what could not be split
SEEDS: Final = (1, 2, 3)
FULL: Final = "STATOR_FUZZ" in os.environ
# `if tensor:` is a break of its own, and runs these.
_CONVERSIONS: Final = frozenset({"aten::is_nonzero", "aten::_local_scalar_dense"})


def one() -> tuple[Any, ...]:
    """Arguments for most constructs: one small tensor."""
    return (t(3),)


@dataclass(frozen=True, eq=False)
class Construct:
    """A function with `BREAK`s, and what is claimed about it.

    `whole`: it can't be split where the break is, so that the trace ends earlier or not at all.
    `anew`: it makes things that guards can only know by identity, and is compiled again and again.
    `graphs`: how many there are, for kinds of break that leave no operator outside of graphs.
    """

    fn: FunctionType
    make: Make = one
    graphs: int | None = None
    whole: bool = False
    anew: bool = False
    reset: Callable[[], object] | None = None
    world: Callable[[], object] | None = None
    backward: bool = False

    @property
    def name(self) -> str:
        return self.fn.__name__


class Constructs(list[Construct]):
    """Those of one file: `@constructs(…)` adds the function below it."""

    def __call__(self, make: Make = one, **claims: Any) -> Callable[[Any], Any]:
        def add(fn: Any) -> Any:
            self.append(Construct(fn, make, **claims))
            return fn

        return add

    def cases(self) -> list[Any]:
        """Parameters: constructs with kinds of breaks at depths.

        All of them with STATOR_FUZZ; else each construct with `graph_break` and every third of the
        other kinds, at changing depths, so that three constructs in a row go through all of them.
        """
        found = []
        for index, construct in enumerate(self):
            for number, kind in enumerate(kinds.KINDS):
                depths: tuple[int, ...] = kinds.DEPTHS
                if not FULL:
                    if number and (index + number) % 3:
                        continue
                    depths = ((index // 3 + number) % 4,)
                found += [
                    pytest.param(construct, kind, depth, id=f"{construct.name}-{kind}-{depth}")
                    for depth in depths
                ]
        return found


# ------------------------------------------------------------------ putting breaks in


class _Insert(ast.NodeTransformer):
    """Replaces `BREAK(e)` by a kind's expression, or by a call of the function that has it."""

    def __init__(self, kind: str, depth: int) -> None:
        self.kind = kind
        self.depth = depth

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not (isinstance(node.func, ast.Name) and node.func.id == kinds.BREAK.__name__):
            return node
        text = kinds.EXPRESSIONS[self.kind]
        if self.depth:
            text = f"kinds.{self.kind}_{self.depth}(E)"
        made = _Fill(node.args[0]).visit(ast.parse(text, mode="eval").body)
        for each in ast.walk(made):
            ast.copy_location(each, node)
        return made  # type: ignore[no-any-return]


class _Fill(ast.NodeTransformer):
    def __init__(self, operand: ast.expr) -> None:
        self.operand = operand

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return copy.deepcopy(self.operand) if node.id == "E" else node


@functools.cache
def variant(module: str, kind: str, depth: int) -> dict[str, Construct]:
    """The constructs of a file with breaks put in: all of it once more, with the same lines."""
    found = sys.modules[module]
    file = found.__file__
    assert file is not None
    tree = ast.parse(Path(file).read_text(), file)
    tree.body = [step for step in tree.body if not _is_test(step)]
    tree = ast.fix_missing_locations(_Insert(kind, depth).visit(tree))
    namespace = {"__name__": module, "__package__": found.__package__, "__file__": file}
    exec(compile(tree, file, "exec", dont_inherit=True), namespace)
    constructs: Any = namespace["constructs"]
    return {construct.name: construct for construct in constructs}


def _is_test(step: ast.stmt) -> bool:
    return isinstance(step, ast.FunctionDef) and step.name.startswith("test_")


def program(construct: Construct, kind: str, depth: int) -> Program:
    """A construct with breaks of one kind, as a program of the capture tests."""
    construct = variant(construct.fn.__module__, kind, depth)[construct.name]

    def reset() -> None:
        kinds.reset()
        if construct.reset is not None:
            construct.reset()

    def world() -> list[object]:
        return [*kinds.world(), construct.world() if construct.world is not None else None]

    return Program(
        f"{construct.name}-{kind}-{depth}",
        construct.fn,
        construct.make,
        reset=reset,
        world=world,
        backward=construct.backward,
    )


# ------------------------------------------------------------------ the comparison


def run(
    program: Program, fn: Callable[..., Any], seed: int, tape: list[str] | None = None
) -> Outcome:
    """Everything a call does, with what it prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        outcome = call(program, fn, seed, tape=tape)
    lines = [f"printed {line}" for line in printed.getvalue().splitlines()]
    return Outcome(outcome.lines + lines, outcome.error)


@dataclass(frozen=True)
class Work:
    """What a compiled function has done so far: equal before and after a call that only hits."""

    graphs: int
    continuations: int
    compiles: int


class Check:
    """One program, called until nothing new is compiled."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.backend = Recording()
        reset_engine()
        self.compiled: Any = compile_with(program.fn, backend=self.backend)
        self.warned: list[str] = []
        self.eager: dict[int, list[str]] = {}

    def work(self) -> Work:
        continuations = self.compiled.miss.ledger.continuations
        functions = [self.compiled, *continuations.all()]
        compiles = sum(len(each.miss.ledger.compilations) for each in functions)
        return Work(len(self.backend.graphs), len(continuations), compiles)

    def expected(self, seed: int) -> list[str]:
        if seed not in self.eager:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.eager[seed] = run(self.program, self.program.fn, seed).lines
        return self.eager[seed]

    def agree(self, what: str, seed: int, tape: list[str] | None = None) -> None:
        """A compiled call sees and does what eager does."""
        expected = self.expected(seed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = run(self.program, self.compiled, seed, tape)
        self.warned += (text for each in caught if WHOLE in (text := str(each.message)))
        if found.lines != expected:
            diff = difflib.unified_diff(expected, found.lines, "eager", "compiled", "", "", 2)
            raise MismatchError(self.message(f"{what} differs", diff)) from found.error

    def hits(self, what: str, seed: int, anew: bool) -> list[str]:
        """A call that compiles nothing; answers the operators that ran outside of graphs."""
        before = self.work()
        self.backend.tape.clear()
        tape: list[str] = []
        self.agree(what, seed, tape)
        if self.work() != before and not anew:
            text = f"{what} was compiled anew: {before}, then {self.work()}"
            raise MismatchError(self.message(text, self.reasons()))
        inside = collections.Counter(self.backend.tape)
        outside = (collections.Counter(tape) - inside).elements()
        return [name for name in outside if name not in _CONVERSIONS]

    def run(self, *, complete: bool, values: bool, claims: Construct) -> None:
        """`complete`: all operators of eager are in graphs.

        `values`: what has turned out to vary is compiled once more, for calls of before.
        """
        self.agree("the first call", SEEDS[0])
        if self.warned and not claims.whole:
            raise MismatchError(self.message("was not split", self.warned))
        graphs = len(self.backend.graphs)
        if complete and claims.graphs not in (None, graphs):
            text = f"{graphs} graphs, not {claims.graphs}"
            raise MismatchError(self.message(text, self.backend.codes))
        outside = self.hits("the same call again", SEEDS[0], claims.anew)
        if complete and not claims.whole and outside:
            text = f"operators ran outside of graphs: {outside}"
            raise MismatchError(self.message(text, self.backend.codes))
        for seed in SEEDS[1:]:
            self.agree(f"call {seed}", seed)
        for seed in SEEDS * 3 if values else ():
            self.agree(f"call {seed} once more", seed)
        for seed in SEEDS[:2]:
            self.hits(f"call {seed} again", seed, claims.anew)

    def reasons(self) -> list[str]:
        functions = [self.compiled, *self.compiled.miss.ledger.continuations.all()]
        return [str(why) for each in functions for why in each.miss.ledger.recompiles]

    def message(self, text: str, details: Any) -> str:
        return "\n".join([f"{self.program.name}: {text}", *details])


# Kinds that leave nothing but the break itself outside of graphs.
COMPLETE: Final = ("graph_break", "store", "call", "instruction")
# Kinds that are decided by values.
VALUES: Final = ("branch", "truth", "index", "float", "length")


def check(construct: Construct, kind: str, depth: int) -> None:
    """A construct with one kind of break agrees with eager, and is captured as claimed."""
    made = program(construct, kind, depth)
    try:
        Check(made).run(complete=kind in COMPLETE, values=kind in VALUES, claims=construct)
    finally:
        assert made.reset is not None
        made.reset()


__all__ = ["Constructs", "check", "module", "t"]
