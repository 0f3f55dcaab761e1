"""From the text of a function to the function.

Stage: emit. In: text that defines one function, the objects it names, whose place it takes. Out:
the function. The objects are its free variables, so its globals can be those of the function it
stands for: C code and `sys._getframe` look at them.
"""

import ast
from types import CellType, CodeType, FunctionType
from typing import Any

from stator.effects.exits import Entry
from stator.emit.traceback import placed


def compiled(
    text: str,
    place: Entry,
    objects: dict[str, Any],
    *,
    namespace: dict[str, Any],
    first: int = 1,
    failed: str | None = None,
) -> FunctionType:
    """The function, named as at the place; all of it is on that line, if there is one.

    `first` is the line on which the text begins in its file. If the first statement raises, the
    object of the name `failed` is called before the exception goes on.
    """
    tree = ast.parse(f"def _({', '.join(objects)}): pass")
    outer: Any = tree.body[0]
    outer.body = ast.parse(text).body
    (function,) = outer.body
    ast.increment_lineno(function, first - 1)
    if failed is not None:
        _watch(function, failed)
    code = compile(tree, place.file, "exec", dont_inherit=True)
    for _ in range(2):
        (code,) = (const for const in code.co_consts if type(const) is CodeType)
    code = code.replace(co_name=place.name, co_qualname=place.qualname)
    if place.line:
        code = placed(code, place)
    cells = tuple(CellType(objects[name]) for name in code.co_freevars)
    return FunctionType(code, namespace, place.name, None, cells)


def _watch(function: Any, failed: str) -> None:
    """`try: …; except: failed(); raise` around the first statement, without a line of its own.

    It costs nothing as long as nothing is raised.
    """
    statement = function.body[0]
    call = ast.Expr(ast.Call(ast.Name(failed, ast.Load()), [], []))
    handler = ast.ExceptHandler(None, None, [call, ast.Raise()])
    watched: Any = ast.Try([statement], [handler], [], [])
    for node in (watched, *ast.walk(handler)):
        ast.copy_location(node, statement)
    function.body[0] = watched
