"""Random operators that draw nothing, because an option says so, are no draws.

In: each of them with the option on and off. Out: asserted are the graph's results, the generator
behind the call, and values, next to eager.
"""

from collections.abc import Callable
from typing import Any, Final

import pytest
import torch
from torch.nn import functional

import stator

Function = Callable[[torch.Tensor, bool], torch.Tensor]

FUNCTIONS: Final[dict[str, Function]] = {
    "dropout": lambda x, on: functional.dropout(x, 0.5, on),
    "dropout by keyword": lambda x, on: functional.dropout(x, training=on),
    "dropout of torch": lambda x, on: torch.dropout(x, 0.5, on),
    "dropout of torch by keyword": lambda x, on: torch.dropout(x, p=0.5, train=on),
    "in place": lambda x, on: functional.dropout(x, 0.5, on, inplace=True),
    "1d": lambda x, on: functional.dropout1d(x, 0.5, on),
    "2d": lambda x, on: functional.dropout2d(x[None], 0.5, on)[0],
    "3d": lambda x, on: functional.dropout3d(x[None, None], 0.5, on)[0, 0],
    "alpha": lambda x, on: functional.alpha_dropout(x, 0.5, on),
    "feature alpha": lambda x, on: functional.feature_alpha_dropout(x, 0.5, on),
    "alpha of torch": lambda x, on: torch.alpha_dropout(x, p=0.5, train=on),
    "feature of torch": lambda x, on: torch.feature_dropout(x, 0.5, on),
    "rrelu": lambda x, on: functional.rrelu(x, training=on),
    "rrelu of torch": lambda x, on: torch.rrelu(x, 0.1, 0.3, on),
    "module": lambda x, on: torch.nn.Dropout(0.5).train(on)(x),
}


@pytest.mark.parametrize("used", [True, False])
@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_draws(name: str, on: bool, used: bool) -> None:
    function = FUNCTIONS[name]

    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        z = function(y, on)
        return z.cos() if used else x.cos()

    graphs: list[Any] = []

    def backend(module: Any, inputs: Any) -> Any:
        graphs.append(module)
        return module.forward

    x = torch.randn(2, 3, 4)
    run = stator.compile(program, backend=backend, fullgraph=True)
    run(x)
    ends = []
    for call in (run, program):
        torch.manual_seed(7)
        ends.append((call(x), torch.get_rng_state()))
    for actual, expected in zip(*ends, strict=True):
        assert torch.equal(actual, expected)
    (graph,) = graphs
    (results,) = graph.graph.output_node().args
    if name != "in place" or not on:
        assert len(results) == (1 if used or not on else 2)
