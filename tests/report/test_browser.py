"""The page in a real browser: what it shows, keys, dark and light, narrow windows."""

from pathlib import Path

import pytest

from benchmarks.report import events as synthetic
from stator.report import build
from tests.report.browser import Browser

pytestmark = [
    pytest.mark.filterwarnings("ignore:recompile_limit"),
    pytest.mark.filterwarnings("ignore:.*This path runs eagerly"),
]
NAMES = ["split", "scaled", "Layer", "whole"]
ESCAPE = "\ue00c"
RIGHT = "\ue014"
DOWN = "\ue015"


@pytest.fixture(autouse=True)
def quiet(window: Browser, page: Path) -> None:
    """Each test begins with a wide light window, at the overview."""
    window.window(1280, 1000)
    window.scheme("light")
    window.open(page)
    window.script("try { localStorage.clear() } catch {}")
    window.open(page)


class TestOverview:
    def test_numbers(self, window: Browser) -> None:
        pairs = [tile.split("\n") for tile in window.texts(".tile")]
        tiles = {noun: number for number, noun in pairs}
        assert tiles["functions"] == "4"
        assert tiles["graphs"] == "5"
        assert tiles["graph breaks"] == "2"
        assert tiles["recompile"] == "1"
        assert tiles["operators"] == "10"
        assert tiles["calls served"] == "30 %"  # 2 of 3, 1 of 5, none of the others' one

    def test_nothing_is_complained_about_and_nothing_fetched(self, window: Browser) -> None:
        assert window.errors() == []
        assert window.script("return performance.getEntriesByType('resource').length") == 0

    def test_timeline(self, window: Browser) -> None:
        assert window.texts(".lane .lane-name")[:-1] == NAMES
        assert len(window.texts(".bar")) == 6
        window.click(".bar.again")
        assert window.texts("h1")[0].startswith("scaled")
        assert window.texts(".compile[open] .title") == ["Graph 1, variant 2"]

    def test_what_to_look_at(self, window: Browser) -> None:
        advice = "\n".join(window.texts(".advice > li"))
        assert "A clock is read" in advice
        assert "Fix" in advice
        assert "scaled was compiled again once" in advice
        assert "recompile_limit (2) reached" in advice


