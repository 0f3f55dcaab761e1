"""A function of tensors that starts kernels: recorded as a CUDA graph, and replayed.

In: a function that always starts the same kernels on tensors of the same sizes and strides, and
does nothing else. Out: a callable that returns what the function returns.

A CUDA graph reads and writes the memory it was recorded with. So

- inputs that are expected to stay (parameters, whatever the function changes) are read where they
  are, and there is a recording for each place where they have been; the others are copied into
  memory of the recording;
- results are copied out of the recording: those of an earlier call stay as they are. Results that
  are inputs or parts of them, or share memory with each other, do so in each call.

All recordings of a device compute in the same memory, one after another.
"""

import threading
import warnings
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import torch

from stator._native import _core
from stator.graph.fakes.memory import extent
from stator.torchlib.modes import set_grad_enabled
from stator.torchlib.operators import foreach_copy_

_KEPT: Final = 256  # recordings of one function: as many models may share it
_LARGE: Final = 1 << 20  # bytes: such an input may stay, and is read where it is until it has moved

Fresh: TypeAlias = dict[tuple[str, int], torch.Tensor]
"""The tensors, and the whole memory of several, that a call has copied out so far."""
Make: TypeAlias = Callable[[Sequence[torch.Tensor], Fresh], Any]
"""Makes one result of a call, from its inputs or from what is recorded."""


class Recorder:
    """Runs the function once as it is, records it at the second call, and replays it.

    `stay` are the inputs that are expected where they were, `changed` those that the function
    writes to, which are never copied.
    """

    def __init__(
        self,
        run: Callable[..., Any],
        device: torch.device,
        stay: Collection[int] = (),
        changed: Collection[int] = (),
    ) -> None:
        self._run = run
        self._device = device
        self._stay = frozenset(stay) | frozenset(changed)
        self._changed = frozenset(changed)
        self._lock = threading.Lock()  # a recording has its memory once
        self._failed = False
        self._first: list[int] | None = None  # where the inputs of the first call were
        self._recordings: list[Recording] = []  # the one of the last call comes first
        self._copied: set[int] = set()

    def __call__(self, *inputs: torch.Tensor) -> Any:
        if self._first is None:
            # This call loads kernels and chooses among them, which a recording can't.
            self._first = [given.data_ptr() for given in inputs]
            return self._run(*inputs)
        if self._failed or torch.cuda.is_current_stream_capturing():
            return self._run(*inputs)
        if torch.cuda.current_device() != self._device.index:
            with torch.cuda.device(self._device):
                return self._on_device(inputs)
        return self._on_device(inputs)

    def _on_device(self, inputs: Sequence[torch.Tensor]) -> Any:
        if not torch.is_grad_enabled():
            return self._without_grad(inputs)
        set_grad_enabled(False)
        try:
            return self._without_grad(inputs)
        finally:
            set_grad_enabled(True)

    def _without_grad(self, inputs: Sequence[torch.Tensor]) -> Any:
        with self._lock:
            recording = self._fitting(inputs) or self._recorded(inputs)
            if recording is not None:
                memory = _memory_of(self._device)
                with memory.lock:
                    memory.after_other_streams()
                    results = recording.replay(inputs)
                for index in self._changed:
                    torch.autograd.graph.increment_version(inputs[index])
                return results
        return self._run(*inputs)

    def _fitting(self, inputs: Sequence[torch.Tensor]) -> "Recording | None":
        for place, recording in enumerate(self._recordings):
            if _core.addresses_hold(inputs, recording.addresses):
                if place:
                    self._recordings.insert(0, self._recordings.pop(place))
                return recording
        return None

    def _recorded(self, inputs: Sequence[torch.Tensor]) -> "Recording | None":
        """A recording for inputs that are where none has been made yet; None if there is none."""
        if self._recordings:
            moved = set(self._recordings[0].moved(inputs))
        else:
            assert self._first is not None
            moved = {i for i, given in enumerate(inputs) if given.data_ptr() != self._first[i]}
            moved |= {i for i, given in enumerate(inputs) if given.nbytes < _LARGE}
        moved -= self._stay
        self._failed = not moved and len(self._recordings) >= _KEPT
        if moved or self._failed:
            torch.cuda.synchronize()  # they may be running
            self._recordings.clear()
            self._copied |= moved
        if self._failed:
            _warn("its weights, or what it changes, are elsewhere in each call")
            return None
        try:
            with _memory_of(self._device).lock:
                made = Recording(self._run, inputs, self._copied, _memory_of(self._device))
        except Exception as error:
            self._failed = True
            _warn(f"recording it failed: {error}")
            return None
        self._recordings.insert(0, made)
        return made


