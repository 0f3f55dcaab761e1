"""Settings: few, checked, patchable."""

import subprocess
import sys
from typing import Any

import pytest

import stator
from stator import config


def test_defaults() -> None:
    assert (config.recompile_limit, config.accumulated_recompile_limit) == (8, 256)
    assert not config.suppress_errors
    assert stator.config is config


def test_assignment() -> None:
    config.recompile_limit = 3
    try:
        assert config.recompile_limit == 3
    finally:
        config.recompile_limit = 8


def test_patch_as_context_manager() -> None:
    with config.patch(recompile_limit=2, suppress_errors=True):
        with config.patch(recompile_limit=1):
            assert (config.recompile_limit, config.suppress_errors) == (1, True)
        assert config.recompile_limit == 2
    assert (config.recompile_limit, config.suppress_errors) == (8, False)


def test_patch_after_an_error() -> None:
    with pytest.raises(KeyError), config.patch(recompile_limit=2):
        raise KeyError
    assert config.recompile_limit == 8


def test_patch_as_decorator() -> None:
    @config.patch(recompile_limit=2)
    def limits(depth: int) -> list[int]:
        return [config.recompile_limit, *(limits(depth - 1) if depth else [])]

    assert limits(2) == [2, 2, 2]
    assert config.recompile_limit == 8


@pytest.mark.parametrize("name", ["recompile_limits", "_DEFAULTS", "patch"])
def test_unknown_names(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no setting '{name}'. There are: recompile_limit"):
        setattr(config, name, 1)
    with pytest.raises(AttributeError, match="no setting"):
        config.patch(**{name: 1})


@pytest.mark.parametrize(("name", "value"), [("recompile_limit", True), ("suppress_errors", 1)])
def test_wrong_types(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"{name} must be of type"):
        setattr(config, name, value)


def test_no_deletion() -> None:
    with pytest.raises(AttributeError, match="can't be deleted"):
        del config.recompile_limit


def test_it_needs_no_torch() -> None:
    program = (
        "import stator, sys; stator.config.recompile_limit = 2; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
