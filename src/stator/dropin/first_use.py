"""`install` put off until the program uses what it replaces.

For processes that a program starts to load data: they import torch, and most of them never compile
anything. In: torch, just imported, and the options of `install`. Out: functions of torch that
install stator when the program calls one of them; so does the import of torch._dynamo. To
`install` they are wrappers of a library, inside of which it finds torch's own functions.
Loads nothing before torch is there.
"""

import sys
from collections.abc import Callable, Sequence
from functools import wraps
from importlib import import_module
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from stator.torchlib.loading import loaded

_DYNAMO: Final = "torch._dynamo"
COMPILER: Final = (
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "disable",
    "get_default_backend",
    "reset",
    "set_default_backend",
    "set_stance",
    "substitute_in_graph",
)
"""What `install` replaces in torch.compiler."""


def install_at_first_use(torch: ModuleType, options: dict[str, Any]) -> None:
    """Installs stator with these options, as soon as it makes a difference."""
    _Pending(options).watch(torch)


class _Pending(MetaPathFinder):
    """What waits for the program."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options: dict[str, Any] | None = options

    def watch(self, torch: Any) -> None:
        places = [(torch, "compile"), (torch.nn.Module, "compile")]
        places += [(torch.compiler, name) for name in COMPILER]
        logging: Any = import_module("stator.torchlib.tracers").logging
        if logging is not None:
            places += [(logging, "set_logs"), (logging._internal, "set_logs")]
        for owner, name in places:
            original = getattr(owner, name, None)
            if original is not None:  # torch has it, in this version
                setattr(owner, name, self._watched(original))
        sys.meta_path.insert(0, self)

    def _watched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if self._options is not None and not _is_torchs(sys._getframe(1).f_globals):
                self.install()
            return original(*args, **kwargs)  # which is stator's from then on

        return watched

    def install(self) -> None:
        """Once."""
        options, self._options = self._options, None
        sys.meta_path.remove(self)
        if options is not None:
            loaded("stator.dropin.switch").install(**options)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _DYNAMO:
            return None
        self.install()
        for finder in sys.meta_path:  # the first one now waits for this module, too
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                return spec
        return None


def _is_torchs(namespace: dict[str, Any]) -> bool:
    name: str = namespace.get("__name__") or ""
    return name.partition(".")[0] == "torch"
