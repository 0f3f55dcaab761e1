# mypy: ignore-errors
"""Every member of every C type, as a program: read, changed from outside, changed inside.

Comes in: the specimens. Goes out: `Case`s, found by asking the types themselves what they have and
trying in eager which statements work; and how a case differs compiled from eager.

`member` cases are (a) read inside, changed from outside between calls, and (b) whatever the
statement changes inside, seen outside: results, the object, whether it is the same, exceptions.
"""

import bisect
import copy
import heapq
import itertools
import random
import types
import warnings
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

import stator

from . import c_specimens
from .c_specimens import Specimen, look

# Arguments that are tried, in this order, until a call of a method works.
_ARGUMENTS = (
    *("", "1", "'a'", "0", "[7, 8]", "'a', 4", "1, 4", "{'a': 5}", "('b', 6)", "b'a'", "'b'"),
    *("None", "len", "0, 1", "1, 2, 3", "lambda *v: 1", "[('k', 5)]", "o", "'r', 1", "2.0"),
    *("'%d' % 1, 'x'", "{1, 9}", "KEPT[0]", "KEPT[1], 3", "ValueError", "CONTEXT", "bytearray(9)"),
    *("int, len", "len, [1]", "(plain_function, (1,), {}, None)", "[1, 2], 2"),
)
_VALUES = ("3", "'z'", "[4]", "None", "len", "(1,)", "{}", "KEPT[2]", "True", "plain_function")
# What a program says without naming a member.
_STATEMENTS = (
    *("r = len(o)", "r = bool(o)", "r = str(o)", "r = repr(o)", "r = list(o)", "r = tuple(o)"),
    *("r = iter(o)", "r = next(o)", "r = next(o, None)", "r = reversed(o)", "r = sorted(o)"),
    *("r = o[0]", "r = o['a']", "r = o[1:]", "o[0] = 9", "o['a'] = 9", "o[1:] = [7]", "o[:] = []"),
    *("del o[0]", "del o['a']", "o += [5]", "o |= {7: 8}", "o |= {7}", "o -= {1}", "o &= {1}"),
    *("o ^= {1, 9}", "o *= 2", "o += 1", "o += 'x'", "r = o + o", "r = o * 2", "r = o == o2"),
    *("r = o != o2", "r = o < o2", "r = 1 in o", "r = 'a' in o", "r = -o", "r = ~o", "r = o | o2"),
    *("r = hash(o) == hash(o)", "r = callable(o)", "r = f'{o}'", "r = f'{o!r:>5}'", "r = type(o)"),
    *("r = o()", "r = o(1)", "r = o([1, 2])", "r = o(KEPT[0])", "r = sum(o)", "r = max(o)"),
    *("r = set(o)", "r = dict(o)", "r = {**o}", "r = [*o]", "a, *r = o", "r = print_to(o)"),
    *("r = [v for v in o]", "r = {v: 1 for v in o}", "r = o is o2", "r = vars(o)", "r = dir(o)"),
    *("r = copy.copy(o)", "r = copy.deepcopy(o)", "r = isinstance(o, int)", "r = any(o)"),
    *("s = {5}; s.update(o); r = s", "s = {5}; s |= set(o); r = s", "s = [5]; s += o; r = s"),
    *("s = [5]; s.extend(o); r = s", "r = list(zip(o, o))", "r = list(map(str, o))"),
    *("r = list(itertools.islice(o, 2))", "r = list(enumerate(o))", "r = itertools.tee(o)[0]"),
    *("heapq.heapify(o)", "heapq.heappush(o, 0)", "r = heapq.heappop(o)", "bisect.insort(o, 2)"),
    *("random.Random(1).shuffle(o)", "struct.pack_into('b', o, 0, 5)", "operator.iadd(o, [6])"),
    *("operator.setitem(o, 0, 8)", "operator.delitem(o, 0)", "r = operator.length_hint(o)"),
    *("o.added = 5", "setattr(o, 'added', [1])", "r = getattr(o, 'added', 0)", "r = o.__dict__"),
    *("r = float(o)", "r = int(o)", "r = abs(o)", "r = round(o)", "r = bytes(o)", "r = format(o)"),
    *("r = vars(o) is o.__dict__", "r = o.__class__", "r = hasattr(o, 'added')", "r = o.__doc__"),
    *("r = list(o.keys())", "r = max(o, default=1)", "r = functools.reduce(operator.add, o)"),
)
_LOOPS = (
    "r = 0\nfor v in o:\n    r += 1\n    if r == 2: break",
    "r = []\nfor v in o:\n    r.append(v)\n    y = y + 1\n    if len(r) == 3: break",
    "r = []\nstator.graph_break()\nfor v in o:\n    r.append(v)\n    if len(r) == 2: break",
)
_ENDLESS = frozenset(
    {"r = iter(o)", "r = next(o)", "r = next(o, None)", "r = list(itertools.islice(o, 2))"}
    | {"r = bool(o)", "r = repr(o)", "r = callable(o)", "r = type(o)", "r = copy.copy(o)"}
    | {"r = itertools.tee(o)[0]", "r = operator.length_hint(o)", "r = dir(o)", *_LOOPS}
)
# They ask about addresses, the process, or make classes: the same for all types.
_NOT_STATE = frozenset(
    {"__sizeof__", "__subclasshook__", "__init_subclass__", "__new__", "__class_getitem__"}
    | {"__subclasses__", "mro", "__instancecheck__", "__subclasscheck__", "__prepare__"}
    | {"__hash__", "__weakref__", "__abstractmethods__", "gi_frame", "gi_code", "__builtins__"}
    | {"__globals__", "__annotations__", "__loader__", "__spec__", "ctypes", "data", "base"}
    | {"__array_interface__", "__array_struct__", "__text_signature__", "__getattribute__"}
    | {"__weakrefoffset__", "__basicsize__", "__flags__", "__array_wrap__", "__traceback__"}
    | {"__dictoffset__", "__itemsize__", "__release_buffer__", "__class__", "__type_params__"}
    | {"__array_namespace__"}
)


