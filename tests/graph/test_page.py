"""The example in docs/graph.md runs (it needs torch: the other pages' test doesn't)."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "graph.md"


def test_example() -> None:
    (example,) = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    exec(compile(example, PAGE, "exec"), {"__name__": "example"})
