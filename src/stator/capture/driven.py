"""Iterators from before the call that go through others: `map`, `filter`, `zip`, `starmap`.

Stage: capture. In: such an iterator, and what is known of those inside (`rests`). Out: one of the
same kind over what stands for them, which the trace advances as any iterator that it has made: what
is called is evaluated. The real one is never advanced, which would run the program's functions a
second time; the iterators inside are, and it has no other state.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stator.capture.native_calls import TRUTH, callee
from stator.effects.rest import Driver, driver
from stator.guards import Callback, Source, TypeIs

if TYPE_CHECKING:
    from stator.capture.calls import Calls


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
        self.iterator: Any = None

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

    def all(self) -> bool:
        """Whether all that is left can be had: then `iterator` gives it."""
        if not all(each.all() for each in self._inner):
            return False
        if self.iterator is None:
            self.iterator = self._made.make(*self._arguments())
            self._calls.world.origins[id(self.iterator)] = self._source
            self._calls.world.keep(self.iterator)
        return True

    def _arguments(self) -> list[Any]:
        inner = [each.iterator for each in self._inner]
        if self._made.function is not None:
            raw, way = self._made.function
            assert callable(way)
            return [callee(self._calls, self._calls.world.wrap(raw, way(self._source))), *inner]
        return [callee(self._calls, bool, None), *inner] if id(self._made.make) in TRUTH else inner

    def ready(self) -> Any:
        """What C code will come to: what the functions return is seen to when they do."""
        return [each.ready() for each in self._inner]