class SetUp:
    """The namespace in which programs are made."""

    def __init__(self) -> None:
        self.names = {
            **vars(c_specimens),
            "stator": stator,
            "copy": copy,
            "heapq": heapq,
            "bisect": bisect,
            "print_to": lambda value: f"{value}",
        }

    def make(self, source: str) -> Any:
        return eval(source, self.names)

    def program(self, statement: str, *, raises: bool, place: str) -> Any:
        lines = [f"    {line}" for line in statement.splitlines()]
        held = "box[0]" if place == "argument" else "HELD[0]"
        text = "\n".join(
            [
                "def program(box, x):",
                f"    o, o2, r = {held}, box[1], None",
                "    y = x + 1",
                *lines,
                *(["    raise LookupError('leaves')"] if raises else []),
                "    return r, o is box[0], y * 2",
            ]
        )
        namespace = {**self.names, "HELD": []}
        exec(text, namespace)
        return namespace["program"]


@cache
def set_up() -> SetUp:
    return SetUp()


@dataclass(frozen=True)
class Case:
    """One statement about one member, with what is done from outside between the calls."""

    specimen: Specimen
    member: str
    statement: str
    outside: tuple[str, ...] = ()
    raises: bool = False
    place: str = "argument"

    def __str__(self) -> str:
        first = " ".join(self.statement.split())
        ways = f"{' raises' if self.raises else ''}{' global' if self.place == 'global' else ''}"
        return f"{self.specimen.name}.{self.member}: {first}{ways} <- {' ; '.join(self.outside)}"

    @property
    def key(self) -> tuple[str, str]:
        return self.specimen.name, self.member


# ---------------------------------------------------------------------- what there is


