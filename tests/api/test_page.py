"""The examples in README.md and docs/usage.md run (they need torch: the other pages' don't)."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = [
    (page, example)
    for page in (ROOT / "README.md", ROOT / "docs" / "usage.md")
    for example in re.findall(r"^```py\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
]


@pytest.mark.parametrize(("page", "example"), EXAMPLES)
def test_example(page: Path, example: str) -> None:
    exec(compile(example, page, "exec"), {"__name__": "example"})


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 6
