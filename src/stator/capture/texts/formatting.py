"""Formatting in a trace: `"…" % x`, `str.format`, `str.join`, and what asks for a text's type.

In: a call or operator that makes text of values, some of which are not known while tracing. Out:
the text. Where all are constants, C code does it. Otherwise twins of the C functions are evaluated,
so that each value is turned into text by the program's own operations.
"""

import _string  # type: ignore[import-not-found]
import builtins
import operator
import re
from typing import TYPE_CHECKING, Any, Final

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.autograd import autograd_functions
from stator.capture.calls.builtin_calls import Handler, asked_isinstance, called_type
from stator.capture.calls.native_calls import by_contract
from stator.capture.calls.python_calls import stand_in
from stator.contracts import Depth
from stator.diagnostics.catalogue import TextOfTensor
from stator.effects.texts import Text
from stator.world import MISSING
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

MODULO: Final = (operator.mod, operator.imod)
# As `unicode_format_arg_parse`; a width or precision from the arguments (`*`) is not taken apart.
_CONVERSION: Final = re.compile(
    r"%(?:\((?P<key>[^()]*)\))?(?P<flags>[#0\- +]*)(?P<size>\d*(?:\.\d*)?)[hlL]?"
    r"(?P<kind>[diouxXeEfFgGcrsa%])"
)


def _constant(value: Any) -> bool:
    return CONSTANTS.holds(type(value))


# ---------------------------------------------------------------------- %


def percent(calls: "Calls", frame: Frame, template: Any, given: Any) -> Any:
    """`template % given`; MISSING if C code can do it."""
    if _constant(given) or (type(given) is tuple and all(map(_constant, given))):
        return MISSING
    if objects.is_subtype(type(given), tuple) and type(given) is not tuple:
        return MISSING
    if objects.is_subtype(type(given), str) and type(given) is not str:
        reflected = calls.world.class_attribute(type(given), "__rmod__")
        if reflected is None or reflected.owner is not str:  # it comes first (`binary_op1`)
            return MISSING
    if type(given) is dict:
        calls.values.ready(given, Depth.SHALLOW)
        if any(type(key) is not str for key in given):
            return MISSING
    texts = calls.tracer.texts
    parsed = _parsed(template, given)
    if parsed is None:
        if texts.holds(given) or (type(given) is tuple and any(map(texts.holds, given))):
            raise TextOfTensor("a tensor is formatted by a template that can't be followed")
        return MISSING
    with texts.window():
        made = autograd_functions.evaluated(frame, _percent, parsed)
    return texts.split(frame, made)


def _parsed(template: str, given: Any) -> list[Any] | None:
    """Strings, and (kind, modifiers, value); None if it is not as simple as that."""
    parts: list[Any] = []
    position = taken = 0
    keys = False
    values = given if type(given) is tuple else (given,)
    for found in _CONVERSION.finditer(template):
        between = template[position : found.start()]
        if "%" in between:
            return None
        parts.append(between)
        position = found.end()
        kind, modifiers, key = found["kind"], found["flags"] + found["size"], found["key"]
        if kind == "%":
            if modifiers or key is not None:
                return None
            parts.append("%")
            continue
        if key is not None:
            keys = True
            if type(given) is not dict or key not in given:
                return None
            value = given[key]
        elif taken == len(values):
            return None
        else:
            value = values[taken]
            taken += 1
        parts.append((kind, modifiers, value))
    if "%" in template[position:] or (taken != len(values) if not keys else taken):
        return None
    parts.append(template[position:])
    return parts


def _percent(parts: list[Any]) -> Any:
    """Evaluated in the trace."""
    made = []
    for part in parts:
        if type(part) is str:
            made.append(part)
            continue
        kind, modifiers, value = part
        if kind == "s":
            value = str(value)
        elif kind == "r":
            value = repr(value)
        elif kind == "a":
            value = ascii(value)
        made.append(_converted(kind, modifiers, value))
    return "".join(made)


def _converted(kind: str, modifiers: str, value: Any) -> Any:
    """One conversion; evaluating this asks `_convert`."""


