"""Something to do when a module has been imported, now or later.

In: names of modules and what to call with each. Out: the call, once the module's own code has run.
A finder in front of the others hands out the loader that they would, and calls back behind it.
"""

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

Callback = Callable[[ModuleType], object]


class _Calling(Loader):
    """A loader that is another one, and calls back once."""

    def __init__(self, loader: Any, arrived: Callback) -> None:
        self._loader = loader
        self._arrived = arrived

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        # From here on nobody sees that we were between.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._arrived(module)


class Arrivals(MetaPathFinder):
    """Waits for modules."""

    def __init__(self) -> None:
        self._waiting: dict[str, Callback] = {}

    def expect(self, name: str, arrived: Callback) -> None:
        """Calls `arrived` with the module: at once, if it has been imported, else when it is."""
        module = sys.modules.get(name)
        if module is not None and not _begun(module):
            arrived(module)
            return
        self._waiting[name] = arrived
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)

    def stop(self) -> None:
        """Nothing is waited for any more."""
        self._waiting.clear()
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        arrived = self._waiting.get(fullname)
        if arrived is None:
            return None
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec = finder.find_spec(fullname, path, target)
                if spec is not None:
                    if spec.loader is not None:
                        spec.loader = _Calling(spec.loader, self._called)
                    return spec
        return None

    def _called(self, module: ModuleType) -> None:
        arrived = self._waiting.pop(module.__name__, None)
        if arrived is not None:
            arrived(module)


def _begun(module: ModuleType) -> bool:
    """Whether its own code has begun, and not ended."""
    return bool(getattr(module.__spec__, "_initializing", False))
