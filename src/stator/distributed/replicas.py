"""DistributedDataParallel: what it does around its module, and the module alone, compiled.

In: a replica, that is a `DistributedDataParallel`. Out: its forward in three parts, for a trace, in
which the module in the middle is captured; and a call of it in which the module is compiled.

What it does before (buckets, buffers of the other ranks) and behind (which parameters are reduced)
is C++ that talks to other processes: it runs as it is, at its place, once each.
"""

from collections.abc import Callable
from typing import Any, Final

import torch
from torch import nn

from stator.torchlib import distributed

REPLICA: Final[Any] = distributed.ddp


def is_replica(module: object) -> bool:
    """Whether a module is a replica whose forward is torch's own."""
    return (
        REPLICA is not None
        and isinstance(module, REPLICA)
        and type(module).forward is REPLICA.forward  # type: ignore[attr-defined, unused-ignore]
    )


def active() -> Any:
    """The replica inside of whose forward this is, if any."""
    return None if REPLICA is None else REPLICA._get_active_ddp_module()


# ---------------------------------------------------------------------- in a trace


def forward(self: Any, *inputs: Any, **kwargs: Any) -> Any:
    """What a trace evaluates in the place of `DistributedDataParallel.forward`."""
    began = before(self, inputs, kwargs)
    try:
        if self._delay_all_reduce_all_params:
            output = self.module.forward(*began[0], **began[1])
        else:
            output = self.module(*began[0], **began[1])
    except BaseException:
        failed(began[2])
        raise
    return behind(self, output, began[2])


def before(replica: Any, inputs: Any, kwargs: Any) -> tuple[Any, Any, Any]:
    """The first part; answers with what the module is called with, and what `behind` ends."""
    span: Any = torch.autograd.profiler.record_function("DistributedDataParallel.forward")
    span.__enter__()
    try:
        given, named = replica._pre_forward(*inputs, **kwargs)
    except BaseException as error:
        span.__exit__(type(error), error, error.__traceback__)
        raise
    outer, REPLICA._active_ddp_module = REPLICA._active_ddp_module, replica
    return given, named, (span, outer)


def behind(replica: Any, output: Any, began: Any) -> Any:
    """The last part."""
    span, outer = began
    REPLICA._active_ddp_module = outer
    try:
        return replica._post_forward(output)
    finally:
        span.__exit__(None, None, None)


def failed(began: Any) -> None:
    """The module has raised."""
    span, outer = began
    REPLICA._active_ddp_module = outer
    span.__exit__(None, None, None)


# ---------------------------------------------------------------------- compiled as a whole


class Replicated:
    """A call of a replica as in eager, in which its module is what was compiled for it."""

    def __init__(self, compiled: Callable[[nn.Module], Any], method: str) -> None:
        self._compiled = compiled
        self._method = method
        self._made: tuple[Any, Any] | None = None  # for a module

    def __call__(self, replica: Any, /, *args: Any, **kwargs: Any) -> Any:
        call = getattr(super(REPLICA, replica), self._method)
        inner = replica.module
        if inner._compiled_call_impl is not None:  # it is compiled already
            return call(*args, **kwargs)
        if self._made is None or self._made[0] is not inner:
            self._made = inner, self._compiled(inner)
        inner._compiled_call_impl = self._made[1]
        try:
            return call(*args, **kwargs)
        finally:
            inner._compiled_call_impl = None
