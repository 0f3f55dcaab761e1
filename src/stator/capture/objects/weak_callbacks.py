"""Callbacks of weak references to objects that the program makes: they run when the object dies.

Stage: capture, for `weakly`. In: a weak reference with a callback, to an object that nobody but the
program holds, so that it dies in the trace when it dies in eager. CPython would call the callback
in the middle of our own code. So C code alone is called, which notes the reference; the callback is
evaluated before the tracer's next operation. Until then nothing of the program runs.

Out: the trace, if all those objects have died by its end, or leave it. One that is alive and goes
nowhere is held by the tracer or by a circle, and its callback would be lost: a `Break`.
"""

import functools
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from stator._native import _core as core
from stator.capture.calls.python_calls import ours
from stator.diagnostics.breaks import Break
from stator.diagnostics.catalogue import Finalizer

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

# Whatever a program can see, it sees by one of these.
_OPERATIONS: Final = (
    *("binary", "compare", "truth", "negative", "positive", "invert", "contains", "identical"),
    *("getattr", "setattr", "delattr", "getitem", "setitem", "delitem", "iter", "next", "send"),
    *("load_global", "store_global", "delete_global", "load_name", "store_name", "delete_name"),
    *("lookup_name", "load_cell", "store_cell", "call", "call_ex", "call_native", "instruction"),
)


class Waiting:
    """A callback, by what C code is given in its place."""

    __slots__ = ("callback",)

    def __init__(self, callback: Any) -> None:
        self.callback = callback


class Deaths:
    """The objects of one trace whose death the program wants to hear of."""

    def __init__(self, calls: "Calls") -> None:
        self._calls = calls
        self._died: dict[Waiting, Any] = {}  # the references whose objects have died, in order
        self._expected: list[weakref.ref[Any]] = []

    def expect(self, target: Any, callback: Any) -> Any:
        """What is given to C code in the place of a callback."""
        if not self._expected:
            self._watch()
        self._expected.append(weakref.ref(target))
        return functools.partial(self._died.__setitem__, Waiting(callback))

    def _watch(self) -> None:
        """From now on, each operation asks first whether somebody has died."""
        tracer = self._calls.tracer
        ours(self._calls, _hear)
        for name in _OPERATIONS:
            tracer.__dict__[name] = self._asking(getattr(tracer, name))

    def _asking(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        died = self._died

        def asking(*args: Any) -> Any:
            if died:
                self.settle()
            return operation(*args)

        return asking

    @property
    def awaited(self) -> bool:
        """Whether callbacks may come; a program that is split then would hear of them later."""
        return any(reference() is not None for reference in self._expected)

    def settle(self) -> None:
        """Evaluates the callbacks of those who have died; who dies meanwhile comes in between."""
        tracer = self._calls.tracer
        died = list(self._died.items())
        self._died.clear()
        for waiting, reference in died:
            try:
                tracer.run_within(_hear, waiting.callback, reference)
            except BaseException as error:
                if isinstance(error, Break) or not core.is_user_error(error):
                    raise
                reason = "the callback of a weak reference raises"
                raise Finalizer(reason, whole=True) from None

    def check(self, leaves: Callable[[Any], bool]) -> None:
        """The trace has ended: who is alive must be made again."""
        for reference in self._expected:
            target = reference()
            if target is not None and not leaves(target):
                kind = type(target).__qualname__
                reason = f"an object of type {kind} with a weak reference and a callback is left"
                raise Finalizer(reason, whole=True)


def behind(noted: Any) -> Any:
    """The callback for which such a thing stands; None if it stands for none."""
    if type(noted) is functools.partial and noted.args and type(noted.args[0]) is Waiting:
        return noted.args[0].callback
    return None


def _hear(callback: Any, reference: Any) -> None:
    callback(reference)
