"""Names of a residual function's text: parameters, values, and the objects it refers to.

Stage: emit. Objects come in as free variables of the generated function, under names that say what
they are. Nothing is asked of them: names come from `type(x)` and C fields.
"""

from __future__ import annotations

import keyword
import math
import re
import unicodedata
from types import BuiltinFunctionType, CodeType, FunctionType, MethodWrapperType, ModuleType
from typing import Any, Final

from stator import objects
from stator.objects.types import name_of

_LIMIT: Final = 200  # longer constants come in by name


def literal(value: Any) -> str | None:
    """The constant as Python text that means the same, or None."""
    kind = type(value)
    if value is None or value is Ellipsis or kind is bool:
        return "..." if value is Ellipsis else repr(value)
    if kind is int:
        return repr(value) if -(10**18) < value < 10**18 else None
    if kind is float:
        return repr(value) if math.isfinite(value) else None
    if kind is str or kind is bytes:
        return repr(value) if len(value) <= _LIMIT else None
    if kind is tuple and not value:
        return "()"
    return None


def identifier(text: str) -> str:
    """A valid Python name that looks like the text."""
    text = unicodedata.normalize("NFKC", text)  # as the parser does
    name = re.sub(r"\W+", "_", text).strip("_") or "value"
    if not name.isidentifier() or keyword.iskeyword(name):
        name = f"_{name}"
    return name


def parameters(code: CodeType) -> list[str]:
    """The bound parameters of a code object, in co_varnames order."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    names = []
    for index, name in enumerate(code.co_varnames[:count]):
        usable = name.isidentifier() and not keyword.iskeyword(name)
        if not usable or unicodedata.normalize("NFKC", name) != name:
            name = f"local_{index}"  # a comprehension's is called `.0`
        names.append(name)
    return names


class Names:
    """The names in use, and the objects behind those that are not of values."""

    def __init__(self, taken: list[str]) -> None:
        self._taken = set(taken)
        self._known: dict[Any, str] = {}
        self.objects: dict[str, Any] = {}

    def fresh(self, wanted: str) -> str:
        """The wanted name, with a number if it is taken."""
        name, number = wanted, 1
        while name in self._taken:
            number += 1
            name = f"{wanted}_{number}"
        self._taken.add(name)
        return name

    def of(self, value: Any, wanted: str | None = None) -> str:
        """The name that stands for this very object."""
        key = same(value)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.fresh(identifier(wanted or describe(value)))
            self.objects[found] = value
        return found


def same(value: Any) -> Any:
    """Equal for the same object; a bound C slot such as `descriptor.__set__` is made when read."""
    if type(value) is MethodWrapperType:
        return value.__name__, id(value.__self__)
    return id(value)


def describe(value: Any) -> str:
    """A word for an object."""
    kind = type(value)
    if objects.is_subtype(kind, type):
        return str(name_of(value))
    if kind is FunctionType or kind is BuiltinFunctionType:
        return str(value.__name__)
    if kind is ModuleType:
        name = value.__dict__.get("__name__")
        return name if type(name) is str else "module"
    if kind is dict and type(value.get("__name__")) is str and "__builtins__" in value:
        return f"{value['__name__']}_globals"
    if kind is CodeType:
        return f"{value.co_name}_code"
    return str(name_of(kind)).lower()
