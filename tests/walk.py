"""A graph of objects as text: what the descriptions in tests of evaluator and capture share.

Comes in: any object of a program. Goes out: a line for each object, by its exact type; an object
that is met again is shown as a reference. A subclass of `Walk` says what its headlines and parts
are.

Nothing here runs code of the program: no `==`, `hash`, `getattr` or iteration of a user class.
Everything goes through `type(x)` and the layout base's own methods.
"""

import collections
import re
import types
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

Children: TypeAlias = Iterator[tuple[str, object]]

TEXTS: Final = (int, float, complex, str, bytes, bytearray)
# By id: comparing classes with == would ask a metaclass.
ATOMS: Final = frozenset(
    map(id, (type(None), bool, *TEXTS[:-1], type(...), type(NotImplemented), range))
)
_ADDRESS: Final = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")

# The slots of `type`, read past any metaclass.
_SLOTS: Final[Any] = type.__dict__
qualname_of: Final[Callable[[type], str]] = _SLOTS["__qualname__"].__get__
module_of: Final[Callable[[type], str]] = _SLOTS["__module__"].__get__
namespace_of: Final[Callable[[type], types.MappingProxyType[str, Any]]] = _SLOTS["__dict__"].__get__
mro_of: Final[Callable[[type], tuple[type, ...]]] = _SLOTS["__mro__"].__get__
bases_of: Final[Callable[[type], tuple[type, ...]]] = _SLOTS["__bases__"].__get__


def type_name(cls: type) -> str:
    return f"{module_of(cls)}.{qualname_of(cls)}"


def layout_base(cls: type, *bases: type) -> Any:
    """The first of these classes in the method resolution order; asks no metaclass."""
    return next((k for k in mro_of(cls) for base in bases if k is base), None)


def inherits(cls: type, *bases: type) -> bool:
    """`issubclass` without asking the metaclass."""
    return layout_base(cls, *bases) is not None


def without_addresses(text: str) -> str:
    """Two runs never place their objects at the same address."""
    return _ADDRESS.sub("0x…", text)


class Walk:
    """One walk over a graph of objects; an object met twice is shown as a reference."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}
        self.kept: list[object] = []  # an id is only meaningful while the object lives

    def describe(self, label: str, value: object) -> list[str]:
        """Objects that an earlier call described are shown as references too."""
        return list(self.lines(label, value, 0))

    def lines(self, label: str, value: object, depth: int) -> Iterator[str]:
        indent = "  " * depth
        if self.is_atom(value):
            yield f"{indent}{label}{without_addresses(repr(value))}"
            return
        number = self.seen.get(id(value))
        if number is not None:
            yield f"{indent}{label}the same object as #{number}"
            return
        number = self.seen[id(value)] = len(self.seen) + 1
        self.kept.append(value)
        cls = type(value)
        yield f"{indent}{label}{self.headline(value, cls)} #{number}"
        for child_label, child in self.children(value, cls):
            yield from self.lines(child_label, child, depth + 1)

    def is_atom(self, value: object) -> bool:
        """Immutable, without an identity that is worth comparing."""
        raise NotImplementedError

    def headline(self, value: Any, cls: type) -> str:
        raise NotImplementedError

    def children(self, value: Any, cls: type) -> Children:
        raise NotImplementedError

    def contents(self, value: Any, cls: type) -> Children:
        """What is in a container."""
        if base := layout_base(cls, collections.OrderedDict, dict, types.MappingProxyType):
            for key, item in base.items(value):
                yield "key ", key
                yield "  = ", item
        elif base := layout_base(cls, list, tuple, collections.deque):
            for position, item in enumerate(base.__iter__(value)):
                yield f"[{position}] ", item
        elif base := layout_base(cls, set, frozenset):
            members = (type(self)().describe("", item) for item in base.__iter__(value))
            for lines in sorted(members):
                yield "member ", "\n".join(lines)


def function_parts(function: types.FunctionType) -> Children:
    yield "defaults ", function.__defaults__
    yield "keyword defaults ", function.__kwdefaults__
    yield "attributes ", function.__dict__
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield f"closure {name}: ", cell


def cell_contents(cell: types.CellType) -> Children:
    try:
        yield "contents ", cell.cell_contents
    except ValueError:
        return
