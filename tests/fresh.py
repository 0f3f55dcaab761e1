"""For folders whose tests compile: what their `conftest.py` says. Without torch there is nothing
to collect; each test starts and ends with nothing compiled.
"""

import importlib.util
from collections.abc import Iterator

import pytest

import stator

__all__ = ["collect_ignore_glob", "nothing_compiled"]

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    """Each test starts and ends with nothing compiled."""
    stator.reset()
    yield
    stator.reset()
