"""Modules are loaded without garbage collections, and the collector is as it was."""

import gc
import sys
from pathlib import Path

import pytest

from stator.torchlib.loading import loaded

MODULE = """\
import gc
enabled = gc.isenabled()
kept = [[] for _ in range(5000)]
"""


@pytest.fixture
def name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "something_to_load.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "something_to_load", raising=False)
    return "something_to_load"


def test_it_is_off_meanwhile(name: str) -> None:
    gc.unfreeze()  # what others have frozen stays where it is, and with it what is loaded
    module = loaded(name)
    assert not module.enabled
    assert gc.isenabled()
    young = {id(each) for generation in (0, 1) for each in gc.get_objects(generation)}
    assert not young & {id(each) for each in module.kept}


def test_who_has_switched_it_off_keeps_it_off(name: str) -> None:
    gc.disable()
    try:
        loaded(name)
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_was_frozen_stays_frozen(name: str) -> None:
    gc.freeze()
    try:
        before = gc.get_freeze_count()
        loaded(name)
        assert gc.get_freeze_count() == before > 0
    finally:
        gc.unfreeze()


def test_a_module_that_is_missing(name: str) -> None:
    with pytest.raises(ModuleNotFoundError):
        loaded(f"{name}.missing")
    assert gc.isenabled()
