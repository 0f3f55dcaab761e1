"""Makes the knowledge base: a static site from docs/ and the catalogue of reasons.

    python tools/site.py build/site

One page per file of docs/, one per reason for a graph break or a recompile, with the message that
its example really gives, and a search over all of them. Nothing is fetched from anywhere: the site
works from the file system, without a network.
"""

import argparse
import html
import json
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token

sys.path.insert(0, str(Path(__file__).parents[1]))  # when run as a script

from stator.diagnostics.catalogue import all_reasons, all_recompile_reasons
from stator.diagnostics.catalogue.pages import Reason, render
from tools.colours import coloured
from tools.examples import printed

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
ASSETS: Final = Path(__file__).parent / "site_assets"

GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "Start": (
        "getting_started",
        "usage",
        "from_torch_compile",
        "troubleshooting",
        "configuration",
        "cli",
        "report",
    ),
    "Knowledge base": (
        "breaks",
        "recompile_reasons",
        "recompiles",
        "dynamic",
        "unknown",
        "diagnostics",
    ),
}
_REST: Final = "Inside"
_FIRST_OF_REST: Final = ("how_it_works", "architecture")
_ID: Final = re.compile(r"\b(S[BR]\d{4})\b")
_PAGE: Final = re.compile(r"\bdocs/(\w+)\.md\b")
_IMAGE: Final = re.compile(r'<p><img src="(images/[\w-]+\.svg)" alt="([^"]*)" ?/?></p>')


@dataclass
class Section:
    """What search finds: the text below one heading."""

    title: str
    anchor: str
    words: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)


@dataclass
class Page:
    """One file of the site."""

    name: str
    """Where it is, from the top of the site, without `.html`."""
    title: str
    body: str
    group: str
    sections: list[Section] = field(default_factory=list)

    @property
    def up(self) -> str:
        """From its folder to the top of the site."""
        return "../" * self.name.count("/")


# ---------------------------------------------------------------------- Markdown


class Renderer:
    """Markdown to HTML, with headings that can be linked to and links that fit the site."""

    def __init__(self, known: Mapping[str, str], ids: Iterable[str]) -> None:
        self._known = known  # titles of pages, by name
        self._ids = set(ids)
        self._parser = MarkdownIt("commonmark", {"html": False}).enable("table")

    def page(self, name: str, text: str, group: str, title: str = "") -> Page:
        page = Page(name, title, "", group)
        tokens = self._parser.parse(text)
        taken: set[str] = set()
        section = Section("", "")
        for index, token in enumerate(tokens):
            if token.type == "heading_open":
                heading = _plain(tokens[index + 1])
                anchor = _slug(heading, taken)
                token.attrSet("id", anchor)
                section = Section(heading, "" if token.tag == "h1" else anchor)
                page.sections.append(section)
                if token.tag == "h1" and not page.title:
                    page.title = heading
            elif token.type == "inline":
                section.words.append(_plain(token))
                if tokens[index - 1].type != "heading_open":
                    token.children = list(self._linked(token.children or [], page.up))
            elif token.type in ("fence", "code_block"):
                section.code.append(token.content)
        page.body = "".join(self._html(token, tokens, index) for index, token in enumerate(tokens))
        page.body = _IMAGE.sub(_inlined, page.body)
        return page

    def _html(self, token: Token, tokens: list[Token], index: int) -> str:
        if token.type == "fence":
            return _code(token.content, token.info.split()[0] if token.info else "")
        renderer = self._parser.renderer
        assert isinstance(renderer, RendererHTML)
        rule = renderer.rules.get(token.type)
        if rule is not None:
            return str(rule(tokens, index, self._parser.options, {}))
        if token.type == "inline":
            return str(renderer.renderInline(token.children or [], self._parser.options, {}))
        return str(renderer.renderToken(tokens, index, self._parser.options, {}))

    def _linked(self, tokens: list[Token], up: str) -> Iterator[Token]:
        """Links to files of docs/ become links to pages; so do their names, and ids of reasons."""
        inside = 0
        for token in tokens:
            if token.type == "link_open":
                inside += 1
                token.attrSet("href", self._target(str(token.attrGet("href")), up))
            elif token.type == "link_close":
                inside -= 1
            if not inside and token.type in ("text", "code_inline"):
                yield from self._mentions(token, up)
            else:
                # A link that shows the name of a file shows the title of the page.
                name = token.content.removesuffix(".md")
                if inside and token.content.endswith(".md") and name in self._known:
                    token.content = self._known[name]
                yield token

    def _target(self, href: str, up: str) -> str:
        path, mark, anchor = href.partition("#")
        name = path.removeprefix("docs/").removesuffix(".md")
        if path.endswith(".md") and name in self._known:
            return f"{up}{name}.html{mark}{anchor}"
        return href

    def _mentions(self, token: Token, up: str) -> Iterator[Token]:
        position = 0
        found = [*_ID.finditer(token.content), *_PAGE.finditer(token.content)]
        for match in sorted(found, key=lambda each: each.start()):
            word = match.group(1)
            if word in self._ids:
                href = f"{up}reasons/{word}.html"
            elif word in self._known:
                href = f"{up}{word}.html"
            else:
                continue
            yield _piece(token, token.content[position : match.start()])
            yield Token("link_open", "a", 1, attrs={"href": href})
            yield _piece(token, match.group())
            yield Token("link_close", "a", -1)
            position = match.end()
        yield _piece(token, token.content[position:])


