"""Negative controls: engines whose passes must NOT be believed, to test the harness with.

python -m tests.conformance --engine tests.conformance.controls:noop test_bool
"""

import unittest
from typing import Any, NoReturn

from tests.conformance.engines import Eager, Function, Torch


class ForcedEager(Torch):
    """torch.compile's wrappers, but everything runs eagerly: must score 0."""

    def before_test(self) -> None:
        super().before_test()
        self.torch.compiler.set_stance("force_eager")


def noop(fn: Function, *, fullgraph: bool, backend: str) -> Function:
    """Swallows the test: the probes must flag it."""
    return lambda *args, **kwargs: None


# Mutants: every unittest assertion fails, in the compiled phase only. A test that passes there but
# fails natively under the same mutation did not really execute its assertions.
def _always_fails(self: unittest.TestCase, *args: Any, **kwargs: Any) -> NoReturn:
    raise self.failureException("mutant assertion")


def _mutate() -> None:
    for name in dir(unittest.TestCase):
        if name.startswith("assert"):
            setattr(unittest.TestCase, name, _always_fails)


class EagerMutant(Eager):
    def shims(self) -> None:
        _mutate()


class TorchMutant(Torch):
    def shims(self) -> None:
        super().shims()
        _mutate()
