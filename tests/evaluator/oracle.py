"""The oracle of all evaluator tests: CPython itself.

A program runs twice, natively and by ``stator.evaluator.run``, each time on a fresh module with
fresh arguments. Everything one can see of a run is turned into text and compared: the returned
value, output, warnings, the exception with its whole chain and its formatted traceback, the order
of events, the arguments afterwards, and what the run left behind in the interpreter. A failure
prints the program, the differences and the disassembly.

Programs are written as text, many in one string, each below a header line::

    #: the name of the program            [frames 5] [3.12+]
    def main(x):
        log("called")
        return x + 1

    ARGS = (1,)

``[frames n]`` asks that at least n frames were evaluated, ``[3.12+]`` or ``[<3.13]`` limits the
program to some Python versions. These names have a meaning in a program:

    main    the function under test; a program without one is the body of ``main()``
    ARGS    positional arguments for main (KWARGS: keyword arguments), made natively
    after   a function called natively on the value main returned; its result is compared instead
    log     a builtin that notes one object in the list of events
"""

import contextlib
import copy
import dataclasses
import difflib
import dis
import gc
import inspect
import io
import itertools
import linecache
import os
import re
import sys
import textwrap
import threading
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

import stator
from stator import evaluator

from .snapshot import PROGRAM_MODULE, Describer, describe, type_name, without_addresses

Section = list[str]
Outcome = dict[str, Section]

_STATOR = os.path.dirname(os.path.abspath(stator.__file__))
_HARNESS = (__file__,)
_serial = itertools.count(1)


# ---- What is run -------------------------------------------------------------------------------


