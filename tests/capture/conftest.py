"""These tests need torch, which is optional: without it there is nothing to collect."""

import importlib.util
from collections.abc import Iterator

import pytest

import stator

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes seconds, runs a real compiler backend")


@pytest.fixture(autouse=True)
def nothing_compiled() -> None:
    """Each test starts with nothing compiled: functions made of the same code share it."""
    stator.reset()


@pytest.fixture
def leaves_no_trace() -> Iterator[None]:
    """Nothing is compiled when the test begins; torch's generator is as it was afterwards."""
    torch = pytest.importorskip("torch")
    before = torch.get_rng_state()
    stator.reset()
    yield
    torch.set_rng_state(before)
