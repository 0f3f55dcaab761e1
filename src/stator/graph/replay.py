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


class NotReplayableError(Exception):
    """No eager error is to be had: the arguments can't be imitated."""


def eager_error(
    run: Callable[[tuple[Any, ...], dict[str, Any]], object],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    known: Mapping[int, torch.Tensor] | None = None,
) -> BaseException | None:
    """The exception of `run` on stand-ins for the fake tensors in `args`; None if it passes.

    `known` are stand-ins that there are already, by id of the fake.
    """
    twins = _Real(known)
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


def is_replayable(
    args: tuple[Any, ...], kwargs: dict[str, Any], known: Mapping[int, torch.Tensor]
) -> bool:
    """Whether eager can be asked: not about sizes and numbers that depend on values."""
    twins = _Real(known)
    try:
        twins.of(args), twins.of(kwargs)
    except NotReplayableError:
        return False
    return True


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

    def cuda_devices(self) -> list[torch.device]:
        return list({t.device for t in self.tensors() if t.device.type == "cuda"})

    def tensor(self, fake: torch.Tensor) -> torch.Tensor:
        return _twin(fake)

    def size(self, number: torch.SymInt) -> int:
        return hint(number)

    def number(self, number: torch.SymFloat | torch.SymBool) -> Any:
        raise NotReplayableError


def hint(number: torch.SymInt | int) -> int:
    """The value a symbolic int had when tracing began."""
    if not isinstance(number, torch.SymInt):
        return number
    if not number.node.has_hint():
        raise NotReplayableError
    return int(number.node.hint)


def _twin(fake: torch.Tensor) -> torch.Tensor:
    if fake.layout is not torch.strided or fake.is_quantized:
        raise NotReplayableError
    size = [hint(n) for n in fake.shape]
    stride = [hint(n) for n in fake.stride()]
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
