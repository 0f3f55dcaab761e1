"""What torch.compile returns for a module, under stator.

In: a module and how its call is made. Out: a module around it, as programs know it from torch: the
one inside is `_orig_mod`, the keys of its state begin with `_orig_mod.`, everything else that is
asked of it or set is the inner module's. (`stator.compile` itself returns something that is the
module in everything; a program that saves and loads checkpoints would notice.)
"""

from collections.abc import Callable
from typing import Any, Final, Protocol

from torch import nn


class Context(Protocol):
    """How a module is compiled, or that it is disabled; travels with it."""

    def __call__(self, fn: Any, /) -> Any:
        """Something else, made the same way: libraries call a wrapper's `dynamo_ctx` for that."""

    def call_of(self, module: nn.Module, /) -> Callable[..., Any]:
        """What a wrapper of the module calls."""


class OptimizedModule(nn.Module):
    """A module around another one, whose call is compiled, or disabled.

    Nothing here goes through `super()`: a subclass is torch's class of this name, too (`follow`).
    """

    _orig_mod: nn.Module
    dynamo_ctx: Context
    __call__ = nn.Module.__call__

    def __init__(self, module: nn.Module, context: Context) -> None:
        nn.Module.__init__(self)
        state = self.__dict__
        state["_modules"]["_orig_mod"] = module
        state["dynamo_ctx"] = context
        state["forward"] = context.call_of(module)

    @property
    def training(self) -> bool:
        return self._orig_mod.training

    @training.setter
    def training(self, value: bool) -> None:
        modules = self.__dict__.get("_modules")
        if modules is not None:  # else nn.Module sets its default: the inner module has its own
            modules["_orig_mod"].training = value

    @property
    def _torchdynamo_orig_callable(self) -> Callable[..., Any]:
        return self._orig_mod.forward

    @property
    def _torchdynamo_wrapper_id(self) -> int:
        return id(self)

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__["_modules"]["_orig_mod"]
        return module if name == "_orig_mod" else getattr(module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_own(name):
            nn.Module.__setattr__(self, name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if self._is_own(name):
            nn.Module.__delattr__(self, name)
        else:
            delattr(self._orig_mod, name)

    def _is_own(self, name: str) -> bool:
        """Whether an attribute is of this object, such as its hooks and its class's names."""
        return name == "_orig_mod" or name in self.__dict__ or hasattr(OptimizedModule, name)

    def __len__(self) -> int:
        inner: Any = self._orig_mod
        return len(inner)

    def __bool__(self) -> bool:
        return bool(self._orig_mod)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self._orig_mod)})

    def __reduce__(self) -> Any:
        """Compiled code does not travel: a copy compiles again."""
        return wrapped, (self._orig_mod, self.dynamo_ctx)


_kinds: Final = [OptimizedModule]


def wrapped(module: nn.Module, context: Context) -> OptimizedModule:
    """A wrapper of a module."""
    return _kinds[-1](module, context)


def follow(theirs: type) -> None:
    """From now on wrappers are of torch's class as well, for those who have imported that."""
    if theirs not in _kinds[-1].__bases__:
        named = {"__module__": __name__, "__qualname__": OptimizedModule.__qualname__}
        both: Any = type(theirs)(theirs.__name__, (OptimizedModule, theirs), named)
        _kinds[1:] = [both]


def unwrapped(module: nn.Module) -> nn.Module:
    """The module behind wrappers of this kind."""
    while isinstance(module, OptimizedModule):
        module = module._orig_mod
    return module
