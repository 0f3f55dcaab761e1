"""The page of this part: its example runs."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "dynamic.md"


def test_the_example_runs() -> None:
    blocks = re.findall(r"```py\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) == 1
    exec(compile(blocks[0], str(PAGE), "exec"), {"__name__": "page"})
