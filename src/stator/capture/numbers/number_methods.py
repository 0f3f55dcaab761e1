"""Attributes and methods of numbers that are read from tensors: `n.real`, `n.is_integer()`.

In: the name of an attribute of such a number. Out: the number that it is, or a method: the
descriptor that `int` or `float` has, bound to the symbol. Its call comes back here. An attribute
that no table knows is a `Break`, and so is a method that is not called at once.
"""

import functools
import operator
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame
from stator.bytecode import decode
from stator.bytecode.arguments import loads_method
from stator.capture.calls.native_calls import by_contract
from stator.capture.calls.operators import ARITHMETIC
from stator.capture.numbers.computed import NUMBERS, python_kind
from stator.capture.numbers.scalars import SYMBOLS, python_type
from stator.capture.numbers.shapes import has_value
from stator.diagnostics.catalogue import ValueNeeded
from stator.effects.texts import How
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls
    from stator.capture.numbers.scalars import Scalars

Handler = Callable[["Calls", Frame, Any, list[Any], dict[str, Any]], Any]
Answer = Callable[["Scalars", Frame, list[Any]], Any]

_COMPARE: Final = ("lt", "le", "eq", "ne", "gt", "ge")
_UNARY: Final = {"__neg__": operator.neg, "__pos__": operator.pos, "__abs__": operator.abs}
_ROUNDINGS: Final = {
    "__trunc__": torch.trunc,
    "__floor__": torch.floor,
    "__ceil__": torch.ceil,
    "__int__": torch.trunc,
}


def attribute(calls: "Calls", frame: Frame, number: Any, name: str) -> Any:
    """`number.name`, of a symbolic number; one with a value has to be this one from now on."""
    scalars = calls.tensors.scalars
    if has_value(number) or scalars.tensors.shapes.floats.knows(number):
        return core.getattr(frame, scalars.tensors.shapes.number(frame, number), name)
    kind = python_type(number)
    if name == "__class__":
        return kind
    if name == "real" or (name == "numerator" and kind is not float):
        return scalars.to_int(frame, number) if kind is bool else number
    if name == "imag":
        return 0.0 if kind is float else 0
    if name == "denominator" and kind is not float:
        return 1
    found = objects.lookup(kind, name)
    known = found is not None and (id(found.value) in METHODS or name == "__str__")
    if found is None or not known or not _is_called(frame):
        raise ValueNeeded(f"an attribute of a number that depends on values is read: {name}")
    return types.MethodType(found.value, number)


def _is_called(frame: Frame) -> bool:
    """Whether the instruction is the first half of a call: nobody sees the method itself."""
    return frame.info.unit(frame.ip - 1) in _method_loads(frame.code)


@functools.lru_cache(1000)
def _method_loads(code: types.CodeType) -> frozenset[int]:
    steps = decode(code).instructions
    return frozenset(each.unit for each in steps if loads_method(each))


# ---------------------------------------------------------------------------- calls


