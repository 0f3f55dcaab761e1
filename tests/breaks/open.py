"""Cases that are known to fail: patterns of their names, and why. Each must fail."""

from typing import Final

OPEN: Final[dict[str, str]] = {}
