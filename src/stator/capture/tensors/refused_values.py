"""Operators that may refuse the values they get, where the program would handle that.

Stage: capture. In: operators that were recorded inside of `try` and `with` blocks. Out: how the
graph is undone if it raises, so that the program itself can run, with its handlers; or a `Break` at
the operator.

A graph that changes nothing is simply given up when it raises (`driver/rerun.py`). One that changes
inputs gets a `Retry`; what can't be undone is a `Break`. Outside of all blocks, inputs are copied
for that if they are few and small; else the program runs if none has changed yet. An operator whose
result nobody uses is one of the graph's results, or backends would leave it out.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

import torch
import torch.fx as fx

from stator import objects
from stator._native._core import NULL, Frame
from stator.bytecode import decode
from stator.bytecode.decode import Decoded
from stator.diagnostics.catalogue import NoGraphOperation
from stator.diagnostics.places import Place, stack
from stator.evaluator import PACKAGE
from stator.evaluator.opcodes.exceptions import EXIT_AND_SELF
from stator.graph import OutputGraph, Recorded
from stator.graph.fakes.inputs import tensors_in
from stator.graph.passes.left_out import without_result
from stator.graph.passes.purity import REFUSES
from stator.graph.passes.retry import Changes, Retry, undo_of
from stator.graph.recording.operations import Operation
from stator.graph.recording.replay import NotReplayableError, hint
from stator.torchlib.tensors import DisableTorchFunction

if TYPE_CHECKING:
    from stator.capture.trace.tracer import Tracer

_TORCH: Final = str(Path(torch.__file__).parent)

# What kernels check in the values they get, by the start of the name.
_REFUSING: Final = (
    *("bernoulli", "bincount", "binary_cross_entropy", "binomial", "cholesky", "cross_entropy"),
    *("ctc_loss", "eig", "embedding", "gather", "histc", "index", "inverse", "kthvalue", "ldl"),
    *("linalg", "lobpcg", "lu_", "masked_scatter", "max_unpool", "multi_margin", "multilabel"),
    *("multinomial", "nanquantile", "nll_loss", "one_hot", "pinverse", "put", "quantile"),
    *("repeat_interleave", "scatter", "segment_reduce", "slogdet", "solve", "sparse_"),
    *("svd", "take", "tensorinv", "tensorsolve", "triangular_solve"),
)
# By the whole name: others that begin so check nothing.
_REFUSING_TOO: Final = frozenset({"inv", "inv_ex", "masked_select", "normal", "poisson"})
# They refuse nothing but tensors without values.
_EXTREMES: Final = frozenset(
    {"max", "min", "amax", "amin", "aminmax", "argmax", "argmin", "median", "nanmedian", "mode"}
)
# The fake kernel takes integers, the real one does not.
_OF_FLOATS: Final = frozenset({"softmax", "log_softmax", "softmin"})
_FEW: Final = 4  # inputs
_SMALL: Final = 1 << 15  # bytes of all
# Of these, only some: items by index tensors, divisions of integers.
_ITEMS: Final = frozenset({"getitem", "setitem", "__getitem__", "__setitem__"})
_DIVISIONS: Final = frozenset(
    {"floordiv", "mod", "floor_divide", "remainder", "fmod", "div", "divide"}
)


@dataclass(frozen=True)
class _Noted:
    name: str
    node: fx.Node
    step: int
    caught: bool
    """By an `except` clause, perhaps."""
    places: tuple[Place, ...]


class Handled:
    """The operators of one trace that may raise where the program would notice."""

    def __init__(self, graph: OutputGraph) -> None:
        self._graph = graph
        self._noted: list[_Noted] = []
        self._loose: list[fx.Node] = []  # outside of all such blocks

    def note(self, frame: Frame | None, operation: Operation, args: Any) -> None:
        """An operator was recorded."""
        if frame is None or frame.finished or not _may_refuse(operation, args):
            return
        kinds = handlers(frame)
        node = next(iter(reversed(self._graph.graph.nodes)))
        node.meta[REFUSES] = True
        if not kinds:
            self._loose.append(node)
        else:
            name, step = operation.shown, frame.ops.steps - 1
            self._noted.append(_Noted(name, node, step, "except" in kinds, stack(frame)))

    def region(self, frame: Frame, node: fx.Node, body: fx.Graph) -> None:
        """A region was called; its own nodes are not of the graph that is recorded now."""
        if not any(REFUSES in each.meta for each in body.nodes):
            return
        self._loose = [each for each in self._loose if each.graph is not body]
        self._noted = [each for each in self._noted if each.node.graph is not body]
        node.meta[REFUSES] = True
        kinds = handlers(frame)
        if not kinds:
            self._loose.append(node)
        else:
            step = frame.ops.steps - 1
            self._noted.append(_Noted("a region", node, step, "except" in kinds, stack(frame)))

    def whole(self, frame: Frame, node: fx.Node, name: str) -> None:
        """A Python function is called by the graph, and may raise anything."""
        node.meta[REFUSES] = True
        kinds = handlers(frame)
        if not kinds:
            self._loose.append(node)
        else:
            step = frame.ops.steps - 1
            self._noted.append(_Noted(name, node, step, "except" in kinds, stack(frame)))

    def any(self) -> bool:
        """Whether there are such operators at all."""
        return bool(self._noted or self._loose)

    def unused(self, outputs: Sequence[Any]) -> list[torch.Tensor]:
        """What these operators have made and nobody uses, if the graph has these results."""
        noted = [*(each.node for each in self._noted), *self._loose]
        nodes = [each for node in noted for each in self._instead(node)]
        if not nodes:
            return []
        dropped = without_result(self._graph, outputs)
        results = [_made_by(node) for node in nodes if node in dropped]
        return [tensor for result in results for tensor in [*tensors_in(result)][:1]]

    def _instead(self, node: fx.Node) -> list[fx.Node]:
        """What there is in place of a region's call, if its body was put there."""
        found = self._graph.inlined.get(node)
        return [node] if found is None else [each for n in found for each in self._instead(n)]

    def retry(
        self, tracer: "Tracer", recorded: Recorded, changes: Changes, *, steps: bool
    ) -> Retry | None:
        """How the finished graph is undone; None if there is nothing to undo."""
        for each in self._noted:
            if any(node._erased for node in self._instead(each.node)):
                _refuse(tracer, each, "its result is not used, and its exception is")
        if not (changes.inputs or changes.others or steps):
            return None
        if not self._noted:
            small = self._loose and not steps and _are_small(changes)
            return undo_of(self._graph, recorded, changes) if small else None
        found = undo_of(self._graph, recorded, changes)
        if found is None:
            for each in self._noted:
                if each.caught:
                    _refuse(tracer, each, "what the graph has done could not be undone")
        return found


