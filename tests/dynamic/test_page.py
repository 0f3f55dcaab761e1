"""The page of this part: its examples run."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "dynamic.md"


def test_the_examples_run() -> None:
    blocks = re.findall(r"```py\n(.*?)```", PAGE.read_text(), re.S)
    assert len(blocks) == 5
    exec(compile("\n".join(blocks), str(PAGE), "exec"), {"__name__": "page"})
