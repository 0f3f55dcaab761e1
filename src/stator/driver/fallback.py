"""Entries that run a function as it is.

Stage: driver. In: a function of which one path can't be captured. Out: the target of the entry for
that path, which dispatch calls with the bound parameters.
"""

from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, Final

_VARIADIC: Final = 0x04
_NAMED: Final = 0x08


def is_plain(function: FunctionType) -> bool:
    """Whether the function itself can be the target.

    Other functions made from its code must do the same: their cells would be different ones.
    """
    return is_bound_as_given(function.__code__) and function.__closure__ is None


def is_bound_as_given(code: CodeType) -> bool:
    """Whether bound parameters are the positional arguments of a call."""
    return not (code.co_kwonlyargcount or code.co_flags & (_VARIADIC | _NAMED))


def unbinding(code: CodeType) -> Callable[..., Any]:
    """What calls a function of this code, which dispatch has fetched, with bound parameters."""
    count, keywords = code.co_argcount, code.co_kwonlyargcount
    variadic, named = code.co_flags & _VARIADIC, code.co_flags & _NAMED
    names = code.co_varnames[count : count + keywords]

    def call(fetched: tuple[Callable[..., Any]], *bound: Any) -> Any:
        position = count + keywords
        args = bound[:count]
        kwargs = dict(zip(names, bound[count:position], strict=True))
        if variadic:
            args += bound[position]
            position += 1
        if named:
            kwargs.update(bound[position])
        try:
            return fetched[0](*args, **kwargs)
        except BaseException as error:
            hide_frame(error)
            raise

    return call


def hide_frame(error: BaseException) -> None:
    """The frame that has just caught it is no part of the program. A bare `raise` does not enter
    it again.
    """
    traceback = error.__traceback__
    assert traceback is not None
    error.__traceback__ = traceback.tb_next
