"""Sample arguments. Each is made anew for every call, in variants that differ in one respect.

A `Knobs` says which variant: `own` changes an object's own value or length, `items` the values of
its items (their number stays), `attributes` those of its attributes. A reader that claims not to
look there must not notice.
"""

import array
import functools
import re
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Knobs(NamedTuple):
    own: int = 0
    items: int = 0
    attributes: int = 0


PLAIN = Knobs()
Maker = Callable[[Knobs], Any]


class Token:
    """An object without special methods."""


class Plain:
    """An object with attributes."""

    def __init__(self, knobs: Knobs) -> None:
        self.name = born(number(1300 + knobs.attributes))
        self.other = born(text("alpha", "omega")[knobs.attributes])


class PlainList(list[Any]):
    """A list with attributes."""


class PlainDict(dict[Any, Any]):
    """A dict with attributes."""


class Sequence:
    """Only what the old iteration protocol needs."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __getitem__(self, index: int) -> Any:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)


class Slotted:
    __slots__ = ("slot",)


BORN: list[Any] = []  # the parts of the argument that is being made, in order


def born(part: Any) -> Any:
    BORN.append(part)
    return part


def number(value: int) -> int:
    """A fresh object, so that it can be told from other equal ones."""
    return int(str(value))


def text(*words: str) -> list[str]:
    return ["".join(list(word)) for word in words]


def numbers(k: Knobs) -> Any:
    return born([born(number(2001 + place * 10 + 500 * k.items)) for place in range(2 + k.own)])


def words(k: Knobs) -> Any:
    choice = text(*(["abc", "def", "ghi"], ["jkl", "mno", "pqr"])[k.items])
    return born([born(word) for word in choice[: 2 + k.own]])


def pairs(k: Knobs) -> Any:
    return born([born(pair) for pair in zip(words(k), numbers(k), strict=True)])


def tokens(k: Knobs) -> Any:
    return born([born(Token()) for _ in range(2 + k.own)])


def mapping(k: Knobs) -> Any:
    return born(dict(zip(text("abc", "def", "ghi"), numbers(k), strict=False)))


def elements(k: Knobs) -> Any:
    """Items of a set: their values are part of what the set is."""
    return numbers(Knobs(k.own))


def with_attributes(value: Any, k: Knobs) -> Any:
    vars(value).update(vars(Plain(k)))
    return value


def generator(k: Knobs) -> Iterator[int]:
    return _generate(numbers(k))


def _generate(items: list[int]) -> Iterator[int]:
    yield from items


def two_arguments(a: object = 0, b: object = 0, *more: object) -> Any:
    return a is b


def compare(a: Any, b: Any) -> int:
    return int(a.name - b.name)


def fresh_function() -> Any:
    namespace = {"__name__": "samples"}
    return types.FunctionType(two_arguments.__code__, namespace, "two_arguments", (0, 0))


def slotted(k: Knobs) -> Slotted:
    made = Slotted()
    made.slot = born(number(1700 + k.attributes))  # type: ignore[attr-defined]
    return made


def make_class(k: Knobs) -> type:
    return type("Made", (), {"x": 1})


def exception(k: Knobs) -> ValueError:
    return ValueError(*numbers(k))


# The general pool: (name, maker).
POOL: dict[str, Maker] = {
    "index": lambda k: (1, 0)[k.own],
    "number": lambda k: number(300 + k.own),
    "float": lambda k: float(("0.5", "0.25")[k.own]),
    "complex": lambda k: complex(("1+2j", "2+1j")[k.own]),
    "true": lambda k: (True, False)[k.own],
    "none": lambda k: None,
    "text": lambda k: text("abc", "name")[k.own],
    "bytes": lambda k: bytes(bytearray((b"abcd", b"dcba")[k.own])),
    "bytearray": lambda k: bytearray((b"abcd", b"dcba")[k.own]),
    "numbers": numbers,
    "words": words,
    "pairs": pairs,
    "tokens": tokens,
    "lists": lambda k: [numbers(k), numbers(Knobs(0, 1 - k.items))][: 2 - k.own],
    "tuple": lambda k: tuple(numbers(k)),
    "texts": lambda k: tuple(words(k)),
    "mapping": mapping,
    "set": lambda k: set(elements(k)),
    "frozenset": lambda k: frozenset(elements(k)),
    "iterator": lambda k: iter(numbers(k)),
    "generator": generator,
    "plain": Plain,
    "token": lambda k: Token(),
    "class": lambda k: int,
    "made": make_class,
    "function": lambda k: fresh_function(),
    "slice": lambda k: slice(0, 1 + k.own),
    "exception": exception,
    "plainlist": lambda k: with_attributes(PlainList(numbers(k)), k),
}


def _match(k: Knobs) -> "re.Match[str]":
    found = re.match("(a)(?P<name>b)", ("abc", "abd")[k.own])
    assert found
    return found


def _ordered(k: Knobs) -> Any:
    return OrderedDict(mapping(k))


# Objects of the types whose methods are tested.
SELVES: dict[type, list[Maker]] = {
    object: [Plain, POOL["number"], POOL["numbers"], POOL["class"]],
    type: [POOL["class"], make_class],
    int: [POOL["number"], POOL["index"]],
    bool: [POOL["true"]],
    float: [POOL["float"], lambda k: 2.0],
    complex: [POOL["complex"]],
    str: [POOL["text"], lambda k: "%s", lambda k: "{}", lambda k: "{0.name}", lambda k: "{0[0]}"],
    bytes: [POOL["bytes"], lambda k: b"%s"],
    bytearray: [POOL["bytearray"], lambda k: bytearray(b"%s")],
    memoryview: [lambda k: memoryview(bytearray((b"abcd", b"dcba")[k.own]))],
    tuple: [POOL["tuple"], POOL["texts"], lambda k: tuple(tokens(k)), lambda k: (numbers(k), 1)],
    list: [numbers, words, lambda k: born(list(reversed(numbers(k)))), tokens, POOL["lists"]],
    dict: [mapping, lambda k: dict(enumerate(tokens(k))), lambda k: dict(enumerate(words(k)))],
    set: [POOL["set"], lambda k: set(text("abc", "def", "ghi")[: 2 + k.own])],
    frozenset: [POOL["frozenset"]],
    range: [lambda k: range(3 + k.own)],
    slice: [POOL["slice"], lambda k: slice(*numbers(k))],
    types.MappingProxyType: [lambda k: types.MappingProxyType(mapping(k))],
    type({}.keys()): [lambda k: mapping(k).keys()],
    type({}.values()): [lambda k: mapping(k).values()],
    type({}.items()): [lambda k: mapping(k).items()],
    type(iter([])): [POOL["iterator"]],
    types.GeneratorType: [generator],
    types.FunctionType: [POOL["function"]],
    types.MethodType: [lambda k: types.MethodType(two_arguments, Plain(k))],
    types.BuiltinFunctionType: [lambda k: numbers(k).copy, lambda k: len],
    types.MethodWrapperType: [lambda k: numbers(k).__len__],
    types.MethodDescriptorType: [lambda k: list.copy],
    types.WrapperDescriptorType: [lambda k: list.__len__],
    types.ClassMethodDescriptorType: [lambda k: dict.__dict__["fromkeys"]],
    types.GetSetDescriptorType: [lambda k: types.FunctionType.__dict__["__defaults__"]],
    types.MemberDescriptorType: [lambda k: Slotted.__dict__["slot"]],
    types.CellType: [lambda k: types.CellType(number(700 + k.own))],
    types.CodeType: [lambda k: two_arguments.__code__],
    property: [lambda k: property(two_arguments, two_arguments, two_arguments)],
    classmethod: [lambda k: classmethod(two_arguments)],
    staticmethod: [lambda k: staticmethod(two_arguments)],
    types.ModuleType: [lambda k: types.ModuleType(("one", "two")[k.own])],
    types.SimpleNamespace: [lambda k: types.SimpleNamespace(**vars(Plain(k)))],
    types.GenericAlias: [lambda k: list[int], lambda k: dict[str, Any]],
    types.UnionType: [lambda k: int | str],
    type(None): [POOL["none"]],
    type(...): [lambda k: ...],
    type(NotImplemented): [lambda k: NotImplemented],
    functools.partial: [
        lambda k: with_attributes(functools.partial(two_arguments, *numbers(k)), k)
    ],
    deque: [lambda k: deque(numbers(k)), lambda k: deque(tokens(k))],
    defaultdict: [lambda k: defaultdict(list, mapping(k))],
    OrderedDict: [_ordered],
    re.Pattern: [lambda k: re.compile(("(a)(b)?", "(b)(a)?")[k.own])],
    re.Match: [_match],
    type(re.compile("").scanner("")): [  # type: ignore[attr-defined]
        lambda k: re.compile("a").scanner("aba")  # type: ignore[attr-defined]
    ],
    **{
        type(maker(PLAIN)): [maker]
        for maker in (
            lambda k: iter(tuple(numbers(k))),
            lambda k: reversed(numbers(k)),
            lambda k: iter(mapping(k)),
            lambda k: iter(mapping(k).values()),
            lambda k: iter(mapping(k).items()),
            lambda k: reversed(mapping(k)),
            lambda k: reversed(mapping(k).values()),
            lambda k: reversed(mapping(k).items()),
            lambda k: iter("abc"[k.own :]),
            lambda k: iter("\u1234\u1235"[k.own :]),
            lambda k: iter(b"abc"[k.own :]),
            lambda k: iter(bytearray(b"abc"[k.own :])),
            lambda k: iter(array.array("b", b"abc"[k.own :])),
            lambda k: iter(memoryview(b"abc"[k.own :])),
            lambda k: iter(range(3 + k.own)),
            lambda k: iter(range(1 << 70, (1 << 70) + 3 + k.own)),
            lambda k: iter(set(elements(k))),
            lambda k: iter(Sequence(numbers(k))),
            lambda k: iter(numbers(k).pop, None),
            lambda k: reversed(Sequence(numbers(k))),
            lambda k: iter(deque(numbers(k))),
            lambda k: reversed(deque(numbers(k))),
            lambda k: _ordered(k).keys(),
            lambda k: _ordered(k).values(),
            lambda k: _ordered(k).items(),
            lambda k: iter(_ordered(k)),
            lambda k: functools.cmp_to_key(compare)(Plain(k)),
        )
    },
    super: [lambda k: super(PlainList, PlainList(numbers(k)))],
}
