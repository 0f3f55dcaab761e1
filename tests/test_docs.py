"""The Python examples of the documentation run."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

EXAMPLES = [
    pytest.param(
        page, match, id=f"{page.name}:{page.read_text()[: match.start()].count(chr(10)) + 1}"
    )
    for page in PAGES
    for match in BLOCK.finditer(page.read_text())
]


@pytest.mark.parametrize(("page", "match"), EXAMPLES)
def test_example(page: Path, match: "re.Match[str]") -> None:
    if "torch" in match.group(1):
        pytest.importorskip("torch")
    line = page.read_text()[: match.start(1)].count("\n")
    source = "\n" * line + match.group(1)  # so that errors name the page's line
    exec(compile(source, page, "exec"), {"__name__": "example"})


def test_there_are_examples() -> None:
    assert EXAMPLES
