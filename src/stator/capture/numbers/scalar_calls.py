"""Calls of Python's own functions on numbers that are read from tensors: `int(t)`, `max(n, 3)`.

In: calls of these functions. Out: symbolic numbers; calls on ordinary numbers run under their
contracts.
"""

import builtins
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.fx.experimental.symbolic_shapes as symbolic_shapes

from stator._native._core import Frame
from stator.capture.calls.native_calls import by_contract
from stator.capture.calls.python_calls import evaluated
from stator.capture.numbers.computed import OF_MATH
from stator.capture.numbers.doubles import WIDE
from stator.capture.numbers.scalars import SYMBOLS
from stator.contracts import Depth
from stator.diagnostics.catalogue import ValueNeeded
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.shapes import advise_is_bounded, advise_is_size
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls
    from stator.capture.numbers.scalars import Scalars

Handler = Callable[["Calls", Frame, Any, list[Any], dict[str, Any]], Any]
Answer = Callable[["Scalars", Frame, list[Any]], Any]


def _on_numbers(answer: Answer, *, tensors: bool) -> Handler:
    """A handler for calls with a symbolic number (or a tensor) among the arguments."""

    def handler(
        calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        for value in args:
            kind = type(value)
            if SYMBOLS.holds(kind) or (tensors and kind is FakeTensor):
                if kwargs:
                    raise ValueNeeded(
                        f"{function.__name__} of a number from a tensor, with options"
                    )
                result = answer(calls.tensors.scalars, frame, args)
                if result is not MISSING:
                    return result
                break
        return by_contract(calls, frame, function, args, kwargs)

    return handler


def _to_int(rounding: Any, *, by_float: bool = False) -> Answer:
    """`by_float`: a tensor is asked for a float first, whatever it holds."""

    def answer(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
        if len(args) != 1:
            return MISSING
        value = args[0]
        if by_float and type(value) is FakeTensor:
            value = scalars.to_float(frame, value)
        return scalars.to_int(frame, value, rounding)

    return answer


def _to_float(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
    return scalars.to_float(frame, args[0]) if len(args) == 1 else MISSING


def _index(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
    if len(args) == 1 and type(args[0]) is FakeTensor:
        return scalars.index(frame, args[0])
    return args[0] if len(args) == 1 and type(args[0]) is torch.SymInt else MISSING


def _truth(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
    return scalars.truth(None, args[0]) if len(args) == 1 else MISSING


def _operator(function: Any) -> Answer:
    def answer(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
        return scalars.operate(frame, function, *args)

    return answer


def _divmod(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
    functions = (operator.floordiv, operator.mod)
    return tuple(scalars.operate(frame, function, *args) for function in functions)


def _round(
    calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """`round(n)` is an int, `round(n, 2)` of the number's own kind."""
    scalars = calls.tensors.scalars
    given = {**dict(zip(("number", "ndigits"), args, strict=False)), **kwargs}
    number, digits = given.get("number"), given.get("ndigits")
    if len(given) == len(args) + len(kwargs) <= 2 and SYMBOLS.holds(type(number)):
        if digits is None:
            return scalars.to_int(frame, number, torch.round)
        whole = type(digits) is not torch.SymFloat and type(digits) is not float
        if whole and scalars.computed.concerns((number, digits)):
            kind = "float" if type(number) is torch.SymFloat else "int"
            return scalars.computed.call(frame, "round", kind, (number, digits))
    return by_contract(calls, frame, function, args, kwargs)


def _sqrt(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
    return scalars.doubles.sqrt(frame, args[0]) if len(args) == 1 else MISSING


def _log2(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
    found = scalars.doubles.log2(frame, args[0]) if len(args) == 1 else MISSING
    return _of_math("log2", "float")(scalars, frame, args) if found is MISSING else found


def _of_math(name: str, kind: str) -> Answer:
    """A function of `math` that the graph calls; a tensor is asked for a float first."""

    def answer(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
        numbers = [scalars.to_float(frame, v) if type(v) is FakeTensor else v for v in args]
        if not scalars.computed.concerns(numbers):
            return MISSING
        return scalars.computed.call(frame, f"math.{name}", kind, numbers)

    return answer


def _in_parts(name: str, kinds: tuple[str, str]) -> Answer:
    """A function that answers with two numbers."""

    def answer(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
        if len(args) != 1 or not scalars.computed.concerns(args):
            return MISSING
        return tuple(
            scalars.computed.call(frame, f"{name}.{index}", kind, args)
            for index, kind in enumerate(kinds)
        )

    return answer


def _of_all(name: str) -> Handler:
    """`sum` and `math.fsum` of floats: they don't round as one addition after the other does."""

    def handle(
        calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        computed = calls.tensors.scalars.computed
        if 0 < len(args) < 3 and not kwargs and type(args[0]) in (list, tuple):
            calls.values.ready(args[0], Depth.SHALLOW)
            items = [*args[1:], *args[0]] if name == "sum" else list(args[0])
            if torch.SymFloat in map(type, items) and computed.concerns(items):
                return computed.call(frame, name, "float", items)
        return by_contract(calls, frame, function, args, kwargs)

    return handle


def _test(function: Any) -> Answer:
    def answer(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
        return scalars.doubles.test(frame, function, args[0])

    return answer


def _extreme(compare: Any, choose: Any) -> Answer:
    """`max` and `min` of some numbers: the first of equal ones, as in CPython."""

    def answer(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
        if len(args) < 2:
            return MISSING
        found, many = args[0], len(args) > WIDE
        for value in args[1:]:
            found = scalars.doubles.extreme(frame, compare, choose, found, value, many=many)
        return found

    return answer


def _power(
    calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """`pow` with a modulus wants the numbers themselves."""
    if len(args) == 2 and not kwargs and calls.tensors.is_symbol(*args):
        return calls.tensors.scalars.operate(frame, operator.pow, *args)
    scalars = calls.tensors.scalars
    whole = not any(type(value) in (float, torch.SymFloat) for value in args)
    if len(args) == 3 and not kwargs and whole and scalars.computed.concerns(args):
        return scalars.computed.call(frame, "pow", "int", args)
    plain = [calls.tensors.shapes.plain(frame, value) for value in args]
    return by_contract(calls, frame, function, plain, kwargs)


def _expect_true(
    calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """What `torch._check` asks about its condition."""
    if type(args[0]) is torch.SymBool:
        return calls.tensors.scalars.expect(frame, args[0])
    return evaluated(calls, frame, function, args, kwargs)


def _advise(
    calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: dict[str, Any]
) -> None:
    """Hints to torch that a number is a size: it would forget about 0 and 1."""


def _of_items(handler: Handler) -> Handler:
    """`max([a, b])` is `max(a, b)`, if these are numbers from tensors."""

    def handle(
        calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        if len(args) == 1 and not kwargs and type(args[0]) in (list, tuple, torch.Size):
            calls.values.ready(args[0], Depth.SHALLOW)
            items = list(args[0])
            if len(items) > 1 and any(SYMBOLS.holds(type(item)) for item in items):
                args = items
        return handler(calls, frame, function, args, kwargs)

    return handle


_OPERATORS: Final = (operator.neg, operator.pos, operator.abs, operator.invert)
SCALARS: Final[dict[int, Handler]] = {
    id(builtins.int): _on_numbers(_to_int(torch.trunc), tensors=True),
    id(builtins.float): _on_numbers(_to_float, tensors=True),
    id(builtins.bool): _on_numbers(_truth, tensors=False),
    id(builtins.abs): _on_numbers(_operator(operator.abs), tensors=False),
    id(builtins.divmod): _on_numbers(_divmod, tensors=False),
    id(builtins.pow): _power,
    id(builtins.round): _round,
    id(builtins.sum): _of_all("sum"),
    id(math.fsum): _of_all("math.fsum"),
    id(math.frexp): _on_numbers(_in_parts("math.frexp", ("float", "int")), tensors=False),
    id(math.modf): _on_numbers(_in_parts("math.modf", ("float", "float")), tensors=False),
    **{
        id(getattr(math, name)): _on_numbers(_of_math(name, kind), tensors=True)
        for name, kind in OF_MATH.items()
        if name != "fsum"
    },
    **{id(function): _on_numbers(_operator(function), tensors=False) for function in _OPERATORS},
    id(builtins.max): _of_items(_on_numbers(_extreme(operator.gt, torch.sym_max), tensors=False)),
    id(builtins.min): _of_items(_on_numbers(_extreme(operator.lt, torch.sym_min), tensors=False)),
    id(operator.index): _on_numbers(_index, tensors=True),
    id(math.floor): _on_numbers(_to_int(torch.floor, by_float=True), tensors=True),
    id(math.ceil): _on_numbers(_to_int(torch.ceil, by_float=True), tensors=True),
    id(math.trunc): _on_numbers(_to_int(torch.trunc), tensors=False),
    id(math.sqrt): _on_numbers(_sqrt, tensors=True),
    id(math.log2): _on_numbers(_log2, tensors=True),
    id(math.isnan): _on_numbers(_test(torch.isnan), tensors=True),
    id(math.isinf): _on_numbers(_test(torch.isinf), tensors=True),
    id(symbolic_shapes.expect_true): _expect_true,
    id(advise_is_size): _advise,
    id(advise_is_bounded): _advise,
    id(math.isfinite): _on_numbers(_test(torch.isfinite), tensors=True),
}
