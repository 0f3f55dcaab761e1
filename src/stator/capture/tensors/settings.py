"""Settings of torch that a program changes for a while: default device, cuDNN's flags, profiling.

In: what context managers of torch call. Out: answers, changes that the rest of the trace sees,
effects behind the graph, or a `Break` where a graph would be wrong.
"""

import contextlib
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import objects
from stator._native._core import Frame
from stator.capture.calls.builtin_calls import Handler
from stator.diagnostics.catalogue import FunctionMode, TorchState
from stator.effects import Effect, Perform
from stator.graph.leaves import leaves
from stator.guards import Callback, Equal, Fixed, State
from stator.torchlib.fakes import FakeTensor
from stator.torchlib.settings import ATTENTION, FLAGS, READERS, c_function, profiler_enabled

if TYPE_CHECKING:
    from stator.capture.calls.calls import Calls
    from stator.capture.tensors.tensors import Tensors

_PROFILING: Final = profiler_enabled
_RANGE: Final = torch.autograd.profiler.record_function
_PLAIN_DEVICES: Final = ("cpu", "meta")


class Settings:
    """The settings that one trace has changed."""

    def __init__(self, tensors: "Tensors") -> None:
        self._tensors = tensors
        self._world = tensors.world
        self._devices: list[torch.device | None] = []  # what was the default before
        self._open: list[Any] = []  # ranges that were entered, and not left
        self._left: list[Any] = []  # ranges that were entered before the call, and left in it
        self.ranges: list[str] = []
        """The names of all that were entered: a profiler is to see them."""
        self.modes: list[Any] = []
        """Function modes that are active: none but those under which indices are not read."""
        self.keeps_indices = False
        """Whether such an index stays in its node as it is, for an operator with that mode."""
        self._flags: dict[tuple[Any, ...], tuple[Any, Any]] = {}  # before and now, by getter
        self._told: set[tuple[Any, ...]] = set()  # what is guarded

    # ------------------------------------------------------------------ what torch tells

    def told(self, function: Any, args: list[Any], kwargs: Any, answer: Any) -> None:
        """The program has asked torch for something. If that is a setting, it is guarded.

        Those that a graph may change must be at its start what they were in the trace.
        """
        start = self._tensors.state.start
        if id(function) in _DTYPES and not kwargs:
            device = _DTYPES[id(function)] or args[0]
            if device in start.autocast:
                self._guard_told(torch.get_autocast_dtype, (device,), start.autocast[device].dtype)
        elif id(function) in READERS:
            name = READERS[id(function)]
            self._guard_told(FLAGS[name].read, (), start.flags[name])
        elif not args and not kwargs and leaves.is_setting(function):
            self._guard_told(function, (), answer)

    def _guard_told(self, function: Any, args: tuple[Any, ...], value: Any) -> None:
        key = (id(function), *args)
        if key in self._told or type(value) not in (bool, int, str, tuple, torch.dtype):
            return
        self._told.add(key)
        text = f"{function.__name__}({', '.join(map(repr, args))})"
        if type(function) is types.BuiltinFunctionType:
            self._world.guard(State(function, args, text), Equal(value))
        else:
            check = Callback(lambda asked: bool(asked() == value), f"answers {value}")
            self._world.guard(Fixed(function, text), check)

    def attended(self, query: Any) -> None:
        """Attention is computed: which kernel does it, backends decide when they compile it."""
        start = self._tensors.state.start
        for name in ATTENTION:
            # Elsewhere, there is one order.
            if name != "sdp_order" or (type(query) is FakeTensor and query.device.type == "cuda"):
                self._guard_told(FLAGS[name].read, (), start.flags[name])

    def autocast_cache(self, frame: Frame | None) -> bool:
        """`torch.is_autocast_cache_enabled`."""
        state = self._tensors.state
        self._guard_told(torch.is_autocast_cache_enabled, (), state.start.autocast_cache)
        return state.caching

    # ------------------------------------------------------------------ the default device

    def enter_device(self, device: torch.device) -> torch.device:
        """`with torch.device(…)`: factory functions get it as an argument."""
        self._devices.append(self._tensors.graph.default_device)
        self._tensors.graph.default_device = device
        return device

    def exit_device(self) -> None:
        if not self._devices:
            raise TorchState("a default device is left that was entered before the call")
        self._tensors.graph.default_device = self._devices.pop()

    def default_device(self, frame: Frame | None) -> torch.device:
        """`torch.get_default_device`."""
        device = self._tensors.graph.default_device
        if device is None:
            answer: torch.device = leaves.answer(torch.get_default_device, (), {})
            return answer
        if device.type not in _PLAIN_DEVICES:
            raise TorchState("torch.get_default_device inside of a default device")
        return device

    # ------------------------------------------------------------------ function modes

    def function_modes(self, frame: Frame | None) -> int:
        """How many there are: those of the trace itself do not count."""
        if self._tensors.graph.default_device is not None:
            raise FunctionMode("the program asks for function modes inside of a default device")
        return len(self.modes)

    def function_mode_enabled(self, frame: Frame | None) -> bool:
        return self.function_modes(frame) > 0

    def function_enabled(self, frame: Frame | None) -> bool:
        """Whether torch asks `__torch_function__`."""
        return self._tensors.overrides.enabled()

    # ------------------------------------------------------------------ cuDNN

    def get_flag(self, frame: Frame | None, name: str, *args: Any) -> Any:
        """A flag of cuDNN."""
        getter = c_function(name)
        key = (name, *args)
        if key not in self._flags:
            value = getter(*args)
            self._world.guard(State(getter, args, f"{name}{args}"), Equal(value))
            self._flags[key] = value, value
        return self._flags[key][1]

    def set_flag(self, frame: Frame | None, name: str, *args: Any) -> None:
        """Without CUDA, cuDNN's flags change nothing but themselves."""
        if torch.cuda.is_available():
            raise TorchState(f"torch._C.{name} changes which kernels run")
        *which, value = args
        getter = _GETTERS[name]
        before = self.get_flag(frame, getter, *which)
        if type(value) is not type(before):
            raise TorchState(f"torch._C.{name} with an object of type {type(value).__qualname__}")
        self._flags[(getter, *which)] = self._flags[(getter, *which)][0], value

    # ------------------------------------------------------------------ others

    def default_dtype(self, frame: Frame | None, dtype: Any) -> None:
        """`torch.set_default_dtype`, as long as it changes nothing.

        Backends don't write dtypes into factory functions: these ask for the default at run time.
        """
        if dtype is not torch.get_default_dtype():
            raise TorchState("the default dtype is changed, which a graph can't hold")

    def anomaly(self, frame: Frame | None, mode: Any, check_nan: Any = True) -> None:
        """`torch.set_anomaly_enabled`, as long as it changes nothing."""
        now = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
        if (mode, check_nan) != now:
            raise TorchState("the detection of anomalies is switched, which a graph can't hold")
        for getter, value in zip(_ANOMALY, now, strict=True):
            self._world.guard(State(getter, (), f"{getter.__name__}()"), Equal(value))

    def enter_range(self, frame: Frame | None, holder: Any) -> Any:
        """`record_function`: without a profiler, it does nothing.

        A graph can't hold it: while a profiler is active, the call of the graph is the range. One
        that is still open where the trace ends is entered for real, behind the graph.
        """
        name = vars(holder).get("name") if type(holder) is _RANGE else None
        if type(name) is str and name:
            self.ranges.append(name)
        else:
            self._without_profiler()
        self._open.append(holder)
        return holder

    def _without_profiler(self) -> None:
        if _PROFILING():
            raise TorchState("a range is profiled, which a graph can't hold")
        self._world.guard(State(_PROFILING, (), "the profiler is on"), Equal(False))

    def exit_range(self, frame: Frame | None, holder: Any, *_: Any) -> None:
        """One that was entered before the call is left behind the graph."""
        for i, each in enumerate(self._open):
            if each is holder:
                del self._open[i]
                return
        self._left.append(holder)

    def enter_mode(self, frame: Frame | None, mode: Any) -> None:
        """`with TransformGetItemToIndex():` (see `Indexing.gathered`)."""
        if not leaves.is_indexing_mode(type(mode)):
            raise FunctionMode("a torch function mode is entered")
        self.modes.append(mode)

    @contextlib.contextmanager
    def indices_kept(self) -> Iterator[None]:
        """Indices are not read, by an operator that sees to it when it runs (`flex_attention`)."""
        before = self.keeps_indices
        self.keeps_indices = True
        self.modes.append(None)
        try:
            yield
        finally:
            self.modes.pop()
            self.keeps_indices = before

    def leave_mode(self, frame: Frame | None) -> Any:
        if not self.modes:
            raise FunctionMode("a torch function mode is left that was entered before")
        return self.modes.pop()

    def effects(self) -> Iterator[Effect]:
        """What stays changed."""
        if self._devices or self.modes:
            raise TorchState("a default device or a mode is entered, and not left")
        if self.ranges and not any(
            node.op.startswith("call") for node in self._tensors.graph.graph.nodes
        ):
            self._without_profiler()  # there is no graph whose call would be the range
        for holder in self._left:
            yield Perform(Fixed(_RANGE.__exit__, "leave_range"), (holder, None, None, None))
        for holder in self._open:
            yield Perform(Fixed(_RANGE.__enter__, "enter_range"), (holder,))
        for name in ATTENTION:  # a graph sets them, but not once a backend has compiled it
            flag = FLAGS[name]
            setting = flag.read()
            if setting != self._tensors.state.start.flags[name]:
                yield Perform(Fixed(flag.write, f"set_{name}"), (setting,))
        for (getter, *which), (before, now) in self._flags.items():
            if now != before:
                setter = next(name for name, read in _GETTERS.items() if read == getter)
                yield Perform(Fixed(c_function(setter)), (*which, now))