def members(specimen: Specimen) -> list[str]:
    """The names that the type itself says it has."""
    value = set_up().make(specimen.makes[0])
    found = [name for owner in reversed(type(value).__mro__) for name in vars(owner)]
    own = getattr(value, "__dict__", {})
    if isinstance(value, (type, types.ModuleType)):
        own = {"level": 1, "__name__": 1, "__doc__": 1}
    unique = dict.fromkeys([*found, *own])
    return [n for n in unique if n.isidentifier() and not _is_left_out(n, specimen)]


def _is_left_out(name: str, specimen: Specimen) -> bool:
    private = name.startswith("_") and not name.startswith("__")
    return private or name in _NOT_STATE or name in specimen.skip


def statements(
    specimen: Specimen, names: list[str], others: tuple[str, ...]
) -> dict[str, list[str]]:
    """Statements that work in eager, by the member that they are about."""
    found: dict[str, list[str]] = {}
    for name in names:
        if specimen.endless and name in ("__contains__", "__length_hint__"):
            continue
        tried = [f"r = o.{name}"]
        calls = [f"r = o.{name}({args})" for args in _ARGUMENTS]
        sets = [f"o.{name} = {value}" for value in _VALUES]
        works = list(itertools.islice((c for c in calls if attempt(specimen, c)), 3))
        if not works:
            works = [each for each in tried if attempt(specimen, each)]
        if works and not (name.startswith("__") and works[0] != tried[0]):
            works += list(itertools.islice((s for s in sets if attempt(specimen, s)), 2))
            works += [each for each in (f"del o.{name}",) if attempt(specimen, each)]
        if works:
            found[name] = works
    for each in others:
        allowed = not specimen.endless or each in _ENDLESS
        if allowed and (each in specimen.extra or attempt(specimen, each)):
            found.setdefault(f"<{' '.join(each.split())}>", []).append(each)
    return found


def attempt(specimen: Specimen, statement: str) -> bool:
    """Whether a statement works on a fresh object."""
    made = set_up().make(specimen.makes[0])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = set_up().program(statement, raises=False, place="argument")
            program([made, set_up().make(specimen.makes[-1])], torch.ones(2))
    except Exception:
        return False
    return True


def changing(specimen: Specimen, found: dict[str, list[str]]) -> list[str]:
    """Those that leave the object in another state, and replacing it by another one."""
    changes = []
    for each in itertools.chain.from_iterable(found.values()):
        made = set_up().make(specimen.makes[0])
        before = look(set_up().make(specimen.makes[0]))
        box = [made, set_up().make(specimen.makes[-1])]
        try:
            set_up().program(each, raises=False, place="argument")(box, torch.ones(2))
            after = look(made)
        except Exception:
            continue
        if after != before:
            changes.append(each)
    return changes


def everything(specimen: Specimen) -> tuple[str, ...]:
    return *_STATEMENTS, *_LOOPS, *specimen.extra


def sample(specimen: Specimen, most: int) -> list[Case]:
    """A few cases about each type, always the same ones."""
    chance = random.Random(specimen.name)
    names = members(specimen)
    names = chance.sample(names, min(4, len(names)))
    others = chance.sample(everything(specimen), 8)
    made = _cases(specimen, statements(specimen, names, tuple(others)), thorough=False)
    return chance.sample(made, min(most, len(made)))


def cases(specimen: Specimen, *, thorough: bool) -> list[Case]:
    found = statements(specimen, members(specimen), everything(specimen))
    return _cases(specimen, found, thorough=thorough)


def _cases(specimen: Specimen, found: dict[str, list[str]], *, thorough: bool) -> list[Case]:
    changes = changing(specimen, found)
    replace = [f"box[0] = {make}" for make in specimen.makes[1:]]
    made = []
    for number, (member, works) in enumerate(found.items()):
        for position, statement in enumerate(works):
            outside = [*replace, *changes] or ["pass"]
            turn = (number + position) % len(outside)
            outside = (outside[turn:] + outside[:turn]) if not thorough else outside
            for start in range(0, len(outside), 4) if thorough else (0,):
                made.append(Case(specimen, member, statement, tuple(outside[start : start + 4])))
            if statement in changes and (thorough or position == 0):
                made.append(Case(specimen, member, statement, raises=True))
            if thorough or (position == 0 and number % 3 == 0):
                rest = tuple(changes[turn % (len(changes) or 1) :][:3])
                made.append(Case(specimen, member, statement, rest, place="global"))
    return made


