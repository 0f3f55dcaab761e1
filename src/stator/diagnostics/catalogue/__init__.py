"""The catalogue of reasons for graph breaks: one class each, with an id that stays.

Stage: diagnostics. The tracer raises these classes. A class says in general what was done, why it
can't be in a graph and how to do without, with a program that shows it and one that is captured;
what was done here is in the instance. To add one: write the class, with the next number, in the
file where it belongs, enter it below, and run `python -m stator.diagnostics.catalogue`. Reasons for
recompiles are in `recompiles.py`.
"""

from typing import Final

from stator.diagnostics.breaks import Break
from stator.diagnostics.catalogue.arrays import ArrayChanged, ArrayFunction, ArrayKind
from stator.diagnostics.catalogue.c_code import (
    Clock,
    HiddenState,
    Import,
    InputOutput,
    InterpreterState,
    LockHeld,
    Threads,
    UnknownCFunction,
)
from stator.diagnostics.catalogue.objects import (
    ClassChanged,
    Finalizer,
    IteratorInUse,
    KeyOfItsOwn,
    NotRebuilt,
    OddNamespace,
    OpaqueObject,
)
from stator.diagnostics.catalogue.output import Output, WarningControl
from stator.diagnostics.catalogue.pages import render
from stator.diagnostics.catalogue.processes import Communication
from stator.diagnostics.catalogue.recompiles import (
    RecompileReason,
    all_recompile_reasons,
    reason_of,
    recompile_reason,
)
from stator.diagnostics.catalogue.regions import (
    ImpureRegion,
    RegionContents,
    TooManyRegions,
    Transform,
)
from stator.diagnostics.catalogue.requests import (
    FunctionDisabled,
    GraphBreakAsked,
    LoopUnrolled,
    MarkMisfit,
    SkipAsked,
)
from stator.diagnostics.catalogue.state import AnotherTool, FunctionMode, RandomState, TorchState
from stator.diagnostics.catalogue.tensors import (
    AutogradInside,
    NoGraphOperation,
    SharedMemory,
    TensorDetail,
    TensorMemory,
    TensorStateChanged,
    TensorSubclass,
    UnusualTensor,
)
from stator.diagnostics.catalogue.values import (
    BranchOnValues,
    LengthOfValues,
    TextOfTensor,
    ValueNeeded,
)

__all__ = [
    "AnotherTool",
    "ArrayChanged",
    "ArrayFunction",
    "ArrayKind",
    "AutogradInside",
    "BranchOnValues",
    "ClassChanged",
    "Clock",
    "Communication",
    "Finalizer",
    "FunctionDisabled",
    "FunctionMode",
    "GraphBreakAsked",
    "HiddenState",
    "Import",
    "ImpureRegion",
    "InputOutput",
    "InterpreterState",
    "IteratorInUse",
    "KeyOfItsOwn",
    "LengthOfValues",
    "LockHeld",
    "LoopUnrolled",
    "MarkMisfit",
    "NoGraphOperation",
    "NotRebuilt",
    "OddNamespace",
    "OpaqueObject",
    "Output",
    "RandomState",
    "RecompileReason",
    "RegionContents",
    "SharedMemory",
    "SkipAsked",
    "TensorDetail",
    "TensorMemory",
    "TensorStateChanged",
    "TensorSubclass",
    "TextOfTensor",
    "Threads",
    "TooManyRegions",
    "TorchState",
    "Transform",
    "UnknownCFunction",
    "UnusualTensor",
    "ValueNeeded",
    "WarningControl",
    "all_reasons",
    "all_recompile_reasons",
    "page",
    "reason",
    "reason_of",
    "recompile_reason",
]

_REASONS: Final[tuple[type[Break], ...]] = (
    GraphBreakAsked,
    SkipAsked,
    FunctionDisabled,
    MarkMisfit,
    UnknownCFunction,
    InputOutput,
    Clock,
    Threads,
    LockHeld,
    InterpreterState,
    HiddenState,
    Import,
    BranchOnValues,
    ValueNeeded,
    LengthOfValues,
    TextOfTensor,
    OpaqueObject,
    IteratorInUse,
    Finalizer,
    KeyOfItsOwn,
    ClassChanged,
    OddNamespace,
    NotRebuilt,
    TensorSubclass,
    UnusualTensor,
    TensorDetail,
    TensorMemory,
    TensorStateChanged,
    SharedMemory,
    AutogradInside,
    NoGraphOperation,
    TorchState,
    RandomState,
    FunctionMode,
    AnotherTool,
    ArrayFunction,
    ArrayKind,
    ArrayChanged,
    Output,
    WarningControl,
    RegionContents,
    Transform,
    LoopUnrolled,
    ImpureRegion,
    TooManyRegions,
    Communication,
)
_BY_ID: Final = {reason.id: reason for reason in _REASONS}


def all_reasons() -> tuple[type[Break], ...]:
    """Every reason, by number."""
    return _REASONS


def reason(id: str) -> type[Break]:
    """The reason with a number: `SB0013`, `sb13` or `13`."""
    digits = id.strip().upper().removeprefix("SB")
    found = _BY_ID.get(f"SB{digits:0>4}")
    if found is None:
        raise KeyError(
            f"there is no reason {id!r}: {_REASONS[0].id} to {_REASONS[-1].id} are known"
        )
    return found


def page(id: str) -> str:
    """All that is known about a reason, of a break or (`SR0004`) of a recompile, in Markdown."""
    recompiled = id.strip().upper().startswith("SR")
    return render(recompile_reason(id) if recompiled else reason(id))
