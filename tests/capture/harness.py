"""The oracle of all capture tests: the same program in eager and compiled, on fresh arguments.

A `Program` is a small function, a recipe for its arguments, and what is claimed about its capture.
`check` runs it and compares everything that can be seen from outside: results, effects, identity,
aliasing, exceptions, random numbers, gradients. And since a compiler that does nothing would pass
that, it also compares the operators that ran *inside* of graphs with those that eager runs.
"""

import contextlib
import difflib
import random
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch
import torch.fx as fx

import stator

from .describe import Describer, Listing, describe, same
from .known_breaks import KNOWN_BREAKS
from .surroundings import surroundings
from .tape import Tape, same_operators

HERE: Final = Path(__file__).parent
PROGRAMS: Final = (str(HERE), str(HERE.with_name("breaks")))
OURS: Final = str(Path(stator.__file__).parent)
OWN_FILES: Final = frozenset(
    str(HERE / name) for name in ("harness.py", "tape.py", "mutation.py", "describe.py")
)
# A program's own exceptions are compared; those of the engine under test are failures.
ENGINES: Final = ("stator", "torch._dynamo")
Under: TypeAlias = Callable[[], contextlib.AbstractContextManager[Any]]
Engine: TypeAlias = Callable[..., Any]

_generator: Final = torch.Generator()


class RefusedError(Exception):
    """Raised by a backend, to see what a trace alone does to the world."""


@dataclass(frozen=True)
class Given:
    """The arguments of one call."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


Make: TypeAlias = Callable[[], Given | tuple[Any, ...]]


@dataclass(frozen=True)
class Change:
    """Another call of the same program: other arguments, or another state of torch around it.

    `make` may also change the world; the program's `reset` undoes that.
    """

    make: Make | None = None
    under: Under = contextlib.nullcontext


@dataclass(frozen=True, eq=False)
class Program:
    """A function to compile, and what is claimed about it.

    `graphs` and `ops` are compared with what the backend was given; without them there must be one
    graph if eager runs any operator. `changes` are calls that must agree with
    eager, recompiled or not; `keeps` are calls that must be served by the first compilation.
    """

    name: str
    fn: Callable[..., Any]
    make: Make
    ops: Sequence[str] | None = None
    graphs: int | None = None
    changes: Mapping[str, Make | Change] = field(default_factory=dict)
    keeps: Mapping[str, Make | Change] = field(default_factory=dict)
    reset: Callable[[], object] | None = None  # makes module-level state as it was
    world: Callable[[], object] | None = None  # module-level objects to look at
    under: Under = contextlib.nullcontext
    raises: type[BaseException] | None = None
    dead: bool = False  # eager also runs operators that nothing uses
    free: bool = False  # other operators may stand for eager's (numpy's, in particular)
    hits: bool = True  # a second call with equal arguments is served by the first compilation
    backward: bool = True

    def __str__(self) -> str:
        return self.name

    @property
    def key(self) -> str:
        """The program's name in the list of known breaks."""
        return f"{self.fn.__module__.rpartition('.')[2]}.{self.name}"

    def given(self, seed: int, make: Make | None = None) -> Given:
        """Fresh arguments, equal for equal seeds, in a world that is reset."""
        if self.reset is not None:
            self.reset()
        _generator.manual_seed(seed)
        made = (make or self.make)()
        return made if isinstance(made, Given) else Given(made, {})


class Programs(list[Program]):
    """The programs of one file: `@programs(make, …)` adds the function below it."""

    def __call__(
        self, make: Make = tuple, **claims: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def add(fn: Callable[..., Any]) -> Callable[..., Any]:
            self.add(fn.__name__, fn, make, **claims)
            return fn

        return add

    def add(self, name: str, fn: Callable[..., Any], make: Make, **claims: Any) -> None:
        if any(program.name == name for program in self):
            raise ValueError(f"there is a program named {name!r} already")
        self.append(Program(name, fn, make, **claims))


def given(*args: Any, **kwargs: Any) -> Given:
    return Given(args, kwargs)


def t(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> torch.Tensor:
    """A fresh tensor whose values depend on the seed of the run."""
    if dtype is torch.bool:
        made = torch.rand(shape, generator=_generator) > 0.5
    elif dtype.is_floating_point or dtype.is_complex:
        made = torch.randn(
            shape, generator=_generator, dtype=torch.promote_types(dtype, torch.half)
        )
        made = made.to(dtype)
    else:
        made = torch.randint(0, 10, shape, generator=_generator).to(dtype)
    return made.requires_grad_() if grad else made


def ints(*shape: int, high: int = 10) -> torch.Tensor:
    return torch.randint(0, high, shape, generator=_generator)


def module(build: Callable[..., torch.nn.Module], *args: Any, **kwargs: Any) -> Any:
    """A fresh module with parameters that depend on the seed of the run."""
    made = build(*args, **kwargs)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=_generator) * 0.5)
    return made


def compile_with(fn: Callable[..., Any], **options: Any) -> Any:
    """The engine under test; the tests of the harness put others in its place."""
    return stator.compile(fn, **options)


