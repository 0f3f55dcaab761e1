"""Streams over files in memory: `io.TextIOWrapper(io.BytesIO())`, with a buffer between or not.

Stage: capture. In: such a stream made in the call over an `io.BytesIO` made in the call, and its
methods. Out: what CPython answers: all of it is memory of the trace.

When a stream dies, it closes what it is over. It is kept here as long as the trace, and what it is
over can be used only where the stream is in a variable of the function that does so. In other
places, and where a stream of another kind is made, there is a `Break`. None can leave the call.
"""

import io
import locale
import types
from typing import TYPE_CHECKING, Any, Final

from stator import objects
from stator._native import _core as core
from stator._native._core import Frame, is_python_class
from stator.capture.calls.builtin_calls import Handler
from stator.capture.calls.native_calls import call_c
from stator.diagnostics.catalogue import Finalizer, InputOutput
from stator.guards import Callback, Fixed
from stator.objects import TypeSet
from stator.world.kinds import CONSTANTS

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls

STREAMS: Final = TypeSet(io.TextIOWrapper, io.BufferedReader, io.BufferedWriter, io.BufferedRandom)
IN_MEMORY: Final = TypeSet(io.StringIO, io.BytesIO)
FINALIZED: Final = ("__del__", "close", "closed", "flush")  # what the finalizer uses
_SEEN: Final = frozenset({*FINALIZED, "__dict__"})
_METHODS: Final = frozenset(
    {
        *("read", "read1", "peek", "readline", "readlines", "write", "seek", "tell", "truncate"),
        *("flush", "close", "getvalue", "readable", "writable", "seekable", "isatty"),
        *("__iter__", "__next__", "__enter__", "__exit__"),
    }
)
_CODECS: Final = frozenset({"utf-8", "utf8", "ascii", "latin-1", "utf-16", "utf-32"})


class Streams:
    """The streams over memory of one trace."""

    def __init__(self, calls: "Calls") -> None:
        self._calls = calls
        self._known: dict[int, Any] = {}  # they, and what they are over
        self._owners: dict[int, Any] = {}  # the stream that is over it, by id

    def make(self, frame: Frame, cls: Any, args: list[Any], kwnames: tuple[str, ...] | None) -> Any:
        """A class of streams is called."""
        calls = self._calls
        new, init = (calls.world.class_attribute(cls, name) for name in ("__new__", "__init__"))
        assert new is not None
        assert init is not None
        if is_python_class(new.owner) or is_python_class(type(cls)):
            raise InputOutput("a stream is made in a way of its own")
        if is_python_class(init.owner):
            return call_c(calls, frame, cls, args, kwnames)  # it calls `__init__` of the C class
        keywords = len(kwnames or ())
        given = dict(zip(kwnames or (), args[len(args) - keywords :], strict=True))
        over = self._check(objects.layout_base(cls), args[: len(args) - keywords], given)
        made = call_c(calls, frame, cls, args, kwnames)
        self._enter(made, over)
        return made

    def begin(self, frame: Frame, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """`__init__` of a C class of streams is called."""
        made = args[0] if args else None
        base = objects.layout_base(type(made))
        new = not self._calls.world.is_world(made) and id(made) not in self._known
        if not new or not STREAMS.holds(base) or function.__objclass__ is not base:
            raise InputOutput("a stream is made anew")
        over = self._check(base, args[1:], kwargs)
        values = [*args, *kwargs.values()]
        call_c(self._calls, frame, function, values, tuple(kwargs) or None)
        self._enter(made, over)

    def _check(self, base: type, args: list[Any], kwargs: dict[str, Any]) -> Any:
        world = self._calls.world
        over = args[0] if args else None
        fresh = not world.is_world(over) and id(over) not in world.opaque
        plain = type(over) is io.BytesIO or (STREAMS.holds(type(over)) and id(over) in self._known)
        plain = plain and type(over) is not io.TextIOWrapper and not objects.instance_dict(over)
        values = [*args[1:], *kwargs.values()]
        if not fresh or not plain or not all(CONSTANTS.holds(type(each)) for each in values):
            raise InputOutput("a stream is made that is not over a new io.BytesIO")
        if base is io.TextIOWrapper:
            encoding = args[1] if len(args) > 1 else kwargs.get("encoding")
            if encoding is None:
                default = locale.getencoding()
                same = Callback(lambda asked: asked() == default, f"the encoding is {default}")
                world.guard(Fixed(locale.getencoding), same)
            elif type(encoding) is not str or encoding.lower() not in _CODECS:
                raise InputOutput("a stream has an encoding of its own")
        return over

    def _enter(self, made: Any, over: Any) -> None:
        own, cls = objects.instance_dict(made), type(made)
        for name in own or ():
            self.check_store(made, cls, name)
        self._calls.world.keep(made)  # weak references to it can't tell whether it lives
        self._known[id(made)] = made
        self._known[id(over)] = over
        self._owners[id(over)] = made
        self._calls.world.opaque[id(over)] = f"{type(over).__name__} under a stream"

    def check_store(self, value: Any, cls: type, name: str) -> None:
        """An attribute is set, which the finalizer may not come to see."""
        if name not in _SEEN:
            return
        base = objects.layout_base(cls)
        if STREAMS.holds(base) or (IN_MEMORY.holds(base) and is_python_class(cls)):
            raise Finalizer(f"{name} of a stream may be replaced", whole=True)

    def may_run(self, frame: Frame, stream: Any, name: str, args: list[Any]) -> bool:
        """Whether a method is about memory of the trace alone."""
        if id(stream) not in self._known or name not in _METHODS:
            return False
        self._check_alive(frame, stream)
        return all(CONSTANTS.holds(type(value)) for value in args)

    def holds(self, value: Any) -> bool:
        return id(value) in self._known

    def attribute(self, frame: Frame, stream: Any, name: str) -> Any:
        """An attribute of what a stream is over."""
        found = objects.lookup(type(stream), name)
        method = found is not None and type(found.value) is types.MethodDescriptorType
        if name == "closed":
            self._check_alive(frame, stream)
        elif name != "raw" and not (method and name in _METHODS):
            raise InputOutput(f"{name} of what a stream is over is used")
        return core.getattr(frame, stream, name)

    def _check_alive(self, frame: Frame, stream: Any) -> None:
        """What a stream is over is open as long as the stream lives."""
        owner = stream
        while id(owner) in self._owners:
            owner = self._owners[id(owner)]
        held = any(frame[index] is owner for index in range(frame.code.co_nlocals))
        if owner is not stream and not held:
            raise Finalizer("whether a stream is still alive matters", whole=True)


def _init(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    """`__init__` of a stream, as a class of the program's calls it."""
    return calls.streams.begin(frame, function, args, kwargs)


_CLASSES: Final[tuple[Any, ...]] = (
    *(io.TextIOWrapper, io.BufferedReader, io.BufferedWriter, io.BufferedRandom),
)
MEMORY_STREAMS: Final[dict[int, Handler]] = {
    id(objects.type_dict(cls)["__init__"]): _init for cls in _CLASSES
}
