"""Probes of the engine itself: one that fails makes every pass of that engine suspect."""

import importlib
import time
import unittest
from types import ModuleType

from tests.conformance.engines import Engine


def _torch() -> ModuleType | None:
    try:
        return importlib.import_module("torch")
    except ImportError:
        return None


def probe(engine: Engine) -> dict[str, str]:
    """{probe: "ok (...)" or "BAD (...)"}. Runs in a process of its own."""
    torch = _torch() if engine.captures else None
    effects: list[int] = []

    class Probe(unittest.TestCase):
        def failing_assert(self) -> None:
            self.assertEqual([1, 2], [1, 3])

        def side_effect(self) -> None:
            effects.append(len(effects))

        def waiting(self) -> object:  # no whole graph exists for this
            assert torch is not None
            time.sleep(0)
            return torch.ones(3) + 1

        def explicit_break(self) -> None:
            assert torch is not None
            torch._dynamo.graph_break()

    must_raise = {"failing_assert": True, "side_effect": False}
    if torch is not None:
        must_raise |= {"waiting": True, "explicit_break": True}
    verdicts = {}
    for name, raises in must_raise.items():
        try:
            engine.compile(getattr(Probe(name), name))()
            got = None
        except BaseException as error:
            got = type(error).__name__
        good = (got is not None) == raises and (name != "side_effect" or effects == [0])
        happened = f"raised {got}" if got else "returned"
        verdicts[name] = f"{'ok' if good else 'BAD'} ({happened})"
    return verdicts
