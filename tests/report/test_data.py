"""From events to the data of the page, and the page as text."""

import json
import re
from pathlib import Path
from typing import Any

import torch

import stator
from benchmarks.report import events as synthetic
from stator.report import build
from stator.report.data import page_data
from stator.report.page import SCRIPTS, embedded, render
from tests.report import programs

HOSTILE = "</script><script>alert(1)</script><!-- & \u2028 \ud800"


def data_of(page: str) -> Any:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    return json.loads(found[1])


def test_texts_that_occur_often_are_there_once() -> None:
    data = page_data(synthetic(compiles=20, nodes=100, functions=4))
    assert len(data["texts"]) == len(set(data["texts"]))
    guards = data["compiles"][0]["guards"]
    assert data["texts"][guards[1][1]] == data["texts"][data["compiles"][5]["guards"][1][1]]
    assert [len(data[name]) for name in ("functions", "compiles", "recompiles")] == [4, 20, 16]


def test_recompiles_know_what_they_made() -> None:
    data = page_data(synthetic(compiles=3, nodes=10, functions=1))
    assert [each["recompile"] for each in data["compiles"]] == [None, 0, 1]
    assert [each["compile"] for each in data["recompiles"]] == [1, 2]


def test_processes_are_told_apart() -> None:
    one = synthetic(compiles=2, nodes=10, functions=1)
    other = [{**event, "pid": 2} for event in one]
    other[0] = {**other[0], "time": 11.0}  # ten seconds later
    data = page_data([*one, *other])
    assert len(data["runs"]) == 2
    assert len(data["functions"]) == 2
    assert data["compiles"][2]["began"] == data["compiles"][0]["began"] + 10


def test_a_trace_that_ends_anywhere() -> None:
    whole = synthetic(compiles=3, nodes=10, functions=1)
    for length in range(len(whole)):
        page_data(whole[:length])
        page_data(whole[length:])  # its beginning is lost


def test_nothing() -> None:
    assert data_of(render([]))["compiles"] == []


def test_no_text_ends_the_data() -> None:
    text = embedded({"source": HOSTILE})
    assert not set(text) & set("<>&\u2028")
    assert json.loads(text) == {"source": HOSTILE}


def test_marks_of_the_template_are_text_elsewhere() -> None:
    event = {"kind": "start", "pid": 1, "argv": ["{{data}} {{style}} <b>"], "time": 0.0}
    page = render([event])
    assert data_of(page)["runs"][0]["argv"] == ["{{data}} {{style}} <b>"]
    assert "<title>{{data}} {{style}} &lt;b&gt; · stator</title>" in page


def test_one_file_without_addresses(tmp_path: Path) -> None:
    page = build(synthetic(compiles=1, nodes=5, functions=1), tmp_path / "out.html").read_text()
    code = page.replace("http://www.w3.org/2000/svg", "")  # a name, not an address
    assert not re.findall(r"https?://|@import|<link|src=", code)
    assert "default-src 'none'" in page


def test_scripts_set_text_only() -> None:
    folder = Path(stator.__file__).parent / "report" / "assets"
    assert sorted(path.stem for path in folder.glob("*.js")) == sorted(SCRIPTS)
    for name in SCRIPTS:
        code = (folder / f"{name}.js").read_text()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", code)


def test_an_explanation_has_a_report(tmp_path: Path) -> None:
    explaining = stator.explain(programs.split)
    explaining(torch.ones(3), 1)
    told = explaining(torch.ones(3), 2)
    data = data_of(told.report(tmp_path / "out.html").read_text())
    assert [each["ops"] for each in data["compiles"]] == [2, 2, 2]
    assert len(data["recompiles"]) == 1
    assert data["compiles"][0]["broken"]["line"] == "time.sleep(0)"
    assert data["compiles"][0]["hits"] == 1
