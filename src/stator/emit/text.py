"""From the text of a function to the function.

Stage: emit. In: text that defines one function, the objects it names, whose place it takes. Out:
the function. The objects are its free variables, so its globals can be those of the function it
stands for: C code and `sys._getframe` look at them.
"""

from types import CellType, CodeType, FunctionType
from typing import Any

from stator.effects.exits import Entry
from stator.emit.traceback import placed


def compiled(
    text: str, place: Entry, objects: dict[str, Any], *, namespace: dict[str, Any]
) -> FunctionType:
    """The function, named as at the place; all of it is on that line, if there is one."""
    lines = [f"def _({', '.join(objects)}):", *(f"    {line}" for line in text.splitlines())]
    code = compile("\n".join(lines), place.file, "exec", dont_inherit=True)
    for _ in range(2):
        (code,) = (const for const in code.co_consts if type(const) is CodeType)
    code = code.replace(co_name=place.name, co_qualname=place.qualname, co_firstlineno=1)
    if place.line:
        code = placed(code, place)
    cells = tuple(CellType(objects[name]) for name in code.co_freevars)
    return FunctionType(code, namespace, place.name, None, cells)
