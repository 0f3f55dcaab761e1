"""Strings and numbers of a call that the program only passes on: it is right for others, too.

Stage: driver. In: a trace that has come to its end. If a string, an int or a float in its
arguments, guarded by value, is also in what the program returns, keeps or goes on with, it may be
there only to get there. Out: what to leave open in another trace of the call, and whether that one
has left it alone. If it has, it is the better one: the next call with another tag would be
compiled again. What the program computes with, or decides by, stays what it is in the first call,
as sizes do.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from inspect import CO_VARARGS, CO_VARKEYWORDS
from typing import Any, Final

from torch import nn

from stator import objects
from stator.capture.trace.task import Task, Trace
from stator.capture.trace.wanted import LARGEST
from stator.effects import Constant, Fetched, Plan
from stator.effects.model import values_of
from stator.effects.steps import Apply, Expr, leaves
from stator.guards import Equal, Guard, Index, Key, Local, Source

MOST_OPERATORS: Final = 500
"""Of a graph that is traced again for this."""
MOST: Final = 32
"""Strings and numbers: where there are more, it is no call with a tag."""
ATTEMPTS: Final = 2
"""How often a call is traced again: with all of them open, then without those that are used."""
_KINDS: Final = frozenset({str, int, float})
_READ: Final = ("call_method", "item")  # a float that is left open is read first, used or not


def candidates(task: Task, trace: Trace) -> dict[str, type]:
    """What may be passed on only: the texts of sources, with the type of what is there."""
    ended = trace.plan is not None and trace.raised is None
    if task.wanted.never or not ended or len(trace.operators) > MOST_OPERATORS:
        return {}
    assert trace.plan is not None
    guarded = [each for each in trace.guards if _is_by_value(each, task.bound)]
    if not guarded:
        return {}
    constants: set[tuple[type, Any]] = set()
    fetched: set[str] = set()
    for step in trace.prologue.steps:
        constants.update(_values_in(step.args))
    for leaf in _leaves(trace.plan):
        if type(leaf) is Constant:
            constants.update(_values_in(leaf.value))
        elif type(leaf) is Fetched:
            fetched.add(str(leaf.source))
    keywords = _name_of_keywords(task)
    texts = [each for _, each in constants if type(each) is str]
    found = {}
    for guard in guarded:
        source, constant = guard.source, _constant(guard)
        assert source is not None
        unread = type(constant) is str and _is_guarded_with_others(source, keywords)
        kept = (type(constant), constant) in constants or _is_within(source, fetched)
        if unread or kept or _is_shown(constant, texts):
            found[str(source)] = type(constant)
    return found if len(found) <= MOST else {}


def opened(task: Task, found: dict[str, type]) -> Task:
    """The call, with these left open."""
    wanted, texts = task.wanted, {kind: set[str]() for kind in _KINDS}
    for text, kind in found.items():
        texts[kind].add(text)
    more = dataclasses.replace(
        wanted,
        held=wanted.held | texts[str],
        ints=wanted.ints | texts[int],
        floats=wanted.floats | texts[float],
        changes=dict.fromkeys(found, "the program only passes it on") | dict(wanted.changes),
    )
    return dataclasses.replace(task, wanted=more)


def used(trace: Trace, found: dict[str, type]) -> set[str]:
    """Those of them that the program has looked at, or computed with."""
    graph_inputs = trace.inputs[: len(trace.inputs) - trace.prologue.given]
    seen = set(trace.looked) | {str(source) for source in graph_inputs}
    for guard in trace.guards:
        if type(guard.check) is Equal:
            seen.add(str(guard.source))
        elif guard.source is None:
            seen.update(str(source) for source in guard.check.sources())
    if trace.shapes is not None:
        seen.update(trace.shapes.assumed_of())
    return seen & found.keys()


def same_end(a: Trace, b: Trace) -> bool:
    """Whether two traces of a call have recorded the same, and ended in the same place."""
    if b.broken is not None or b.raised is not None or b.plan is None:
        return False
    if a.steps != b.steps or a.speculated != b.speculated:
        return False
    first, second = ([op for op in each.operators if op != _READ] for each in (a, b))
    return first == second


def _is_by_value(guard: Guard, bound: Sequence[Any]) -> bool:
    """Whether a guard says which string or number is in an argument.

    What a module holds is how it was made: that it is another one is rare.
    """
    if type(guard.check) is not Equal or type(guard.check.constant) not in _KINDS:
        return False
    constant, source = guard.check.constant, guard.source
    if type(constant) is int and abs(constant) > LARGEST:
        return False
    if type(constant) is float and constant != constant:
        return False
    while source is not None and source.base is not None:
        source = source.base
    return type(source) is Local and not objects.is_subtype(type(bound[source.index]), nn.Module)


def _constant(guard: Guard) -> Any:
    assert type(guard.check) is Equal
    return guard.check.constant


def _is_within(source: Source, fetched: set[str]) -> bool:
    """Whether it is in a tuple that is passed on."""
    step: Source | None = source
    while type(step) is Index:
        step = step.base
    return step is not source and str(step) in fetched


def _is_guarded_with_others(source: Source, keywords: str | None) -> bool:
    """Whether it is in a tuple or in `**kwargs`: what is there is guarded, looked at or not."""
    if type(source) is Index:
        return True
    return type(source) is Key and str(source.base) == keywords


def _name_of_keywords(task: Task) -> str | None:
    """What the function calls its `**kwargs`."""
    code = task.function.__code__
    if task.points or not code.co_flags & CO_VARKEYWORDS:
        return None
    before = code.co_argcount + code.co_kwonlyargcount
    return code.co_varnames[before + bool(code.co_flags & CO_VARARGS)]


def _is_shown(constant: Any, texts: Sequence[str]) -> bool:
    """Whether it is part of a text."""
    shown = str(constant)
    return bool(shown) and any(shown in text for text in texts)


def _leaves(plan: Plan) -> Iterator[Expr]:
    """All that the residual code makes values from."""
    for step in (*plan.builds, *plan.effects):
        # An effect of a plan holds expressions where it held values.
        for value in values_of(step.effect) if isinstance(step, Apply) else (step.value,):
            yield from leaves(value)
    for value in (plan.result, *plan.values):
        yield from leaves(value)


def _values_in(constant: Any) -> Iterator[tuple[type, Any]]:
    """The strings and numbers that a constant of a plan consists of."""
    if type(constant) is tuple:
        for item in constant:
            yield from _values_in(item)
    elif type(constant) in _KINDS:
        yield type(constant), constant
