"""What torch's algebra is not asked to prove."""

from typing import Any

import sympy  # type: ignore[import-not-found, import-untyped, unused-ignore]
from torch.fx.experimental.symbolic_shapes import DimDynamic

from stator.graph.fakes.inputs import InputSource
from stator.graph.unknown.environment import Environment


def _padded(number: Any) -> Any:
    for size in (8, 6, 4, 10):
        number = number + (size - number % size) % size
    return number


def test_long_conditions_are_assumed() -> None:
    env: Any = Environment()
    number = env.create_unspecified_symint_and_symbol(40, InputSource("n"), DimDynamic.DYNAMIC)
    assert env._maybe_evaluate_static((number * 8 % 8 == 0).node.expr) == sympy.true
    long = _padded(number) * number > 3
    assert env._maybe_evaluate_static(long.node.expr) is None
    assert not env.guards
    assert bool(long)
    assert [guard.expr for guard in env.guards] == [long.node.expr]


def test_without_values_everything_is_tried() -> None:
    env: Any = Environment()
    number = env.create_unbacked_symint()
    long = _padded(number) * 8 % 8
    assert env._maybe_evaluate_static((long == 0).node.expr) == sympy.true
