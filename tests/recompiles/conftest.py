"""These tests need torch, which is optional: without it there is nothing to collect."""

import warnings
from collections.abc import Iterator

import pytest

from tests.fresh import collect_ignore_glob, nothing_compiled

__all__ = ["collect_ignore_glob", "nothing_compiled"]


@pytest.fixture
def no_warnings() -> Iterator[None]:
    """A warning that a test does not expect, such as that of a limit, is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
