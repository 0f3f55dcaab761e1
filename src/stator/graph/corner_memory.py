"""What corners have settled: an operation that differs in nothing but the names of its symbols.

In: an operation with unknown sizes, its result, what was asked. Out: a form of all that `corners`
looks at, in which symbols are numbered as they occur; None if something in it has no form. A loop
over classes does the same for each, with fresh symbols: what is settled for one form holds for all.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import torch

from .fakes import tensors_in
from .memory import storage_of
from .unknown import Question

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


class _NoForm(Exception):  # noqa: N818 - an answer, not an error
    """Something that may be equal and mean something else."""


def form_of(
    env: Any,
    target: Any,
    arguments: Any,
    result: Any,
    asked: Sequence[Question],
    symbols: Iterable[Any],
) -> tuple[Any, ...] | None:
    """Equal for operations for which the corners say the same; None if that can't be told."""
    form = _Form(env)
    try:
        parts = (
            target,
            form.value(arguments),
            tuple(form.tensor(each) for each in tensors_in(result)),
            tuple((form.expression(each.condition), each.answer) for each in asked),
        )
        facts = tuple(map(form.facts, form.in_order(symbols)))
        found = (*parts, facts, _state())
        hash(found)
    except (_NoForm, TypeError):
        return None
    return found


def _state() -> tuple[Any, ...]:
    """What operations depend on besides their arguments."""
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch._C._is_any_autocast_enabled(),
        torch.get_default_dtype(),
    )


class _Form:
    """The forms of one operation, whose symbols are numbered together."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._numbers: dict[Any, int] = {}
        self._memory: dict[int, int] = {}

    def value(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        kind = type(value)
        if kind is torch.SymInt:
            return kind, self.expression(value.node.expr)
        if kind in _PLAIN:
            return kind, repr(value) if kind is float else value
        if kind is tuple or kind is list or kind is torch.Size:
            return kind, tuple(map(self.value, value))
        if kind is dict:
            return kind, tuple((key, self.value(item)) for key, item in value.items())
        if kind is slice:
            return kind, self.value((value.start, value.stop, value.step))
        raise _NoForm

    def tensor(self, tensor: torch.Tensor) -> Any:
        """What a corner sees of one."""
        if tensor.layout is not torch.strided:
            raise _NoForm
        memory = self._memory.setdefault(storage_of(tensor), len(self._memory))
        where = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
        return (
            type(tensor),
            tensor.dtype,
            tensor.device,
            tensor.dim(),
            tensor.requires_grad,
            tensor.is_conj(),
            tensor.is_neg(),
            memory,
            tuple(map(self._number, where)),
        )

    def _number(self, number: Any) -> Any:
        return number if type(number) is int else self.expression(number.node.expr)

    def expression(self, expr: Any) -> Any:
        if expr.is_Symbol:
            if expr in self._env.backed_var_to_val:
                return expr
            return "symbol", self._numbers.setdefault(expr, len(self._numbers))
        if not expr.args:
            return expr
        return (expr.func, *map(self.expression, expr.args))

    def in_order(self, symbols: Iterable[Any]) -> list[Any]:
        """As they are numbered; none occurs here first."""
        try:
            return sorted(symbols, key=self._numbers.__getitem__)
        except KeyError:
            raise _NoForm from None

    def facts(self, symbol: Any) -> Any:
        """What is known of a symbol, which rules numbers out."""
        known = self._env.var_to_range.get(symbol)
        asserts = self._env.deferred_runtime_asserts.get(symbol, ())
        bounds = None if known is None else (known.lower, known.upper)
        return bounds, tuple(self.expression(each.expr) for each in asserts)
