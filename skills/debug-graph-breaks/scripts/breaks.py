"""Prints as JSON where a program is split, why, and what is compiled again.

    python breaks.py file.py::function

The file makes the inputs: see programs.py. What happens behind an earlier break is `resumed`, and
may go away with that one. Exit status 0: one graph, which serves every call; 1: there is something
to fix; 2: the file can't be used.
"""

import argparse
import json
import sys
from typing import Any

import programs
import runs

import stator
from stator.diagnostics.catalogue import reason_of
from stator.diagnostics.recompiles import Cause


def report(target: str, main: str = "main") -> dict[str, Any]:
    """Runs the program once, as it is, with its function explained."""
    program = programs.load(target, main)
    explained = stator.explain(program.step, **program.options)
    told: list[stator.Explanation] = []
    calls = 0

    def step(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        told.append(explained(*args, **kwargs))
        return told[-1].result

    shown = runs.outcome(program.main, step, runs.SEEDS[0])
    if not told:
        what = "did not return" if calls else "was not called"
        raised = f": {main} raises {shown.error}" if shown.error else ""
        raise programs.ProgramError(f"the function of {target} {what}{raised}")
    last = told[-1]  # it has all that was compiled since the first call
    again = [each for each in last.events if each["kind"] == "recompile"]
    resumed = _resumed_functions(last)
    found = {
        "calls": calls,
        "raises": shown.error,
        "graphs": [list(each.operators) for each in last.graphs],
        "breaks": _first_causes([_broken(part) for part in _broken_parts(last)]),
        "not captured": [each.eager for each in last.eager],
        "recompiles": _first_causes([_again(each, each["function"] in resumed) for each in again]),
    }
    if not found["breaks"] and not found["not captured"]:
        found["eager calls"] = runs.eager_calls(target, main)
    return found


def _resumed_functions(told: stator.Explanation) -> set[int]:
    """The functions in the journal that go on behind a break."""
    return {
        each["id"]
        for each in told.events
        if each["kind"] == "function" and each["parent"] is not None
    }


def _broken_parts(told: stator.Explanation) -> list[Any]:
    """One for each place at which the program is split."""
    found: dict[Any, Any] = {}
    for part in told.parts:
        if part.broken is not None and (part.broken not in found or not part.resumed):
            found[part.broken] = part
    return list(found.values())


def _first_causes(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(found, key=lambda each: each["resumed"])


def _again(event: dict[str, Any], resumed: bool) -> dict[str, Any]:
    """The entry that came closest; a function that failed to compile has none."""
    told = {"id": "", "resumed": resumed, "fix": event["remedy"]}
    for closest in event["failures"][:1]:
        told["id"] = reason_of(Cause(closest["cause"])).id
        told |= {name: closest[name] for name in ("source", "expected", "actual", "where")}
    return told


def _broken(part: Any) -> dict[str, Any]:
    found = part.broken
    place = found.place
    return {
        "id": found.id,
        "resumed": part.resumed,
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
    wrong = ("breaks", "recompiles", "not captured", "eager calls")
    return 1 if any(found.get(each) for each in wrong) else 0


if __name__ == "__main__":
    sys.exit(_main())
