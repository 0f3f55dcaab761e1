"""These tests need torch, which is optional: without it there is nothing to collect."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fresh import collect_ignore_glob, nothing_compiled
from tests.report.browser import Browser, browser, missing

__all__ = ["collect_ignore_glob", "nothing_compiled"]


@pytest.fixture(scope="session")
def window() -> Iterator[Browser]:
    """A browser for all tests; each opens its page anew."""
    if why := missing():
        pytest.skip(why)
    with browser() as made:
        yield made


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of the programs in programs.py."""
    from tests.report import programs  # noqa: PLC0415 - needs torch

    return programs.reported(tmp_path_factory.mktemp("report") / "report.html")
