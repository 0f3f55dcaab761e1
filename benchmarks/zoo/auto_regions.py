"""stator with `regions="auto"`, as an engine of the zoo.

In: what the zoo compiles. Out: the same, compiled; the statistics say how often regions were
traced, reused, and captured where they are called:

    python -m benchmarks.zoo --engines torch,benchmarks.zoo.auto_regions:compile
"""

from collections import Counter
from typing import Any, Final

import stator
from stator.capture.regions.nested import Regions

_WORDS: Final = ("reused", "traced", "captured where it is called")
_counts: Final[Counter[str]] = Counter()


def compile(target: Any, **options: Any) -> Any:
    return stator.compile(target, regions="auto", **options)


def reset() -> None:
    stator.reset()
    _counts.clear()


def corpus_stats() -> dict[str, Any]:
    return dict(_counts)


def _counting(tell: Any) -> Any:
    def counted(regions: Regions, frame: Any, code: Any, what: str) -> None:
        _counts.update(word for word in _WORDS if what.startswith(word))
        tell(regions, frame, code, what)

    return counted


Regions.tell = _counting(Regions.tell)  # type: ignore[method-assign]