def _made_by(node: fx.Node) -> Any:
    """What an operator has made, or written to if it returns nothing."""
    made = node.meta.get("example_value")
    written = node.args[0] if node.args else None
    if made is None and isinstance(written, fx.Node):
        return written.meta.get("example_value")
    return made


def _are_small(changes: Changes) -> bool:
    """Whether the inputs that a graph changes can be copied for next to nothing."""
    tensors = [node.meta["example_value"] for node in changes.inputs]
    if not 0 < len(tensors) <= _FEW:
        return False
    try:
        total: int = sum(math.prod(map(hint, each.shape)) * each.itemsize for each in tensors)
        return total <= _SMALL
    except NotReplayableError:  # a size that depends on values
        return False


def _refuse(tracer: "Tracer", noted: _Noted, why: str) -> None:
    tracer.before = noted.step
    signal = NoGraphOperation(f"{noted.name} may raise inside of `try`: {why}")
    signal.places = noted.places
    raise signal


class _Asked(Enum):
    """What the name of an operator says of the values that it may refuse."""

    NONE = "it takes all"
    SOME = "it may refuse some"
    ITEMS = "it refuses some indices"
    DIVISION = "it refuses to divide integers by 0"
    OF_FLOATS = "it refuses integers, unlike its fake kernel"
    EXTREME = "it refuses nothing but tensors without values"


