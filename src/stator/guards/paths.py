"""Sources as torch's own tools write them: `L['self'].layers.0`, `G['model']`.

Stage: guards. In: a source. Out: its path in the notation of torch.compile's graphs, which other
programs know: they look for `L['self'].` in front of the names of modules.
"""

from collections.abc import Mapping
from typing import Final

from .sources import (
    MODULE_DICTS,
    NAMESPACE,
    Attr,
    CellContents,
    Fixed,
    GlobalsOf,
    Index,
    Key,
    Local,
    NamedStep,
    Source,
)
from .text import show

_NOTHING: Final[Mapping[int, str]] = {}


def written(source: Source, known: Mapping[int, str] = _NOTHING) -> str:
    """A path, in torch's notation; `known` has those of some sources on its way, by their id."""
    if id(source) in known:
        return known[id(source)]
    if isinstance(source, Local | CellContents):
        return f"L[{source.text()!r}]"
    if isinstance(source, Key):
        return _item(source, known)
    if isinstance(source, NamedStep):
        return f"{written(source.of, known)}.{source.name}"
    if isinstance(source, Index):
        return f"{written(source.of, known)}[{source.index}]"
    base, text = source.base, str(source)
    return text if base is None else text.replace(str(base), written(base, known), 1)


def _item(source: Key, known: Mapping[int, str]) -> str:
    of, key = source.of, source.key
    if type(key) is str:
        if type(of) is Attr and of.name in MODULE_DICTS:
            return f"{written(of.of, known)}.{key}"
        if type(of) is GlobalsOf or (type(of) is Fixed and of.name.startswith(NAMESPACE)):
            return f"G[{key!r}]"
    return f"{written(of, known)}[{show(key)}]"
