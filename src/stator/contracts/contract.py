"""The words of a contract: what a C callable does with its arguments and with the world.

Comes in: nothing. Goes out: `Contract` and its parts, for the tables that state contracts and for
the tracer that obeys them.

Arguments are counted as in the *unbound* form: argument 0 of ``list.append`` is the list, whether
the call is ``list.append(x, 1)`` or ``x.append(1)``. A constructor's class is not counted.
"""

from dataclasses import dataclass
from enum import Enum, IntEnum


class Verdict(Enum):
    """Whether a callable may run while tracing."""

    PURE = "pure"  # looks at types and at immutable values (numbers, text, classes) only
    READS = "reads"  # may look into mutable objects
    MUTATES = "mutates"  # changes the arguments marked as mutated, and nothing else
    CONSTANT = "constant"  # a question about the installation or process: ask once, keep the answer
    FRAME = "frame"  # looks at the frame that calls it: call it in a window of the evaluated frame
    FORBIDDEN = "forbidden"  # must never run at trace time; `Contract.reason` says why


class Depth(IntEnum):
    """How much of an argument is read."""

    NOTHING = 0  # its identity and its type
    SHALLOW = 1  # its own value: a number, a text, a length, the items (which objects they are)
    DEEP = 2  # all that can be reached through items


class SymInt(Enum):
    """What to do with a symbolic integer before the call."""

    PASS = "pass"  # hand it over: it is stored, or only its own arithmetic and comparison is used
    SPECIALIZE = "specialize"  # replace it by its value first


class Reason(Enum):
    """Why a callable is forbidden. The name is the id, the value completes "because it …"."""

    OUTPUT = "writes to a stream"
    IO = "reads or writes files, sockets or devices"
    TIME = "reads a clock or waits"
    RANDOM = "draws random numbers or changes a generator's state"
    THREADS = "starts or inspects threads"
    LOCK = "takes, releases or inspects a lock"
    COLLECTOR = "steers or inspects the garbage collector"
    OS = "asks or changes the operating system"
    PROCESS = "changes or inspects state of the whole interpreter"
    MEMORY = "depends on how objects are laid out in memory or on who refers to them"
    HIDDEN_STATE = "keeps state that can not be seen or undone, such as a cache or a context"
    WARNINGS = "issues a warning and changes a warning registry"
    IMPORT = "imports modules"
    DEBUG = "enters a debugger or installs a trace function"
    EXIT = "ends the thread or the process"
    CODEC = "runs a codec or compressor that is not worth a contract"


@dataclass(frozen=True, slots=True)
class Argument:
    """What happens to one argument."""

    depth: Depth = Depth.NOTHING
    attributes: bool = False  # its instance attributes (__dict__, slots) are read
    mutated: bool = False  # it is changed; an iterator: it is advanced
    iterated: bool = False  # it is iterated over, now or later: an iterator given here is advanced
    hashed: bool = False  # it, or what it contains, is hashed
    called: bool = False  # it, or the callable that it holds, is called
    symint: SymInt = SymInt.PASS  # for it, and for its items as far as they are read


@dataclass(frozen=True, slots=True)
class Contract:
    """What a C callable does. The last of `arguments` stands for all further ones and keywords."""

    verdict: Verdict
    arguments: tuple[Argument, ...] = (Argument(),)
    calls_back: bool = False  # may run special methods of what it reads, or the callables given
    identity: bool = False  # its result may depend on addresses: id(), default hash and repr
    reason: Reason | None = None  # of a FORBIDDEN one

    @property
    def runs(self) -> bool:
        """Whether it may be called at trace time."""
        return self.verdict is not Verdict.FORBIDDEN

    def argument(self, position: int) -> Argument:
        """What happens to the positional argument with this number."""
        return self.arguments[min(position, len(self.arguments) - 1)]

    @property
    def keywords(self) -> Argument:
        """What happens to each keyword argument."""
        return self.arguments[-1]

    @property
    def mutates(self) -> tuple[int, ...]:
        """Numbers of the arguments that are changed."""
        return tuple(i for i, argument in enumerate(self.arguments) if argument.mutated)
