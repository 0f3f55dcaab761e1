"""The private names of torch in a piece of Python, and those that the door takes."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parents[2] / "src" / "stator"
DOOR: Final = PACKAGE / "torchlib"


def is_private(path: str) -> bool:
    """Whether a part of it begins with an underscore; `__dict__` and the like don't count."""
    parts = path.split(".")
    return any(part.startswith("_") and not part.endswith("__") for part in parts)


def bound(tree: ast.AST) -> Iterator[tuple[str, str, int]]:
    """(local name, path in torch, line) of everything that is imported from torch."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if _of_torch(alias.name):
                    path = alias.name if alias.asname else "torch"
                    yield alias.asname or "torch", path, node.lineno
                    yield "", alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and not node.level and _of_torch(node.module):
            for alias in node.names:
                path = f"{node.module}.{alias.name}"
                yield alias.asname or alias.name, path, node.lineno


def _of_torch(module: str | None) -> bool:
    return module is not None and module.split(".")[0] == "torch"


def used(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(path, line) of what is private of all that is named below torch, and of its attributes.

    A module that calls itself torch without an import, as in `torch = import_module("torch")`, is
    torch as well.
    """
    names = {"torch": "torch", "_torch": "torch"}
    for local, path, line in bound(tree):
        if local:
            names[local] = path
        if is_private(path):
            yield path, line
    inner: set[ast.AST] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Attribute) or node in inner:
            continue
        parts: list[str] = []
        step: ast.expr = node
        while isinstance(step, ast.Attribute):
            inner.add(step)
            parts.insert(0, step.attr)
            step = step.value
        if isinstance(step, ast.Name) and step.id in names:
            path = ".".join([names[step.id], *parts])
            if is_private(path):
                yield path, node.lineno


def taken() -> list[str]:
    """The paths of all private names that the door takes, in order."""
    found: set[str] = set()
    for file in sorted(DOOR.glob("*.py")):
        tree = ast.parse(file.read_text())
        found.update(path for path, _ in used(tree))
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                text = node.args[0].value
                if isinstance(text, str) and text.startswith("torch.") and is_private(text):
                    found.add(text)
            flag = node.value if isinstance(node, ast.Constant) else None
            if isinstance(flag, str) and flag.startswith(("_get_", "_set_")):  # in a table
                found.add(f"torch._C.{flag}")
    return sorted(found)


def attributes(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """(name, line) of private attributes of something else than `self`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            if not own and not node.attr.endswith("__"):
                yield node.attr, node.lineno


def defined(tree: ast.AST) -> Iterator[str]:
    """Names that a file gives to something of its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
