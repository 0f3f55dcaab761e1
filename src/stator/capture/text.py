"""Text that mentions a tensor: `f"{x}"`.

What it says is known at run time only. Programs make such texts for messages they never show, so
the text stands for itself until somebody looks at it, which is a `Break`.
"""

from typing import Any, Final

from stator.diagnostics.breaks import Place

FORMATS: Final = frozenset(
    {"FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE", "BUILD_STRING"}
)
NAME: Final = "str (text that mentions a tensor)"


class TensorText:
    """A text of which a part is not known."""

    __slots__ = ("parts", "places")

    def __init__(self, parts: tuple[Any, ...], places: tuple[Place, ...]) -> None:
        self.parts = parts
        self.places = places  # where it was made