def _piece(token: Token, content: str) -> Token:
    made = Token("text" if not content else token.type, token.tag, 0)
    made.content, made.markup = content, token.markup
    return made


def _plain(token: Token) -> str:
    kinds = ("text", "code_inline")
    return "".join(
        each.content if each.type in kinds else " "
        for each in token.children or []
        if each.type in (*kinds, "softbreak")
    )


def _slug(heading: str, taken: set[str]) -> str:
    base = re.sub(r"[^\w]+", "-", heading.lower()).strip("-") or "section"
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}-{number}"
    taken.add(name)
    return name


def _code(text: str, language: str) -> str:
    made = coloured(text) if language in ("py", "python") else html.escape(text)
    return f'<pre class="{html.escape(language or "plain")}"><code>{made}</code></pre>\n'


def _inlined(match: "re.Match[str]") -> str:
    """A picture as part of the page, so that it has the page's colours."""
    path, text = match.groups()
    picture = (DOCS / path).read_text()
    picture = picture[picture.index("<svg") :].replace("<svg", '<svg role="img"', 1)
    return f'<figure aria-label="{text}">{picture}<figcaption>{text}</figcaption></figure>'


# ---------------------------------------------------------------------- pages


def documents() -> list[str]:
    return sorted(path.stem for path in DOCS.glob("*.md"))


def group_of(name: str) -> str:
    return next((group for group, names in GROUPS.items() if name in names), _REST)


def ordered(names: Iterable[str]) -> list[str]:
    """In the order of the navigation."""
    chosen = [name for group in GROUPS.values() for name in group]
    order = [*chosen, *_FIRST_OF_REST]
    known = set(names)
    return [*(name for name in order if name in known), *sorted(known - set(order))]


def titles(names: Iterable[str]) -> dict[str, str]:
    """Each page begins with its title."""
    return {
        name: (DOCS / f"{name}.md").read_text().partition("\n")[0].removeprefix("# ")
        for name in names
    }


def reason_text(reason: Reason) -> str:
    """The page of a reason: as `stator why` shows it, with what the example prints."""
    text = render(reason)
    what, graph = printed(reason)
    before, instead, after = text.partition("Instead:\n")
    text = f"{before}stator says:\n\n```text\n{what.rstrip()}\n```\n\n{instead}{after}"
    return f"{text}\nThe graph:\n\n```py\n{graph.strip()}\n```\n"


def catalogue_text(head: str, reasons: Iterable[Reason]) -> str:
    """A list of reasons, in place of the long page with all of them."""
    rows = "".join(f"| {each.id} | {each.title} |\n" for each in reasons)
    return f"{head.rstrip()}\n\n| reason | |\n|---|---|\n{rows}"


