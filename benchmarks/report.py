"""How fast the report opens: the page of a run with many compiles, in a real browser.

    python -m benchmarks.report [--compiles 200] [--nodes 5000]

Prints the size of the page, and in milliseconds since the navigation began: when the document was
read, when the script had drawn the overview, and how long it then takes to draw the largest
function. Needs Debian's chromium and chromium-driver.
"""

import argparse
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, Final

from stator.report import build
from tests.report.browser import Browser, browser, missing

_GUARDS: Final = 400  # per compile, most of them the same in all
_ROUNDS: Final = 5


def events(compiles: int = 200, nodes: int = 5000, functions: int = 40) -> list[dict[str, Any]]:
    """A run of as many compiles, with as many nodes in all; each function has variants."""
    header = {"kind": "start", "format": 1, "pid": 1, "time": 1.0, "argv": ["train.py"]}
    found: list[dict[str, Any]] = [header]
    file = "/home/user/project/model.py"
    for number in range(functions):
        source = [f"def layer_{number}(x, w):", *(f"    x = x @ w + {i}" for i in range(30))]
        found.append(
            {
                "kind": "function",
                "at": 0.0,
                "pid": 1,
                "id": number,
                "name": f"layer_{number}",
                "file": file,
                "line": 100 * number,
                "first": 100 * number,
                "source": source,
                "parent": None,
            }
        )
    for number in range(compiles):
        found += _compile(number, number % functions, max(nodes // compiles, 2), file, functions)
    return found


def _compile(
    number: int, function: int, nodes: int, file: str, functions: int
) -> list[dict[str, Any]]:
    at = number * 0.1
    lines = [100 * function + 1 + index % 30 for index in range(nodes)]
    again = number >= functions
    places = [{"file": file, "line": line, "function": f"layer_{function}"} for line in lines]
    recompile = {
        "kind": "recompile",
        "at": at,
        "pid": 1,
        "number": number,
        "function": function,
        "failures": [{"source": "x", "expected": f"size {number - 1}", "actual": f"size {number}"}],
    }
    made = {
        "kind": "compile",
        "at": at + 0.08,
        "pid": 1,
        "number": number,
        "function": function,
        "recompile": number if again else None,
        "outcome": "graph",
        "began": at,
        "trace_seconds": 0.03,
        "backend_seconds": 0.04,
        "other_seconds": 0.01,
        "ops": nodes - 2,
        "graph": "\n".join(
            ["def forward(self, x):", *(f"    add_{i} = x + {i}" for i in range(1, nodes - 1))]
        ),
        "nodes": [_node(index, nodes) for index in range(nodes)],
        "places": places,
        "guards": [_guard(index, number) for index in range(_GUARDS)],
        "effects": ["the attribute steps of self is set (AttrSet self: steps, 1)"],
        "residual": "def layer(x):\n    return graph(x)[0]",
        "bytecode": "\n".join(f"{2 * i:>4} LOAD_FAST {i}" for i in range(40)),
        "eager": None,
        "broken": None,
    }
    return [recompile, made] if again else [made]


def _node(index: int, nodes: int) -> dict[str, Any]:
    op = "placeholder" if index == 0 else "output" if index == nodes - 1 else "call_function"
    return {
        "name": "x" if index == 0 else f"add_{index}",
        "op": op,
        "target": "add",
        "args": f"x, {index}",
        "inputs": [] if index == 0 else ["x" if index == 1 else f"add_{index - 1}"],
        "shape": ["32", "128"],
        "dtype": "float32",
        "stack": [] if op == "placeholder" else [index],
    }


def _guard(index: int, number: int) -> dict[str, str]:
    groups = ("arguments", "attributes", "classes", "globals", "torch state")
    text = f"self.layers[{index}].weight is Parameter(8, 8) of torch.float32 on cpu"
    if index == 0:
        text = f"x is Tensor({number}, 128) of torch.float32 on cpu"
    return {"text": text, "group": groups[index % 5], "where": f"model.py:{index}"}


_TIMES: Final = """
const [entry] = performance.getEntriesByType("navigation");
const start = performance.now();
location.hash = "#/f/0";
dispatchEvent(new HashChangeEvent("hashchange"));
document.body.getBoundingClientRect();
return [entry.responseEnd, entry.domContentLoadedEventEnd, performance.now() - start];
"""


def measured(window: Browser, page: Path) -> list[float]:
    """Read, drawn, and a function drawn, in milliseconds: the medians of a few rounds."""
    rounds = []
    for _ in range(_ROUNDS):
        window.open(page)
        rounds.append(window.script(_TIMES))
    return [median(column) for column in zip(*rounds, strict=True)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--compiles", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=5000)
    given = parser.parse_args()
    if why := missing():
        print(f"error: {why}", file=sys.stderr)
        return 2
    with TemporaryDirectory() as folder, browser() as window:
        began = time.perf_counter()
        page = build(events(given.compiles, given.nodes), Path(folder) / "report.html")
        built = time.perf_counter() - began
        read, drawn, function = measured(window, page)
    size = f"{given.compiles} compiles, {given.nodes} nodes"
    print(f"{size}: built in {1000 * built:.0f} ms")
    print(f"read {read:.0f} ms, overview drawn {drawn:.0f} ms, a function drawn {function:.0f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
