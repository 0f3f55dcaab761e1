"""These tests need torch, which is optional: without it there is nothing to collect."""

import importlib.util
from collections.abc import Iterator

import pytest

import stator

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    """Each test starts and ends with nothing compiled."""
    stator.reset()
    yield
    stator.reset()
