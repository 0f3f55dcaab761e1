"""stator with `regions="auto"`, as an engine of the zoo.

In: what the zoo compiles. Out: the same, compiled; the statistics say how often regions were
traced, reused, and captured where they are called:

    python -m benchmarks.zoo --engines torch,benchmarks.zoo.auto_regions:compile
"""

import logging
from collections import Counter
from typing import Any, Final

import stator

_WORDS: Final = ("reused", "traced", "captured where it is called")
_counts: Final[Counter[str]] = Counter()


class _Counting(logging.Handler):
    """Reads the log `regions`."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        _counts.update(word for word in _WORDS if f": {word}" in text)


_LOG: Final = logging.getLogger("stator.regions")
_LOG.setLevel(logging.INFO)
_LOG.addHandler(_Counting())
_LOG.propagate = False


def compile(target: Any, **options: Any) -> Any:
    return stator.compile(target, regions="auto", **options)


def reset() -> None:
    stator.reset()
    _counts.clear()


def corpus_stats() -> dict[str, Any]:
    return dict(_counts)
