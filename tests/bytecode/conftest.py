"""Fixtures for the tests of `stator.bytecode`."""

from types import CodeType

import pytest

from tests.bytecode.corpus import stdlib_code


@pytest.fixture(scope="session")
def stdlib() -> list[CodeType]:
    """Code objects of the standard library."""
    return stdlib_code()
