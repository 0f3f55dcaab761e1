"""The skill's scripts, which are no package: they are found by their folder."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

SKILL: Final = Path(__file__).parents[2] / "skills" / "debug-graph-breaks"


def script(name: str) -> Any:
    """A module of the skill: `breaks`, `check`, `programs`, `cases` or `evaluate`."""
    for folder in (SKILL / "scripts", SKILL / "evaluation"):
        if str(folder) not in sys.path:
            sys.path.append(str(folder))
    return import_module(name)
