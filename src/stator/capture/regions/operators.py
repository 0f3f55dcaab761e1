"""The operators that take functions, as handlers of calls.

In: the files of this folder. Out: `OPERATORS`, by the id of the callable.
"""

from typing import Any, Final

from stator.capture.regions.cond import CONDITIONALS

OPERATORS: Final[dict[int, Any]] = {**CONDITIONALS}