def pages() -> Iterator[Page]:
    broken, again = all_reasons(), all_recompile_reasons()
    every: list[Reason] = [*broken, *again]
    names = documents()
    renderer = Renderer(titles(names), [each.id for each in every])
    lists: dict[str, Iterable[Reason]] = {"breaks": broken, "recompile_reasons": again}
    for name in ordered(names):
        text = (DOCS / f"{name}.md").read_text()
        if name in lists:
            text = catalogue_text(text.partition("\n## ")[0], lists[name])
        yield renderer.page(name, text, group_of(name))
    for reason in every:
        yield renderer.page(f"reasons/{reason.id}", reason_text(reason), "Reasons")


def start(made: list[Page]) -> Page:
    """The first page: what there is."""
    text = ["# stator\n", "Captures PyTorch programs as graphs. What do you want to know?\n"]
    for group in (*GROUPS, _REST):
        text.append(f"\n## {group}\n\n")
        text += [f"- [{each.title}]({each.name}.md)\n" for each in made if each.group == group]
    names = {each.name: each.title for each in made}
    return Renderer(names, []).page("index", "".join(text), "", "stator")


# ---------------------------------------------------------------------- output


def navigation(page: Page, made: list[Page]) -> str:
    lists = {"reasons/SB": "breaks", "reasons/SR": "recompile_reasons"}
    current = lists.get(page.name[:10], page.name)
    parts = []
    for group in (*GROUPS, _REST):
        parts.append(f"<h2>{group}</h2><ul>")
        for each in made:
            if each.group == group:
                here = ' aria-current="page"' if each.name == current else ""
                link = f'href="{page.up}{each.name}.html"{here}'
                parts.append(f"<li><a {link}>{html.escape(each.title)}</a></li>")
        parts.append("</ul>")
    return "".join(parts)


def written(page: Page, made: list[Page], template: str) -> str:
    filled = {
        "title": html.escape(page.title),
        "up": page.up,
        "navigation": navigation(page, made),
        "body": page.body,
        "around": _neighbours(page, made),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: filled[match.group(1)], template)


def _neighbours(page: Page, made: list[Page]) -> str:
    """Links to the page before and the one after, of the same group."""
    same = [each for each in made if each.group == page.group]
    if page not in same:
        return ""
    index = same.index(page)
    found = []
    for step, mark, kind in ((-1, "← {}", "prev"), (1, "{} →", "next")):
        if 0 <= index + step < len(same):
            other = same[index + step]
            text = mark.format(html.escape(other.title))
            found.append(f'<a rel="{kind}" href="{page.up}{other.name}.html">{text}</a>')
    return "".join(found)


def search_index(made: Iterable[Page]) -> str:
    entries = [
        {
            "page": page.title,
            "title": section.title,
            "url": f"{page.name}.html{'#' if section.anchor else ''}{section.anchor}",
            "text": " ".join(" ".join(section.words).split()),
            "code": " ".join(" ".join(section.code).split()),
        }
        for page in made
        for section in page.sections
    ]
    return f"window.SECTIONS = {json.dumps(entries, ensure_ascii=False)};\n"


def build(folder: Path) -> list[Page]:
    """Writes the site into a folder, which may exist; answers with its pages."""
    made = list(pages())
    first = start(made)
    template = (ASSETS / "page.html").read_text()
    (folder / "reasons").mkdir(parents=True, exist_ok=True)
    for page in (first, *made):
        (folder / f"{page.name}.html").write_text(written(page, made, template))
    (folder / "search.js").write_text(search_index(made))
    for name in ("style.css", "site.js"):
        shutil.copyfile(ASSETS / name, folder / name)
    if (DOCS / "images").is_dir():
        shutil.copytree(DOCS / "images", folder / "images", dirs_exist_ok=True)
    return [first, *made]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the site goes")
    given = parser.parse_args()
    made = build(given.folder)
    print(f"{len(made)} pages: {given.folder / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
