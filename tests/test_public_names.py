"""What users may rely on.

A change here is a change of the public interface: say so in CHANGELOG.md.
"""

import subprocess
import sys
from importlib import import_module, metadata

import pytest

import stator

PUBLIC = {
    "stator": ["__version__"],
    "stator.evaluator": [
        "PLAIN",
        "InternalError",
        "Operations",
        "Statistics",
        "plain",
        "run",
        "run_with",
        "statistics",
    ],
}


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names(module: str) -> None:
    found = import_module(module)
    assert sorted(found.__all__) == sorted(PUBLIC[module])
    assert all(hasattr(found, name) for name in found.__all__)


def test_version() -> None:
    assert stator.__version__ == metadata.version("stator")


def test_import_is_light() -> None:
    """`import stator` loads no torch, no evaluator, no extension: nothing but itself."""
    program = (
        "import sys; before = set(sys.modules); import stator; print(*(set(sys.modules) - before))"
    )
    output = subprocess.check_output([sys.executable, "-I", "-c", program], text=True)
    assert output.split() == ["stator"]
