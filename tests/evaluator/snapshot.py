"""Turns the results of a run into text, so that two runs on fresh objects can be compared.

Comes in: any object a program returned, logged or mutated. Goes out: lines of text in which
equal lines mean equal structure: exact types, values, the shape of aliasing and cycles.

Describing an object must not run code of the program (a canary would notice): see `tests/walk.py`.
"""

import types
from collections import deque
from collections.abc import Iterator

from tests.walk import (
    ATOMS,
    TEXTS,
    Walk,
    bases_of,
    cell_contents,
    function_parts,
    inherits,
    layout_base,
    module_of,
    mro_of,
    namespace_of,
    type_name,
    without_addresses,
)

PROGRAM_MODULE = "program"

_CONTAINERS = (list, tuple, dict, set, frozenset, deque, types.MappingProxyType)


def describe(value: object) -> list[str]:
    return Describer().describe("", value)


class Describer(Walk):
    """A walk that also goes into the classes of the program."""

    def is_atom(self, value: object) -> bool:
        return id(type(value)) in ATOMS or (type(value) is tuple and not value)

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
        if inherits(cls, *TEXTS):
            return f"{type_name(cls)} {layout_base(cls, *TEXTS).__repr__(value)}"
        if module_of(cls) == PROGRAM_MODULE or inherits(cls, *_CONTAINERS):
            return type_name(cls)
        return f"{type_name(cls)} {without_addresses(repr(value))}"

    def children(self, value: object, cls: type) -> Iterator[tuple[str, object]]:
        if inherits(cls, type):
            if module_of(value) == PROGRAM_MODULE:
                yield "bases ", bases_of(value)
                for name, item in namespace_of(value).items():
                    yield f"{name}: ", item
            return
        if cls is types.FunctionType:
            yield "doc ", value.__doc__
            yield "annotations ", value.__annotations__
            yield "code ", value.__code__
            yield from function_parts(value)
            return
        if cls is types.CellType:
            yield from cell_contents(value)
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
        yield from self.contents(value, cls)
        if module_of(cls) == PROGRAM_MODULE:
            yield from _instance_state(value, mro_of(cls))


def _instance_state(value: object, mro: tuple[type, ...]) -> Iterator[tuple[str, object]]:
    for cls in mro:
        for name, member in namespace_of(cls).items():
            if name == "__dict__" and type(member) is types.GetSetDescriptorType:
                for key, item in member.__get__(value).items():
                    yield f".{key} = ", item
            elif type(member) is types.MemberDescriptorType and module_of(cls) == PROGRAM_MODULE:
                try:
                    yield f".{name} = ", member.__get__(value)
                except AttributeError:
                    pass
