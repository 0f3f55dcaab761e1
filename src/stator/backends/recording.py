"""A function of tensors that starts kernels: recorded as a CUDA graph, and replayed.

In: a function that always starts the same kernels on tensors of the same sizes and strides, changes
none of them, and does nothing else. Out: a callable that returns what the function returns.

A CUDA graph reads and writes the memory it was recorded with. So

- inputs are read where they are (parameters stay where they are); one that has moved since is
  copied into memory of the recording from then on;
- results are copied out of the recording: those of an earlier call stay as they are. Results that
  are inputs or parts of them, or share memory with each other, do so in each call.
"""

import threading
import warnings
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, TypeAlias

import torch

from stator.graph.fakes.memory import extent
from stator.torchlib.operators import foreach_copy_

_RECORDINGS: Final = 4  # after that many, no input is expected to stay where it is

Fresh: TypeAlias = dict[tuple[str, int], torch.Tensor]
"""The tensors, and the whole memory of several, that a call has copied out so far."""
Make: TypeAlias = Callable[[Sequence[torch.Tensor], Fresh], Any]
"""Makes one result of a call, from its inputs or from what is recorded."""


class Recorder:
    """Runs the function once as it is, records it at the second call, and replays it."""

    def __init__(self, run: Callable[..., Any], device: torch.device) -> None:
        self._run = run
        self._device = device
        self._lock = threading.Lock()  # a recording has its memory once
        self._failed = False
        self._first: list[int] | None = None  # where the inputs of the first call were
        self._recording: Recording | None = None
        self._recordings = 0
        self._copied: set[int] = set()
        self._stream: torch.cuda.Stream | None = None

    def __call__(self, *inputs: torch.Tensor) -> Any:
        if self._first is None:
            # This call loads kernels and chooses among them, which a recording can't.
            self._first = [given.data_ptr() for given in inputs]
            return self._run(*inputs)
        if self._failed or torch.cuda.is_current_stream_capturing():
            return self._run(*inputs)
        with self._lock, torch.cuda.device(self._device), torch.no_grad():
            recording = self._recording_for(inputs, self._first)
            if recording is not None:
                self._behind_other_streams()
                return recording.replay(inputs)
        return self._run(*inputs)

    def _recording_for(
        self, inputs: Sequence[torch.Tensor], first: Sequence[int]
    ) -> "Recording | None":
        recording = self._recording
        if recording is None:
            moved = [i for i, given in enumerate(inputs) if given.data_ptr() != first[i]]
        else:
            moved = recording.moved(inputs)
            if not moved:
                return recording
            torch.cuda.synchronize()  # it may be running
            self._recording = recording = None
        self._copied.update(moved)
        self._recordings += 1
        if self._recordings >= _RECORDINGS:
            self._copied.update(range(len(inputs)))
        try:
            self._recording = Recording(self._run, inputs, self._copied)
        except Exception as error:
            self._failed = True
            text = f"a graph runs without CUDA graphs: recording it failed: {error}"
            warnings.warn(text, stacklevel=2)
        return self._recording

    def _behind_other_streams(self) -> None:
        """Calls on several streams share the recording's memory: one after another."""
        stream = torch.cuda.current_stream()
        if self._stream is not None and self._stream != stream:
            stream.wait_stream(self._stream)
        self._stream = stream


class Recording:
    """One CUDA graph, with the memory that it reads and writes."""

    def __init__(
        self, run: Callable[..., Any], inputs: Sequence[torch.Tensor], copied: Collection[int]
    ) -> None:
        self._copied = sorted(copied)
        with torch.inference_mode(False):  # a replay writes there in any mode
            self._record(run, inputs)

    def _record(self, run: Callable[..., Any], inputs: Sequence[torch.Tensor]) -> None:
        self._extents = [
            extent(inputs[index].shape, inputs[index].stride()) for index in self._copied
        ]
        self._buffers = [inputs[i].new_empty(n) for i, n in self._numbered(self._extents)]
        self._addresses = [
            (index, given.data_ptr())
            for index, given in enumerate(inputs)
            if index not in self._copied
        ]
        given = list(inputs)
        for index, buffer in self._numbered(self._buffers):
            given[index] = buffer.as_strided(given[index].shape, given[index].stride())
        self._graph = torch.cuda.CUDAGraph()
        with _same_stream(), torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            results = run(*given)
        self._makes = _makes(results, given)

    def _numbered(self, values: Sequence[Any]) -> Any:
        return zip(self._copied, values, strict=True)

    def moved(self, inputs: Sequence[torch.Tensor]) -> list[int]:
        """The inputs that are read where they were, and are not there."""
        return [i for i, address in self._addresses if inputs[i].data_ptr() != address]

    def replay(self, inputs: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        if self._copied:
            given = [inputs[i].as_strided((n,), (1,)) for i, n in self._numbered(self._extents)]
            foreach_copy_(self._buffers, given)
        self._graph.replay()
        fresh: Fresh = {}
        return tuple(make(inputs, fresh) for make in self._makes)


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