class TestFunction:
    def test_lines_by_graph(self, window: Browser) -> None:
        window.click(".units a")
        coloured = window.texts(".source .line.in > code")
        assert coloured == [
            "x = helper(x)",
            "return (x + n).sum()",
            "return torch.relu(x) * 2",
        ]
        first, second, third = window.script(
            "return [...document.querySelectorAll('.line.in .bars i')].map((e) => e.className)"
        )
        assert first == third != second
        assert window.texts(".line.in .ops") == [
            "2 operators inside",
            "add · sum",
            "relu · mul",
        ]

    def test_what_nothing_is_to_be_said_of_is_folded(self, window: Browser, tmp_path: Path) -> None:
        told = synthetic(1, 5, 1)
        told[1]["source"] += ["    pass"] * 50
        window.open(build(told, tmp_path / "folded.html"), "#/f/0")
        assert len(window.texts(".line")) < 40
        assert window.texts(".fold")[0].endswith("lines more")
        while window.texts(".fold"):
            window.click(".fold")
        assert len(window.texts(".line")) == 81

    def test_breaks(self, window: Browser) -> None:
        window.click(".units a")
        assert window.texts(".line.broken > code") == ["time.sleep(0)"]
        (note,) = window.texts(".note")
        assert note.startswith("Graph break time.sleep reads a clock")
        assert "Fix measure around the compiled function" in note

    def test_side_effects(self, window: Browser) -> None:
        window.click(".units a")
        assert window.texts(".effect-parts li") == [
            "After graph 2: tests.report.programs.SEEN gets more items"
        ]

    def test_markup_of_the_program_is_text(self, window: Browser) -> None:
        window.click(".units a")
        assert '</script><b id="planted">bold</b>' in "\n".join(window.texts(".source"))
        assert window.script("return document.getElementById('planted')") is None

    def test_tabs(self, window: Browser) -> None:
        window.click(".units a")
        tabs = window.texts(".compile[open] [role=tab]")
        assert tabs == ["Graph", "Picture", "Nodes", "Guards", "Runs", "Bytecode", "Times"]
        seen = {}
        for number, name in enumerate(tabs):
            window.click(".compile[open] [role=tab]", number)
            seen[name] = window.texts(".compile[open] [role=tabpanel]")[0]
        assert "relu = torch.relu(x)  # (3) float32" in seen["Graph"]
        assert "# programs.py:" in seen["Graph"]
        assert "mul" in seen["Nodes"]
        assert "torch state" in seen["Guards"]
        assert "outputs = graph(" in seen["Runs"]
        assert "RETURN_VALUE" in seen["Bytecode"]
        assert "backend" in seen["Times"]
        assert window.errors() == []

    def test_picture(self, window: Browser) -> None:
        window.click(".units a")
        window.click(".compile[open] [role=tab]", 1)
        assert window.texts(".node .name") == ["x", "relu", "mul", "output"]
        assert len(window.texts(".edges path")) == 3
        heights = window.script(
            "return [...document.querySelectorAll('.node')].map((e) => e.getBoundingClientRect().y)"
        )
        assert heights == sorted(heights)
        assert len(set(heights)) == 4
        window.click(".node.call")
        assert window.texts(".picked")[0].startswith("relu = relu(x) from")

    def test_guards_can_be_searched(self, window: Browser) -> None:
        window.click(".units a", 2)
        window.click(".compile[open] [role=tab]", 3)
        window.click(".panel input")
        window.keys("linear.weight")
        found = window.texts(".guards li")
        assert found
        assert all("linear.weight" in each for each in found)

    def test_recompiles(self, window: Browser, page: Path) -> None:
        window.open(page, "#/f/1/c/3")
        (box,) = window.texts(".again-box .failures")
        assert box.startswith("n")
        assert "expected 2" in " ".join(box.split())
        assert "got 3" in " ".join(box.split())
        window.click(".differences > summary")
        assert "n is 2" in "\n".join(window.texts(".diff .gone"))
        assert "n is 3" in "\n".join(window.texts(".diff .new"))

    def test_what_runs_as_it_is(self, window: Browser) -> None:
        window.click(".units a", 3)
        assert window.texts(".compile .title") == ["As it is"]
        assert "Runs as it is" in window.texts(".body")[0]


class TestKeys:
    def current(self, window: Browser) -> list[str]:
        return window.texts(".units a[aria-current] .unit-name")

    def test_through_functions(self, window: Browser) -> None:
        assert self.current(window) == []
        window.keys("j")
        assert self.current(window) == ["split"]
        window.keys("jj")
        assert self.current(window) == ["Layer"]
        window.keys("k")
        assert self.current(window) == ["scaled"]
        window.keys("o")
        assert self.current(window) == []

    def test_through_compiles(self, window: Browser) -> None:
        window.keys("jj" + RIGHT + RIGHT)
        assert "Graph 1, variant 2" in window.texts(".compile[open] .title")

    def test_search(self, window: Browser) -> None:
        window.keys("/clock")  # also by the reasons of breaks
        assert window.texts(".unit-name") == ["split"]
        window.keys(DOWN)
        assert self.current(window) == ["split"]
        window.keys(ESCAPE)
        assert window.texts(".unit-name") == NAMES
        window.keys("/nothing at all")
        assert window.texts(".unit-name") == []
        assert window.texts(".none") == ["None is called so."]

    def test_list_of_keys(self, window: Browser) -> None:
        window.keys("?")
        assert window.script("return document.getElementById('help').open")
        window.keys(ESCAPE)
        assert not window.script("return document.getElementById('help').open")


