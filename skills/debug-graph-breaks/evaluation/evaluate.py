"""Hands out the broken programs, and judges what was made of them.

    python evaluate.py list                 names of all cases, with what is wrong
    python evaluate.py start FOLDER [CASE…] a folder per case, with program.py and TASK.md
    python evaluate.py score FOLDER         judges each program.py; JSON, and a line with the total

Whoever is evaluated gets the folders and SKILL.md, and edits program.py in each. The cases
themselves, which hold a fix, must not be in reach.
"""

import argparse
import dataclasses
import json
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

_HERE: Final = Path(__file__).parent
sys.path[:0] = [str(_HERE), str(_HERE.parent / "scripts")]

import cases  # noqa: E402
import check  # noqa: E402

_TASK: Final = """\
# {name}

{told}

`program.py` has a function `step`, which is to be compiled, and a function `main(step)`, which
makes the inputs and calls it. Compiled with stator, it {trouble}.

Change `program.py` so that `step` is captured as one graph (`fullgraph=True`) and is compiled
{allowed} in a run of `main`. What `main` returns and prints, and the exceptions that leave it, must
stay the same for every seed. The computation stays in `step`: `main` may do what can't be in a
graph, before and after. Options for `stator.compile` can be given as `options = {{...}}` there.
"""


def verdict(case: cases.Case, text: str) -> check.Verdict:
    """The judgement on a text as a fix of a case."""
    with tempfile.TemporaryDirectory(prefix="stator-case-") as folder:
        original, fixed = Path(folder, "original.py"), Path(folder, "program.py")
        original.write_text(case.broken)
        fixed.write_text(text)
        try:
            return check.check(str(original), str(fixed), compiles=case.compiles, ops=case.ops)
        except Exception as error:  # the file itself does not run
            return check.Verdict(False, f"{type(error).__name__}: {error}")


def start(folder: Path, chosen: list[cases.Case]) -> None:
    for case in chosen:
        place = folder / case.name
        place.mkdir(parents=True)
        (place / "program.py").write_text(case.broken)
        trouble = "is split" if case.reason.startswith("SB") else "is compiled again and again"
        allowed = "once" if case.compiles == 1 else f"{case.compiles} times at most"
        task = _TASK.format(name=case.name, told=case.told, trouble=trouble, allowed=allowed)
        (place / "TASK.md").write_text(task)


def score(folder: Path) -> dict[str, dict[str, Any]]:
    """The verdict on each case of which the folder has a program."""
    found = {}
    for path in sorted(folder.glob("*/program.py")):
        case = cases.case(path.parent.name)
        judged = dataclasses.asdict(verdict(case, path.read_text()))
        found[case.name] = {"cause": case.reason, **judged}
    return found


def _main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="names of all cases")
    starting = commands.add_parser("start", help="makes a folder per case")
    starting.add_argument("folder", type=Path)
    starting.add_argument("names", nargs="*", metavar="CASE")
    scoring = commands.add_parser("score", help="judges what was made of them")
    scoring.add_argument("folder", type=Path)
    given = parser.parse_args()
    try:
        if given.command == "list":
            for case in cases.all_cases():
                print(f"{case.name:32} {case.reason}  {case.told}")
        elif given.command == "start":
            start(given.folder, list(map(cases.case, given.names)) or cases.all_cases())
        else:
            found = score(given.folder)
            print(json.dumps(found, indent=2))
            good = sum(each["good"] for each in found.values())
            print(f"{good} of {len(found)} are fixed", file=sys.stderr)
            return 0 if good == len(found) > 0 else 1
    except (cases.CaseError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(_main())
