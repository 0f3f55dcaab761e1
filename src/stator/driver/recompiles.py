"""Why no entry fits a call, and whether one more may be compiled.

Stage: driver. In: the entries of a compiled function, and a call that none of them fits. Out: a
`Recompile`: for each entry, the guard that fails, what it expected and what is there; and the
limits, with what is said when one is reached. All of it is text: nothing is kept alive.
"""

from collections.abc import Iterable
from types import FunctionType
from typing import Any, Final, NamedTuple

from stator import config
from stator._native._core import CompiledFunction, Entry
from stator.diagnostics.recompiles import Cause
from stator.driver.label import Label
from stator.driver.ledger import Compilation, Ledger, Misfit, Recompile
from stator.driver.options import Options
from stator.guards import (
    Aliased,
    Attr,
    AttrKeys,
    Equal,
    Expr,
    Failure,
    Guard,
    HasKey,
    Holds,
    Is,
    IsWeak,
    Keys,
    Length,
    NoAttr,
    SlotEmpty,
    Source,
    State,
    SubclassOf,
    TypeIs,
)
from stator.guards.expressions import Leaf, Undefined
from stator.guards.reference import Call, failing
from stator.guards.sources import Missing as NoSource
from stator.guards.tensors import NoOverlap, TensorMatch
from stator.guards.tree import Missing

# ---------------------------------------------------------------------- reasons


def reasons(
    label: Label,
    compiled: CompiledFunction,
    function: FunctionType,
    bound: tuple[Any, ...],
    ledgers: Iterable[Ledger],
) -> Recompile:
    """For each entry, which guard keeps it from serving a call; the closest one first.

    The ledgers are those of the buckets in which the function looks.
    """
    entries: tuple[Entry, ...] = compiled.entries()
    if compiled.shared is not None:
        entries += compiled.shared.entries()
    made = {id(each.entry.guards): each for ledger in ledgers for each in ledger.compilations}
    trees = {id(tree): tree for entry in entries if (tree := entry.guards) is not None}
    misfits = []
    for key, tree in trees.items():
        failure: Failure | None = tree.explain(bound, function)
        if failure is not None:
            misfits.append(_misfit(failure, made.get(key), bound, function))
    misfits.sort(key=lambda each: each.failing)
    return Recompile(label, tuple(misfits))


def _misfit(
    failure: Failure, made: Compilation | None, bound: tuple[Any, ...], function: FunctionType
) -> Misfit:
    guard = failure.guard
    source, expected, actual = failure.path, failure.expected, failure.actual
    if guard is not None and isinstance(guard.check, Holds):
        source, expected, actual = _numbers(guard.check.expr, Call(bound, function))
    count = 1
    if made is not None:
        # The tree may refuse what only a user's code could decide, so none may fail here.
        count = max(1, len(failing(made.guards, bound, function)))
    return Misfit(
        number=0 if made is None else made.number,
        source=source,
        expected=expected,
        actual=actual,
        guard=f"{source}: a value" if guard is None else str(guard),
        cause=Cause.OTHER if guard is None else cause_of(guard, failure.value),
        where="" if guard is None else guard.where,
        failing=count,
        guards=0 if made is None else len(made.guards),
    )


def _numbers(expr: Expr, call: Call) -> tuple[str, str, str]:
    """Of a relation: what it is about, the relation, and the numbers of a call."""
    found = {}
    for leaf in expr.postfix():
        if isinstance(leaf, Leaf):
            try:
                found[str(leaf)] = str(leaf.value(call.read))
            except (Undefined, NoSource):
                found[str(leaf)] = "nothing there"
    return ", ".join(found), str(expr), ", ".join(found.values())


# ---------------------------------------------------------------------- causes

_CAUSES: Final[tuple[tuple[tuple[type, ...], Cause], ...]] = (
    ((Holds,), Cause.CONDITION),
    ((Aliased, NoOverlap), Cause.ALIASES),  # of which NotAliased is one
    ((Is, IsWeak), Cause.IDENTITY),
    ((TypeIs, SubclassOf), Cause.TYPE),
    ((Length, Keys, HasKey, NoAttr, AttrKeys, SlotEmpty), Cause.CONTENTS),
)


def cause_of(guard: Guard, value: Any) -> Cause:
    """What kind of difference it is that a guard fails on a value."""
    check = guard.check
    if isinstance(_root(guard.source), State):
        return Cause.STATE
    if value is Missing:
        return Cause.CONTENTS
    if isinstance(check, TensorMatch):
        return Cause.TENSOR if check.alike(value) is None else Cause.SIZES
    if isinstance(check, Equal):
        return _of_constant(guard.source, check.constant, value)
    for checks, cause in _CAUSES:
        if isinstance(check, checks):
            return cause
    return Cause.OTHER


def _root(source: Source | None) -> Source | None:
    while source is not None and source.base is not None:
        source = source.base
    return source


def _of_constant(source: Source | None, constant: Any, value: Any) -> Cause:
    if type(constant) is bool and isinstance(source, Attr) and source.name == "training":
        return Cause.MODE
    numbers = type(constant) in (int, float) and type(value) in (int, float)
    return Cause.NUMBER if numbers else Cause.VALUE


# ---------------------------------------------------------------------- limits


class Limit(NamedTuple):
    """A limit that was reached."""

    text: str
    compiles: int


def limit_reached(ledger: Ledger, options: Options) -> Limit | None:
    """Which limit keeps one more variant from being compiled, if one does."""
    limit = options.recompile_limit or config.recompile_limit
    if ledger.compiles >= limit:
        return Limit(f"recompile_limit ({limit})", ledger.compiles)
    accumulated = config.accumulated_recompile_limit
    compiles = ledger.family.compiles
    if compiles >= accumulated:
        return Limit(f"accumulated_recompile_limit ({accumulated})", compiles)
    return None


def refused(why: Recompile, *, first: bool) -> str:
    """What is said where nothing may be compiled."""
    if first:
        return f"{why.label} is to be compiled, and the stance is 'fail_on_recompile'"
    return f"{why}\n  and the stance is 'fail_on_recompile'"


def told(limit: Limit, why: Recompile) -> str:
    """What the user is told at a limit: function, file, reasons, remedy."""
    remedy = f"\n  fix: {why.remedy} [{why.id}]" if why.remedy else ""
    return (
        f"{limit.text} reached: {why.label} was compiled {limit.compiles} times, and nothing of "
        f"that fits this call, since{why.reasons or ' it failed'}{remedy}"
    )
