"""Small programs with breaks, recompiles and side effects, and the report of a run of them."""

import time
from pathlib import Path
from typing import Any

import torch

import stator
from stator.diagnostics import journal
from stator.driver import announcements
from stator.report import build

SEEN: list[int] = []


def helper(x: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * 2


def split(x: torch.Tensor, n: int) -> torch.Tensor:
    """Markup in a source is text: </script><b id="planted">bold</b>."""
    x = helper(x)
    time.sleep(0)
    SEEN.append(n)
    return (x + n).sum()


def scaled(x: torch.Tensor, n: int) -> torch.Tensor:
    return x.sin() * n


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.linear(x)
        return y.relu()


def whole(x: torch.Tensor) -> torch.Tensor:
    stator.skip_frame()
    return x


def run() -> None:
    """Two graphs; two variants and the limit; a module; a function that runs as it is."""
    compiled = stator.compile(split, backend="eager")
    for _ in range(3):
        compiled(torch.ones(3), 1)
    again = stator.compile(scaled, backend="eager", dynamic=False, recompile_limit=2)
    for n in (2, 2, 3, 4, 5):
        again(torch.ones(3), n)
    stator.compile(Layer(), backend="eager")(torch.ones(2, 3))
    stator.compile(whole, backend="eager")(torch.ones(3))


def told() -> list[dict[str, Any]]:
    """The events of a run."""
    events = [journal.header()]
    stop = journal.listen(events.append)
    try:
        run()
        announcements.ended()
    finally:
        stop()
    return events


def reported(path: Path) -> Path:
    return build(told(), path)
