"""What torch.compile returns for a module, under stator.

In: a module and how its call is made. Out: a module around it, as programs know it from torch: the
one inside is `_orig_mod`, the keys of its state begin with `_orig_mod.`, everything else that is
asked of it or set is the inner module's. (`stator.compile` itself returns something that is the
module in everything; a program that saves and loads checkpoints would notice.)
"""

from collections.abc import Callable
from typing import Any

from torch import nn

Make = Callable[[nn.Module], Callable[..., Any]]


class OptimizedModule(nn.Module):
    """A module around another one, whose call is compiled, or disabled."""

    _orig_mod: nn.Module

    def __init__(self, module: nn.Module, make: Make) -> None:
        super().__init__()
        state = self.__dict__
        del state["training"]  # the inner module knows
        state["_modules"]["_orig_mod"] = module
        state["_make"] = make
        state["forward"] = make(module)

    def __getattr__(self, name: str) -> Any:
        module = self.__dict__["_modules"]["_orig_mod"]
        return module if name == "_orig_mod" else getattr(module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._is_own(name):
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        if self._is_own(name):
            super().__delattr__(name)
        else:
            delattr(self._orig_mod, name)

    def _is_own(self, name: str) -> bool:
        """Whether an attribute is of this object, such as its hooks and its class's names."""
        return name == "_orig_mod" or name in self.__dict__ or hasattr(type(self), name)

    def __len__(self) -> int:
        inner: Any = self._orig_mod
        return len(inner)

    def __bool__(self) -> bool:
        return bool(self._orig_mod)

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(self._orig_mod)})

    def __reduce__(self) -> Any:
        """Compiled code does not travel: a copy compiles again."""
        return OptimizedModule, (self._orig_mod, self.__dict__["_make"])


def unwrapped(module: nn.Module) -> nn.Module:
    """The module behind wrappers of this kind."""
    while isinstance(module, OptimizedModule):
        module = module._orig_mod
    return module
