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
from stator.torchlib.cuda_graphs import current_raw_stream
from stator.torchlib.modes import set_grad_enabled
from stator.torchlib.operators import foreach_copy_

_KEPT: Final = 256  # recordings of one function: as many models may share it
_LARGE: Final = 1 << 20  # bytes: such an input may stay, and is read where it is until it has moved

Make: TypeAlias = Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], Any]
"""Makes one result of a call, from its inputs or from what it has copied out."""


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

    def __init__(self, device: torch.device) -> None:
        self.lock = threading.RLock()
        self.pool = torch.cuda.graph_pool_handle()
        self._device = device
        self._raw: int | None = None  # the last stream, as CUDA tells it
        self._stream: torch.cuda.Stream | None = None
        # torch gives the memory back with the last graph: one without kernels stays.
        self._graph = torch.cuda.CUDAGraph()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it has no kernels
            with _captured(self._graph, self.pool):
                pass

    def after_other_streams(self) -> None:
        """Calls on several streams use the same memory: one after another."""
        current = current_raw_stream(self._device.index)
        if current != self._raw:
            stream = torch.cuda.current_stream()
            if self._stream is not None:
                stream.wait_stream(self._stream)
            self._raw, self._stream = current, stream


_MEMORIES: Final[dict[torch.device, Memory]] = {}


def _memory_of(device: torch.device) -> Memory:
    found = _MEMORIES.get(device)
    return _MEMORIES.setdefault(device, Memory(device)) if found is None else found


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
        self._results = Results(results, given)

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
        return self._results.of_call(inputs)


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


class Results:
    """How the results of a call are made: what is recorded is copied, all of it at once."""

    def __init__(self, results: Sequence[Any], given: Sequence[torch.Tensor]) -> None:
        self._given = [(_memory(tensor), tensor) for tensor in given]
        self._copied: list[torch.Tensor] = []  # results, or the whole memory of several
        self._places: dict[tuple[str, int], int] = {}  # of the copies
        tensors = {id(each): each for each in results if isinstance(each, torch.Tensor)}
        self._memories = [_memory(each) for each in tensors.values()]
        self._makes: list[Make | int]  # a number: that result again
        first = {id(each): i for i, each in reversed([*enumerate(results)])}
        self._makes = [
            self._make(each) if first[id(each)] == i else first[id(each)]
            for i, each in enumerate(results)
        ]
        self._given.clear()

    def of_call(self, inputs: Sequence[torch.Tensor]) -> tuple[Any, ...]:
        copies = [torch.empty_like(each) for each in self._copied]
        if copies:
            foreach_copy_(copies, self._copied)
        made: list[Any] = []
        for make in self._makes:
            made.append(made[make] if isinstance(make, int) else make(inputs, copies))
        return tuple(made)

    def _make(self, result: Any) -> Make:
        if not isinstance(result, torch.Tensor):
            return lambda inputs, copies: result
        memory = _memory(result)
        owners = [i for i, (other, _) in enumerate(self._given) if other == memory]
        for index in owners:
            if self._given[index][1] is result:
                return lambda inputs, copies: inputs[index]
        if owners:
            # Several may share it: the last that begins before the result.
            begins = {i: self._given[i][1].data_ptr() for i in owners}
            before = [i for i in owners if begins[i] <= result.data_ptr()] or owners
            index = max(before, key=begins.__getitem__)
            return _part_of_input(index, self._given[index][1], result)
        if self._memories.count(memory) == 1 and _keeps_strides(result):
            place = self._place(("result", id(result)), result)
            return lambda inputs, copies: copies[place]
        whole = torch.empty(0, dtype=torch.uint8, device=result.device)
        whole.set_(result.untyped_storage())
        return _part_of_copy(self._place(("memory", memory), whole), result)

    def _place(self, key: tuple[str, int], tensor: torch.Tensor) -> int:
        """What is returned twice is copied once."""
        if key not in self._places:
            self._places[key] = len(self._copied)
            self._copied.append(tensor)
        return self._places[key]


def _keeps_strides(tensor: torch.Tensor) -> bool:
    return torch.empty_like(tensor).stride() == tensor.stride()


def _memory(tensor: torch.Tensor) -> int:
    """Tells storages apart; those without memory are like no other."""
    address: int = tensor.untyped_storage().data_ptr()
    return address or id(tensor)


def _part_of_input(index: int, owner: torch.Tensor, result: torch.Tensor) -> Make:
    shape, stride, dtype = result.shape, result.stride(), result.dtype
    behind = _start(result) - _start(owner)

    def make(inputs: Sequence[torch.Tensor], copies: Sequence[torch.Tensor]) -> torch.Tensor:
        source = inputs[index]
        return _laid_out(source, dtype, _start(source) + behind, shape, stride)

    return make


def _part_of_copy(place: int, result: torch.Tensor) -> Make:
    shape, stride, dtype, start = result.shape, result.stride(), result.dtype, _start(result)

    def make(inputs: Sequence[torch.Tensor], copies: Sequence[torch.Tensor]) -> torch.Tensor:
        return _laid_out(copies[place], dtype, start, shape, stride)

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
