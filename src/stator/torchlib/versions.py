"""Which torch this is, and whether it is one that stator was tested with."""

import re
import warnings
from typing import Final

import torch

VERSION: Final[str] = torch.__version__
FIRST: Final = (2, 11)
LAST: Final = (2, 15)
SUPPORTED: Final = f"{FIRST[0]}.{FIRST[1]} to {LAST[0]}.{LAST[1]}"


def parsed(version: str) -> tuple[int, int]:
    """The release that a version belongs to: `2.15.0a0+git1234` is one of 2.15."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


RELEASE: Final = parsed(VERSION)


def warn_if_untested(release: tuple[int, int] = RELEASE) -> None:
    """One warning where this torch is none of those that are known."""
    if not FIRST <= release <= LAST:
        warnings.warn(
            f"stator was not tested with torch {VERSION}, only with {SUPPORTED}; "
            f"what it does not know there is left to Python",
            RuntimeWarning,
            stacklevel=2,
        )
