"""What the frames of a program lead to.

In: frames of the evaluator, objects. Out: their variables, and what an object refers to, as the
garbage collector tells; without what leads to the tracer itself, or to all of the world.
"""

import gc
import types
from collections.abc import Iterator
from typing import Any, Final

from stator import objects
from stator._native._core import Frame
from stator.objects.types import module_of

_OURS: Final = ("stator.", "torch")
_ENDS: Final = objects.TypeSet(
    *(types.ModuleType, types.FrameType, types.TracebackType, types.CodeType, Frame),
    *(types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType),
)


def variables(frame: Frame) -> Iterator[tuple[int, Any]]:
    """The slots of a frame that hold something."""
    code = frame.code
    inner = sum(name not in code.co_varnames for name in code.co_cellvars)
    for index in range(len(code.co_varnames) + inner + len(code.co_freevars)):
        try:
            yield index, frame[index]
        except (IndexError, UnboundLocalError, NameError):
            continue


def parts(value: Any) -> list[Any]:
    cls = type(value)
    if module_of(cls).startswith(_OURS) or _ENDS.holds(cls) or objects.is_subtype(cls, type):
        return []
    if cls is types.FunctionType:  # not its globals
        return [value.__closure__, value.__defaults__, value.__kwdefaults__, value.__dict__]
    return gc.get_referents(value)