def reset_engine() -> None:
    stator.reset()


class Recording:
    """A backend that keeps what it was given and runs it as it is."""

    def __init__(self) -> None:
        self.graphs: list[list[str]] = []
        self.codes: list[str] = []
        self.tape: list[str] = []

    def __call__(self, module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        self.graphs.append(op_names(module))
        self.codes.append(module.code)
        forward = module.forward

        def run(*args: Any) -> Any:
            with Tape(self.tape):
                return forward(*args)

        return run


def refuse(module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    raise RefusedError


def op_names(module: fx.GraphModule) -> list[str]:
    """The calls in a graph, in order: names of functions and methods."""
    return [
        node.target if isinstance(node.target, str) else node.target.__name__
        for node in module.graph.nodes
        if node.op.startswith("call_")
    ]


@dataclass(frozen=True)
class Outcome:
    """Everything a call did that can be seen from outside."""

    lines: list[str]
    error: BaseException | None


def call(
    program: Program,
    fn: Callable[..., Any],
    seed: int,
    change: Make | Change | None = None,
    tape: list[str] | None = None,
) -> Outcome:
    """Calls a function on fresh arguments, and tells all that happened."""
    change = _as_change(change)
    torch.manual_seed(seed)
    random.seed(seed)
    given = program.given(seed, change.make)
    error = result = None
    # A program may leave grad mode changed: that is seen, and then undone.
    with torch.enable_grad(), program.under(), change.under():
        try:
            with Tape(tape) if tape is not None else contextlib.nullcontext():
                result = fn(*given.args, **given.kwargs)
        except Exception as raised:
            if type(raised).__module__.startswith(ENGINES):
                raise
            error = raised
        around = surroundings()
    describer = Describer()
    lines = describer.describe("result ", result)
    outputs = describer.tensors()
    lines += _error_lines(describer, error)
    lines += describer.describe("args ", given.args)
    lines += describer.describe("kwargs ", given.kwargs)
    lines += describer.describe("world ", _world(program))
    lines += around
    if program.backward:
        lines += _backward(outputs)
        lines += Describer().describe("afterwards ", [result, given.args, given.kwargs])
    return Outcome(lines, error)


def _world(program: Program) -> object:
    """The module-level state; the list that a program puts it in is not part of it."""
    found = program.world() if program.world is not None else None
    return Listing(found) if type(found) is list else found


def _as_change(change: Make | Change | None) -> Change:
    return change if isinstance(change, Change) else Change(change)


def _error_lines(describer: Describer, error: BaseException | None) -> list[str]:
    if error is None:
        return []
    frames = [f"  at {file}:{line} in {name}" for file, line, name in user_frames(error)]
    if any(line.startswith(f"  at {OURS}") for line in frames):  # ours, and likely to hold a lot
        return [f"raised in stator: {type(error).__name__}: {error}", *frames]
    return [*describer.describe("raised ", error), f"text {error}", *frames]


def user_frames(error: BaseException) -> Iterator[tuple[str, int, str]]:
    """The frames of programs in a traceback. One of stator's own is shown, and so a difference."""
    entry: types.TracebackType | None = error.__traceback__
    while entry is not None:
        code = entry.tb_frame.f_code
        file = code.co_filename
        if file.startswith(OURS):
            yield file, entry.tb_lineno, code.co_name
        elif file.startswith(PROGRAMS) and file not in OWN_FILES:
            yield Path(file).name, entry.tb_lineno, code.co_name
        entry = entry.tb_next


def _backward(outputs: Sequence[torch.Tensor]) -> list[str]:
    """Runs the backward of what was returned, so that gradients are compared too."""
    roots = [y for y in outputs if y.grad_fn is not None]
    if not roots:
        return []
    try:
        torch.autograd.backward(roots, [torch.ones_like(y) for y in roots])
    except RuntimeError as error:
        return [f"backward raised {error}"]
    return ["backward done"]


class MismatchError(AssertionError):
    """A compiled call differs from eager."""


class Check:
    """One program, taken through all that is claimed about it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.backend = Recording()
        self.compiled: Any = None

    def run(self) -> None:
        """A program is captured, or known not to be; then it must be refused cleanly."""
        if self.program.key in KNOWN_BREAKS:
            self.refused()
        else:
            self.captured()

    def refused(self) -> None:
        """An error under fullgraph that leaves no mark; without it, what eager does."""
        program = self.program
        self.leaves_no_mark(self.backend, stator.CaptureError)
        reset_engine()
        self.compiled = compile_with(program.fn, backend=self.backend)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for seed, change in enumerate([None, None, *program.changes.values(), None]):
                self.agree(f"call {seed}", seed, change)

    def captured(self) -> None:
        program = self.program
        tape: list[str] = []
        call(program, program.fn, 1, tape=tape)
        reset_engine()
        self.compiled = compile_with(program.fn, backend=self.backend, fullgraph=True)
        self.agree("the first call", 1)
        first = len(self.backend.graphs)
        self.claims(tape)
        self.agree("the second call", 2, hit=program.hits)
        for name, change in program.keeps.items():
            self.agree(f"the call with the same {name}", 3, change, hit=True)
        for seed, (name, change) in enumerate(program.changes.items(), 4):
            if f"{program.key}: {name}" in KNOWN_BREAKS:
                self.refuses(name, seed, change)
            else:
                self.agree(f"the call with another {name}", seed, change)
        self.agree("the first kind of call again", 2, hit=program.hits)
        if first:
            self.leaves_no_mark(refuse, RefusedError)

    def agree(
        self, what: str, seed: int, change: Make | Change | None = None, hit: bool = False
    ) -> None:
        """A compiled call sees and does what eager does."""
        program = self.program
        expected = call(program, program.fn, seed, change)
        _declared(program, expected, change)
        graphs, before = len(self.backend.graphs), self.compiled.statistics()
        found = call(program, self.compiled, seed, change)
        if found.lines != expected.lines:
            diff = difflib.unified_diff(expected.lines, found.lines, "eager", "compiled", "", "", 2)
            raise MismatchError(self.message(f"{what} differs", diff)) from found.error
        after = self.compiled.statistics()
        if hit and (len(self.backend.graphs) > graphs or after["misses"] > before["misses"]):
            raise MismatchError(self.message(f"{what} was compiled anew", self.backend.codes))
        if hit and after["hits"] == before["hits"]:
            raise MismatchError(self.message(f"{what} was not served by an entry", []))

    def refuses(self, name: str, seed: int, change: Make | Change) -> None:
        """A change that is known not to be captured is an error under fullgraph."""
        try:
            call(self.program, self.compiled, seed, change)
        except stator.CaptureError:
            return
        text = f"the change {name!r} is captured now: take it off the list in known_breaks.py"
        raise MismatchError(self.message(text, []))

    def claims(self, eager: list[str]) -> None:
        """What eager ran was in graphs: the claim that a do-nothing compiler fails."""
        program, backend = self.program, self.backend
        # A call that runs no operator (`x.to(x.dtype)`) may still be in a graph; where nothing
        # uses the operators that run, there may be none.
        partial = program.dead or program.raises is not None
        claimed = [program.graphs]
        if program.graphs is None:
            claimed = [0, 1] if partial or program.free or not eager else [1]
        if len(backend.graphs) not in claimed:
            text = f"{len(backend.graphs)} graphs instead of {claimed}"
            raise MismatchError(self.message(text, backend.codes))
        if program.ops is not None:
            names = [name for graph in backend.graphs for name in graph]
            if names != list(program.ops):
                text = f"calls in the graph: {names}, claimed: {list(program.ops)}"
                raise MismatchError(self.message(text, backend.codes))
        problem = same_operators(eager, backend.tape, partial)
        if problem is not None and not program.free:
            raise MismatchError(self.message(problem, backend.codes))

    def leaves_no_mark(self, backend: Any, wanted: type[Exception]) -> None:
        """A trace that comes to nothing leaves arguments, world and torch as they were."""
        program = self.program
        reset_engine()
        compiled = compile_with(program.fn, backend=backend, fullgraph=True)
        torch.manual_seed(9)
        given = program.given(9)
        with torch.enable_grad(), program.under():
            before, objects = _seen(program, given)
            refused = None
            try:
                compiled(*given.args, **given.kwargs)
            except Exception as raised:
                refused = raised
            after, objects_after = _seen(program, given)
        if not any(isinstance(error, wanted) for error in _chain(refused)):
            text = f"{refused!r} instead of {wanted.__name__}"
            if refused is None and program.key in KNOWN_BREAKS:
                text = "is captured now: take it off the list in known_breaks.py"
            raise MismatchError(self.message(text, [])) from refused
        if before != after:
            diff = difflib.unified_diff(before, after, "before", "after the trace", "", "", 2)
            raise MismatchError(self.message("the trace changed something", diff))
        if objects != objects_after:
            raise MismatchError(self.message("the trace replaced an object by an equal one", []))
        refused = None  # it refers to this frame, and with it to the arguments

    def message(self, text: str, details: Any) -> str:
        return "\n".join([f"{self.program.name}: {text}", *details])


def _seen(program: Program, given: Given) -> tuple[list[str], list[int]]:
    describer = Describer()
    lines = describer.describe("args ", given.args)
    lines += describer.describe("kwargs ", given.kwargs)
    lines += describer.describe("world ", _world(program))
    return lines + surroundings(), describer.identities()


def _declared(program: Program, eager: Outcome, change: Make | Change | None) -> None:
    """A program that raises by accident would compare one error with another."""
    if change is not None:
        return
    wanted = program.raises
    found = type(eager.error) if eager.error is not None else None
    if found is not wanted:
        raise ValueError(f"{program.name} raised {eager.error!r} in eager") from eager.error


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def check(program: Program) -> None:
    """Compares a program compiled with the same in eager; a difference is a `MismatchError`."""
    try:
        Check(program).run()
    finally:
        if program.reset is not None:
            program.reset()


__all__ = [
    "Change",
    "Given",
    "MismatchError",
    "Program",
    "Programs",
    "check",
    "describe",
    "given",
    "ints",
    "module",
    "same",
    "t",
]
