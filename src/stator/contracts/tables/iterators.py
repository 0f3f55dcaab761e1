"""Iterators and generators of the core: all state is in the iterator, which `__next__` advances.

What an iterator iterates over was read when the iterator was made (a shallow read stays valid,
since the object keeps being complete), and what it drives (the iterators inside a zip) is
advanced with it.
"""

import types
from collections.abc import AsyncGenerator, Iterator
from typing import Any

from .rows import Rows, Types, override

ITERATOR: Rows = {
    "reads | s": "__iter__ __length_hint__ __reduce__",
    "mutates | sm": "__next__",
    "mutates calls | sm s": "__setstate__",
}
SET_ITERATOR: Rows = override(
    ITERATOR,
    {
        "reads | s": "__iter__ __length_hint__",
        "mutates identity | sm": "__next__",
        "reads identity | s": "__reduce__",
    },
)
# Iterators that run other iterators or callables.
DRIVER: Rows = {
    "reads | s": "__iter__ __length_hint__",
    "reads calls | s": "__reduce__",
    "mutates calls | smc": "__next__",
    "mutates calls | sm d": "__setstate__",
}
_GENERATOR: Rows = {
    "pure | .": "__iter__ __await__ __aiter__ __name__ __qualname__",
    "pure identity | .": "__repr__",
    "mutates calls | smc .": "__next__ send throw close __del__",
    "reads calls | sc .": "asend athrow aclose __anext__",
}


async def _coroutine() -> None: ...


async def _async_generator() -> AsyncGenerator[None, None]:
    yield


_unstarted = _coroutine()
_asynchronous = _async_generator()
_unawaited: list[Any] = [
    _asynchronous.asend(None),
    _asynchronous.athrow(ValueError),
    anext(_asynchronous, None),
]
_ASYNC_STEPS = set(map(type, _unawaited))
while _unawaited:
    _unawaited.pop().close()  # else Python 3.14 warns that nobody awaited them
_ASYNC_STEP: Rows = {
    "pure | .": "__iter__ __await__",
    "mutates calls | smc .": "__next__ send throw close __del__@3.13+",
}
_AWAITER = type(_unstarted.__await__())
_unstarted.close()

# CPython makes these types ready for use only when one of their attributes is asked for.
_LINES, _POSITIONS = (
    type(iterator)
    for iterator in (_coroutine.__code__.co_lines(), _coroutine.__code__.co_positions())
)
assert _LINES.__mro__ and _POSITIONS.__mro__
_CODE_ITERATOR: Rows = {"reads | s": "__iter__", "mutates | sm": "__next__"}
_ALIAS_ITERATOR = type(iter(types.GenericAlias(list, int)))


class _Sequence:
    def __getitem__(self, index: int) -> int:
        raise IndexError(index)


_PLAIN: tuple[Iterator[object], ...] = (
    iter([]),
    reversed([]),
    iter(()),
    iter({}),
    iter({}.values()),
    iter({}.items()),
    reversed({}),
    reversed({}.values()),
    reversed({}.items()),
    iter(""),
    iter("\u1234"),
    iter(b""),
    iter(bytearray()),
    iter(range(1)),
    iter(range(1 << 70)),
    iter(memoryview(b"")),
)

TYPES: Types = {
    **{type(iterator): ITERATOR for iterator in _PLAIN},
    type(iter(set())): SET_ITERATOR,
    _LINES: _CODE_ITERATOR,
    _POSITIONS: _CODE_ITERATOR,
    _ALIAS_ITERATOR: override(ITERATOR, {"reads calls | s": "__reduce__", "reads | s": "__iter__"}),
    type(iter(_Sequence())): DRIVER,
    type(iter(int, 1)): DRIVER,
    enumerate: override(DRIVER, {"reads calls | si s": "()", "reads calls | . si s": "__new__"}),
    reversed: override(
        DRIVER, {"reads calls | s": "() __reduce__", "reads calls | . s": "__new__"}
    ),
    zip: override(DRIVER, {"reads calls | si": "()", "reads calls | . si": "__new__"}),
    map: override(DRIVER, {"reads calls | c si": "()", "reads calls | . c si": "__new__"}),
    filter: override(DRIVER, {"reads calls | c si": "()", "reads calls | . c si": "__new__"}),
    types.GeneratorType: _GENERATOR,
    types.CoroutineType: _GENERATOR,
    types.AsyncGeneratorType: _GENERATOR,
    **dict.fromkeys(_ASYNC_STEPS, _ASYNC_STEP),
    _AWAITER: {"pure | .": "__iter__", "mutates calls | smc .": "__next__ send throw close"},
}
