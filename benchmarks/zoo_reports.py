"""Reports of models of the zoo that are split or compiled again.

    python -m benchmarks.zoo_reports [--out build/reports]

Each is called a few times, also in training mode and with other shapes; its page is then at
OUT/NAME.html.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch

import stator
from benchmarks.zoo.cases import ZOO
from benchmarks.zoo_shapes import SHAPES, text
from stator.diagnostics import journal
from stator.driver import announcements
from stator.report import build


def training(name: str) -> None:
    """A model in training mode, twice, with gradients."""
    case = ZOO[name].build()
    case.target.train()
    compiled = stator.compile(case.target, backend="eager")
    for _ in range(2):
        found = case.driver(compiled, case.args, case.kwargs)
        found[0].sum().backward()


def steps(name: str) -> None:
    """A function, a few times."""
    case = ZOO[name].build()
    compiled = stator.compile(case.target, backend="eager")
    for _ in range(4):
        case.driver(compiled, case.args, case.kwargs)


def shapes(name: str) -> None:
    """A model for texts, with batches of other sizes each time."""
    case = ZOO[name].build()
    compiled = stator.compile(case.target.eval(), backend="eager")
    for batch, length in SHAPES:
        args, kwargs = text(batch, length)
        with torch.no_grad():
            compiled(*args, **kwargs)


RUNS: Final[dict[str, Callable[[str], None]]] = {
    "ReformerModel": training,
    "toy.train_step_sgd_clip": steps,
    "BertModel": shapes,
}


def told(run: Callable[[str], None], name: str) -> list[journal.Event]:
    """The events of a run."""
    events: list[journal.Event] = [{**journal.header(), "argv": [name]}]
    stop = journal.listen(events.append)
    try:
        run(name)
        announcements.ended()
    finally:
        stop()
    return events


def counts(events: list[journal.Event]) -> str:
    """What is in them, in a line."""
    compiles = [event for event in events if event["kind"] == "compile"]
    found: dict[str, Any] = {
        "compiles": len(compiles),
        "nodes": sum(len(each["nodes"]) for each in compiles),
        "breaks": sum(each["broken"] is not None for each in compiles),
        "recompiles": sum(event["kind"] == "recompile" for event in events),
    }
    return ", ".join(f"{number} {noun}" for noun, number in found.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("build/reports"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    for name, run in RUNS.items():
        torch.manual_seed(0)
        events = told(run, name)
        page = build(events, given.out / f"{name}.html")
        print(f"{name}: {counts(events)}; {page.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
