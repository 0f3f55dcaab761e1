"""The numbers of compiles, in the order in which they were begun in this process."""

import itertools
from typing import Final

NUMBERS: Final = itertools.count(1)
