"""What the tables claim is true of real calls.

Each callable runs on samples. Then single arguments are changed in a respect that the contract
says it does not read, or replaced by canaries: a wrong entry shows.
"""

import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from stator.contracts import Argument, Depth, SymInt, Verdict
from stator.contracts.notation import parse

from .canaries import CONCRETE, LAYOUTS, LOG, Canary, Symbolic, symbol
from .cases import GROUPS, Case
from .curated import DELEGATES, KEYWORDS, NEVER_SUCCEED, OTHER_VERSIONS, SYMBOLIC_ANYWAY, UNSEEN
from .describing import Labels, describe, unmistakable
from .samples import BORN, PLAIN, Knobs, Maker

_ITERATORS = ("list_iterator", "generator")
_MUTABLE: tuple[type, ...] = (list, dict, set, bytearray, type(iter([])))
MOST_CANARIES = 14
ALIVE: list[Any] = []  # labelled parts: an id means something only while its object lives


class Run(NamedTuple):
    outcome: str
    before: list[str]
    after: list[str]
    succeeded: bool

    @property
    def changed(self) -> list[int]:
        pairs = zip(self.before, self.after, strict=True)
        return [i for i, (before, after) in enumerate(pairs) if before != after]


def run(case: Case, values: list[Any], labels: Labels) -> Run:
    before = [describe(value, labels, top=True) for value in values]
    try:
        result = case.function(*values)
        outcome, succeeded = describe(result, labels), True
    except Exception as error:
        outcome = f"{type(error).__name__}{describe(error.args, labels)}"
        outcome, succeeded = re.sub("0x[0-9a-f]+", "…", outcome), False
    after = [describe(value, labels, top=True) for value in values]
    return Run(outcome, before, after, succeeded)


def make(makers: list[Maker]) -> list[Any]:
    return [maker(PLAIN) for maker in makers]


def variant(
    makers: list[Maker], changed: int = -1, knobs: Knobs = PLAIN
) -> tuple[list[Any], Labels]:
    """Arguments of which one differs, and labels for them and their parts."""
    values: list[Any] = []
    labels: Labels = {}
    ALIVE.clear()
    for i, maker in enumerate(makers):
        BORN.clear()
        values.append(maker(knobs if i == changed else PLAIN))
        ALIVE.extend(BORN)
        labels.update((id(part), f"{i}.{j}") for j, part in enumerate(BORN))
        if unmistakable(values[-1]):
            labels[id(values[-1])] = f"{i}"
    return values, labels


def runs(case: Case) -> Iterator[tuple[list[Maker], list[Any], Run]]:
    for makers in case.arguments():
        values, labels = variant(makers)
        yield makers, values, run(case, values, labels)


def check_unchanged(case: Case, values: list[Any], seen: Run) -> Iterator[str]:
    """Arguments are what they were, unless the contract says otherwise."""
    for i in seen.changed:
        argument = case.contract.argument(i)
        if i not in positions(case, values):
            continue
        iterator = type(values[i]).__name__ in _ITERATORS
        if not argument.mutated and not (iterator and argument.iterated):
            yield f"argument {i} changed from {seen.before[i]} to {seen.after[i]}"


def blind_to(argument: Argument, verdict: Verdict, value: Any) -> Iterator[Knobs]:
    """Variants of an argument that must make no difference."""
    if argument.depth < Depth.SHALLOW and not argument.attributes and unmistakable(value):
        yield Knobs(own=1)
    if argument.depth < Depth.DEEP:
        yield Knobs(items=1)
    if not argument.attributes:
        yield Knobs(attributes=1)
    if verdict is Verdict.PURE and type(value) in _MUTABLE:
        yield Knobs(own=1)
        yield Knobs(items=1)


def positions(case: Case, makers: list[Maker]) -> range:
    """The arguments that the callable itself handles, and not what it calls."""
    delegates = case.name == "__call__" or case.label in DELEGATES
    return range(1 if delegates and makers else len(makers))


