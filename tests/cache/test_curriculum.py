"""The programs of `tests/capture` through the cache: a second process gives the same results.

A few files by default; all of them with STATOR_TEST_CACHE=all, which takes minutes.
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

FILES = ["test_01_expressions", "test_05_objects", "test_10_modules", "test_19_breaks"]


def process(out: Path, cache: Path, names: list[str]) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.cache.curriculum", str(out), *names]
    environment = {**os.environ, "STATOR_CACHE": "1", "STATOR_CACHE_DIR": str(cache)}
    subprocess.run(command, check=True, env=environment, capture_output=True, timeout=900)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def texts(guards: dict[str, list[str]]) -> list[list[str]]:
    """What they say; an object has another address in another process."""
    return [[re.sub(r"0x[0-9a-f]+", "…", each) for each in those] for those in guards.values()]


def test_the_second_process(tmp_path: Path) -> None:
    names = [] if os.environ.get("STATOR_TEST_CACHE") == "all" else FILES
    first = process(tmp_path / "first.json", tmp_path / "cache", names)
    second = process(tmp_path / "second.json", tmp_path / "cache", names)
    assert len(first) > 150
    warm = 0
    for name, before in first.items():
        after = second[name]
        assert after.get("error") == before.get("error"), name
        if "error" in before:
            continue
        assert len(after["wrong"]) <= len(before["wrong"]), name  # some differ from eager anyway
        if after["compiles"] == 0:
            warm += 1
            # One with an open size may have been stored last, and serves all of them now.
            assert 0 < after["loaded"] <= before["compiles"], name
            guards = [each.removesuffix(" ") for each in before["guards"]]
            assert {each.removesuffix(" cached") for each in after["guards"]} <= {*guards}, name
            if before["compiles"] == 1:  # entries of one function have one name
                assert texts(before["guards"]) == texts(after["guards"]), name
    assert warm > 0.7 * len(first)
