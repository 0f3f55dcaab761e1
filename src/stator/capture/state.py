"""torch's global state at the start of a trace, as guards."""

from stator.guards import Guard, Is
from stator.guards.tensors import TorchState

_NAMES = (
    "grad_mode",
    "inference_mode",
    "default_dtype",
    "deterministic",
    "autocast_cpu",
    "autocast_cuda",
    "torch_function_modes",
)


def torch_state_guards() -> list[Guard]:
    found = []
    for name in _NAMES:
        source = TorchState(name)
        found.append(Guard(source, Is(source.function(*source.arguments))))
    return found