def check_not_read(case: Case, makers: list[Maker], values: list[Any], seen: Run) -> Iterator[str]:
    """What the contract says is not read makes no difference."""
    if case.contract.identity:
        return
    for i in positions(case, makers):
        for knobs in blind_to(case.contract.argument(i), case.contract.verdict, make(makers)[i]):
            other = run(case, *variant(makers, i, knobs))
            after = [text for j, text in enumerate(other.after) if j != i]
            expected = [text for j, text in enumerate(seen.after) if j != i]
            if (other.outcome, after) != (seen.outcome, expected):
                yield f"argument {i} with {knobs}: {seen.outcome} becomes {other.outcome}"


def check_repeatable(case: Case, makers: list[Maker], seen: Run) -> Iterator[str]:
    """Equal arguments at other addresses (the first are still alive) have an equal outcome."""
    again = run(case, *variant(makers))
    if not case.contract.identity and again.outcome != seen.outcome:
        yield f"depends on addresses: {seen.outcome} becomes {again.outcome}"


def canaries(value: Any) -> Iterator[tuple[object, bool]]:
    """(stand-in, whether its items are the canaries) for a sample."""
    yield Canary(), False
    if type(value) in LAYOUTS:
        yield LAYOUTS[type(value)](value), False
    if type(value) in (list, tuple):
        yield type(value)(Canary() for _ in value), True
    if type(value) is dict:
        yield {key: Canary() for key in value}, True
    if type(value).__name__ == "list_iterator":
        yield iter([Canary(), Canary()]), True


def check_canaries(case: Case, makers: list[Maker]) -> Iterator[str]:
    """Only special methods that the contract speaks of are called."""
    for i in positions(case, makers):
        argument = case.contract.argument(i)
        for stand_in, items in canaries(make(makers)[i]):
            values = make(makers)
            values[i] = stand_in
            LOG.clear()
            with suppress(Exception):
                case.function(*values)
            names = sorted({name for _, name in LOG})
            what = f"{'items of ' if items else ''}argument {i} ({type(stand_in).__name__})"
            if names and not case.contract.calls_back:
                yield f"calls {names} of {what}"
            if names and items and argument.depth < Depth.DEEP:
                yield f"is not deep, but calls {names} of {what}"
            if "__hash__" in names and not argument.hashed:
                yield f"hashes {what}"
            if "__call__" in names and not argument.called:
                yield f"calls {what}"
    LOG.clear()


def resolved(value: Any) -> Any:
    """A value with the integers that the symbolic ones stand for."""
    if type(value) is Symbolic:
        return value.value
    if type(value) in (list, tuple, set):
        return type(value)(map(resolved, value))
    return value


def symbolic(value: Any, argument: Argument) -> Iterator[Any]:
    """Stand-ins with symbolic integers that the contract allows."""
    passed = argument.symint is SymInt.PASS
    if type(value) is int and passed:
        yield symbol(value)
    integers = type(value) in (list, tuple) and all(type(item) is int for item in value)
    if integers and (passed or (argument.depth < Depth.DEEP and not argument.hashed)):
        yield type(value)(map(symbol, value))


def check_symbolic(case: Case, makers: list[Maker]) -> Iterator[str]:
    """Where symbolic integers may be passed, the call works and never asks for their value."""
    for i in positions(case, makers):
        if case.label in SYMBOLIC_ANYWAY:
            continue
        if case.selves and i == 0 and type(make(makers)[0]) is int:
            continue
        for stand_in in symbolic(make(makers)[i], case.contract.argument(i)):
            values = make(makers)
            values[i] = stand_in
            LOG.clear()
            try:
                case.function(*values)
            except Exception as error:
                yield f"symbolic argument {i}: {type(error).__name__}: {error}"
            if asked := [name for _, name in LOG if name in CONCRETE]:
                yield f"symbolic argument {i} is asked for {asked}"
    LOG.clear()


