"""Which calls of modules are under way when an operation is recorded.

Stage: capture. In: frames of `nn.Module._call_impl`, through which each call of a module passes.
Out: the `nn_module_stack` of a node, as torch's tools read it from graphs: for each call, the
outermost first, a key and the path to the module, with its class. Profilers, quantisers and
exporters group nodes by it. The key is the module's identity; a further call of it by the same path
has a number behind that.

A frame is known by its id, and noted anew whenever one begins: nothing here keeps frames, or what
is in them, alive.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import CellType, CodeType, FrameType
from typing import Any, Final

from torch import nn

from stator import objects
from stator._native._core import NULL, Frame, load_cell
from stator.guards import Source
from stator.guards.paths import written
from stator.objects.types import name_of
from stator.torchlib.tracers import module_call
from stator.world import World

CALL: Final = module_call
_NAME: Final = CALL.__code__.co_name
_FILE: Final = CALL.__code__.co_filename


@dataclass(frozen=True)
class _Call:
    """A call of a module."""

    key: str
    path: str
    cls: type
    source: Source | None
    """By which the module was first reached, and its parts are."""


class ModuleCalls:
    """The modules that one trace calls."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._entered: dict[int, _Call | None] = {}  # by id of the frame
        self._last: dict[int, _Call] = {}  # by id of the module
        self._counts: Counter[tuple[int, str]] = Counter()

    def entered(self, frame: Frame) -> None:
        """A call begins."""
        self._entered[id(frame)] = self._call(frame)

    def at(self, frame: Frame, below: Sequence[FrameType] = ()) -> dict[str, tuple[str, type]]:
        """The calls under way in a frame, its callers, and those below that wait for C code."""
        found = self._under_way(frame)
        for each in below:
            if _is_call(each.f_code):
                call = self._last.get(id(each.f_locals.get("self")))
                if call is not None:
                    found.append(call)
        modules: dict[str, tuple[str, type]] = {}
        for call in reversed(found):
            modules[call.key] = call.path, call.cls
        return modules

    def _under_way(self, innermost: Frame | None) -> list[_Call]:
        """The innermost first."""
        found: list[_Call] = []
        frame = innermost
        while frame is not None:  # often deep: no call for each
            code = frame.code
            if code.co_name == _NAME and code.co_filename == _FILE:
                if id(frame) not in self._entered:  # the trace began with it, or in the middle
                    self.entered(frame)
                call = self._entered[id(frame)]
                if call is not None:
                    found.append(call)
            frame = frame.caller
        return found

    def _call(self, frame: Frame) -> _Call | None:
        module = frame[0]
        if type(module) is CellType:
            module = load_cell(frame, module)
        if module is NULL or not objects.is_subtype(type(module), nn.Module):
            return None  # a continuation does not keep what nothing reads any more
        record = self._world.records.get(id(module))
        raw: Any = module if record is None else record.raw
        source = self._world.origins.get(id(module))
        path = self._path(module, source, frame)
        count = self._counts[id(raw), path]
        self._counts[id(raw), path] += 1
        key = f"{id(raw)}@{count}" if count else str(id(raw))
        made = self._last[id(module)] = _Call(key, path, type(raw), source)
        return made

    def _path(self, module: Any, source: Source | None, frame: Frame) -> str:
        """How the program has reached a module: what it calls inside of another, by way of that."""
        if source is None:
            return f"{name_of(type(module))}()"  # made in the trace
        around = {id(call.source): call.path for call in self._under_way(frame.caller)}
        return written(self._world.latest.get(id(module), source), around)


def _is_call(code: CodeType) -> bool:
    """Whether a frame is a module's: a copy of the function is compiled, of the same name."""
    return code.co_name == _NAME and code.co_filename == _FILE