@dataclasses.dataclass
class Prepared:
    """One fresh instance of a program, ready to be called."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    after: Callable[[Any], Any] | None = None
    events: list[Any] = dataclasses.field(default_factory=list)
    module: types.ModuleType | None = None


_MAIN = re.compile(r"^(async )?def main\b|^main\s*=", re.M)


@dataclasses.dataclass
class Program:
    """A program as text; ``prepare`` executes it anew as a module of its own."""

    name: str
    source: str
    min_frames: int = 1
    entry: str = "main"
    args: tuple[Any, ...] | None = None
    prelude: str = ""

    def __post_init__(self) -> None:
        if self.entry == "main" and not _MAIN.search(self.source):
            self.source = "def main():\n" + textwrap.indent(self.source, "    ")
        self.source = self.prelude + self.source
        self.filename = f"<program {next(_serial)}: {self.name}>"
        lines = self.source.splitlines(keepends=True)
        linecache.cache[self.filename] = (len(self.source), None, lines, self.filename)

    def __str__(self) -> str:
        return self.name

    def compile(self) -> types.CodeType:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return compile(self.source, self.filename, "exec", dont_inherit=True)

    def prepare(self) -> Prepared:
        module = types.ModuleType(PROGRAM_MODULE)
        sys.modules[PROGRAM_MODULE] = module
        events: list[Any] = []
        namespace = module.__dict__
        namespace["log"] = events.append
        exec(self.compile(), namespace)
        args = namespace.get("ARGS", ()) if self.args is None else copy.deepcopy(self.args)
        return Prepared(
            namespace[self.entry],
            args,
            namespace.get("KWARGS", {}),
            namespace.get("after"),
            events,
            module,
        )

    def check(self) -> Outcome:
        """Compare both runs; returns the native outcome, for tests that want to know more."""
        return _compare(self.name, self.prepare, self.source, self.compile, self.min_frames)


_HEADER = re.compile(r"^#: (?P<name>.*?)(?P<options>(?: +\[[^]]*\])*)$", re.M)


def programs(text: str, prelude: str = "") -> list[Program]:
    """Split a text into its programs, without those for other Python versions.

    The prelude is put before each: helpers that many programs share.
    """
    headers = list(_HEADER.finditer(text))
    assert headers and not text[: headers[0].start()].strip(), "a program has no header line"
    found: list[Program] = []
    for header, following in itertools.zip_longest(headers, headers[1:]):
        body = text[header.end() : following.start() if following else len(text)]
        options = re.findall(r"\[([^]]*)\]", header["options"])
        program = Program(header["name"], body.strip("\n") + "\n", prelude=prelude)
        if all(_apply_option(program, option) for option in options):
            found.append(program)
    names = [program.name for program in found]
    assert len(set(names)) == len(names), "two programs have the same name"
    return found


def _apply_option(program: Program, option: str) -> bool:
    if option.startswith("frames "):
        program.min_frames = int(option.removeprefix("frames "))
        return True
    version = re.fullmatch(r"(<?)3\.(\d+)(\+?)", option)
    assert version, f"unknown option [{option}]"
    older = sys.version_info < (3, int(version[2]))
    return older if version[1] else not older


def each(text: str, prelude: str = "") -> pytest.MarkDecorator:
    """Run a test once for each program in the text."""
    return pytest.mark.parametrize("program", programs(text, prelude), ids=str)


def check_source(
    source: str,
    entry: str = "main",
    args: tuple[Any, ...] | None = None,
    *,
    min_frames: int = 1,
    name: str = "program",
) -> Outcome:
    """Compare both runs of one program given as text."""
    return Program(name, textwrap.dedent(source), min_frames, entry, args).check()


def check(function: Callable[..., Any], *args: Any, min_frames: int = 1, **kwargs: Any) -> Outcome:
    """Compare both runs of a function of the test itself, on copies of the arguments."""

    def prepare() -> Prepared:
        return Prepared(function, copy.deepcopy(args), copy.deepcopy(kwargs))

    source = textwrap.dedent(inspect.getsource(function))
    return _compare(function.__qualname__, prepare, source, lambda: function.__code__, min_frames)


# ---- Running -----------------------------------------------------------------------------------


def run_natively(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


def run_evaluated(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return evaluator.run(function, *args, **kwargs)


def observe(engine: Callable[..., Any], prepare: Callable[[], Prepared]) -> Outcome:
    """Run once and write down everything there is to see."""
    prepared = prepare()
    outcome: Outcome = {}
    with _sealed(outcome):
        try:
            value = engine(prepared.function, *prepared.args, **prepared.kwargs)
            if prepared.after is not None:
                value = prepared.after(value)
        except BaseException as error:
            # The events come first: describing an exception may run the program's own __str__.
            outcome["events"] = describe(prepared.events)
            outcome["arguments"] = describe([*prepared.args, prepared.kwargs])
            outcome["exception"], outcome["traceback"] = describe_exception(error)
            del error
        else:
            outcome["events"] = describe(prepared.events)
            # One walk, so that an argument inside the value is recognised as such.
            both = Describer()
            outcome["arguments"] = both.describe("", [*prepared.args, prepared.kwargs])
            outcome["value"] = both.describe("", value)
            del value, both
        outcome["sys.exc_info()"] = describe(sys.exc_info())
    return outcome


@contextlib.contextmanager
def _sealed(outcome: Outcome) -> Iterator[None]:
    """Catch what a run prints, warns and leaves behind; put the interpreter back afterwards."""
    before = _interpreter_state()
    hooks = sys.unraisablehook, threading.excepthook
    limit = sys.getrecursionlimit()
    collecting = gc.isenabled()
    stdout, stderr = io.StringIO(), io.StringIO()
    unraisable: list[str] = []
    in_threads: list[str] = []

    def note_unraisable(hook: Any) -> None:
        message = f"{hook.err_msg}: {hook.object!r}: {type_name(hook.exc_type)}: {hook.exc_value}"
        unraisable.append(without_addresses(message))

    def note_thread(hook: Any) -> None:
        in_threads.append(f"{type_name(hook.exc_type)}: {hook.exc_value}")

    gc.disable()  # the collector's moments differ between the runs, and finalizers can be seen
    try:
        with (
            warnings.catch_warnings(record=True) as caught,
            contextlib.redirect_stdout(stdout),
            contextlib.redirect_stderr(stderr),
        ):
            warnings.simplefilter("always")
            sys.unraisablehook, threading.excepthook = note_unraisable, note_thread
            yield
    finally:
        sys.unraisablehook, threading.excepthook = hooks
        outcome["recursion limit"] = [str(sys.getrecursionlimit())]
        sys.setrecursionlimit(limit)
        if collecting:
            gc.enable()
        sys.modules.pop(PROGRAM_MODULE, None)
    outcome["stdout"] = without_addresses(stdout.getvalue()).splitlines()
    outcome["stderr"] = without_addresses(stderr.getvalue()).splitlines()
    outcome["unraisable"] = unraisable
    outcome["exceptions in threads"] = sorted(in_threads)
    outcome["warnings"] = [
        without_addresses(f"{w.filename}:{w.lineno}: {type_name(w.category)}: {w.message}")
        for w in caught
    ]
    after = _interpreter_state()
    outcome["left behind"] = [
        f"{name} was {before[name]} and is {after[name]}"
        for name in before
        if before[name] != after[name]
    ]


def _interpreter_state() -> Mapping[str, object]:
    return {
        "recursion depth left": _depth_left(0),
        "trace function": sys.gettrace(),
        "profile function": sys.getprofile(),
        "asynchronous generator hooks": sys.get_asyncgen_hooks(),
        "running threads": threading.active_count(),
    }


def _depth_left(depth: int) -> int:
    try:
        return _depth_left(depth + 1)
    except RecursionError:
        return depth


# ---- Exceptions --------------------------------------------------------------------------------


def describe_exception(error: BaseException) -> tuple[Section, Section]:
    """The exception with its chain, and its traceback as Python prints it."""
    error.__traceback__ = _inside(error.__traceback__)
    lines = list(_exception_lines(error, "", set()))
    formatted = without_addresses("".join(traceback.format_exception(error)))
    return lines, formatted.splitlines()


def _inside(entry: types.TracebackType | None) -> types.TracebackType | None:
    """Drop the outer end, up to the border: this file, then the evaluator's entry point.

    Nothing else may be dropped: an evaluator's frame between two frames of the program is a bug.
    """
    while entry is not None and entry.tb_frame.f_code.co_filename in _HARNESS:
        entry = entry.tb_next
    while entry is not None and entry.tb_frame.f_code.co_filename.startswith(_STATOR):
        entry = entry.tb_next
    return entry


def _exception_lines(error: BaseException, indent: str, seen: set[int]) -> Iterator[str]:
    name = type_name(type(error))
    if id(error) in seen:
        yield f"{indent}{name}, shown above"
        return
    seen.add(id(error))
    yield f"{indent}{name}: {without_addresses(_text_of(error))}"
    yield from (f"{indent}  args {line}" for line in describe(error.args))
    yield from (f"{indent}  attribute {line}" for line in describe(dict(error.__dict__)))
    for entry in traceback.walk_tb(error.__traceback__):
        yield f"{indent}  at {entry[0].f_code.co_qualname}, line {entry[1]}"
    yield f"{indent}  suppress context: {error.__suppress_context__}"
    for label, other in (("cause", error.__cause__), ("context", error.__context__)):
        if other is not None:
            yield f"{indent}  {label}:"
            yield from _exception_lines(other, indent + "    ", seen)
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield f"{indent}  member:"
            yield from _exception_lines(member, indent + "    ", seen)


def _text_of(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as problem:
        return f"<str() raised {type(problem).__name__}>"


# ---- Comparing ---------------------------------------------------------------------------------


def _compare(
    name: str,
    prepare: Callable[[], Prepared],
    source: str,
    compiled: Callable[[], types.CodeType],
    min_frames: int,
) -> Outcome:
    native = observe(run_natively, prepare)
    assert not native["left behind"], f"the program itself leaves something: {native}"
    before = evaluator.statistics().frames
    evaluated = observe(run_evaluated, prepare)
    frames = evaluator.statistics().frames - before
    differences = _differences(native, evaluated)
    if frames < min_frames:
        differences.append(f"{frames} frames were evaluated, at least {min_frames} were expected")
    if _hook_is_on():
        differences.append("Python functions are still evaluated after the run")
    if differences:
        report = [f"{name}: evaluated differs from native", *differences]
        pytest.fail("\n".join(report + _listing(source, compiled())), pytrace=False)
    return native


def _differences(native: Outcome, evaluated: Outcome) -> list[str]:
    lines: list[str] = []
    for section in dict.fromkeys([*native, *evaluated]):
        was, now = native.get(section, ["(none)"]), evaluated.get(section, ["(none)"])
        if was != now:
            lines += ["", f"=== {section} ==="]
            lines += difflib.unified_diff(was, now, "native", "evaluated", lineterm="", n=2)
    return lines


def _hook_is_on() -> bool:
    before = evaluator.statistics().frames
    list(map(_identity, (1, 2)))
    return evaluator.statistics().frames != before


def _identity(value: object) -> object:
    return value


def _listing(source: str, code: types.CodeType) -> list[str]:
    numbered = [f"{n:4}  {line}" for n, line in enumerate(source.splitlines(), 1)]
    disassembly = io.StringIO()
    dis.dis(code, file=disassembly)
    return ["", "=== program ===", *numbered, "", "=== bytecode ===", disassembly.getvalue()]
