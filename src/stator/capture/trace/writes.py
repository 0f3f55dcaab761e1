"""Where the program changes objects that existed before the call: for `config.side_effect_policy`.

Stage: capture, if the policy asks for it. In: each change, as the tracer carries it out on a
shadow. Out: for each effect of the trace the lines of the program that have brought it about. What
is written (`print`, logs, warnings), drawn at random or done to tensors is none of these: it is no
object of Python's that changes.

In the rest of a program behind a break, a variable may hold an object that was made in the same
call: there only parameters, and what is reached without a variable, count.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import CodeType
from typing import Any

from stator.bytecode import decode
from stator.capture.trace.blame import blame
from stator.capture.trace.task import Task
from stator.diagnostics.places import Place
from stator.effects import Effect
from stator.effects.model import ClassAttrDel, ClassAttrSet, Passed, Perform
from stator.guards import Fixed, Local, Source
from stator.world import MISSING, World

_VARIADIC = 0x04
_NAMED = 0x08


@dataclass(frozen=True)
class Write:
    """An effect, and a line of the program that it is due to."""

    effect: Effect
    place: Place | None


class Writes:
    """The changes of one trace."""

    def __init__(self, world: World, task: Task) -> None:
        self._world = world
        self._lines: dict[tuple[int, str | None], dict[tuple[CodeType, int], None]] = {}
        self._parameters: set[str] | None = None
        if task.points:
            self._parameters = {name for point in task.points for name in _parameters(point.code)}
        world.watch = self._note

    def _note(self, target: int, name: Any = MISSING) -> None:
        code, unit = blame()
        if code is not None:
            key = target, name if type(name) is str else None
            self._lines.setdefault(key, {})[code, unit] = None

    def of(self, effects: Iterable[Effect], cells: Iterable[int]) -> tuple[Write, ...]:
        """Those that the policy is about, each with the lines that are known."""
        records = [each for each in self._world.records.values() if each.owner is None]
        targets = {id(record.source): id(record.shadow) for record in records}
        targets |= {id(self._world.origins[cell]): cell for cell in cells}
        return tuple(
            Write(effect, place)
            for effect in effects
            if self._counts(effect)
            for place in self._places(effect, targets)
        )

    def _counts(self, effect: Effect) -> bool:
        if isinstance(effect, Perform | Passed):
            return False
        root = _root(effect.target)
        if self._parameters is None or not isinstance(root, Local):
            return True
        return root.name in self._parameters

    def _places(self, effect: Effect, targets: dict[int, int]) -> Iterator[Place | None]:
        target = targets.get(id(effect.target), 0)
        if isinstance(effect, ClassAttrSet | ClassAttrDel) and isinstance(effect.target, Fixed):
            target = id(effect.target.value)
        found = self._lines.get((target, _part(effect)), {})
        if not found:  # of any part of it
            lines = (each for (whose, _), each in self._lines.items() if whose == target)
            found = {line: None for each in lines for line in each}
        if not found:
            yield None
        for code, unit in found:
            line = decode(code).line_of(unit) or code.co_firstlineno
            yield Place(code.co_filename, line, code.co_qualname)


def _part(effect: Effect) -> str | None:
    """The attribute or item that an effect is about, if it is about one."""
    fields = vars(effect)
    descriptor = fields.get("descriptor")
    if descriptor is not None:
        return str(descriptor.__name__)
    name = fields.get("name", fields.get("key"))
    return name if type(name) is str else None


def _root(source: Source) -> Source:
    while source.base is not None:
        source = source.base
    return source


def _parameters(code: CodeType) -> tuple[str, ...]:
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & _VARIADIC) + bool(code.co_flags & _NAMED)
    return code.co_varnames[:count]
