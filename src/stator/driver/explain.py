"""A function compiled on its own, to see what becomes of it.

Stage: driver. In: a function and options. Out: an `Explanation` of each call. Nothing is shared
with other compiled functions: neither entries nor continuations, nor what counts towards limits.
"""

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, Final

from stator._native._core import Bucket, CompiledFunction
from stator.capture.trace.task import Trust
from stator.diagnostics import journal
from stator.diagnostics.explanation import Explanation, GraphBreak, Part
from stator.driver import announcements
from stator.driver.compiler import Compiler
from stator.driver.label import Label
from stator.driver.ledger import Compilation, Family, Ledger
from stator.driver.options import Options
from stator.driver.starting import compiler_of

_NUMBERS: Final = itertools.count(1)


class Explaining:
    """Compiles one function for the first time, whatever was compiled for it before.

    What it compiles stays with it: a second call shows what is compiled again, and why.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._made: list[CompiledFunction] = []
        self._events: list[journal.Event] = [journal.header()]

    def compiled(self, function: FunctionType, label: Label | None = None) -> CompiledFunction:
        """What is called in place of the function."""
        label = label or Label.of(function, self._options.name)
        label = dataclasses.replace(label, explained=next(_NUMBERS))
        code = function.__code__
        ledger = Ledger(Family(code), Bucket(code), self._options.backend)
        miss = Compiler(self._options, label, ledger)
        made = CompiledFunction(function, miss, name=self._options.name, bucket=ledger.bucket)
        self._made.append(made)
        return made

    def explained(self, call: Callable[..., Any]) -> Callable[..., Explanation]:
        """Makes the call, and tells what was compiled for it and before."""

        def explain(*args: Any, **kwargs: Any) -> Explanation:
            stop = journal.listen(self._events.append)
            try:
                result = call(*args, **kwargs)
                announcements.ended()
            finally:
                stop()
            return self._explanation(result)

        return explain

    def _explanation(self, result: Any) -> Explanation:
        (root,) = self._made
        ledgers = [ledger for ledger, _ in _ledgers(root)]
        found = [
            (each, careful) for ledger, careful in _ledgers(root) for each in ledger.compilations
        ]
        found.sort(key=lambda each: each[0].number)
        again = [why for ledger in ledgers for why in ledger.recompiles]
        return Explanation(
            name=str(_compiler(root).label),
            result=result,
            parts=tuple(_part(each, careful) for each, careful in found),
            recompiles=tuple(map(str, again)),
            events=tuple(self._events),
        )


def _compiler(compiled: CompiledFunction) -> Compiler:
    found = compiler_of(compiled)
    assert isinstance(found, Compiler)
    return found


def _ledgers(root: CompiledFunction) -> Iterator[tuple[Ledger, bool]]:
    """That of a function and those of its continuations, and whether they take care."""
    continuations = _compiler(root).ledger.continuations.all()
    for compiler in map(_compiler, (root, *continuations)):
        yield compiler.ledger, compiler.trust is not Trust.SEEN
        careful = compiler.ledger.careful
        while careful is not None:
            yield careful, True
            careful = careful.careful


def _part(done: Compilation, careful: bool) -> Part:
    return Part(
        name=str(done.label),
        guards=tuple(map(str, done.guards)),
        residual=done.residual,
        code=done.graph,
        operators=done.operators,
        eager=done.eager,
        own=done.own,
        broken=None if done.broken is None else GraphBreak.of(done.broken),
        resumed=bool(done.label.units),
        careful=careful,
        trace_seconds=done.trace_seconds,
        backend_seconds=done.backend_seconds,
    )
