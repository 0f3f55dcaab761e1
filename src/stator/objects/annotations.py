"""Annotations of functions, which are made when they are first asked for (3.14+).

Stage: objects. In: a function. Out: the function that makes its annotations, and whether that has
been called: after that they are kept in a dict, and to ask for them runs no code of the program.
"""

import gc
from types import FunctionType
from typing import Any, Final

from stator.objects.layout import instance_dict
from stator.objects.types import is_subtype

_ANNOTATE: Final[Any] = FunctionType.__dict__.get("__annotate__")
_BUILTINS: Final[Any] = FunctionType.__dict__["__builtins__"]


def annotate_of(function: FunctionType) -> Any:
    """What makes the annotations; None if nothing has to, as before 3.14."""
    return None if _ANNOTATE is None else _ANNOTATE.__get__(function)


def are_made(function: FunctionType) -> bool:
    """Whether a function has its annotations.

    Nothing but the collector tells: they are a dict that a function refers to, besides its others.
    """
    if annotate_of(function) is None:
        return True
    others = (
        function.__globals__,
        _BUILTINS.__get__(function),
        function.__kwdefaults__,
        instance_dict(function),
    )
    known = {id(each) for each in others}
    referents = gc.get_referents(function)
    return any(is_subtype(type(each), dict) and id(each) not in known for each in referents)


def copy_annotations(function: FunctionType, made: FunctionType) -> None:
    """Another function has the same annotations; nobody asks for them here."""
    annotate = annotate_of(function)
    if annotate is None:
        made.__annotations__ = function.__annotations__
    else:
        _ANNOTATE.__set__(made, annotate)
