"""How an explanation is shown: lines of text, each of a kind, for terminals and for notebooks.

Stage: diagnostics. In: an `Explanation`. Out: `Line`s: plain text, and what kind of text it is, by
which a terminal and a notebook choose colours. What is long and says little is counted instead:
guards that every program has, the rest of a long graph.
"""

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from stator.diagnostics.explanation import Explanation, Part

_MOST_GUARDS: Final = 30
_MOST_CODE: Final = 60


class Line(NamedTuple):
    """A line of text, and its kind: one of `KINDS`."""

    text: str
    kind: str = "plain"


KINDS: Final = ("plain", "title", "part", "broken", "fix", "code", "dim")

# Guards that are there whatever the program is like, and rarely fail: how they are called together,
# and what they look like. The first that fits counts.
_COMMON: Final[tuple[tuple[str, re.Pattern[str]], ...]] = (
    ("about attributes that are not there", re.compile(r": no (attribute|key) ")),
    ("about hooks of modules", re.compile(r"\b_\w*hooks\w*: ")),
    ("about the state of torch", re.compile(r"^torch \w+: |^error_on_graph_break")),
    ("about classes", re.compile(r"^class ")),
    (
        "about namespaces",
        re.compile(r"^module [\w.]+: type |^globals of |\._(parameters|buffers|modules): type "),
    ),
    (
        "about functions and modules by name",
        re.compile(r": (function|method|class|module) [\w.]+…?$|__(code|globals)__: "),
    ),
)


def common(guard: str) -> str | None:
    """What kind of guard it is, if it is one of those that every program has."""
    return next((kind for kind, pattern in _COMMON if pattern.search(guard)), None)


def lines(told: "Explanation", *, guards: bool = False) -> Iterator[Line]:
    """All of it; with `guards`, all of those, too."""
    yield Line(told.name, "title")
    yield Line(f"  {told.summary()}")
    times = f"traced in {_time(told.trace_seconds)}, compiled in {_time(told.backend_seconds)}"
    yield Line(f"  {times}", "dim")
    for why, count in Counter(told.ran_eagerly).items():
        yield Line(f"  {_many(count, 'call')} ran eagerly: {why}", "broken")
    number = 0
    for part in told.parts:
        number += part.code is not None
        yield Line("")
        yield from _part(part, number)
    if told.parts:
        yield Line("")
        yield Line("guards", "title")
    for part in told.parts:
        yield Line(f"  {part.name}", "part")
        yield from _guards(part.guards, guards)
    if told.recompiles:
        yield Line("")
        yield Line("recompiles", "title")
        for recompile in told.recompiles:
            yield from (Line(f"  {line}") for line in recompile.splitlines())


def _part(part: "Part", number: int) -> Iterator[Line]:
    if part.eager is not None:
        yield Line(f"not captured: {part.name}", "broken")
        if part.broken is None:
            yield Line(f"  {part.eager}")
    elif part.code is None:
        yield Line(f"no graph: {part.name}", "part")
    else:
        yield Line(f"graph {number}: {part.name}", "part")
        counts = (name if n == 1 else f"{name} ×{n}" for name, n in part.counts.items())
        yield Line(f"  {_many(len(part.operators), 'operator')}: {', '.join(counts)}")
        times = f"traced in {_time(part.trace_seconds)}, compiled in {_time(part.backend_seconds)}"
        yield Line(f"  {_many(len(part.guards), 'guard')}, {times}", "dim")
        if part.own is not None:
            yield Line(f"  runs by torch's own kernels: {part.own}")
        yield from _code(part.code)
    if part.broken is not None:
        first, *rest = part.broken.lines()
        yield Line(f"  break: {first}", "broken")
        for line in rest:
            kind = "fix" if line.startswith("  fix: ") else "plain"
            yield Line(f"  {line}", "dim" if line.startswith("  [SB") else kind)


# fx lets go of values as soon as it can, which says nothing about the program.
_LETS_GO: Final = re.compile(r";  (\w+ = )+None$", re.MULTILINE)


def _code(code: str) -> Iterator[Line]:
    found = [line for line in _LETS_GO.sub("", code).splitlines() if line.strip()]
    for line in found[:_MOST_CODE]:
        yield Line(f"    {line}", "code")
    if len(found) > _MOST_CODE:
        yield Line(f"    … {len(found) - _MOST_CODE} more lines …", "dim")


def _guards(guards: Sequence[str], everything: bool) -> Iterator[Line]:
    """Those that are about this program; the others are counted."""
    if everything:
        yield from (Line(f"    {guard}") for guard in guards)
        return
    kinds = [common(guard) for guard in guards]
    own = [guard for guard, kind in zip(guards, kinds, strict=True) if kind is None]
    yield from (Line(f"    {guard}") for guard in own[:_MOST_GUARDS])
    if len(own) > _MOST_GUARDS:
        yield Line(f"    … {len(own) - _MOST_GUARDS} more …", "dim")
    for kind, count in Counter(kind for kind in kinds if kind is not None).most_common():
        yield Line(f"    {count} {kind}", "dim")


def _many(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _time(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.1f} ms"


# ---------------------------------------------------------------------- notebooks

# Legible on light and on dark pages.
_STYLES: Final = {
    "title": "font-weight:bold",
    "part": "font-weight:bold;color:#2f7fd0",
    "broken": "font-weight:bold;color:#d0482f",
    "fix": "color:#2f9d57",
    "code": "color:#8a63d2",
    "dim": "opacity:.65",
}


def notebook(told: "Explanation") -> str:
    """A piece of HTML, with the guards folded away."""
    shown = list(lines(told))
    start = next((i for i, line in enumerate(shown) if line == Line("guards", "title")), len(shown))
    rest = shown[start + 1 :]
    folded = ""
    if rest:
        body = "\n".join(map(_span, rest))
        folded = f"<details><summary>guards</summary><pre>{body}</pre></details>"
    body = "\n".join(map(_span, shown[:start])).rstrip()
    return f'<div class="stator-explanation"><pre>{body}</pre>{folded}</div>'


def _span(line: Line) -> str:
    text = html.escape(line.text)
    style = _STYLES.get(line.kind)
    return text if style is None or not text else f'<span style="{style}">{text}</span>'
