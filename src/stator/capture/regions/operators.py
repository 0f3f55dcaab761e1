"""The operators that take functions, as handlers of calls.

In: the files of this folder. Out: `OPERATORS`, by the id of the callable.
"""

from typing import Any, Final

from stator.capture.regions.attention import ATTENTION
from stator.capture.regions.cond import CONDITIONALS
from stator.capture.regions.scans import SCANS
from stator.capture.regions.while_loop import LOOPS

OPERATORS: Final[dict[int, Any]] = {**ATTENTION, **CONDITIONALS, **LOOPS, **SCANS}
