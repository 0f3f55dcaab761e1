"""Prints as JSON where a program is split, why, and what is compiled again.

    python breaks.py file.py::function

The file makes the inputs: see programs.py. Exit status 0: one graph, never compiled again; 1: there
is something to fix; 2: the file can't be used.
"""

import argparse
import json
import sys
from typing import Any

import programs

import stator
from stator.diagnostics.catalogue import reason_of
from stator.diagnostics.recompiles import Cause


def report(target: str, main: str = "main") -> dict[str, Any]:
    """Runs the program once, as it is, with its function explained."""
    program = programs.load(target, main)
    explained = stator.explain(program.step, **program.options)
    told: list[stator.Explanation] = []

    def step(*args: Any, **kwargs: Any) -> Any:
        told.append(explained(*args, **kwargs))
        return told[-1].result

    program.main(step)
    if not told:
        raise programs.ProgramError(f"the function of {target} was not called")
    last = told[-1]  # it has all that was compiled since the first call
    return {
        "calls": len(told),
        "graphs": [list(each.operators) for each in last.graphs],
        "breaks": [_broken(each) for each in last.breaks],
        "not captured": [each.eager for each in last.eager],
        "recompiles": [_again(each) for each in last.events if each["kind"] == "recompile"],
    }


def _again(event: dict[str, Any]) -> dict[str, Any]:
    """The entry that came closest; a function that failed to compile has none."""
    told = {"id": "", "fix": event["remedy"]}
    for closest in event["failures"][:1]:
        told["id"] = reason_of(Cause(closest["cause"])).id
        told |= {name: closest[name] for name in ("source", "expected", "actual", "where")}
    return told


def _broken(found: Any) -> dict[str, Any]:
    place = found.place
    return {
        "id": found.id,
        "title": found.title,
        "reason": found.reason,
        "fix": found.hint,
        "file": place.file if place else "",
        "line": place.line if place else 0,
        "text": found.line,
        "object": found.source,
        "callers": [f"{each.file}:{each.line} {each.function}" for each in found.stack[:-1]],
    }


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", help="file.py::function; the function is `step` by default")
    parser.add_argument("--main", default="main", help="the function that makes the calls")
    given = parser.parse_args()
    try:
        found = report(given.target, given.main)
    except programs.ProgramError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(json.dumps(found, indent=2))
    return 1 if found["breaks"] or found["recompiles"] or found["not captured"] else 0


if __name__ == "__main__":
    sys.exit(_main())
