"""State of torch that a graph can't hold."""

from stator.diagnostics.breaks import Break


class TorchState(Break):
    """Settings of torch."""

    id = "SB0032"
    title = "a setting of torch is changed"
    what = (
        "The program changes the default dtype or device, the number of threads, which kernels may "
        "run, printing options or anomaly detection, or leaves a context manager that was entered "
        "before the call."
    )
    why = (
        "A compiled graph runs under the settings that it was compiled for: it can't change them "
        "in the middle. (grad mode, inference mode and autocast can be in a graph.)"
    )
    fix = "change the setting outside of the compiled function, or give dtype= and device="
    example = """\
import torch

def program(x):
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        return x + torch.ones(3)
    finally:
        torch.set_default_dtype(before)

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

def program(x):
    return x + torch.ones(3, dtype=torch.float64)

def arguments():
    return (torch.ones(3),)
"""


class RandomState(Break):
    """Random number generators, beyond drawing numbers."""

    id = "SB0033"
    title = "a random number generator is used in a way that a graph can't follow"
    what = (
        "The program keeps a generator that it has made, asks for its seed or gives it a state "
        "from elsewhere, draws what depends on values of tensors, or something else than numbers, "
        "such as a shuffled list, unless a constant has seeded the generator in the call."
    )
    why = (
        "Numbers are drawn at run time: by the operations of a graph, or before it, from the real "
        "generators, in the order of the program. The state in between exists in neither."
    )
    fix = "keep generators, and save their state, outside of the function; draw numbers or tensors"
    example = """\
import torch

def program(x, generator, state):
    generator.set_state(state)
    return x + torch.rand(3, generator=generator)

def arguments():
    generator = torch.Generator()
    return torch.ones(3), generator, generator.get_state()
"""
    fixed = """\
import torch

def program(x, generator):
    return x + torch.rand(3, generator=generator)

def arguments():
    return torch.ones(3), torch.Generator().manual_seed(0)
"""


class FunctionMode(Break):
    """A `TorchFunctionMode` or `TorchDispatchMode` of the program."""

    id = "SB0034"
    title = "a torch function mode or dispatch mode is active"
    what = (
        "The function is called inside of a `TorchFunctionMode` or a `TorchDispatchMode`, or "
        "enters one."
    )
    why = "The mode's own code gets every call of torch, and may do anything instead."
    fix = "use the mode outside of the compiled function, and leave it before the call"
    example = """\
import torch
from torch.overrides import TorchFunctionMode

class Doubled(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {})) * 2

def program(x):
    with Doubled():
        return torch.sin(x)

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

def doubled(function, *args):
    return function(*args) * 2

def program(x):
    return doubled(torch.sin, x)

def arguments():
    return (torch.ones(3),)
"""


class AnotherTool(Break):
    """Other compilers, exporters, profilers."""

    id = "SB0035"
    title = "another compiler, an exporter or a profiler is driven"
    what = "The program calls `torch.compile`, `torch.jit`, `torch.export`, or starts a profiler."
    why = "Such a tool looks at the program as it runs. It would look at the tracer instead."
    fix = "use it outside of the compiled function"
    example = """\
import torch

def program(x):
    with torch.profiler.profile():
        return x.sin()

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import torch

def program(x):
    with torch.profiler.record_function("sine"):
        return x.sin()

def arguments():
    return (torch.ones(3),)
"""