# ---------------------------------------------------------------------- eager and compiled


@dataclass
class Outcome:
    lines: list[str]
    captured: bool = True


def run(case: Case, *, compiled: bool, backend: str = "eager") -> Outcome:
    """All calls of a case, and what could be seen after each."""
    set_ = set_up()
    c_specimens.KEPT[:] = [c_specimens.Plain(i) for i in range(4)]
    program = set_.program(case.statement, raises=case.raises, place=case.place)
    namespace = program.__globals__
    box = [set_.make(case.specimen.makes[0]), set_.make(case.specimen.makes[-1])]
    first = box[0]
    namespace["HELD"].append(first)
    graphs: list[int] = []
    function = program
    if compiled:
        stator.reset()

        def note(module: Any, inputs: Any) -> Any:
            graphs.append(sum(node.op.startswith("call_") for node in module.graph.nodes))
            return module.forward

        function = stator.compile(program, backend=note)
    lines: list[str] = []
    token = c_specimens.CONTEXT.set(3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(len(case.outside) + 2):
            try:
                result = function(box, torch.full((2,), float(number)))
                same = result[0] is first and not _is_constant(first)
                lines.append(f"{number} same {same} {_held(result[0], first)}")
                kept = _is_constant(first) or result[1]
                lines.append(f"{number} result {_seen(result[0], first)} {kept} {look(result[2])}")
            except Exception as error:
                if type(error).__module__.startswith("stator"):
                    raise
                lines.append(f"{number} raised {look(error.with_traceback(None))}")
            if number < len(case.outside):
                change = case.outside[number]
                target = set_.program(change, raises=False, place="argument")
                try:
                    target(box, torch.ones(2))
                except Exception as error:
                    lines.append(f"{number} outside {type(error).__name__}")
                namespace["HELD"][0] = box[0]
    lines.append(f"box {look(box)}")
    lines.append(f"first {look(first)}")
    lines.append(f"kept {look(c_specimens.KEPT)}")
    lines.append(f"context {c_specimens.CONTEXT.get()}")
    c_specimens.CONTEXT.reset(token)
    return Outcome(lines, captured=compiled and graphs[:1] == [2])


def _is_constant(value: Any) -> bool:
    """Guarded by value: which of two equal ones it is, nobody promises (docs/capture.md)."""
    return type(value) in (int, float, complex, bool, str, bytes, frozenset, range, slice)


def _seen(result: Any, first: Any) -> str:
    """A result, unless looking at it would use up the object, or what the object holds."""
    if c_specimens._is_iterator(type(result)):
        return type(result).__qualname__
    return look(result)


def _held(result: Any, first: Any) -> bool:
    """Whether the result is what the object has under one of its names."""
    own = getattr(first, "__dict__", None)
    return result is own and own is not None


def difference(case: Case) -> tuple[str | None, bool]:
    """How the compiled program differs from eager; and whether it was captured."""
    expected = run(case, compiled=False)
    try:
        found = run(case, compiled=True)
    except Exception as error:
        return f"{type(error).__name__}: {error}", False
    for a, b in itertools.zip_longest(expected.lines, found.lines):
        if a != b:
            return _apart(str(a), str(b)), found.captured
    return None, found.captured


def _apart(a: str, b: str) -> str:
    """Two lines, from shortly before where they differ."""
    place = next((i for i, (c, d) in enumerate(zip(a, b, strict=False)) if c != d), len(a))
    start = max(0, place - 60)
    end = place + 160
    return f"eager    {a[:12]} … {a[start:end]}\n compiled {b[:12]} … {b[start:end]}"