def _handler(descriptor: Any, answer: Answer) -> Handler:
    """`descriptor` is what the type has: a method that is called may be bound to a number."""

    def handle(
        calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        if not kwargs and args and any(SYMBOLS.holds(type(v)) and not has_value(v) for v in args):
            found = answer(calls.tensors.scalars, frame, args)
            if found is not MISSING:
                return found
        return by_contract(calls, frame, descriptor, args, kwargs)

    return handle


def _binary(kind: type, function: Any, *, reflected: bool = False) -> Answer:
    """As the slot of the type: what it does not know, another type may."""

    def answer(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
        if len(args) != 2 or not NUMBERS.holds(type(args[0])):
            return MISSING
        own, other = args
        if (kind is float) is not (python_kind(own) is float):
            return MISSING  # a TypeError
        known = NUMBERS.holds(type(other))
        if not known or (kind is int and python_kind(other) is float):
            return NotImplemented if CONSTANT.holds(type(other)) or known else MISSING
        return scalars.operate(frame, function, *((other, own) if reflected else (own, other)))

    return answer


CONSTANT: Final = objects.TypeSet(type(None), str, bytes, list, tuple, dict, complex)


def _unary(function: Any) -> Answer:
    def answer(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
        return scalars.operate(frame, function, *args) if len(args) == 1 else MISSING

    return answer


def _rounded(rounding: Any) -> Answer:
    def answer(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
        return scalars.to_int(frame, args[0], rounding) if len(args) == 1 else MISSING

    return answer


def _round(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
    if len(args) == 1 or (len(args) == 2 and args[1] is None):
        return scalars.to_int(frame, args[0], torch.round)
    if type(args[1]) not in (int, torch.SymInt) or not scalars.computed.concerns(args):
        return MISSING
    kind = "float" if python_kind(args[0]) is float else "int"
    return scalars.computed.call(frame, "round", kind, args)


def _to_float(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
    return scalars.to_float(frame, args[0]) if len(args) == 1 else MISSING


def _truth(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
    return scalars.truth(None, args[0]) if len(args) == 1 else MISSING


def _divmod(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
    parts = tuple(
        _binary(float if python_kind(args[0]) is float else int, function)(scalars, frame, args)
        for function in (operator.floordiv, operator.mod)
    )
    return parts[0] if parts[0] is NotImplemented or parts[0] is MISSING else parts


def _computed(name: str, *kinds: str) -> Answer:
    """One number, or several in a tuple."""

    def answer(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
        if len(args) != 1 or not scalars.computed.concerns(args):
            return MISSING
        if len(kinds) == 1:
            return scalars.computed.call(frame, name, kinds[0], args)
        return tuple(
            scalars.computed.call(frame, f"{name}.{index}", kind, args)
            for index, kind in enumerate(kinds)
        )

    return answer


def _ratio(scalars: "Scalars", frame: Frame, args: list[Any]) -> Any:
    return (scalars.to_int(frame, args[0]), 1) if len(args) == 1 else MISSING


def _hex(
    descriptor: Any, calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """`float.hex`, a text."""
    if len(args) == 1 and not kwargs and type(args[0]) is torch.SymFloat and not has_value(args[0]):
        return calls.tracer.texts.of(frame, args[0], How.HEX)
    return by_contract(calls, frame, descriptor, args, kwargs)


def _text(
    descriptor: Any, calls: "Calls", frame: Frame, _: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """`__repr__` and `__format__`."""
    if not kwargs and args and SYMBOLS.holds(type(args[0])) and not has_value(args[0]):
        own = objects.is_subtype(python_type(args[0]), descriptor.__objclass__)
        if own and len(args) == 1 and descriptor.__name__ == "__repr__":
            return calls.tracer.texts.of(frame, args[0], How.REPR)
        if own and len(args) == 2 and descriptor.__name__ == "__format__":
            return calls.tracer.texts.format(frame, args[0], args[1])
    return by_contract(calls, frame, descriptor, args, kwargs)


def _in_base(letter: str) -> Handler:
    """`hex(n)` and the like."""

    def handle(
        calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        value = args[0] if len(args) == 1 and not kwargs else None
        whole = type(value) is torch.SymInt or type(value) is torch.SymBool
        if whole and not has_value(value):
            return calls.tracer.texts.of(frame, value, How.FORMAT, f"#{letter}")
        return by_contract(calls, frame, function, args, kwargs)

    return handle


def _of_type(kind: type) -> dict[str, Answer]:
    """By name, the methods that both int and float have."""
    found: dict[str, Answer] = {}
    for name in (*ARITHMETIC, *_COMPARE):
        function = getattr(operator, f"__{name}__")
        found[f"__{name}__"] = _binary(kind, function)
        found[f"__r{name}__"] = _binary(kind, function, reflected=True)
    found |= {name: _unary(function) for name, function in _UNARY.items()}
    found |= {name: _rounded(rounding) for name, rounding in _ROUNDINGS.items()}
    found |= {
        "__round__": _round,
        "__float__": _to_float,
        "__bool__": _truth,
        "__divmod__": _divmod,
        "conjugate": _unary(operator.pos),
    }
    return found


_OWN: Final[Mapping[type, dict[str, Answer]]] = {
    float: {
        "is_integer": _computed("float.is_integer", "bool"),
        "as_integer_ratio": _computed("float.as_integer_ratio", "int", "int"),
    },
    int: {
        "bit_length": _computed("int.bit_length", "int"),
        "bit_count": _computed("int.bit_count", "int"),
        "as_integer_ratio": _ratio,
        "__invert__": _unary(operator.invert),
        "__index__": _rounded(torch.trunc),
    },
    bool: {},
}


def _methods() -> dict[int, Handler]:
    found: dict[int, Handler] = {}
    for kind, own in _OWN.items():
        shared = _of_type(kind) if kind is not bool else {}
        for name, answer in (shared | own).items():
            descriptor = objects.type_dict(kind).get(name)
            if descriptor is not None:
                found[id(descriptor)] = _handler(descriptor, answer)
    for name in ("and", "or", "xor"):  # bool has its own
        function = getattr(operator, f"__{name}__")
        for side in ("", "r"):
            descriptor = objects.type_dict(bool)[f"__{side}{name}__"]
            answer = _binary(int, function, reflected=side == "r")
            found[id(descriptor)] = _handler(descriptor, answer)
    descriptor = objects.type_dict(float)["hex"]
    found[id(descriptor)] = functools.partial(_hex, descriptor)
    for kind in _OWN:
        for name in ("__repr__", "__format__"):
            descriptor = objects.type_dict(kind).get(name)
            if descriptor is not None:
                found[id(descriptor)] = functools.partial(_text, descriptor)
    return found


METHODS: Final[dict[int, Handler]] = _methods()
IN_BASES: Final[dict[int, Handler]] = {
    id(bin): _in_base("b"),
    id(oct): _in_base("o"),
    id(hex): _in_base("x"),
}
