"""Links into an editor: what the page makes of a place, run by node where there is one."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from stator.report import EDITORS
from stator.report.page import SCRIPTS

ASSETS = Path(__file__).parents[2] / "src" / "stator" / "report" / "assets"

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no node")

PROGRAM = """\
const h = (tag, attributes, ...children) => ({ tag, ...attributes, children });
const DATA = { editor: EDITOR };
FUNCTION
const files = ["/a b/c#d.py", "<string>", "relative.py", undefined, "/$&.py"];
const places = files.map((file, index) => [file, index + 3]);
console.log(JSON.stringify(places.map(([file, line]) => inEditor(file, line, "shown"))));
"""


def links(editor: str | None) -> list[object]:
    function = re.search(
        r"^function inEditor.*?^}", (ASSETS / "base.js").read_text(), re.MULTILINE | re.DOTALL
    )
    assert function is not None
    template = json.dumps(None if editor is None else EDITORS[editor])
    program = PROGRAM.replace("EDITOR", template, 1).replace("FUNCTION", function[0], 1)
    done = subprocess.run(["node", "-e", program], capture_output=True, text=True, check=True)
    found: list[object] = [
        each if isinstance(each, str) else each["href"] for each in json.loads(done.stdout)
    ]
    return found


@needs_node
def test_none_unless_asked_for() -> None:
    assert links(None) == ["shown"] * 5


@needs_node
def test_a_place_that_an_editor_can_open() -> None:
    first, *texts, last = links("vscode")
    assert first == "vscode://file/a%20b/c%23d.py:3"
    assert texts == ["shown", "shown", "shown"]  # no files
    assert last == "vscode://file/$&.py:7"
    assert links("pycharm")[0] == "pycharm://open?file=/a%20b/c%23d.py&line=3"


@needs_node
def test_the_scripts_are_javascript(tmp_path: Path) -> None:
    whole = tmp_path / "page.js"
    whole.write_text("\n".join((ASSETS / f"{name}.js").read_text() for name in SCRIPTS))
    subprocess.run(["node", "--check", str(whole)], check=True)
