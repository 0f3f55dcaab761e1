"""The text of functions: what to show around a line of the program.

Stage: diagnostics. In: a file and a line. Out: the `Block` of lines that the innermost function
around it is made of. Files are parsed once, and only when somebody wants to see them.
"""

import ast
import linecache
from functools import lru_cache
from typing import Final, NamedTuple

_HOLDERS: Final = (ast.stmt, ast.excepthandler, ast.match_case)  # in which a `def` can be
_AROUND: Final = 3  # lines before and after one that is in no function


class Block(NamedTuple):
    """Lines of a file, one function as a rule."""

    file: str
    first: int
    name: str
    """Of the function, with those around it; empty if it is in none."""
    lines: tuple[str, ...]


class _Extent(NamedTuple):
    first: int
    last: int
    name: str


def block(file: str, line: int) -> Block | None:
    """What is around a line; None if the file can't be read."""
    text = linecache.getlines(file)
    if not 0 < line <= len(text):
        return None
    around = [each for each in _extents(file) if each.first <= line <= each.last]
    found = max(around, key=lambda each: each.first, default=None)
    if found is None:
        found = _Extent(max(line - _AROUND, 1), min(line + _AROUND, len(text)), "")
    lines = tuple(each.rstrip() for each in text[found.first - 1 : found.last])
    return Block(file, found.first, found.name, lines)


@lru_cache(maxsize=64)
def _extents(file: str) -> tuple[_Extent, ...]:
    """Where the functions of a file begin and end, with their decorators."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError, RecursionError):  # a notebook with commands of its own
        return ()
    found: list[_Extent] = []
    pending: list[tuple[ast.AST, str]] = [(tree, "")]
    while pending:
        node, outer = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{outer}{node.name}"
            outer = f"{name}."
            if not isinstance(node, ast.ClassDef):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                found.append(_Extent(first, node.end_lineno or node.lineno, name))
        inside = (child for child in ast.iter_child_nodes(node) if isinstance(child, _HOLDERS))
        pending += ((child, outer) for child in inside)
    return tuple(found)
