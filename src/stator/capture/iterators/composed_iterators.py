"""Iterators from before the call that go through others: `map`, `filter`, `zip`, `starmap`.

Stage: capture. In: such an iterator, and what is known of those inside (`rests`). Out: one of the
same kind over what stands for them, which the trace advances as any iterator that it has made: what
is called is evaluated. The real one is never advanced, which would run the program's functions a
second time; the iterators inside are, and it has no other state.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stator._native import _core as core
from stator._native._core import Frame
from stator.capture.calls.held_callables import callee
from stator.capture.calls.native_calls import TRUTH
from stator.effects.rest import Driver, driver
from stator.guards import Callback, Source, TypeIs
from stator.world import MISSING

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls


class _Alike:
    """Whether an iterator has its parts where another one has them."""

    def __init__(self, shape: tuple[Any, ...]) -> None:
        self._shape = shape

    def __call__(self, iterator: Any) -> bool:
        found = driver(iterator)
        return found is not None and found.shape == self._shape


class Driven:
    """One such iterator in a trace."""

    asked = 0  # itself, it is never advanced

    def __init__(self, calls: "Calls", made: Driver, source: Source, inner: list[Any]) -> None:
        self._calls, self._made, self._source = calls, made, source
        self._inner = inner
        self._iterator: Any = None

    @classmethod
    def of(cls, calls: "Calls", raw: Any, find: Callable[[Any], Any]) -> "Driven | None":
        """None if it is none, or one of those inside can't be told."""
        made = driver(raw)
        if made is None:
            return None
        world = calls.world
        source = world.origins[id(raw)]
        world.guard(source, TypeIs(type(raw)))
        world.guard(source, Callback(_Alike(made.shape), "alike inside"))
        inner = []
        for each, way in made.inner:
            assert callable(way)
            found = find(world.wrap(each, way(source)))
            if found is None:
                return None
            inner.append(found)
        return cls(calls, made, source, inner)

    def is_current(self) -> bool:
        """Whether nothing has been changed that those inside might go through."""
        return all(each.is_current() for each in self._inner)

    @property
    def iterator(self) -> Any:
        """What stands for it. It takes from those inside what they have ready."""
        if self._iterator is None:
            self._iterator = self._made.make(*self._arguments())
            self._calls.world.origins[id(self._iterator)] = self._source
            self._calls.world.keep(self._iterator)
        return self._iterator

    def all(self) -> bool:
        """Whether all that is left can be had: then `iterator` gives it."""
        return all(each.all() for each in self._inner)

    def prepare(self) -> bool:
        """Whether `iterator` has the next item, if there is one."""
        leaves = self.leaves()
        if self._selects() or len(leaves) > len({id(each) for each in leaves}):
            return self.all()  # how many it will ask for is not known, or one is asked twice
        return all(each.prepare() for each in self._inner)

    def next(self, frame: Frame) -> Any:
        """The next item, `NULL` if there is none, MISSING if it can't be had."""
        if not self._selects():
            return core.next(frame, self.iterator) if self.prepare() else MISSING
        wanted = self._made.make is filter
        test, *_ = self._arguments()
        while True:
            item = self._inner[0].next(frame)
            if item is MISSING or item is core.NULL:
                return item
            answer = core.call(frame, functools.partial(test, item), [], None)
            if self._calls.tracer.truth(frame, answer) is wanted:
                return item

    def leaves(self) -> list[Any]:
        """The iterators inside that are advanced, as often as they are there."""
        return [leaf for each in self._inner for leaf in each.leaves()]

    def _selects(self) -> bool:
        return id(self._made.make) in TRUTH

    def _arguments(self) -> list[Any]:
        inner = [each.iterator for each in self._inner]
        if self._made.function is not None:
            raw, way = self._made.function
            assert callable(way)
            return [callee(self._calls, self._calls.world.wrap(raw, way(self._source))), *inner]
        return [callee(self._calls, bool, None), *inner] if self._selects() else inner

    def ready(self) -> Any:
        """What C code will come to: what the functions return is seen to when they do."""
        return [each.ready() for each in self._inner]
