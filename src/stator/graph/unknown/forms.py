"""Forms of operations: what is the same if they differ in nothing but the names of their symbols.

In: an operation with unknown sizes. Out: a form of all that it depends on, in which symbols are
numbered as they occur. A loop over classes does the same for each, with fresh symbols: what was
found out for one form (`corners`, `recipes`) holds for all operations of that form.
"""

import types
from collections.abc import Sequence
from typing import Any, Final

import torch

from stator.graph.fakes.inputs import tensors_in
from stator.graph.fakes.memory import storage_of
from stator.graph.passes.purity import is_torch_function
from stator.graph.unknown.questions import Question
from stator.graph.unknown.scalars import MEMOS
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.modes import is_any_autocast_enabled
from stator.torchlib.operators import OpOverload, OpOverloadPacket

_PLAIN: Final = frozenset(
    (
        int,
        float,
        bool,
        str,
        type(None),
        type(...),
        torch.dtype,
        torch.device,
        torch.layout,
        torch.memory_format,
    )
)
# Other objects that a program allows in graphs may be compared by code of their own.
_TARGETS: Final = (types.BuiltinFunctionType, types.FunctionType, OpOverload, OpOverloadPacket)
_MOST: Final = 32  # symbols


class _NoForm(Exception):  # noqa: N818 - an answer, not an error
    """Something that may be equal and mean something else."""


class Form:
    """One operation: equal keys mean that all is the same, but for the names of symbols."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._numbers: dict[Any, int] = {}
        self._memory: dict[int, int] = {}
        self.key: tuple[Any, ...] = ()
        self.is_plain = True  # all operands are tensors without known values

    @property
    def symbols(self) -> list[Any]:
        """The unknown ones, as they are numbered."""
        return list(self._numbers)

    def with_result(self, result: Any, asked: Sequence[Question]) -> tuple[Any, ...] | None:
        """The key together with what the operation has made, and wanted to know."""
        try:
            return (
                *self.key,
                tuple(self._tensor(each) for each in tensors_in(result)),
                tuple((self._expression(each.condition), each.answer) for each in asked),
            )
        except _NoForm:
            return None

    def note(self, target: Any, arguments: Any) -> None:
        given = self._value(arguments)
        self.key = target, given, self.facts(), _state()
        hash(self.key)

    def facts(self) -> tuple[Any, ...]:
        """What is known of the symbols, and of those that come up in that."""
        found: list[Any] = []
        while len(found) < len(self._numbers):
            if len(self._numbers) > _MOST:
                raise _NoForm
            found += map(self._facts, self.symbols[len(found) :])
        return tuple(found)

    def _facts(self, symbol: Any) -> Any:
        """What is known of a symbol, which rules numbers out."""
        known = self._env.var_to_range.get(symbol)
        asserts = self._env.deferred_runtime_asserts.get(symbol, ())
        bounds = None if known is None else (known.lower, known.upper)
        like_size = symbol in self._env.size_like
        return bounds, like_size, tuple(self._expression(each.expr) for each in asserts)

    def _value(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        kind = type(value)
        if kind is torch.SymInt:
            return kind, self._expression(value.node.expr)
        if kind in _PLAIN:
            return kind, repr(value) if kind is float else value
        if kind is tuple or kind is list or kind is torch.Size:
            return kind, tuple(map(self._value, value))
        if kind is dict:
            return kind, tuple((key, self._value(item)) for key, item in value.items())
        if kind is slice:
            return kind, self._value((value.start, value.stop, value.step))
        raise _NoForm

    def _tensor(self, tensor: torch.Tensor) -> Any:
        """What a kernel sees of one."""
        if tensor.layout is not torch.strided or type(tensor) is not FakeTensor:
            raise _NoForm
        if tensor.constant is not None:
            self.is_plain = False
        memory = self._memory.setdefault(storage_of(tensor), len(self._memory))
        where = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
        memos = (getattr(tensor, name, None) for name in MEMOS)
        return (
            tensor.dtype,
            tensor.device,
            tensor.dim(),
            tensor.requires_grad,
            tensor.is_conj(),
            tensor.is_neg(),
            memory,
            tuple(map(self._number, where)),
            tuple(None if memo is None else self._value(memo) for memo in memos),
        )

    def _number(self, number: Any) -> Any:
        return number if type(number) is int else self._expression(number.node.expr)

    def _expression(self, expr: Any) -> Any:
        if expr.is_Symbol:
            if expr in self._env.backed_var_to_val:
                return expr
            return "symbol", self._numbers.setdefault(expr, len(self._numbers))
        if not expr.args:
            return expr
        return (expr.func, *map(self._expression, expr.args))


def form_of(env: Any, target: Any, arguments: Any) -> Form | None:
    """The form of an operation; None if something in it has none."""
    if type(target) is not tuple and not (type(target) in _TARGETS and is_torch_function(target)):
        return None
    form = Form(env)
    try:
        form.note(target, arguments)
    except (_NoForm, TypeError):
        return None
    return form


def _state() -> tuple[Any, ...]:
    """What operations depend on besides their arguments."""
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        is_any_autocast_enabled(),
        torch.get_default_dtype(),
    )
