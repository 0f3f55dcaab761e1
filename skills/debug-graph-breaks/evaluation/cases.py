"""The evaluation set: one file per case, in `cases/`.

A case is a Markdown file: a head with `reason` (the id that a fix must get rid of), `ops` (how many
operations a graph of the fix has at least) and `compiles` (how many a fix may need), a sentence of
the program's author, the program, and one way to fix it, which is for the tests and not shown to
those who are evaluated. Programs have the form that scripts/programs.py describes.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent / "cases"
_FORM: Final = re.compile(
    r"---\nreason: (?P<reason>S[BR]\d{4})\nops: (?P<ops>\d+)\ncompiles: (?P<compiles>\d+)\n---\n"
    r"(?P<told>.+?)\n\n```python broken\n(?P<broken>.+?)```\n\n"
    r"```python fixed\n(?P<fixed>.+?)```\n",
    re.DOTALL,
)


class CaseError(Exception):
    """There is no such case, or its file does not have the form above."""


@dataclass(frozen=True)
class Case:
    name: str
    reason: str
    ops: int
    compiles: int
    told: str
    broken: str
    fixed: str


def read(path: Path) -> Case:
    match = _FORM.fullmatch(path.read_text())
    if match is None:
        raise CaseError(f"{path} is no case: see cases.py for the form")
    found = match.groupdict()
    return Case(
        name=path.stem,
        reason=found["reason"],
        ops=int(found["ops"]),
        compiles=int(found["compiles"]),
        told=" ".join(found["told"].split()),
        broken=found["broken"],
        fixed=found["fixed"],
    )


def case(name: str) -> Case:
    path = FOLDER / f"{name}.md"
    if not path.is_file():
        raise CaseError(f"there is no case {name!r}: `evaluate.py list` shows them all")
    return read(path)


def all_cases() -> list[Case]:
    return [read(path) for path in sorted(FOLDER.glob("*.md"))]
