"""Python code as HTML, with a few colours.

In: a text. Out: the text with `<span class=…>` around keywords (k), strings (s), comments (c),
numbers (n) and the names that `def` and `class` define (d). What is no Python stays plain.
"""

import html
import io
import keyword
import tokenize
from collections.abc import Iterator
from typing import Final

_KINDS: Final = {tokenize.STRING: "s", tokenize.COMMENT: "c", tokenize.NUMBER: "n"}


def coloured(text: str) -> str:
    try:
        return "".join(_pieces(text))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        return html.escape(text)


def _pieces(text: str) -> Iterator[str]:
    lines = text.splitlines(keepends=True)
    row, column = 1, 0
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        yield html.escape(_between(lines, (row, column), token.start))
        if token.type not in (tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT):
            kind = _kind(token, before)
            shown = html.escape(token.string)
            yield f'<span class="{kind}">{shown}</span>' if kind else shown
            before = token.string
            row, column = token.end
        else:
            row, column = token.start


def _kind(token: tokenize.TokenInfo, before: str) -> str:
    if token.type == tokenize.NAME:
        if keyword.iskeyword(token.string):
            return "k"
        return "d" if before in ("def", "class") else ""
    return _KINDS.get(token.type, "")


def _between(lines: list[str], start: tuple[int, int], end: tuple[int, int]) -> str:
    """What stands between two places: spaces, ends of lines."""
    if start[0] == end[0]:
        return lines[start[0] - 1][start[1] : end[1]] if start[0] <= len(lines) else ""
    middle = lines[start[0] : end[0] - 1]
    last = lines[end[0] - 1][: end[1]] if end[0] <= len(lines) else ""
    return "".join([lines[start[0] - 1][start[1] :], *middle, last])
