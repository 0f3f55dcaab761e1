"""What a trace does with a callable, for people who ask (`stator why torch.relu`).

In: a callable. Out: a `Rule` in words, and where it is written down. The order of the questions is
that of `calls.py`, which asks them of the same tables when a program calls it.
"""

import inspect
import sys
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch

from stator import objects
from stator._native._core import CompiledFunction, is_python_class
from stator.capture.arrays import array_tables
from stator.capture.calls import marks
from stator.capture.calls.handlers import HANDLERS
from stator.capture.calls.native_calls import NATIVE
from stator.capture.numbers.scalars import READERS
from stator.capture.randomness.draws import is_generator_method
from stator.capture.trace.refusals import FORBIDDEN, MARKED
from stator.contracts import Contract, Verdict
from stator.contracts import lookup as contract_of
from stator.diagnostics.breaks import Break
from stator.diagnostics.catalogue import UnknownCFunction
from stator.graph.leaves import leaves

_SOURCE: Final = Path(__file__).parents[2]
_LEAVES: Final[dict[leaves.Kind, str]] = {
    leaves.Kind.RECORD: "is recorded as one node of the graph",
    leaves.Kind.CONSTANT: "is answered while tracing, and guarded",
    leaves.Kind.STATE: "changes torch's state: while tracing, and in the graph",
    leaves.Kind.OWN: "is carried out by the trace itself, which keeps the state of tensors",
    leaves.Kind.LEFT_OUT: "does nothing that a program could see, and is left out",
}
_CONTRACTS: Final[dict[Verdict, str]] = {
    Verdict.PURE: "is called while tracing: it looks at types and values only",
    Verdict.READS: "is called while tracing; what it reads of its arguments is guarded",
    Verdict.MUTATES: "is called while tracing, on stand-ins; what it changes is written back after "
    "the graph",
    Verdict.CONSTANT: "is called once, while tracing: what it answers does not change",
    Verdict.FRAME: "is called while tracing, as if by the program's own frame",
}


@dataclass(frozen=True)
class Rule:
    """What happens to a call."""

    what: str
    """A sentence that begins with the callable."""
    where: str
    """The module of stator that says so, with a line if there is one."""
    breaks: type[Break] | None = None
    """The reason, if the graph ends there."""


def rule_of(callable: Any) -> Rule:
    """What a trace does with a call of it."""
    mark = marks.of(callable)
    if mark is not None:
        return Rule(mark.kind.value, _file(marks), MARKED.get(mark.kind))
    if is_generator_method(callable):
        what = "draws anew in every call, before the graph; its results are inputs of the graph"
        return Rule(what, "capture/randomness/draws.py")
    numpy = sys.modules.get("numpy")
    if numpy is not None and _is_numpy(array_tables.tables(numpy), callable):
        what = "is numpy's: computed while tracing if its arguments are known, recorded otherwise"
        return Rule(what, _file(array_tables))
    cls = type(callable)
    if cls is types.MethodType:
        return rule_of(callable.__func__)
    if cls is CompiledFunction:
        what = "is compiled already: the function behind it is evaluated"
        return Rule(what, "capture/calls/wrapped_functions.py")
    leaf = leaves.classify(callable) if _may_be_leaf(callable) else None
    if leaf is not None and leaf.kind is not leaves.Kind.EVALUATE:
        if leaf.kind is leaves.Kind.FORBIDDEN:
            if leaves.tensor_method(callable) in (*READERS, "numpy"):
                what = "is recorded as one node: a value that only the graph knows, and may check"
                return Rule(what, "capture/numbers/scalars.py")
            what = f"is not in a graph: {leaf.reason or leaf.cause.title}"
            return Rule(what, "graph/leaves/leaf_tables.py", leaf.cause)
        return Rule(_LEAVES[leaf.kind], "graph/leaves/leaf_tables.py")
    handler = HANDLERS.get(id(callable))
    if handler is not None:
        code = inspect.unwrap(handler).__code__
        place = f"{Path(code.co_filename).relative_to(_SOURCE)}:{code.co_firstlineno}"
        said = (handler.__doc__ or "").strip().partition("\n")[0].rstrip(".")
        what = "is carried out by a handler of the tracer"
        return Rule(f"{what}: {said}" if said else what, place)
    contract = contract_of(callable)
    if contract is not None:
        return _by_contract(contract)
    if cls is types.FunctionType or is_python_class(cls):
        what = "is Python code, evaluated as the program's own"
        return Rule(what, "capture/calls/python_calls.py")
    if objects.is_subtype(cls, type):
        if is_python_class(callable):
            what = "is a class made by Python: its `__new__` and `__init__` are evaluated"
            return Rule(what, "capture/calls/calls.py")
        if objects.is_subtype(callable, torch.Tensor):
            return Rule("makes a tensor of a subclass", "capture/tensors/subclasses.py")
    what = "is C code that nobody has said anything about: it must not run while tracing"
    return Rule(what, "contracts/tables", UnknownCFunction)


def _by_contract(contract: Contract) -> Rule:
    if contract.verdict is Verdict.FORBIDDEN:
        assert contract.reason is not None
        what = f"must not run while tracing, because it {contract.reason.value}"
        return Rule(what, "contracts/tables", FORBIDDEN[contract.reason])
    what = _CONTRACTS[contract.verdict]
    if contract.calls_back:
        what += "; Python code that it calls is evaluated"
    return Rule(what, "contracts/tables")


def _may_be_leaf(callable: Any) -> bool:
    cls = type(callable)
    known = NATIVE.holds(cls) or cls is types.FunctionType or objects.is_subtype(cls, type)
    return known or str(cls.__module__).startswith("torch.")


def _is_numpy(tables: array_tables.Tables, callable: Any) -> bool:
    return (
        id(callable) in tables.pure
        or id(callable) in tables.constructors
        or tables.functions.holds(type(callable))
    )


def _file(module: types.ModuleType) -> str:
    assert module.__file__ is not None
    return str(Path(module.__file__).relative_to(_SOURCE))
