"""The evaluator never touches a user object on its own behalf.

Invariant 4 of docs/architecture.md, as a lint rule.

Innocent-looking calls run user code: ``isinstance(x, dict)`` reads ``x.__class__``, ``len(x)``
calls ``x.__len__``, and either may print, raise or mutate. In the packages below such a call is
an error unless its line says that the object is one of ours:

    if isinstance(block, Block):  # own: blocks are made by the decoder

Use ``type(x) is C``, ``C in type(x).__mro__`` or a base type's own method (``dict.__len__(x)``)
for a user's object instead.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

PACKAGE: Final = Path(__file__).parents[1] / "src" / "stator"
CHECKED: Final = ("evaluator", "objects")
OWN: Final = re.compile(r"# own: \S")

# Each forbidden call, and what it may run.
RUNS_USER_CODE: Final = {
    "bool": "__bool__ or __len__",
    "callable": "__call__ next; decide by type(x)",
    "delattr": "__delattr__ and descriptors",
    "dir": "__dir__",
    "format": "__format__",
    "getattr": "__getattribute__, __getattr__ and descriptors",
    "hasattr": "__getattribute__, __getattr__ and descriptors",
    "hash": "__hash__",
    "isinstance": "__instancecheck__, or __class__ through __getattribute__",
    "issubclass": "__subclasscheck__, or __bases__",
    "iter": "__iter__ or __getitem__",
    "len": "__len__",
    "next": "__next__",
    "repr": "__repr__",
    "setattr": "__setattr__ and descriptors",
    "sorted": "__iter__ and __lt__",
    "str": "__str__ or __repr__",
    "vars": "__dict__ through __getattribute__",
}


class Finding(NamedTuple):
    line: int
    call: str

    def __str__(self) -> str:
        return (
            f"line {self.line}: {self.call}() may run a user's {RUNS_USER_CODE[self.call]}; "
            "use type(x) and the layout base's own methods, "
            "or add '# own: <why this object is ours>'"
        )


def findings(source: str) -> Iterator[Finding]:
    """Forbidden calls in a source text whose lines carry no '# own:' comment."""
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in RUNS_USER_CODE:
                covered = lines[node.lineno - 1 : node.end_lineno]
                if not OWN.search(covered[0]) and not OWN.search(covered[-1]):
                    yield Finding(node.lineno, name)


def checked_files() -> list[Path]:
    return sorted(path for name in CHECKED for path in (PACKAGE / name).rglob("*.py"))


@pytest.mark.parametrize("path", checked_files(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_user_object_is_touched(path: Path) -> None:
    found = sorted(findings(path.read_text()))
    assert not found, "\n".join([str(path), *map(str, found)])


def test_the_rule_finds_calls() -> None:
    source = "def f(x):\n    if isinstance(x, int):\n        return len(x)\n"
    assert sorted(findings(source)) == [(2, "isinstance"), (3, "len")]


def test_the_rule_accepts_a_reason() -> None:
    assert not list(findings("n = len(stack)  # own: the frame's value stack\n"))
    assert not list(findings("n = max(\n    len(stack),  # own: the frame's value stack\n    1)\n"))


@pytest.mark.parametrize("comment", ["# own", "# own:", "# own: ", "# ours"])
def test_the_rule_wants_a_reason(comment: str) -> None:
    assert list(findings(f"n = len(stack)  {comment}\n"))
