"""stator.testing: counts, and the engine that proves that compiled code ran."""

import time
import warnings
from typing import Any

import pytest
import torch

import stator
from stator.testing import Conformance, count, function_of

from .tools import Block

X = torch.ones(3)


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def reads(x: torch.Tensor) -> torch.Tensor:
    time.sleep(0)
    return x


def skips(x: torch.Tensor) -> torch.Tensor:
    stator.skip_frame()
    return x


@pytest.fixture
def engine() -> Conformance:
    made = Conformance()
    made.setup()
    made.before_test()
    return made


class TestCount:
    def test_forms(self) -> None:
        block = Block()
        for compiled in (
            stator.compile(double, backend="eager"),
            stator.compile(block, backend="eager"),
            stator.compile(block.forward, backend="eager"),
        ):
            assert count(compiled) == (0, 0)
            for _ in range(3):
                compiled(torch.ones(2, 4))
            assert count(compiled) == (1, 2)

    @pytest.mark.parametrize("wrong", [double, Block(), 3])
    def test_refusals(self, wrong: Any) -> None:
        with pytest.raises(TypeError, match="not compiled by stator"):
            function_of(wrong)


class TestEngine:
    def test_compiled(self, engine: Conformance) -> None:
        compiled = engine(double, fullgraph=True, backend="eager")
        assert engine.verify(double, compiled) == "the compiled function was not called"
        compiled(X)
        assert engine.verify(double, compiled) is None
        compiled(X)
        assert engine.verify(double, compiled) is None

    def test_without_a_graph(self, engine: Conformance) -> None:
        def pure() -> int:
            return sum(range(4))

        compiled = engine(pure, fullgraph=True, backend="eager")
        assert compiled() == 6
        assert engine.verify(pure, compiled) is None

    def test_method(self, engine: Conformance) -> None:
        block = Block()
        compiled = engine(block.forward, fullgraph=True, backend="eager")
        compiled(torch.ones(2, 4))
        assert engine.verify(block.forward, compiled) is None

    def test_eager_path(self, engine: Conformance) -> None:
        compiled = engine(skips, fullgraph=False, backend="eager")
        compiled(X)
        reason = engine.verify(skips, compiled)
        assert reason is not None
        assert reason.startswith("a path runs eagerly: ")

    def test_split(self, engine: Conformance) -> None:
        compiled = engine(reads, fullgraph=False, backend="eager")
        compiled(X)
        reason = engine.verify(reads, compiled)
        assert reason is not None
        assert reason.startswith("it was split: time.sleep ")

    def test_not_served(self, engine: Conformance) -> None:
        compiled = engine(double, fullgraph=False, backend="eager")
        with stator.config.patch(recompile_limit=1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiled(X)
            compiled(X.double())  # runs eagerly, without an entry
        assert engine.verify(double, compiled) == "2 calls were not served, 1 entries were made"

    def test_before_each_test_nothing_is_compiled(self, engine: Conformance) -> None:
        compiled = engine(double, fullgraph=True, backend="eager")
        compiled(X)
        engine.before_test()
        assert count(compiled).compiles == 0