@functools.lru_cache(10_000)
def _asked(name: str) -> _Asked:
    if name in _ITEMS:
        return _Asked.ITEMS
    name = name.strip("_")
    if name in _DIVISIONS:
        return _Asked.DIVISION
    if name in _OF_FLOATS:
        return _Asked.OF_FLOATS
    if name in _EXTREMES:
        return _Asked.EXTREME
    refuses = name in _REFUSING_TOO or name.startswith(_REFUSING)
    return _Asked.SOME if refuses else _Asked.NONE


@functools.lru_cache(10_000)
def may_refuse(operation: Operation) -> bool:
    """Whether one of torch's operations refuses some arguments by their values."""
    return _asked_by(operation) is not _Asked.NONE


def _asked_by(operation: Operation) -> _Asked:
    name = operation.shown.rpartition(".")[2] if operation.is_overload else operation.name
    return _asked(name)


def _may_refuse(operation: Operation, args: Any) -> bool:
    if not operation.torchs:
        return True
    match _asked_by(operation):
        case _Asked.NONE:
            return False
        case _Asked.ITEMS:
            return _picks(args[1])
        case _Asked.DIVISION:
            given = list(tensors_in(args))
            with DisableTorchFunction():
                return not any(each.is_floating_point() or each.is_complex() for each in given)
        case _Asked.OF_FLOATS:
            return not any(each.is_floating_point() for each in tensors_in(args))
        case _Asked.EXTREME:
            sizes: Any = [size for each in tensors_in(args) for size in each.shape]
            return any(type(size) is torch.SymInt for size in sizes)
    return True


def _picks(index: Any) -> bool:
    """Whether an index names elements one by one: by a tensor, or by a list."""
    lists = index if type(index) is tuple else (index,)
    return any(type(each) is list for each in lists) or any(True for _ in tensors_in(index))


def handlers(frame: Frame) -> set[str]:
    """The kinds of blocks of the program that an exception would pass: `except`, others.

    Frames that wait for C code, which has called this one, are not known: any block may be there.
    """
    found: set[str] = {"except"} if frame.ops.nested else set()
    step: Frame | None = frame
    while step is not None:
        if not step.code.co_filename.startswith((PACKAGE, _TORCH)):
            decoded, position = decode(step.code), step.ip - 1
            handler = decoded.handler_for(position)
            while handler is not None and "except" not in found:
                kind = _kind(decoded, handler.target)
                if kind and not (kind == "with" and _is_torchs(step.stack[: handler.depth])):
                    found.add(kind)
                handler = decoded.handler_for(handler.target)
        step = step.caller
    return found


def _kind(decoded: Decoded, target: int) -> str:
    """What a handler is; empty for those that the compiler adds, which raise again."""
    index = decoded.index(target)
    first, second = (each.name for each in decoded.instructions[index : index + 2])
    if first != "PUSH_EXC_INFO":
        return ""
    if second == "WITH_EXCEPT_START":
        return "with"
    if second == "POP_TOP":
        return "except"
    for each in decoded.instructions[index:]:
        if each.name in ("CHECK_EXC_MATCH", "CHECK_EG_MATCH"):
            return "except"
        if each.name in ("POP_EXCEPT", "RERAISE"):
            break
    return "finally"


def _is_torchs(stack: Sequence[Any]) -> bool:
    """Whether a block is one of torch's own, which only puts its modes back.

    On top of the stack is the bound `__exit__`; since 3.14 the function and its object, which is
    NULL if there is none.
    """
    leave, manager = (stack[-2], stack[-1]) if EXIT_AND_SELF else (stack[-1], NULL)
    if manager is NULL:
        if type(leave) is not MethodType:
            return False
        manager = leave.__self__
    module = objects.type_dict(type(manager)).get("__module__")
    return type(module) is str and module.startswith("torch.")
