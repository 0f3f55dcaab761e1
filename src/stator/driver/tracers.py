"""Other tracers: `torch.jit.trace`, `torch.fx`, `make_fx`, `torch.export`.

Stage: driver. In: a call that no entry fits. Out: whether somebody else is tracing it. Then it runs
as it is, so that the other one sees the program's own operators, and nothing is compiled for
tensors or proxies that exist only for a while. What was compiled before never fits such a call: the
guards ask for dispatch modes and for torch.jit's tracer, and a proxy is no tensor.
"""

import torch
from torch.fx import _symbolic_trace
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack


def another_traces() -> bool:
    """Whether a tracer of torch's is at work in this thread (for `torch.fx`: in any)."""
    if torch._C._is_tracing() or _symbolic_trace._is_fx_tracing_flag:
        return True
    if not torch._C._len_torch_dispatch_stack():
        return False
    return any(type(mode).is_infra_mode() for mode in _get_current_dispatch_mode_stack())
