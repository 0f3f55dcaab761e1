"""Python's functions of numbers as an operator of graphs: `math.exp(n)`, `round(n, 2)`, `n ** 3`.

In: the name of a function and its operands, tensors without dimensions, of float64, int64 or bool:
Python's float, int and bool. Out: its result as such a tensor, and whether there is one. torch's
kernels have functions of the same names, but not the same last bits; this one calls CPython's.

There is no result where the function raises, or answers with something that is not of the expected
kind (`(-8.0) ** 0.5` is complex, `2 ** 80` has more than 64 bits). Then the program itself runs.
"""

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch

KINDS: Final[Mapping[str, torch.dtype]] = {
    "float": torch.float64,
    "int": torch.int64,
    "bool": torch.bool,
}
_TYPES: Final[Mapping[str, type]] = {"float": float, "int": int, "bool": bool}
_LONGEST: Final = 64  # bits of an int, and so the largest useful shift, exponent, number of factors


def _part(function: Callable[..., Any], index: int, *operands: Any) -> Any:
    return function(*operands)[index]


FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {
    **{f"math.{name}": f for name, f in vars(math).items() if callable(f)},
    **{
        f"math.{function.__name__}.{index}": functools.partial(_part, function, index)
        for function in (math.frexp, math.modf)
        for index in (0, 1)
    },
    **{
        function.__name__: function
        for function in (
            operator.and_,
            operator.floordiv,
            operator.invert,
            operator.lshift,
            operator.mod,
            operator.or_,
            operator.rshift,
            operator.truediv,
            operator.xor,
            pow,
            round,
        )
    },
    **{
        f"{kind.__name__}.{name}": getattr(kind, name)
        for kind, names in (
            (float, ("is_integer",)),
            (int, ("bit_length", "bit_count")),
        )
        for name in names
    },
    **{
        f"float.as_integer_ratio.{index}": functools.partial(_part, float.as_integer_ratio, index)
        for index in (0, 1)
    },
    "math.fsum": lambda *operands: math.fsum(operands),
    "sum": lambda *operands: sum(operands),
}


def _is_long(name: str, operands: Sequence[Any]) -> bool:
    """Whether the result surely has more than 64 bits: to compute it may take all memory."""
    match name, operands:
        case "lshift", [_, count]:
            return bool(count > _LONGEST)
        case "pow", [int(base), int(exponent)]:
            return bool(abs(base) > 1 and exponent > _LONGEST)
        case "round", [_, digits]:
            return bool(abs(digits) > 400)
        case "math.factorial", [count]:
            return bool(count > _LONGEST)
        case "math.comb" | "math.perm", [_, count]:
            return bool(count > _LONGEST)
    return False


def compute(name: str, kind: str, operands: Sequence[Any]) -> Any:
    """The function of numbers; None if its result is none of that kind."""
    if _is_long(name, operands):
        return None
    try:
        made = FUNCTIONS[name](*operands)
    except Exception:  # the program will see it when it runs itself
        return None
    if type(made) is not _TYPES[kind] or (type(made) is int and not -(2**63) <= made < 2**63):
        return None
    return made


_library: Final[Any] = torch.library  # which has no annotations
_LIBRARY: Final[Any] = _library.Library("stator", "DEF")  # alive as long as we are
_LIBRARY.define("number(str function, str kind, Tensor[] operands) -> (Tensor, Tensor)")


def _number(
    function: str, kind: str, operands: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    made = compute(function, kind, [operand.item() for operand in operands])
    dtype = KINDS[kind]
    value = torch.tensor(0 if made is None else made, dtype=dtype, device="cpu")
    return value, torch.tensor(made is not None, device="cpu")


def _shapes(
    function: str, kind: str, operands: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    like = operands[0]
    return like.new_empty((), dtype=KINDS[kind]), like.new_empty((), dtype=torch.bool)


_LIBRARY.impl("number", _number, "CPU")
_library.register_fake("stator::number", _shapes, lib=_LIBRARY)

NUMBER: Final = torch.ops.stator.number.default

__all__ = ["FUNCTIONS", "KINDS", "NUMBER", "compute"]
