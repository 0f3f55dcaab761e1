"""`compiled.aot_compile((args, kwargs))`: an entry for a call that is not made.

Stage: driver. In: a compiled function and the arguments of a call. Out: a `CompiledAhead`. Nothing
of the program runs but what a trace runs; the call is bound to its parameters by dispatch itself.
"""

import contextlib
from types import FunctionType
from typing import TYPE_CHECKING, Any

from stator._native._core import Bucket, CompiledFunction, Entry
from stator.driver import stance
from stator.driver.ahead import CompiledAhead, Serving
from stator.driver.cached import check_again, stored_of
from stator.driver.example_inputs import checked
from stator.driver.ledger import Compilation
from stator.driver.loading import key_of
from stator.guards.reference import Call
from stator.store.files import Stored
from stator.store.reasons import Reason, Unstorable

if TYPE_CHECKING:
    from stator.driver.compiler import Compiler


def compiled_ahead(compiler: "Compiler", compiled: CompiledFunction, inputs: Any) -> CompiledAhead:
    """The entry that such a call would run, on its own."""
    args, kwargs = checked(inputs)
    label, options = compiler.label, compiler.options
    if not options.fullgraph:
        raise RuntimeError(
            f"{label}: aot_compile() is for one graph: it needs fullgraph=True, when the function "
            "is compiled. stator.save also takes what is split"
        )
    if stance.current() is not stance.DEFAULT:
        name = stance.current().name
        raise RuntimeError(f"aot_compile() needs the default stance, and it is {name!r}")
    function = compiled.__wrapped__
    assert isinstance(function, FunctionType)
    bound = _bound(function, args, kwargs)
    entry = compiled.find(bound) or compiler(compiled, bound)
    made = _compilation(compiler, entry)
    if made is None or made.eager is not None:
        error = None if made is None else made.broken
        if error is not None:
            raise error
        why = "" if made is None else f": {made.eager}"
        raise RuntimeError(f"{label} is not compiled for these inputs: they run as they are{why}")
    serving = Serving(label, function)
    made.tally.entries.append(serving.add(made.entry, made.sources))
    return CompiledAhead(function, serving, _stored(compiler, made, function, bound))


class _Bound(BaseException):
    """In place of a call."""


class _Asked:
    """The `miss` of a function of which only the parameters are of interest."""

    bound: tuple[Any, ...] = ()

    def __call__(self, compiled: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        self.bound = bound
        raise _Bound


def _bound(
    function: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """The parameters of a call; a TypeError as from the call, if it has none."""
    asked = _Asked()
    with contextlib.suppress(_Bound):
        CompiledFunction(function, asked, bucket=Bucket(function.__code__))(*args, **kwargs)
    return asked.bound


def _compilation(compiler: "Compiler", entry: object) -> Compilation | None:
    """Where an entry comes from; None, if there is none."""
    ledgers = (compiler.ledger, compiler.shared)
    for made in [each for ledger in ledgers if ledger is not None for each in ledger.compilations]:
        if type(entry) is Entry and any(each is entry for each in made.tally.entries):
            return made
    if type(entry) is not Entry and compiler.ledger.compilations:
        last = compiler.ledger.compilations[-1]
        return last if last.eager is not None else None
    return None


def _stored(
    compiler: "Compiler", made: Compilation, function: FunctionType, bound: tuple[Any, ...]
) -> list[Stored] | str:
    """The entry as data, or why it can't be stored: said when it is to be."""
    if made.stored is not None:
        return [made.stored]
    key = key_of(function, compiler.options, compiler.label)
    if key is None:
        return str(Unstorable(Reason.BACKEND, f"{compiler.options.backend!r}, or its options"))
    try:
        stored = stored_of(key, made, compiler.options)
        check_again(stored, made, Call(bound, function))
    except Unstorable as error:
        return str(error)
    return [stored]
