"""Lightning's own Trainer, with a module that stator compiles. `make programs` does more of it."""

import importlib.util

import pytest

from tests.cli.compare import PROGRAMS, RECORDED, numbers, run, under_stator

needs_lightning = pytest.mark.skipif(
    importlib.util.find_spec("lightning") is None, reason="Lightning is not installed"
)

IMPORTED_FIRST = """\
import runpy
import lightning, torch
import stator

kept = torch.compile  # Lightning's own wrapper
stator.install(backend="eager")
runpy.run_path("lightning_module.py")
fabric = lightning.Fabric(accelerator="cpu")
compiled = torch.compile(torch.nn.Linear(2, 2), backend="eager")
made = fabric.setup(compiled)
print(made(torch.ones(1, 2)).shape, type(made._forward_module).__name__)
assert torch.compile is kept
stator.uninstall()
assert torch.compile is kept
"""


@needs_lightning
def test_a_module_that_logs_and_keeps_metrics() -> None:
    found = under_stator("lightning_module", "--backend", "eager")
    assert found.recorded() == (RECORDED / "lightning_module.txt").read_text(), found.errors
    told = numbers(found.errors)
    assert told["functions"] == "4"  # forward, and the steps for training, validation, prediction
    assert int(told["graph breaks"]) <= 3, found.errors  # Lightning disables its `log`


@needs_lightning
def test_lightning_is_imported_before_stator_is_installed() -> None:
    """It has wrapped torch.compile by then, and has imported torch's class of wrappers."""
    found = run(["-c", IMPORTED_FIRST], PROGRAMS)
    expected = (RECORDED / "lightning_module.txt").read_text().rpartition("exit")[0]
    expected += "torch.Size([1, 2]) OptimizedModule\n"
    assert found.output == expected, found.errors


COMPILED_BY_STATOR = """\
import runpy
import torch
import stator

torch.compile = lambda module: stator.compile(module, backend="eager")
found = runpy.run_path("lightning_module.py")
counted = stator.testing.count(found["model"])
print(isinstance(found["model"], found["Classifier"]), 1 <= counted.compiles <= 4 < counted.hits)
"""


@needs_lightning
def test_a_module_that_is_compiled_without_torchs_names() -> None:
    """It is a LightningModule itself, whose call is compiled: its steps run as they are."""
    found = run(["-c", COMPILED_BY_STATOR], PROGRAMS)
    expected = (RECORDED / "lightning_module.txt").read_text().rpartition("exit")[0]
    assert found.output == f"{expected}True True\n", found.errors
