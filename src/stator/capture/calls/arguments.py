"""Arguments of calls, in the forms in which they come.

Stage: capture, for `Calls`. In: a list with the names of the last ones, as an instruction has them,
or the parameters of a frame. Out: positional ones and a dict, or the list for another callable.
"""

import functools
from typing import Any

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame, is_python_class
from stator.objects.types import module_of, name_of
from stator.world.kinds import PLACEHOLDER


def split(args: list[Any], kwnames: tuple[str, ...] | None) -> tuple[list[Any], dict[str, Any]]:
    if not kwnames:
        return args, {}
    count = len(args) - len(kwnames)
    return args[:count], dict(zip(kwnames, args[count:], strict=True))


def pack(args: list[Any], kwnames: tuple[str, ...] | None) -> list[Any]:
    positional, keywords = split(args, kwnames)
    return [tuple(positional), keywords]


def unpack_partial(
    partial: Any, args: list[Any], kwnames: tuple[str, ...] | None, cls: type = functools.partial
) -> tuple[list[Any], tuple[str, ...] | None]:
    positional, keywords = split(args, kwnames)
    merged = {**field(cls, "keywords")(partial), **keywords}
    stored = _filled(field(cls, "args")(partial), positional)
    return [*stored, *merged.values()], tuple(merged) or None


def _filled(stored: tuple[Any, ...], given: list[Any]) -> list[Any]:
    """The positional arguments of a partial and those of a call, which fill its gaps (3.14+)."""
    gaps = sum(each is PLACEHOLDER for each in stored)
    if PLACEHOLDER is None or not gaps:
        return [*stored, *given]
    if len(given) < gaps:
        reason = f"expected at least {gaps}, got {len(given)}"
        core.raise_user(TypeError(f"missing positional arguments in 'partial' call; {reason}"))
    rest = iter(given)
    return [*(next(rest) if each is PLACEHOLDER else each for each in stored), *rest]


def field(cls: type, name: str) -> Any:
    """Reads a C field of an object, past attributes of its class."""
    return objects.type_dict(cls)[name].__get__


def is_functools_type(cls: type, name: str) -> bool:
    """Whether a type is this one of functools, perhaps made by a second import of `_functools`."""
    return not is_python_class(cls) and module_of(cls) == "functools" and name_of(cls) == name


def arguments_of(frame: Frame) -> tuple[list[Any], dict[str, Any]]:
    """The arguments with which a frame was called, from its parameters."""
    code = frame.code
    count = code.co_argcount
    args = [frame[index] for index in range(count)]
    position = count + code.co_kwonlyargcount
    kwargs = {code.co_varnames[i]: frame[i] for i in range(count, position)}
    if code.co_flags & 0x04:
        args += frame[position]
        position += 1
    if code.co_flags & 0x08:
        kwargs.update(frame[position])
    return args, kwargs