# Functions that tell autocast's dtype: the device, if it is not their argument.
_DTYPES: Final = {
    id(torch.get_autocast_dtype): None,
    id(torch.get_autocast_cpu_dtype): "cpu",
    id(torch.get_autocast_gpu_dtype): "cuda",
}
_ANOMALY: Final = (torch.is_anomaly_enabled, torch.is_anomaly_check_nan_enabled)
_GETTERS: Final[dict[str, str]] = {
    "_cuda_set_cudnn_benchmark_limit": "_cuda_get_cudnn_benchmark_limit",
    "_set_cudnn_allow_tf32": "_get_cudnn_allow_tf32",
    "_set_cudnn_benchmark": "_get_cudnn_benchmark",
    "_set_cudnn_depthwise_kernel": "_get_cudnn_depthwise_kernel",
    "_set_cudnn_deterministic": "_get_cudnn_deterministic",
    "_set_cudnn_enabled": "_get_cudnn_enabled",
    "_set_fp32_precision_setter": "_get_fp32_precision_getter",
}


def _enter(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    return calls.tensors.own.settings.enter_device(args[0])


def _exit(calls: "Calls", frame: Frame, function: Any, args: list[Any], kwargs: Any) -> Any:
    return calls.tensors.own.settings.exit_device()


DEVICES: Final[dict[int, Handler]] = {
    id(objects.type_dict(torch.device)["__enter__"]): _enter,
    id(objects.type_dict(torch.device)["__exit__"]): _exit,
}
