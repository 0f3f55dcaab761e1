"""What a call is like that runs as it is: sizes and numbers in its arguments.

Stage: driver. In: the bound parameters of a call that nothing is compiled for yet. Out: guards as a
trace would make them, of which `Dynamics` learns what changes with the next call. They are compared
and never checked by dispatch, and keep nothing of the call alive.
"""

from collections.abc import Iterator
from types import CodeType
from typing import Any, Final

import torch

from stator.guards import Equal, Guard, Index, Key, Local, Source
from stator.guards.tensors import tensor_match

_DEEPEST: Final = 4
_TENSORS: Final = frozenset({torch.Tensor, torch.nn.Parameter})
_NUMBERS: Final = frozenset({int, float})
_ORDERED: Final = frozenset({tuple, list})


def notice(code: CodeType, bound: tuple[Any, ...]) -> tuple[Guard, ...]:
    """What is known of a call's arguments, and of what plain containers among them hold."""
    return tuple(
        guard
        for index, value in enumerate(bound)
        for guard in _noticed(value, Local(index, code.co_varnames[index]), _DEEPEST)
    )


def _noticed(value: Any, source: Source, depth: int) -> Iterator[Guard]:
    kind = type(value)  # no subclasses: they may answer in Python
    if kind in _NUMBERS:
        yield Guard(source, Equal(value))
    elif kind in _TENSORS:
        yield Guard(source, tensor_match(value))
    elif kind in _ORDERED and depth:
        for index, each in enumerate(value):
            yield from _noticed(each, Index(source, index), depth - 1)
    elif kind is dict and depth:
        for name, each in value.items():
            if type(name) is str:
                yield from _noticed(each, Key(source, name), depth - 1)
