"""Names of placeholders: valid, unique identifiers derived from the text of a source.

`L['x']` becomes `L_x_`, `self.layers[0].weight` becomes `self_layers_0_weight`.
"""

import keyword
import re
from typing import Final

_NOT_IDENTIFIER: Final = re.compile(r"[^0-9A-Za-z_]+")
_ADDRESS: Final = re.compile(r" object at 0x[0-9a-f]+|[<>]")
_REPEATED: Final = re.compile(r"_{2,}")


def identifier(text: str) -> str:
    """The identifier that reads most like `text`; where something lies in memory is no name."""
    text = _ADDRESS.sub("", text)
    name = _REPEATED.sub("_", _NOT_IDENTIFIER.sub("_", text))
    if not name or name == "_":
        return "input_"
    if name[0].isdigit():
        name = f"_{name}"
    return f"{name}_" if keyword.iskeyword(name) or keyword.issoftkeyword(name) else name


class Names:
    """Hands out each name once; a repeated text gets a number."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def unique(self, text: str) -> str:
        stem = name = identifier(text)
        number = 0
        # FX makes variables of lower-cased targets: two names may not differ in case only.
        while name.lower() in self._taken:
            number += 1
            name = f"{stem}_{number}"
        self._taken.add(name.lower())
        return name

    def free(self, name: str) -> None:
        """A name that was handed out, and is not used."""
        self._taken.discard(name.lower())
