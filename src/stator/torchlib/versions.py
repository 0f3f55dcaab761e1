"""Which torch this is, whether stator was tested with it, and what differs by its version.

A difference that a name shows (it is there, or not) is asked of the name, where that is taken; here
are those that nothing shows.
"""

import re
import warnings
from typing import Final

import torch

from .supported import FIRST, LAST, WORDS


def release_of(version: str) -> tuple[int, int]:
    """The release that a version belongs to: `2.15.0a0+git1234` is one of 2.15."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) if numbers else (0, 0)


VERSION: Final[str] = torch.__version__
RELEASE: Final = release_of(VERSION)

STACKED_STATES: Final = RELEASE < (2, 13)
"""The states of an LSTM have a dimension too many, unless oneDNN's kernel makes them."""

SCATTERS_UNPLACED: Final = RELEASE < (2, 13)
"""Fake kernels of `slice_scatter` and the like say that results lie as the argument does, whatever
that is, and always begin at 0."""

TRANSFORMS_UNPLACED: Final = RELEASE < (2, 13)
"""Fake kernels of Fourier transforms say that their results are contiguous."""

SWAPS_KNOWN: Final = RELEASE <= LAST
"""One function of torch gives the object of a tensor another impl, and no other."""


def warn_if_untested(version: str = VERSION) -> None:
    """A warning where this torch is none of those that are known."""
    if not FIRST <= release_of(version) <= LAST:
        warnings.warn(
            f"stator was tested with torch {WORDS}, not with {version}: "
            "where that differs, more is left to Python",
            RuntimeWarning,
            stacklevel=2,
        )
