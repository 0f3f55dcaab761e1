"""Numbers that a graph reads from tensors: `x.item()`, `x.tolist()`.

In: results of calls that hold symbolic numbers. Out: where a graph finds each of these numbers,
and which conditions it has to ask for when it runs. torch's `ShapeEnv` keeps the conditions
(`deferred_runtime_asserts`); most of them follow from the call that made the symbol, and the others
are *assumptions*: they may turn out to be wrong.
"""

import operator
from collections.abc import Callable, Iterable
from typing import Any, Final

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
import torch
import torch.fx as fx
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from stator.graph.fakes.inputs import version
from stator.graph.unknown.questions import same_size
from stator.graph.unknown.symbols import SymbolicNumber
from stator.torchlib.operators import check

_SYMBOLIC: Final = (torch.SymInt, torch.SymFloat, torch.SymBool)
# Calls whose new symbols are sizes of what they found: that these are in range is no assumption.
_SIZING_FUNCTIONS: Final = frozenset(
    map(id, (operator.getitem, operator.setitem, torch.nonzero, torch.masked_select, torch.select))
)
_SIZING_METHODS: Final = frozenset({"nonzero", "masked_select", "select"})
MEMOS: Final = ("item_memo", "nonzero_memo", "unique_memo", "unique_consecutive_memo")
# Their sizes are those of parts of a tensor, unless another tensor tells which.
_PARTS: Final = frozenset(
    {"getitem", "narrow", "select", "slice", "split", "split_with_sizes", "tensor_split", "chunk"}
)
_QUESTIONS: Final = 8  # of one operation
_check: Final[Any] = check


def has_numbers(value: object) -> bool:
    """Whether there is a symbolic number in nested lists and tuples."""
    if isinstance(value, list | tuple):
        return any(map(has_numbers, value))
    return isinstance(value, _SYMBOLIC)


def symbol_of(number: SymbolicNumber) -> sympy.Symbol | None:
    """The symbol that a number is; that of a bool is an int which is 1 if it is true."""
    expr = number.node.expr
    if isinstance(number, torch.SymBool) and isinstance(expr, sympy.Eq) and expr.args[1] == 1:
        expr = expr.args[0]
    return expr if isinstance(expr, sympy.Symbol) else None


class Assumptions:
    """Whether a graph holds only if values are as they were taken to be."""

    def __init__(self, shape_env: Any) -> None:
        self._env = shape_env
        self._seen: dict[sympy.Symbol, int] = {}
        self._total = 0
        self.facts: dict[Any, object] = {}
        """Conditions in their order, and where they are from; None: the program insists on it."""
        self.place: object = None  # where the program is
        self.symbols: set[sympy.Symbol] = set()  # of which something is assumed

    def __bool__(self) -> bool:
        return bool(self.facts)

    def note(self, target: Any, *, insisted: bool = False) -> bool:
        """A call has ended, its new symbols are still pending: what it made torch ask for.

        Whether that is something which does not follow from the call.
        """
        total: int = self._env.num_deferred_runtime_asserts
        if total == self._total:
            return False
        before = len(self.facts)
        self._total = total
        fresh = set(self._env.pending_fresh_unbacked_symbols)
        for symbol, asserts in self._env.deferred_runtime_asserts.items():
            new = asserts[self._seen.get(symbol, 0) :]
            self._seen[symbol] = len(asserts)
            follows = _is_sizing(target) and symbol in fresh
            for found in new:
                if not (follows and _is_range(found.expr)):
                    self.facts.setdefault(found.expr, None if insisted else self.place)
                    self.symbols |= found.expr.free_symbols
        return len(self.facts) > before

    def contradicted(self) -> bool:
        """Whether something that is assumed can't be, by what is known now.

        What is usual (`assuming`) is taken for granted before anybody looks at values.
        """
        asserts = self._env.deferred_runtime_asserts
        return any(
            self._env.replace(found.expr) == sympy.false
            for symbol in self.symbols
            for found in asserts.get(symbol, ())
        )


def assuming(
    shape_env: Any,
    run: Callable[[], Any],
    operands: Iterable[torch.Tensor],
    may: bool,
    observed: Callable[[Any], bool | None],
) -> Any:
    """Runs an operation on fake tensors; where it must know that two sizes are the same, they are.

    Where that is otherwise the graph will find out. If nothing `may` be assumed, or it is otherwise
    already in the call that is being traced, it can't run.
    """
    tensors = [(tensor, version(tensor)) for tensor in operands]
    for _ in range(_QUESTIONS):
        try:
            return run()
        except GuardOnDataDependentSymNode as error:
            same = same_size(getattr(error, "cond", None))
            if (
                not may
                or same is None
                or any(version(tensor) != before for tensor, before in tensors)
                or observed(same) is False
            ):
                raise
            forget(shape_env, (tensor for tensor, _ in tensors))
            _check(shape_env.create_symboolnode(same))
    return run()


def take(shape_env: Any, condition: Any) -> None:
    """Takes a condition on unknown numbers for granted: the graph will check it."""
    if shape_env._maybe_evaluate_static(condition) is None:
        _check(shape_env.create_symboolnode(condition))


def forget(shape_env: Any, operands: Iterable[torch.Tensor]) -> None:
    """An operation has failed: the symbols it made for values of its operands are no node's.

    Fake tensors remember such symbols, for the next operation that reads the same value.
    """
    fresh = set(shape_env.pending_fresh_unbacked_symbols)
    shape_env.pending_fresh_unbacked_symbols.clear()
    if not fresh:
        return
    for tensor in operands:
        for name in MEMOS:
            number = getattr(tensor, name, None)
            if isinstance(number, _SYMBOLIC) and not fresh.isdisjoint(
                number.node.expr.free_symbols
            ):
                setattr(tensor, name, None)


def _is_sizing(target: Any) -> bool:
    if isinstance(target, tuple):
        return target[1] in _SIZING_METHODS
    return id(target) in _SIZING_FUNCTIONS


def _is_range(expr: sympy.Basic) -> bool:
    """`0 <= u`, `u <= 6`."""
    return isinstance(expr, sympy.Le | sympy.Ge) and not any(
        isinstance(part, sympy.Add | sympy.Mul) for part in expr.args
    )


def forget_bindings(graph: fx.Graph, shape_env: Any) -> None:
    """Symbols that a backend must not take for those that it finds itself.

    A backend that traces the graph again calls new symbols by the names that they are bound by. Of
    one that is taken to be a number, or another symbol, it would know the answer without asking,
    and drop the check. Of the size of a part (`x[:n]`) it may know by then what it is computed
    from: that is no symbol any more.
    """
    for node in graph.nodes:
        bindings = node.meta.get("unbacked_bindings")
        if bindings:
            part = _is_part(node)
            node.meta["unbacked_bindings"] = {
                symbol: path
                for symbol, path in bindings.items()
                if symbol not in shape_env.replacements and not part
            }


def _is_part(node: fx.Node) -> bool:
    """Whether the sizes of a result follow from numbers, and not from values in tensors."""
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if name.strip("_") not in _PARTS:
        return False
    given = [each.meta.get("example_value") for each in node.all_input_nodes]
    return sum(isinstance(each, torch.Tensor) for each in given) == 1