def _warn(reason: str) -> None:
    warnings.warn(f"a graph runs without CUDA graphs: {reason}", stacklevel=2)


class Memory:
    """What the recordings of a device compute in; who replays holds the lock."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.pool = torch.cuda.graph_pool_handle()
        self._stream: torch.cuda.Stream | None = None
        # torch gives the memory back with the last graph: one without kernels stays.
        self._graph = torch.cuda.CUDAGraph()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has no kernels
            with _captured(self._graph, self.pool):
                pass

    def after_other_streams(self) -> None:
        """Calls on several streams use the same memory: one after another."""
        stream = torch.cuda.current_stream()
        if self._stream is not None and self._stream != stream:
            stream.wait_stream(self._stream)
        self._stream = stream


_MEMORIES: Final[dict[torch.device, Memory]] = {}


def _memory_of(device: torch.device) -> Memory:
    found = _MEMORIES.get(device)
    return _MEMORIES.setdefault(device, Memory()) if found is None else found


class Recording:
    """One CUDA graph, with the memory that it reads and writes."""

    def __init__(
        self,
        run: Callable[..., Any],
        inputs: Sequence[torch.Tensor],
        copied: Collection[int],
        memory: Memory,
    ) -> None:
        self._copied = sorted(copied)
        with torch.inference_mode(False):  # a replay writes there in any mode
            self._record(run, inputs, memory)

    def _record(
        self, run: Callable[..., Any], inputs: Sequence[torch.Tensor], memory: Memory
    ) -> None:
        places = array("q")
        for index, tensor in enumerate(inputs):
            if index not in self._copied:
                places.extend((index, _signed(tensor.data_ptr())))
        self.addresses = places.tobytes()
        given = list(inputs)
        self._buffers: list[torch.Tensor] = []
        self._extents: list[int | None] = []
        for index in self._copied:
            shape, stride = inputs[index].shape, inputs[index].stride()
            buffer = inputs[index].new_empty(size := extent(shape, stride))
            given[index] = buffer.as_strided(shape, stride)
            dense = size == inputs[index].numel()
            self._buffers.append(given[index] if dense else buffer)
            self._extents.append(None if dense else size)
        self._graph = torch.cuda.CUDAGraph()
        with _captured(self._graph, memory.pool):
            results = run(*given)
        self._makes = _makes(results, given)

    def moved(self, inputs: Sequence[torch.Tensor]) -> list[int]:
        """The inputs that are read where they were, and are not there."""
        places = array("q", self.addresses)
        pairs = zip(places[::2], places[1::2], strict=True)
        return [i for i, address in pairs if _signed(inputs[i].data_ptr()) != address]

    def replay(self, inputs: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        if self._copied:
            given = [
                inputs[index] if size is None else inputs[index].as_strided((size,), (1,))
                for index, size in zip(self._copied, self._extents, strict=True)
            ]
            foreach_copy_(self._buffers, given)
        self._graph.replay()
        fresh: Fresh = {}
        return tuple(make(inputs, fresh) for make in self._makes)


def _signed(address: int) -> int:
    return address - (1 << 64) if address >> 63 else address


@contextmanager
def _captured(graph: torch.cuda.CUDAGraph, pool: Any) -> Iterator[None]:
    with _same_stream(), torch.cuda.graph(graph, pool, capture_error_mode="thread_local"):
        yield


def _same_stream() -> torch.cuda.StreamContext:
    """torch does not go back to the stream that was used before if a recording fails."""
    return torch.cuda.stream(torch.cuda.current_stream())


# ---------------------------------------------------------------------------- results


def _makes(results: Sequence[Any], given: Sequence[torch.Tensor]) -> list[Make]:
    """How each result is made in a call."""
    tensors = {id(each): each for each in results if isinstance(each, torch.Tensor)}
    memories = [_memory(each) for each in tensors.values()]
    return [_make(each, given, memories) for each in results]


def _memory(tensor: torch.Tensor) -> int:
    """Tells storages apart; those without memory are like no other."""
    address: int = tensor.untyped_storage().data_ptr()
    return address or id(tensor)


def _make(result: Any, given: Sequence[torch.Tensor], memories: Sequence[int]) -> Make:
    if not isinstance(result, torch.Tensor):
        return lambda inputs, fresh: result
    memory = _memory(result)
    owners = [index for index, tensor in enumerate(given) if _memory(tensor) == memory]
    for index in owners:
        if given[index] is result:
            return _is_input(index)
    if owners:
        # Several may share it: the last that begins before the result.
        before = [i for i in owners if given[i].data_ptr() <= result.data_ptr()] or owners
        index = max(before, key=lambda i: given[i].data_ptr())
        return _part_of_input(index, given[index], result)
    if memories.count(memory) == 1 and torch.empty_like(result).stride() == result.stride():
        return _copy(result)
    return _shared(memory, result)


def _is_input(index: int) -> Make:
    return lambda inputs, fresh: inputs[index]


def _part_of_input(index: int, owner: torch.Tensor, result: torch.Tensor) -> Make:
    shape, stride, dtype = result.shape, result.stride(), result.dtype
    behind = _start(result) - _start(owner)

    def make(inputs: Sequence[torch.Tensor], fresh: Fresh) -> torch.Tensor:
        source = inputs[index]
        return _laid_out(source, dtype, _start(source) + behind, shape, stride)

    return make


def _copy(result: torch.Tensor) -> Make:
    key = "result", id(result)

    def make(inputs: Sequence[torch.Tensor], fresh: Fresh) -> torch.Tensor:
        if key not in fresh:  # one that is returned twice is one tensor
            fresh[key] = result.clone()
        return fresh[key]

    return make


def _shared(memory: int, result: torch.Tensor) -> Make:
    whole = torch.empty(0, dtype=torch.uint8, device=result.device)
    whole.set_(result.untyped_storage())
    shape, stride, dtype, start = result.shape, result.stride(), result.dtype, _start(result)
    key, storage = ("result", id(result)), ("memory", memory)

    def make(inputs: Sequence[torch.Tensor], fresh: Fresh) -> torch.Tensor:
        if storage not in fresh:
            fresh[storage] = whole.clone()
        if key not in fresh:
            fresh[key] = _laid_out(fresh[storage], dtype, start, shape, stride)
        return fresh[key]

    return make


def _start(tensor: torch.Tensor) -> int:
    """The byte of its storage at which a tensor begins."""
    return int(tensor.storage_offset()) * tensor.itemsize


def _laid_out(
    owner: torch.Tensor,
    dtype: torch.dtype,
    start: int,
    shape: Sequence[int],
    stride: Sequence[int],
) -> torch.Tensor:
    """A tensor in the memory of another one, from a byte on."""
    if owner.dtype == dtype:
        return owner.as_strided(shape, stride, start // owner.itemsize)
    made = torch.empty(0, dtype=dtype, device=owner.device)
    made.set_(owner.untyped_storage(), start // made.itemsize, shape, stride)
    return made
