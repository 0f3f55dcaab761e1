"""What is loaded when: nothing that is not needed."""

import subprocess
import sys

HEAVY = (
    "torch._dynamo",
    "torch._functorch.aot_autograd",
    "torch._inductor",
    "torch._inductor.compile_fx",
    "triton",
)


def loaded_after(program: str) -> list[str]:
    """Which of the heavy modules a program has loaded."""
    ask = f"import sys; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    output = subprocess.check_output([sys.executable, "-c", f"{program}\n{ask}"], text=True)
    return output.split()


def test_compile_loads_no_backend() -> None:
    program = """
import stator, torch
@stator.compile
def function(x): return x + 1
module = stator.compile(torch.nn.Linear(2, 2), mode="max-autotune")
stator.compile(function, backend="aot_eager")
stator.compile_module_(torch.nn.Linear(2, 2))
stator.list_backends()
stator.disable(function)
stator.reset()
"""
    assert loaded_after(program) == []


def test_a_trace_loads_what_fake_tensors_load() -> None:
    """torch's FakeTensorMode loads torch._dynamo by itself, to read its settings; nobody else."""
    program = """
import stator, torch
@stator.compile(backend="eager", fullgraph=True)
def function(x): return x + 1
function(torch.ones(2))
"""
    fake = "from torch._subclasses.fake_tensor import FakeTensorMode; FakeTensorMode()"
    assert loaded_after(program) == loaded_after(fake)
    assert "torch._inductor.compile_fx" not in loaded_after(program)


def test_open_sizes_load_nothing_more() -> None:
    program = """
import stator, torch
@stator.compile(backend="eager", dynamic=True)
def function(x): return x[:, :2] * x.shape[0]
function(torch.ones(3, 5)), function(torch.ones(4, 5))
"""
    fake = "from torch._subclasses.fake_tensor import FakeTensorMode; FakeTensorMode()"
    assert loaded_after(program) == loaded_after(fake)


def test_a_graph_that_inductor_is_not_given_does_not_load_it() -> None:
    program = """
import stator, torch
layer = torch.nn.LSTM(3, 3)
compiled = stator.compile(layer)
for length in (8, 9, 10):
    compiled(torch.ones(length, 2, 3))[0].sum().backward()
assert stator.counters()["torch_kernels"] == stator.counters()["unique_graphs"] == 2
"""
    assert "torch._inductor.compile_fx" not in loaded_after(program)
