"""Other tracers: `torch.jit.trace`, `torch.fx`, `make_fx`, `torch.export`.

Stage: driver. In: a call that no entry fits. Out: whether somebody else is tracing it. Then it runs
as it is, so that the other one sees the program's own operators, and nothing is compiled for
tensors or proxies that exist only for a while. What was compiled before never fits such a call: the
guards ask for dispatch modes and for torch.jit's tracer, and a proxy is no tensor.
"""

from stator.torchlib.modes import dispatch_mode_stack, len_dispatch_stack
from stator.torchlib.tracers import fx_traces, is_jit_tracing


def another_traces() -> bool:
    """Whether a tracer of torch's is at work in this thread (for `torch.fx`: in any)."""
    if is_jit_tracing() or fx_traces():
        return True
    if not len_dispatch_stack():
        return False
    return any(type(mode).is_infra_mode() for mode in dispatch_mode_stack())