def problems(case: Case) -> Iterator[str]:
    canaries_left = MOST_CANARIES
    failures = 0
    succeeded = False
    unseen = set(case.contract.mutates)
    for makers, values, seen in runs(case):
        found = list(check_unchanged(case, values, seen))
        unseen.difference_update(seen.changed)
        succeeded |= seen.succeeded
        failures += not seen.succeeded
        if seen.succeeded or failures % 6 == 0:
            found += check_not_read(case, makers, values, seen)
            if canaries_left:
                canaries_left -= 1
                found += check_canaries(case, makers)
        if seen.succeeded:
            found += check_repeatable(case, makers, seen)
            found += check_symbolic(case, makers)
        if found:
            shown = [describe(value, {}) for value in make(makers)]
            yield from (f"{case.label}({', '.join(shown)}): {problem}" for problem in found)
    if not succeeded and case.label not in NEVER_SUCCEED:
        yield f"{case.label}: no sample makes it succeed; add one to curated.py"
    if unseen and succeeded and case.label not in UNSEEN:
        yield f"{case.label}: arguments {unseen} were never seen to change"


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples become callbacks of weak references, which can't be called."""
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("group", GROUPS)
def test_contracts_hold(group: str) -> None:
    found = [problem for case in GROUPS[group]() for problem in problems(case)]
    assert not found, "\n".join(found[:40])


@pytest.mark.parametrize("label", KEYWORDS)
def test_keywords(label: str) -> None:
    """Keyword arguments are what the contract's last argument says."""
    owner, _, name = label.partition(".")
    (case,) = (
        case
        for group in GROUPS.values()
        for case in group()
        if (case.owner, case.name) == (owner, name)
    )
    makers, keyword, good = KEYWORDS[label]
    for stand_in in (good, Canary()):
        LOG.clear()
        with suppress(TypeError):
            case.function(*(maker(PLAIN) for maker in makers), **{keyword: stand_in})
        names = {name for _, name in LOG}
        assert case.contract.calls_back or not names
        assert case.contract.keywords.called or "__call__" not in names
        assert case.contract.keywords.hashed or "__hash__" not in names
        read = case.contract.keywords.depth > Depth.NOTHING
        allowed = {"__call__", *(["__getattribute__"] * case.contract.keywords.attributes)}
        assert read or names <= allowed


WRONG = {
    "list.append": "pure | .",
    "list.copy": "pure | .",
    "list.insert": "mutates | sm s .",
    "list.__contains__": "reads calls | s",
    "list.__repr__": "reads calls | da",
    "list.extend": "mutates calls | sm s",
    "dict.get": "reads calls | s d .",
    "dict.pop": "reads calls | s dh .",
    "set.add": "mutates calls | sm .",
    "str.join": "reads calls | s si",
    "str.upper": "pure | .",
    "bytes.join": "pure calls | s di",
    "SimpleNamespace.__repr__": "reads calls | d",
    "deque.rotate": "mutates | sm s",
    "chain.__next__": "reads calls | s",
    "builtins.sum": "reads calls | si",
    "builtins.len": "pure calls | s",
    "builtins.id": "pure | .",
    "builtins.next": "reads calls | s",
    "builtins.hex": "pure calls | sp",
    "builtins.max": "reads | dipc",
    "_operator.getitem": "reads calls | s d",
    "_operator.call": "pure calls | .",
    "_heapq.heapify": "reads calls | dp",
    "math.sqrt": "pure | s",
}


if sys.version_info >= (3, 14):  # what is in such an iterator can't be seen
    del WRONG["chain.__next__"]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("label", WRONG)
def test_a_wrong_entry_shows(label: str) -> None:
    cases = {case.label: case for group in GROUPS.values() for case in group()}
    assert any(problems(replace(cases[label], contract=parse(WRONG[label]))))


def test_the_lists_of_exceptions_are_needed() -> None:
    labels = {case.label for group in GROUPS.values() for case in group()}
    listed = {*NEVER_SUCCEED, *UNSEEN, *DELEGATES, *SYMBOLIC_ANYWAY}
    assert not {name for name in listed if name not in labels} - OTHER_VERSIONS
