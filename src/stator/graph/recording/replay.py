"""The eager error of an operation that failed on fake tensors.

Fake kernels report bad arguments in words of their own, now and then with another exception type.
The program must see eager's exception, so the call is repeated on real tensors with the same
metadata and zeros for values. It runs only after a failure, only for torch's own functions, and
leaves the random number generators as they were.
"""

import abc
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

from stator.torchlib.tensors import DisableTorchFunction

LARGEST: Final = 1 << 28  # bytes of one stand-in tensor
_SAMPLE: Final = 3  # what a number could be
_SYMBOLIC: Final = (torch.SymInt, torch.SymFloat, torch.SymBool)


class NotReplayableError(Exception):
    """No eager error is to be had: the arguments can't be imitated."""


def eager_error(
    run: Callable[[tuple[Any, ...], dict[str, Any]], object],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    known: Mapping[int, torch.Tensor] | None = None,
    number: Callable[[Any], Any] | None = None,
) -> BaseException | None:
    """The exception of `run` on stand-ins for the fake tensors in `args`; None if it passes.

    `known` are stand-ins that there are already, by id of the fake. `number` says what stands for
    symbols; by default those that depend on values can't be imitated.
    """
    twins = _Real(known, number or hint_of)
    try:
        real_args, real_kwargs = twins.of(args), twins.of(kwargs)
    except NotReplayableError:
        return None
    with (
        torch.random.fork_rng(devices=twins.cuda_devices()),
        DisableTorchFunction(),
        warnings.catch_warnings(action="ignore"),
    ):
        try:
            run(real_args, real_kwargs)
        except Exception as error:
            error.__traceback__ = error.__context__ = error.__cause__ = None
            return error
    return None


class Twins(abc.ABC):
    """Other tensors and numbers for those in the arguments of a call, as a subclass makes them.

    One each, so that a tensor passed twice stays one tensor.
    """

    def __init__(self, known: Mapping[int, torch.Tensor] | None = None) -> None:
        self._of = dict(known or {})

    def tensors(self) -> list[torch.Tensor]:
        return list(self._of.values())

    @abc.abstractmethod
    def tensor(self, fake: torch.Tensor) -> torch.Tensor:
        """In the place of a tensor."""

    @abc.abstractmethod
    def size(self, number: torch.SymInt) -> int:
        """In the place of a size."""

    @abc.abstractmethod
    def number(self, number: torch.SymFloat | torch.SymBool) -> Any:
        """In the place of one that was read from a tensor, or is computed from such."""

    def of(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            twin = self._of.get(id(value))
            if twin is None:
                twin = self._of[id(value)] = self.tensor(value)
            return twin
        if isinstance(value, torch.SymInt):
            return self.size(value)
        if isinstance(value, torch.SymFloat | torch.SymBool):
            return self.number(value)
        if isinstance(value, list):
            return [self.of(item) for item in value]
        if isinstance(value, tuple):
            items = [self.of(item) for item in value]
            if isinstance(value, torch.Size):
                return torch.Size(items)
            return tuple(items) if type(value) is tuple else tuple.__new__(type(value), items)
        if isinstance(value, dict):
            return {key: self.of(item) for key, item in value.items()}
        if isinstance(value, slice):
            return slice(self.of(value.start), self.of(value.stop), self.of(value.step))
        return value


class _Real(Twins):
    """Real tensors of zeros."""

    def __init__(
        self, known: Mapping[int, torch.Tensor] | None, number: Callable[[Any], Any]
    ) -> None:
        super().__init__(known)
        self._number = number

    def cuda_devices(self) -> list[torch.device]:
        return list({t.device for t in self.tensors() if t.device.type == "cuda"})

    def tensor(self, fake: torch.Tensor) -> torch.Tensor:
        return _twin(fake, self._number)

    def size(self, number: torch.SymInt) -> int:
        return int(self._number(number))

    def number(self, number: torch.SymFloat | torch.SymBool) -> Any:
        return self._number(number)


def hint(number: torch.SymInt | int) -> int:
    """The value a symbolic int had when tracing began."""
    return int(hint_of(number))


def hint_of(number: Any) -> Any:
    """The value a symbolic number had when tracing began; of one that is settled by now, that."""
    if not isinstance(number, _SYMBOLIC):
        return number
    node = number.node
    if isinstance(number, torch.SymInt):
        if node.has_hint():
            return node.hint
        known = node.maybe_as_int()
        if known is not None:
            return known
    return _at(node, None)


def sample(number: Any) -> Any:
    """The same; for a number that nobody knows, one that it could be."""
    if not isinstance(number, _SYMBOLIC):
        return number
    if isinstance(number, torch.SymInt) and number.node.has_hint():
        return number.node.hint
    return _at(number.node, _SAMPLE)


def _at(node: Any, unknown: int | None) -> Any:
    """The value of an expression for the numbers of this call, `unknown` where there is none."""
    values = node.shape_env.backed_var_to_val
    expr = node.expr
    if unknown is None and not expr.free_symbols <= values.keys():
        raise NotReplayableError
    try:
        found = expr.xreplace({each: values.get(each, unknown) for each in expr.free_symbols})
        return node.pytype(found)
    except (TypeError, ZeroDivisionError) as error:
        raise NotReplayableError from error


def _twin(fake: torch.Tensor, number: Callable[[Any], Any]) -> torch.Tensor:
    if fake.layout is not torch.strided or fake.is_quantized:
        raise NotReplayableError
    size = [number(n) for n in fake.shape]
    stride = [number(n) for n in fake.stride()]
    extent = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True) if n)
    if extent * fake.dtype.itemsize > LARGEST:
        raise NotReplayableError
    try:
        twin = torch.empty_strided(size, stride, dtype=fake.dtype, device=fake.device)
    except RuntimeError as error:
        raise NotReplayableError from error
    if twin.numel():
        torch.as_strided(twin, (extent,), (1,)).zero_()
    if fake.requires_grad:
        try:
            is_leaf = fake.is_leaf
            twin.requires_grad_()
        except RuntimeError as error:
            # A view whose base has been changed, which torch forbids; or integers: a real kernel
            # would have refused to make this tensor.
            raise NotReplayableError from error
        if not is_leaf:
            with torch.enable_grad():
                twin = twin.clone()
    return twin
