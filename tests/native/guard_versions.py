"""How changes are noticed, as a parameter of tests."""

from collections.abc import Iterator
from typing import Final

import pytest

from stator._native import _core

NO_LIST: Final = 10**6
VERSIONS: Final = ("watchers", "tags")
WALKED: Final = ("watchers, walked", "tags, walked")


def noticing(name: str) -> Iterator[str]:
    """Changes of dicts are noticed in this way. Trees of any size make lists of what is left to
    look at, unless the name says that all levels are walked.
    """
    kind, _, walked = name.partition(", ")
    if _core.guard_use_watchers(kind == "watchers") != (kind == "watchers"):
        pytest.skip("this Python has no dict watchers")
    before = _core.guard_quiet_from(NO_LIST if walked else 1)
    yield kind
    _core.guard_quiet_from(before)
    _core.guard_use_watchers(True)


def needs_versions() -> None:
    """For tests of what is not looked at: since 3.14 dicts have watchers, but no versions."""
    if _core.guard_versions() == "nothing":
        pytest.skip("without watchers this Python does not tell whether a dict has changed")
