"""What is traced, and what that found out.

Stage: capture, and what comes behind it. In: a call of a function, or the rest of one (`Task`).
Out: a `Trace`.
"""

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType
from typing import Any, Final

from stator.bytecode import decode
from stator.capture.numbers.shapes import Shapes
from stator.capture.trace.budget import Splits
from stator.capture.trace.wanted import Wanted
from stator.diagnostics.breaks import Break, Place
from stator.effects import Plan
from stator.effects.suspension import Suspension
from stator.evaluator.points import Point
from stator.graph import Recorded
from stator.graph.passes.prologue import Prologue
from stator.graph.passes.retry import Changes, Retry
from stator.graph.passes.shared import SharedInputs
from stator.graph.recording.arrays import Edges
from stator.guards import Guard, Source


@dataclass
class Trace:
    """What one trace found out."""

    guards: list[Guard]
    recorded: Recorded | None
    """The graph; None if nothing was recorded."""
    inputs: list[Source]
    """Where the graph's inputs come from, in order."""
    plan: Plan | None
    """How to make the result, or what it raises.

    None if the trace was broken off, or if an operator of torch has raised: then the call runs as
    it is, under the guards.
    """
    broken: Break | None = None
    error: bool = False
    """The program wants breaks to be errors, where it was broken off."""
    raised: BaseException | None = None
    retry: Retry | None = None
    """How to call the graph, if the program is to run in its place when a check in it fails."""
    changes: Changes | None = None
    """What the graph changes, if there is one."""
    ranges: tuple[str, ...] = ()
    """What a profiler is to see around the graph: names that the program has given its parts."""
    refuses: bool = False
    """Whether an operator of the graph may refuse the values that it gets."""
    edges: Edges = field(default_factory=Edges)
    """Which inputs and outputs of the graph are numpy arrays or floats."""
    shared: SharedInputs = field(default_factory=SharedInputs)
    """Inputs that lie in one memory, of which the graph changes one."""
    prologue: Prologue = field(default_factory=Prologue)
    """What happens before the graph. It takes the last of the inputs, and makes some itself."""
    suspension: Suspension | None = None
    """How the program goes on, if the trace ends in the middle."""
    steps: int = 0
    """How many instructions of the outermost loop have run before it ended."""
    unfit: bool = False
    """It can't end here, since the next instruction can't be carried out on its own."""
    before: int | None = None
    """If it can't end here: an earlier step, where it may."""
    speculated: bool = False
    """Whether values were taken for granted that the graph checks."""
    writes: tuple[Any, ...] = ()
    """What it changes of the world, and where, if somebody wants to know (`writes.Write`)."""
    operators: tuple[Any, ...] = ()
    """What was recorded, for comparison with another trace of the same call."""
    looked: frozenset[str] = frozenset()
    """Strings that were left open and that the program has looked at, by the text of the source."""
    regions: tuple[CodeType, ...] = ()
    """Regions inside of which it was broken off: they are to be none."""
    repeated: bool = False
    """Whether modules that are repeated were regions."""
    shapes: Shapes | None = None
    """What it assumes of the sizes and ints that are left open."""
    of_process: str | None = None
    """What of it another process may answer otherwise, though nothing has changed."""
    shows: bool = False
    """Whether the graph shows texts: they wait until it has run."""

    def all_guards(self) -> tuple[Guard, ...]:
        """With those on sizes, of which the backend may have added some."""
        return (*self.guards, *(() if self.shapes is None else self.shapes.assumed.guards()))


class Trust(enum.IntEnum):
    """What a trace takes for granted of values: each is for calls on which the one before fails."""

    SEEN = 0
    """What they are in the call that is traced."""
    STEADY = 1
    """The same, but for instructions where they have turned out to vary: there it is split."""
    NOTHING = 2


def _anything() -> None: ...


ANYTHING: Final = _anything.__code__
"""Among what is to be no region: all modules that are only repeated."""


@dataclass(frozen=True)
class Task:
    """What is traced: a call of a function, or the rest of one."""

    function: FunctionType
    bound: Sequence[Any]
    """The values of its parameters, or those that the points need."""
    points: tuple[Point, ...] = ()
    """Where it begins, if in the middle."""
    trust: Trust = Trust.SEEN
    """What is taken for granted that only the graph can check."""
    varied: frozenset[object] = frozenset()
    """Instructions of the program at which something turned out to be otherwise."""
    wanted: Wanted = field(default_factory=Wanted)
    """Which sizes and ints are left open."""
    whole: bool = False
    """It is to be one graph, or none."""
    apart: bool = False
    """What makes numbers or sizes that depend on values is not in a graph: the backend has failed
    on one."""
    splits: Splits = field(default_factory=dict)
    """Loops that are not unrolled; those that take too long are added."""
    inlined: set[CodeType] = field(default_factory=set)
    """Regions that are captured where they are called; those that can be none are added."""
    auto: bool = False
    """Calls of modules that are repeated are regions."""

    @property
    def place(self) -> Place:
        if self.points:
            point = self.points[-1]
            line = decode(point.code).line_of(point.unit) or point.code.co_firstlineno
            return Place(point.code.co_filename, line, point.code.co_qualname)
        code = self.function.__code__
        return Place(code.co_filename, code.co_firstlineno, code.co_qualname)