def _convert(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    kind, modifiers, value = args
    textual = kind in "sra"
    spec = f"%{modifiers}{'s' if textual else kind}"
    if calls.tracer.texts.holds(value):
        if textual and not modifiers:
            return value
        return calls.tracer.texts.percent(frame, spec, value)
    calls.values.ready(value, Depth.SHALLOW, calls=not _constant(value))
    return core.call(frame, _MODULO, [spec, (value,)], None)


_MODULO: Final = str.__mod__


# ---------------------------------------------------------------------- str.format


def _str_format(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    template, *given = args
    if type(template) is not str or (all(map(_constant, given + list(kwargs.values())))):
        return _unbound(calls, frame, function, args, kwargs)
    return stand_in(calls, frame, _formatted, [template, tuple(given), kwargs], None)


def _formatted(template: str, args: Any, kwargs: Any) -> Any:
    """As `str.format`, evaluated in the trace (`MarkupIterator_next` and what follows it)."""
    return _fill(template, args, kwargs, [0], 2)


def _fill(template: str, args: Any, kwargs: Any, number: list[Any], depth: int) -> Any:
    if depth == 0:
        raise ValueError("Max string recursion exceeded")
    made = []
    for constant, field, spec, conversion in _string.formatter_parser(template):
        made.append(constant)
        if field is None:
            continue
        first, rest = _string.formatter_field_name_split(field)
        if first == "":
            if number[0] is None:
                raise ValueError(
                    "cannot switch from manual field specification to automatic field numbering"
                )
            first = number[0]
            number[0] += 1
        elif isinstance(first, int):
            if number[0]:
                raise ValueError(
                    "cannot switch from automatic field numbering to manual field specification"
                )
            number[0] = None
        if isinstance(first, int):
            if first >= len(args):
                raise IndexError(
                    f"Replacement index {first} out of range for positional args tuple"
                )
            value = args[first]
        else:
            value = kwargs[first]
        for is_attribute, name in rest:
            value = getattr(value, name) if is_attribute else value[name]
        if conversion == "r":
            value = repr(value)
        elif conversion == "s":
            value = str(value)
        elif conversion == "a":
            value = ascii(value)
        elif conversion is not None:
            raise ValueError(f"Unknown conversion specifier {conversion!r}")
        made.append(format(value, _fill(spec, args, kwargs, number, depth - 1) if spec else ""))
    return "".join(made)


# ---------------------------------------------------------------------- the rest


def _unbound(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """A method of `str` that was looked up on its class, by its contract."""
    name = function.__name__
    return by_contract(calls, frame, objects.type_dict(str)[name], args, kwargs)


def _join(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    if kwargs or len(args) != 2 or not _is_text(args[0]):
        return _unbound(calls, frame, function, args, kwargs)
    separator, given = args
    if type(given) is list or type(given) is tuple:
        calls.values.ready(given, Depth.SHALLOW)
    elif CONSTANTS.holds(type(given)):
        return _unbound(calls, frame, function, args, {})
    else:
        given = calls.tracer.texts.collected(frame, given)
    if type(separator) is not Text and not any(type(item) is Text for item in given):
        return _unbound(calls, frame, function, [separator, given], {})
    parts: list[Any] = []
    for index, item in enumerate(given):
        if not _is_text(item):
            raise TextOfTensor("str.join of more than strings")
        parts += [separator, item] if index else [item]
    return calls.tracer.texts.joined(frame, parts)


def _is_text(value: Any) -> bool:
    return type(value) is str or type(value) is Text


def _format(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`format(value, spec)`."""
    texts = calls.tracer.texts
    if not kwargs and 1 <= len(args) <= 2 and texts.holds(args[0]):
        return texts.format(frame, args[0], args[1] if len(args) == 2 else "")
    return by_contract(calls, frame, function, args, kwargs)


def _of_text(asked: Handler, count: int) -> Handler:
    """A question about the type of a text, by so many arguments: it is a string's."""

    def handler(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
        if len(args) == count and type(args[0]) is Text:
            args = ["", *args[1:]]
        return asked(calls, frame, function, args, kwargs)

    return handler


FORMATTING: Final[dict[int, Handler]] = {
    id(objects.type_dict(str)["format"]): _str_format,
    id(objects.type_dict(str)["join"]): _join,
    id(builtins.format): _format,
    id(builtins.isinstance): _of_text(asked_isinstance, 2),
    id(type): _of_text(called_type, 1),
    id(_converted): _convert,
}
