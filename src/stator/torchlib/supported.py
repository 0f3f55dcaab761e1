"""The versions of torch that stator is tested with; needs no torch."""

from typing import Final

FIRST: Final = (2, 11)
LAST: Final = (2, 15)
WORDS: Final = f"{FIRST[0]}.{FIRST[1]} to {LAST[0]}.{LAST[1]}"
