"""Attributes, and cells of closures, that hold something else for a while, and the way back.

In: an object, a name, a value. Out: after `undo` every attribute is again the very object that it
was, or absent if it was; what somebody else has put there in between stays.
"""

from types import CellType, ModuleType
from typing import Any, Final

_ABSENT: Final = object()


class Patches:
    """What was changed, to be changed back."""

    def __init__(self) -> None:
        self._done: list[tuple[Any, str, Any, Any]] = []
        self._cells: list[tuple[CellType, Any, Any]] = []
        self._classes: list[tuple[ModuleType, type, type]] = []

    def set(self, owner: Any, name: str, value: Any) -> None:
        before = vars(owner).get(name, _ABSENT)
        setattr(owner, name, value)
        self._done.append((owner, name, before, value))

    def fill(self, cell: CellType, value: Any) -> None:
        """Another content for a cell."""
        self._cells.append((cell, cell.cell_contents, value))
        cell.cell_contents = value

    def set_class(self, module: ModuleType, cls: type) -> None:
        """Another class for a module, which sees what is assigned to it."""
        self._classes.append((module, type(module), cls))
        _set_class(module, cls)

    def undo(self) -> None:
        while self._done:
            owner, name, before, value = self._done.pop()
            if vars(owner).get(name, _ABSENT) is not value:
                continue
            if before is _ABSENT:
                delattr(owner, name)
            else:
                setattr(owner, name, before)
        while self._cells:
            cell, before, value = self._cells.pop()
            if cell.cell_contents is value:
                cell.cell_contents = before
        while self._classes:
            module, before, cls = self._classes.pop()
            if type(module) is cls:
                _set_class(module, before)


def _set_class(module: ModuleType, cls: type) -> None:
    ModuleType.__setattr__(module, "__class__", cls)  # past what its class does with assignments
