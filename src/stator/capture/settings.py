"""Settings of torch that a program changes for a while: default device, cuDNN's flags, profiling.

In: what context managers of torch call. Out: answers, changes that the rest of the trace sees,
effects behind the graph, or a `Break` where a graph would be wrong.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import torch

from stator import objects
from stator._native._core import Frame
from stator.capture.special import Handler
from stator.diagnostics.catalogue import TorchState
from stator.effects import Effect, Perform
from stator.graph import leaves
from stator.guards import Equal, Fixed, State

if TYPE_CHECKING:
    from stator.capture.calls import Calls
    from stator.capture.tensors import Tensors

_PROFILING: Final = torch._C._autograd._profiler_enabled
_PLAIN_DEVICES: Final = ("cpu", "meta")


class Settings:
    """The settings that one trace has changed."""

    def __init__(self, tensors: "Tensors") -> None:
        self._tensors = tensors
        self._world = tensors.world
        self._devices: list[torch.device | None] = []  # what was the default before
        self._ranges = 0  # that are open
        self._flags: dict[tuple[Any, ...], tuple[Any, Any]] = {}  # before and now, by getter

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
        if not self._devices:
            answer: torch.device = leaves.answer(torch.get_default_device, (), {})
            return answer
        if device is None or device.type not in _PLAIN_DEVICES:
            raise TorchState("torch.get_default_device inside of a default device")
        return device

    # ------------------------------------------------------------------ cuDNN

    def get_flag(self, frame: Frame | None, name: str, *args: Any) -> Any:
        """A flag of cuDNN."""
        getter = getattr(torch._C, name)
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
        """`record_function`: without a profiler, it does nothing."""
        if _PROFILING():
            raise TorchState("a range is profiled, which a graph can't hold")
        self._world.guard(State(_PROFILING, (), "the profiler is on"), Equal(False))
        self._ranges += 1
        return holder

    def exit_range(self, frame: Frame | None, *_: Any) -> None:
        if not self._ranges:
            raise TorchState("a profiled range is left that was entered before")
        self._ranges -= 1

    def effects(self) -> Iterator[Effect]:
        """What stays changed."""
        if self._devices or self._ranges:
            raise TorchState("a default device or a profiled range is entered, and not left")
        for (getter, *which), (before, now) in self._flags.items():
            if now != before:
                setter = next(name for name, read in _GETTERS.items() if read == getter)
                yield Perform(Fixed(getattr(torch._C, setter)), (*which, now))


_ANOMALY: Final = (torch.is_anomaly_enabled, torch.is_anomaly_check_nan_enabled)
_GETTERS: Final[dict[str, str]] = {
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