BACKGROUND = "return getComputedStyle(document.body).backgroundColor"


class TestLooks:
    def test_as_the_system_is_until_chosen(self, window: Browser, page: Path) -> None:
        light = window.script(BACKGROUND)
        window.scheme("dark")
        dark = window.script(BACKGROUND)
        assert light != dark
        window.keys("t")
        assert window.script(BACKGROUND) == light
        window.open(page)
        assert window.script(BACKGROUND) == light

    @pytest.mark.parametrize("width", [500, 800, 1280])
    def test_nothing_sticks_out(self, window: Browser, page: Path, width: int) -> None:
        window.window(width, 900)
        for fragment in ("", *(f"#/f/{number}" for number in range(len(NAMES)))):
            window.open(page, fragment)
            wide = window.script("return document.documentElement.scrollWidth - innerWidth")
            assert wide <= 0, fragment

    def test_all_that_can_be_clicked_has_a_name(self, window: Browser, page: Path) -> None:
        window.open(page, "#/f/0")
        unnamed = window.script(
            "return [...document.querySelectorAll('a, button, input, summary')].filter((e) =>"
            " !(e.innerText || e.getAttribute('aria-label') || e.title)).length"
        )
        assert unnamed == 0

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    def test_text_can_be_read(self, window: Browser, page: Path, scheme: str) -> None:
        window.scheme(scheme)
        for fragment in ("", "#/f/0", "#/f/1/c/3"):
            window.open(page, fragment)
            assert window.script(FAINT) == [], fragment

    def test_print(self, window: Browser, page: Path) -> None:
        window.open(page, "#/f/0")
        window.developer("Emulation.setEmulatedMedia", media="print")
        hidden = window.script("return getComputedStyle(document.getElementById('side')).display")
        window.developer("Emulation.setEmulatedMedia", media="")
        assert hidden == "none"


# Texts whose colour differs too little from what is behind them: a contrast below 4.5 to 1.
FAINT = """
const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
const linear = (c) => ((c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
function over(top, below) {
  const a = top[3] === undefined ? 1 : top[3];
  return [0, 1, 2].map((i) => top[i] * a + below[i] * (1 - a));
}
function behind(element) {
  const layers = [];
  for (let e = element; e; e = e.parentElement) {
    layers.push(rgb(getComputedStyle(e).backgroundColor));
  }
  return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]);
}
const found = new Set();
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || !element.getClientRects().length) continue;
  if (element.closest("svg, script, .spoken, .skip")) continue;
  const back = behind(element);
  const [a, b] = [light(over(rgb(getComputedStyle(element).color), back)), light(back)];
  const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (contrast < 4.5) found.add(`${element.className || element.tagName} ${contrast.toFixed(1)}`);
}
return [...found];
"""


class TestMany:
    @pytest.fixture(scope="class")
    @classmethod
    def large(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        """200 compiles with 5,000 nodes in all; one graph too large for a picture."""
        return build(synthetic(200, 5000, 1), tmp_path_factory.mktemp("large") / "large.html")

    def test_it_opens(self, window: Browser, large: Path) -> None:
        window.open(large, "#/f/0")
        assert len(window.texts(".compile")) == 200
        assert window.errors() == []

    def test_what_is_not_looked_at_is_not_drawn(self, window: Browser, large: Path) -> None:
        window.open(large, "#/f/0")
        assert len(window.texts(".compile .body")) == 1

    def test_a_large_graph_has_no_picture(self, window: Browser, tmp_path: Path) -> None:
        page = build(synthetic(1, 61, 1), tmp_path / "61.html")
        window.open(page, "#/f/0")
        assert "Picture" not in window.texts("[role=tab]")
        page = build(synthetic(1, 60, 1), tmp_path / "60.html")
        window.open(page, "#/f/0")
        assert "Picture" in window.texts("[role=tab]")
