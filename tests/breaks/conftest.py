"""These tests need torch, which is optional: without it there is nothing to collect."""

import importlib.util

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]


@pytest.fixture(autouse=True)
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness watches operators with a dispatch mode: nothing compiled would run under it."""
    from stator.guards import state  # noqa: PLC0415 - needs torch

    names = tuple(name for name in state.DEFAULT if name != "torch_dispatch_modes")
    monkeypatch.setattr(state, "DEFAULT", names)
    monkeypatch.setattr("stator.capture.trace.trace._dispatch_mode", str)
