"""A cache folder of its own for each test, which is on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import stator
from stator.store import folder


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "cache"
    with stator.config.patch(cache=True, cache_dir=str(place)):
        stator.reset()
        yield place
    stator.reset()
    folder.LOADED.clear()
