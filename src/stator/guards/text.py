"""How objects are shown in paths and explanations: never by a user's `__repr__`.

Stage: guards.
"""

from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, Final

from stator.objects.types import qualname_of

LIMIT: Final = 80
PLAIN: Final = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis), range)
FROM_TORCH: Final = frozenset({"dtype", "device", "Size", "layout", "memory_format"})


def show(value: Any) -> str:
    """A short text for any object; its own __repr__ is used only where that is C code."""
    text = full(value)
    return text if len(text) <= LIMIT else text[: LIMIT - 1] + "…"


def full(value: Any) -> str:
    kind = type(value)
    if kind in PLAIN:
        return repr(value)
    if kind is tuple:
        inner = ", ".join(map(show, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if kind is frozenset:
        return f"frozenset({{{', '.join(map(show, value))}}})"
    if kind is slice:
        return f"slice({', '.join(map(show, (value.start, value.stop, value.step)))})"
    if kind.__module__ == "torch" and kind.__name__ in FROM_TORCH:
        return repr(value)
    if type in kind.__mro__:
        return f"class {qualname_of(value)}"
    if kind is FunctionType or kind is BuiltinFunctionType:
        return f"function {value.__qualname__}"
    if kind is ModuleType:
        return f"module {value.__dict__.get('__name__')}"  # which may be deleted
    if kind is WrapperDescriptorType or kind is MethodDescriptorType:
        return f"method {value.__objclass__.__qualname__}.{value.__name__}"
    if kind is CodeType:
        return f"code of {value.co_qualname}, line {value.co_firstlineno}"
    return f"<{kind.__qualname__} object at {id(value):#x}>"
