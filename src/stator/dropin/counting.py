"""`torch._dynamo.utils.counters`: while stator is installed, what it compiles is counted there.

In: what the driver counts, by torch's names. Out: the same in torch's counters, once torch._dynamo
has been loaded: `stats` (`unique_graphs`, `calls_captured`), `frames` (`total`, `ok`) and
`graph_break`, by reason.
"""

import sys
from typing import Any, Final

from stator.driver.tally import observers

_UTILITIES: Final = "torch._dynamo.utils"


def _count(section: str, name: str, count: int) -> None:
    utilities: Any = sys.modules.get(_UTILITIES)
    counters = getattr(utilities, "counters", None)
    if counters is not None:
        counters[section][name] += count


def start() -> None:
    observers.append(_count)


def stop() -> None:
    observers.remove(_count)
