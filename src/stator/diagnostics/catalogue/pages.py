"""The pages of the catalogue, as text.

Stage: diagnostics. In: the classes of the reasons. Out: a page for one of them, which is what
`stator why` shows, and all pages as docs/breaks.md.
"""

import textwrap
from collections.abc import Iterable, Iterator
from typing import Final

from stator.diagnostics.breaks import Break

WIDTH: Final = 100

_HEAD: Final = """\
# Graph breaks

What a graph can't hold ends it. Without `fullgraph=True` the program is split there: the graph so
far runs, then the instruction as plain Python, then the rest, which is captured again. With it, a
`stator.CaptureError` says what happened, where, and what to do. `error.id` is one of the reasons
below; `stator.diagnostics.catalogue.page(id)` gives its text.

Made by `python -m stator.diagnostics.catalogue`; the texts are in `diagnostics/catalogue/`. All
examples run as tests: the first version breaks with this reason, the second one is one graph.
"""


def render(reason: type[Break], level: int = 1) -> str:
    """The page of one reason, in Markdown."""
    return "\n\n".join(_sections(reason, "#" * level)) + "\n"


def _sections(reason: type[Break], marks: str) -> Iterator[str]:
    yield f"{marks} {reason.id}: {reason.title}"
    yield _wrapped(reason.what)
    yield _wrapped(f"**Why.** {reason.why}")
    first, _, more = reason.fix.partition("\n")
    yield _wrapped(f"**Fix.** {first[0].upper()}{first[1:]}. {more}".rstrip())
    yield f"```py\n{reason.example.rstrip()}\n```"
    yield f"Instead:\n\n```py\n{reason.fixed.rstrip()}\n```"


def _wrapped(text: str) -> str:
    flat = " ".join(text.split())
    return textwrap.fill(flat, WIDTH, break_long_words=False, break_on_hyphens=False)


def document(reasons: Iterable[type[Break]]) -> str:
    """docs/breaks.md."""
    return "\n".join([_HEAD, *(render(reason, 2) for reason in reasons)])
