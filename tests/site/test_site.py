"""The knowledge base: complete, all links lead somewhere, nothing comes from a network."""

import html
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pytest

from stator.diagnostics.catalogue import all_reasons, all_recompile_reasons
from tools import site
from tools.colours import coloured

IDS: Final = [each.id for each in all_reasons()] + [each.id for each in all_recompile_reasons()]


class Links(HTMLParser):
    """What a page refers to, and what it offers to be referred to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value is not None:
                self.links.append(unquote(value))
            elif name == "id" and value is not None:
                assert value not in self.anchors, f"two elements with the id {value}"
                self.anchors.add(value)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    site.build(made)
    return made


@pytest.fixture(scope="module")
def pages(folder: Path) -> dict[Path, Links]:
    return {path.resolve(): Links(path.read_text()) for path in folder.rglob("*.html")}


def broken_links(pages: dict[Path, Links]) -> Iterator[str]:
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"https?:", link):
                continue
            target, _, anchor = link.partition("#")
            there = (path.parent / target).resolve() if target else path
            if not there.is_file():
                yield f"{path.name}: {link} does not exist"
            elif anchor and anchor not in pages[there].anchors:
                yield f"{path.name}: {link} has no such heading"


def test_all_links_lead_somewhere(pages: dict[Path, Links]) -> None:
    assert sum(len(page.links) for page in pages.values()) > 1000
    assert not list(broken_links(pages))


def test_every_document_and_every_reason_has_a_page(folder: Path) -> None:
    for name in site.documents():
        assert (folder / f"{name}.html").is_file()
    assert sorted(path.stem for path in (folder / "reasons").iterdir()) == sorted(IDS)


@pytest.mark.parametrize("id", IDS)
def test_a_reason_shows_what_its_example_prints(folder: Path, id: str) -> None:
    text = html.unescape(re.sub(r"<[^>]+>", "", (folder / "reasons" / f"{id}.html").read_text()))
    _, said, rest = text.partition("stator says:")
    assert said
    if id.startswith("SB"):
        assert f"[{id}]" in rest
        assert "example.py:" in rest
    else:
        assert "is compiled again, since" in rest
    assert "def forward(self" in rest


def test_pages_need_no_network(folder: Path) -> None:
    """Links may lead elsewhere; styles, scripts and pictures don't."""
    for path in folder.rglob("*.html"):
        text = path.read_text()
        assert not re.search(r"<(?:script|img|link)[^>]+(?:src|href)=\"(?:https?:)?//", text)
    for name in ("style.css", "site.js"):
        assert "//" not in re.sub(r"//.*$", "", (folder / name).read_text(), flags=re.MULTILINE)


def test_search_knows_every_reason(folder: Path) -> None:
    text = (folder / "search.js").read_text()
    sections = json.loads(text.removeprefix("window.SECTIONS = ").removesuffix(";\n"))
    urls = {each["url"] for each in sections}
    assert {f"reasons/{id}.html" for id in IDS} <= urls
    assert all(each["title"] or each["text"] for each in sections)
    assert len(text) < 2_000_000


def test_ids_and_names_of_pages_become_links() -> None:
    renderer = site.Renderer({"dynamic": "Sizes"}, ["SB0013"])
    page = renderer.page(
        "reasons/x",
        "# SB0013\n\nSee SB0013 (docs/dynamic.md, [dynamic.md](dynamic.md)), not SB9999.",
        "",
    )
    assert page.title == "SB0013"
    assert page.body.count("<a ") == 3
    assert '<a href="../dynamic.html">Sizes</a>' in page.body
    assert '<a href="../reasons/SB0013.html">SB0013</a>' in page.body
    assert '<a href="../dynamic.html">docs/dynamic.md</a>' in page.body


@pytest.mark.parametrize(
    "text",
    [
        "def f(x: int = 3) -> str:\n    # why <b>\n    return f'{x}' + \"a&b\"\n",
        'class A:\n    pass\n\n\nif 1 < 2:\n\tx = """two\nlines"""',
        "no python at all (",
        "  indented\n",
        "",
    ],
)
def test_colours_keep_the_text(text: str) -> None:
    made = coloured(text)
    assert html.unescape(re.sub(r"</?span[^>]*>", "", made)) == text
    assert '<span class="k">' in made or "def" not in text


def test_text_is_escaped() -> None:
    page = site.Renderer({}, []).page("x", "# a <b>\n\n`</script>` <i>\n\n```py\n'</pre>'\n```", "")
    assert "<i>" not in page.body
    assert "</script>" not in page.body
    assert page.body.count("</pre>") == 1
    assert "a &lt;b&gt;" in page.body


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_search_in_a_browser(folder: Path, tmp_path: Path) -> None:
    command = [
        *("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
        *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
        *("--disable-sync", f"--user-data-dir={tmp_path}", "--dump-dom"),
        f"{(folder / 'reasons' / 'SB0001.html').as_uri()}?q=values+tensor",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    results = done.stdout.partition('id="results"')[2].partition("</ol>")[0]
    assert results.count("<li") > 1
    assert 'href="../reasons/SB0013.html"' in results
    assert "<mark>" in results
