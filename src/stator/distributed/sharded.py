"""FSDP2: what `fully_shard` does around a module, and the module alone, compiled.

In: an `FSDPModule`, whose parameters are gathered by hooks before its forward and given up behind.
Out: its call in three parts, for a trace, in which the forward in the middle is captured; and a
call of it in which the forward is what was compiled.

The hooks are FSDP's own code, which talks to other processes, keeps books in Python and changes
which tensors the parameters are. They run as they are, exactly where eager runs them, and no guard
is about them: what they make of the parameters is guarded, by the forward that uses them.
"""

import sys
from collections.abc import Callable
from typing import Any, Final

from torch import nn

from stator.torchlib import distributed, hooks

_MODULE: Final = "torch.distributed.fsdp"


def in_use() -> bool:
    """Whether there may be sharded modules: libraries load that part of torch for good measure."""
    return _MODULE in sys.modules and distributed.default_group() is not None


def is_sharded(module: object) -> bool:
    """Whether a module is sharded, and called as torch does it: no other code is around it."""
    loaded = sys.modules.get(_MODULE)
    cls = getattr(loaded, "FSDPModule", None)
    if cls is None or not isinstance(module, cls) or not isinstance(module, nn.Module):
        return False
    return _is_plain(module)


def _is_plain(module: nn.Module) -> bool:
    own = vars(module)
    if "forward" in own or "_call_impl" in own or type(module)._call_impl is not hooks.CALL_IMPL:
        return False
    return not (
        own["_backward_hooks"]
        or own["_backward_pre_hooks"]
        or own["_forward_hooks_always_called"]
        or any(hooks.for_all_modules())
    )


# ---------------------------------------------------------------------- in a trace


def call(module: Any, /, *args: Any, **kwargs: Any) -> Any:
    """What a trace evaluates in the place of `Module._call_impl` of a sharded module."""
    given, named = before(module, args, kwargs)
    return behind(module, given, named, module.forward(*given, **named))


def before(module: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The hooks before a forward; answers with what that is called with."""
    for number, hook in list(module._forward_pre_hooks.items()):
        if number in module._forward_pre_hooks_with_kwargs:
            changed = hook(module, args, kwargs)
            if changed is not None:
                args, kwargs = changed
        else:
            changed = hook(module, args)
            if changed is not None:
                args = changed if isinstance(changed, tuple) else (changed,)
    return args, kwargs


def behind(module: Any, args: Any, kwargs: Any, output: Any) -> Any:
    """The hooks behind a forward; answers with what it returns."""
    for number, hook in list(module._forward_hooks.items()):
        if number in module._forward_hooks_with_kwargs:
            changed = hook(module, args, kwargs, output)
        else:
            changed = hook(module, args, output)
        if changed is not None:
            output = changed
    return output


# ---------------------------------------------------------------------- compiled as a whole


class Sharded:
    """A call of a module that may be sharded, also later than it was compiled."""

    def __init__(
        self,
        module: nn.Module,
        usual: Callable[..., Any],
        forward: Callable[[], Callable[..., Any]],
    ) -> None:
        self._module = module
        self._usual = usual
        self._make = forward
        self._forward: Callable[..., Any] | None = None

    @property
    def usual(self) -> Callable[..., Any]:
        """What is called as long as the module is not sharded."""
        return self._usual

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        module = self._module
        if not is_sharded(module):
            return self._usual(*args, **kwargs)
        if self._forward is None:
            self._forward = self._make()
        given, named = before(module, args, kwargs)
        return behind(module, given, named, self._forward(*given, **named))
