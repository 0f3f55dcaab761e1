"""Results of operations that are known from another one of the same form.

In: the form of an operation with unknown sizes (`forms`), and its result, once. Out: for the next
operation of that form, a result with the same expressions over its own symbols, without asking
torch's kernel again, which takes milliseconds to compute with symbols.

Only new tensors and views without a history are remembered. Whatever the kernel has found out about
symbols, or found that has to be checked, it has to find again.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from stator.graph.fakes.inputs import version
from stator.graph.fakes.memory import expression, storage_of
from stator.graph.unknown.forms import Form
from stator.torchlib.fakes import FakeTensor, FakeTensorMode, in_kernel_invocation_manager
from stator.torchlib.modes import is_any_autocast_enabled
from stator.torchlib.transforms import peek_interpreter_stack

UNKNOWN: Final[Any] = object()
_NO_PLAIN_RESULT: Final = (getattr, setattr)


@dataclass(frozen=True)
class _Made:
    """A tensor that an operation makes, over the symbols of the one that was seen."""

    dtype: torch.dtype
    device: torch.device
    sizes: tuple[Any, ...]
    strides: tuple[Any, ...]
    begin: Any = 0
    part_of: int | None = None
    """The operand in whose memory it is."""


@dataclass(frozen=True)
class _Recipe:
    symbols: list[Any]
    kind: type | None
    """Of the tuple or list that the tensors are in."""
    tensors: tuple[_Made, ...]


class Recipes:
    """What operations make, by their forms."""

    def __init__(self, env: Any, mode: FakeTensorMode) -> None:
        self._env = env
        self._mode = mode
        self._known: dict[tuple[Any, ...], _Recipe] = {}

    def result(self, form: Form, operands: Sequence[torch.Tensor]) -> Any:
        """What an operation of this form makes; `UNKNOWN` if none was seen."""
        recipe = self._known.get(form.key)
        if recipe is None:
            return UNKNOWN
        names = dict(zip(recipe.symbols, form.symbols, strict=True))
        with self._env.suppress_guards():
            made = [self._tensor(each, names, operands) for each in recipe.tensors]
        return made[0] if recipe.kind is None else recipe.kind(made)

    def _tensor(
        self, made: _Made, names: dict[Any, Any], operands: Sequence[torch.Tensor]
    ) -> torch.Tensor:
        sizes = [self._number(each, names) for each in made.sizes]
        strides = [self._number(each, names) for each in made.strides]
        if made.part_of is not None:
            begin = self._number(made.begin, names)
            return torch.as_strided(operands[made.part_of], sizes, strides, begin)
        with in_kernel_invocation_manager(self._mode):
            empty = torch.empty_strided(sizes, strides, dtype=made.dtype, device="meta")
        return FakeTensor(self._mode, empty, made.device)

    def _number(self, number: Any, names: dict[Any, Any]) -> Any:
        if type(number) is int:
            return number
        return self._env.create_symintnode(number.xreplace(names), hint=None)

    def before(self, form: Form, operands: Sequence[torch.Tensor]) -> "Before | None":
        """To be asked for before an operation is carried out; None if it is not remembered."""
        if not form.is_plain or form.key[0] in _NO_PLAIN_RESULT or not _is_usual():
            return None
        return Before(self._env, form, list(operands))

    def note(self, before: "Before", result: Any) -> None:
        """An operation has made a result, of which nothing has to be checked."""
        if not before.is_as_it_was():
            return
        kind = type(result)
        if kind is FakeTensor:
            tensors = [result]
        elif kind in (tuple, list) or kind.__module__ == "torch.return_types":
            tensors = list(result)
        else:
            return
        made = [self._made(each, before) for each in tensors]
        storages = {storage_of(each) for each in tensors if type(each) is FakeTensor}
        if None in made or len(storages) < len(tensors):
            return
        if kind is not FakeTensor and any(each.part_of is not None for each in made if each):
            return  # several views of one tensor: torch forbids to change one of them
        if any(each is result for each in before.operands):
            return
        recipe = _Recipe(
            before.form.symbols,
            None if kind is FakeTensor else kind,
            tuple(each for each in made if each is not None),
        )
        self._known[before.form.key] = recipe

    def _made(self, tensor: Any, before: "Before") -> _Made | None:
        """How to make such a tensor; None if it is more than a new one."""
        if type(tensor) is not FakeTensor or tensor.layout is not torch.strided:
            return None
        if tensor.requires_grad or tensor.constant is not None or tensor.is_inference():
            return None
        if tensor.is_conj() or tensor.is_neg():
            return None
        part_of = before.part_of(tensor)
        if tensor._is_view() != (part_of is not None):
            return None
        sizes = tuple(map(expression, tensor.shape))
        strides = tuple(map(expression, tensor.stride()))
        begin = expression(tensor.storage_offset())
        numbers = (*sizes, *strides, begin)
        symbols = {s for n in numbers if type(n) is not int for s in n.free_symbols}
        known = set(before.form.symbols) | self._env.backed_var_to_val.keys()
        if not symbols <= known or (part_of is None and begin != 0):
            return None
        return _Made(tensor.dtype, tensor.device, sizes, strides, begin, part_of)


class Before:
    """What an operation must leave as it is, to be remembered."""

    def __init__(self, env: Any, form: Form, operands: list[torch.Tensor]) -> None:
        self.form = form
        self._env = env
        self.operands = operands
        self._symbols = form.symbols
        self._found = self._now()

    def part_of(self, tensor: torch.Tensor) -> int | None:
        """Which operand a tensor looks into."""
        memory = storage_of(tensor)
        places = (i for i, each in enumerate(self.operands) if storage_of(each) == memory)
        return next(places, None)

    def is_as_it_was(self) -> bool:
        return self._symbols == self.form.symbols and self._found == self._now()

    def _now(self) -> tuple[Any, ...]:
        env = self._env
        return (
            len(env.replacements),
            env.num_deferred_runtime_asserts,
            len(env.guards),
            len(env.pending_fresh_unbacked_symbols),
            self.form.facts(),
            list(map(version, self.operands)),
        )


def _is_usual() -> bool:
    """Whether nothing but its arguments decides what an operation makes."""
    return not (
        torch.is_inference_mode_enabled()
        or is_any_autocast_enabled()
        or peek_interpreter_stack() is not None
    )
