"""The pages of the catalogue, as text.

Stage: diagnostics. In: the reasons. Out: a page for one of them, which is what `stator why` shows,
and all pages as docs/breaks.md and docs/recompile_reasons.md.
"""

import textwrap
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

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

_RECOMPILES_HEAD: Final = """\
# Why a function is compiled again

A compiled function runs under guards: what the trace has read must be as it was. When no entry's
guards hold, the function is compiled again. `STATOR_LOGS=recompiles` tells which guard failed, what
it expected and what was there; `stator.testing.recompiles(compiled)` gives the same as data, with a
`cause`. [recompiles.md](recompiles.md) has the limits and switches.

Made by `python -m stator.diagnostics.catalogue recompiles`; the texts are in
`diagnostics/catalogue/recompiles.py`. All examples run as tests: the first version is compiled
again for this reason, the second one is compiled once.
"""


class Reason(Protocol):
    """What a page is made of."""

    @property
    def id(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def what(self) -> str: ...
    @property
    def why(self) -> str: ...
    @property
    def fix(self) -> str: ...
    @property
    def example(self) -> str: ...
    @property
    def fixed(self) -> str: ...


def render(reason: Reason, level: int = 1) -> str:
    """The page of one reason, in Markdown."""
    return "\n\n".join(_sections(reason, "#" * level)) + "\n"


def _sections(reason: Reason, marks: str) -> Iterator[str]:
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


def document(reasons: Iterable[Reason]) -> str:
    """docs/breaks.md."""
    return _document(_HEAD, reasons)


def recompiles_document(reasons: Iterable[Reason]) -> str:
    """docs/recompile_reasons.md."""
    return _document(_RECOMPILES_HEAD, reasons)


def _document(head: str, reasons: Iterable[Reason]) -> str:
    return "\n".join([head, *(render(reason, 2) for reason in reasons)])
