"""Turns the results of a run into text, so that two runs on fresh objects can be compared.

Comes in: any object a program returned, logged or mutated. Goes out: lines of text in which
equal lines mean equal structure: exact types, values, the shape of aliasing and cycles.

Describing an object must not run code of the program (a canary would notice), so everything
goes through ``type(x)`` and the layout base's own methods.
"""

import re
import types
from collections import OrderedDict, deque
from collections.abc import Iterator

PROGRAM_MODULE = "program"

_NUMBERS_AND_TEXTS = (int, float, complex, str, bytes, bytearray)
_CONTAINERS = (list, tuple, dict, set, frozenset, deque, types.MappingProxyType)
# By id: comparing classes with == would ask a metaclass.
_ATOMS = frozenset(
    map(id, (type(None), bool, *_NUMBERS_AND_TEXTS[:-1], type(...), type(NotImplemented), range))
)
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")

_qualname = type.__dict__["__qualname__"].__get__
_module = type.__dict__["__module__"].__get__
_namespace = type.__dict__["__dict__"].__get__
_mro = type.__dict__["__mro__"].__get__
_bases = type.__dict__["__bases__"].__get__


def without_addresses(text: str) -> str:
    """Two runs never place their objects at the same address."""
    return _ADDRESS.sub("0x…", text)


def type_name(cls: type) -> str:
    return f"{_module(cls)}.{_qualname(cls)}"


def describe(value: object) -> list[str]:
    return Describer().describe(value)


class Describer:
    """One walk over a graph of objects; an object met twice is shown as a reference."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.kept: list[object] = []  # an id is only meaningful while the object lives

    def describe(self, value: object) -> list[str]:
        """Objects that an earlier call described are shown as references too."""
        return list(self.lines("", value))

    def lines(self, label: str, value: object, depth: int = 0) -> Iterator[str]:
        indent = "  " * depth
        cls = type(value)
        if id(cls) in _ATOMS:
            yield f"{indent}{label}{without_addresses(repr(value))}"
            return
        if cls is tuple and not value:
            yield f"{indent}{label}()"
            return
        number = self.seen.get(id(value))
        if number is not None:
            yield f"{indent}{label}the same object as #{number}"
            return
        number = self.seen[id(value)] = len(self.seen) + 1
        self.kept.append(value)
        yield f"{indent}{label}{self.headline(value, cls)} #{number}"
        for child_label, child in self.children(value, cls):
            yield from self.lines(child_label, child, depth + 1)

    def headline(self, value: object, cls: type) -> str:
        if inherits(cls, type):
            return f"class {type_name(value)} of {type_name(cls)}"
        if cls is types.FunctionType:
            return f"function {value.__qualname__} in {value.__module__}"
        if cls is types.CodeType:
            return f"code {value.co_qualname} line {value.co_firstlineno} flags {value.co_flags:#x}"
        if cls is types.FrameType:
            return f"frame of {value.f_code.co_qualname}"
        if cls is types.ModuleType:
            return f"module {value.__name__}"
        if cls is types.TracebackType:
            return f"traceback entry {value.tb_frame.f_code.co_qualname} line {value.tb_lineno}"
        if inherits(cls, BaseException):
            return f"exception {type_name(cls)}"
        if inherits(cls, *_NUMBERS_AND_TEXTS):
            base = layout_base(cls, *_NUMBERS_AND_TEXTS)
            return f"{type_name(cls)} {base.__repr__(value)}"
        if _module(cls) == PROGRAM_MODULE or inherits(cls, *_CONTAINERS):
            return type_name(cls)
        return f"{type_name(cls)} {without_addresses(repr(value))}"

    def children(self, value: object, cls: type) -> Iterator[tuple[str, object]]:
        if inherits(cls, type):
            if _module(value) == PROGRAM_MODULE:
                yield "bases ", _bases(value)
                for name, item in _namespace(value).items():
                    yield f"{name}: ", item
            return
        if cls is types.FunctionType:
            yield from _function_parts(value)
            return
        if cls is types.CellType:
            try:
                yield "contents ", value.cell_contents
            except ValueError:
                pass
            return
        if cls is types.MethodType:
            yield "function ", value.__func__
            yield "self ", value.__self__
            return
        if cls is types.TracebackType:
            yield "next ", value.tb_next
            return
        if inherits(cls, BaseException):
            yield "args ", BaseException.args.__get__(value)
        elif base := layout_base(cls, OrderedDict, dict, types.MappingProxyType):
            for key, item in base.items(value):
                yield "key ", key
                yield "  = ", item
        elif base := layout_base(cls, list, tuple, deque):
            for position, item in enumerate(base.__iter__(value)):
                yield f"[{position}] ", item
        elif base := layout_base(cls, set, frozenset):
            for lines in sorted(describe(item) for item in base.__iter__(value)):
                yield "member ", "\n".join(lines)
        if _module(cls) == PROGRAM_MODULE:
            yield from _instance_state(value, _mro(cls))


def inherits(cls: type, *bases: type) -> bool:
    """``issubclass`` without asking the metaclass."""
    return layout_base(cls, *bases) is not None


def layout_base(cls: type, *bases: type) -> type | None:
    """The first of these classes in the method resolution order."""
    return next((k for k in _mro(cls) for base in bases if k is base), None)


def _function_parts(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    yield "doc ", function.__doc__
    yield "defaults ", function.__defaults__
    yield "keyword defaults ", function.__kwdefaults__
    yield "annotations ", function.__annotations__
    yield "attributes ", function.__dict__
    yield "code ", function.__code__
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield f"closure {name}: ", cell


def _instance_state(value: object, mro: tuple[type, ...]) -> Iterator[tuple[str, object]]:
    for cls in mro:
        for name, member in _namespace(cls).items():
            if name == "__dict__" and type(member) is types.GetSetDescriptorType:
                for key, item in member.__get__(value).items():
                    yield f".{key} = ", item
            elif type(member) is types.MemberDescriptorType and _module(cls) == PROGRAM_MODULE:
                try:
                    yield f".{name} = ", member.__get__(value)
                except AttributeError:
                    pass
