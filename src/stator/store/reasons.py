"""Why an entry is not stored, or not loaded: each reason has a number and a section in the docs.

Stage: store. Neither is ever an error of the program: what is not stored is compiled again in the
next process, what is not loaded is compiled now.
"""

from enum import Enum
from typing import Final

PAGE: Final = "docs/cache.md"


class Reason(Enum):
    """What keeps an entry out of the cache: number and title."""

    OBJECT = "C001", "an object that has no name"
    CHECK = "C002", "a check that is Python code of its own"
    BACKEND = "C003", "a backend whose results can't be stored"
    KERNELS = "C004", "generated code that is not known"
    VALUES = "C005", "a graph that may refuse the values it gets"
    AROUND = "C006", "what happens around the graph"
    EAGER = "C007", "a path that runs as it is"
    TENSORS = "C008", "tensors of its own"
    REBUILT = "C009", "it can't be made again from what was stored"
    WAITING = "C010", "a graph that is compiled later"
    CODE = "C011", "code that can't be found by name"
    CALLED = "C012", "a function that stored entries may not call"
    STEP = "C013", "an instruction that can't be stored"
    PROCESS = "C014", "an answer that another process gives otherwise"

    @property
    def id(self) -> str:
        return self.value[0]

    @property
    def title(self) -> str:
        return self.value[1]


class CacheError(RuntimeError):
    """A program can't be saved to a file, or not be loaded from one."""


class Unstorable(Exception):  # noqa: N818 - an answer, not an error
    """An entry can't be stored; the text says what of it."""

    def __init__(self, reason: Reason, what: str) -> None:
        super().__init__(f"[{reason.id}] {reason.title}: {what} ({PAGE}#{reason.id.lower()})")
        self.reason = reason
        self.what = what


class Stale(Exception):  # noqa: N818 - an answer, not an error
    """A stored entry does not fit the world as it is now; the text says what is different."""


class Damaged(Exception):  # noqa: N818 - an answer, not an error
    """A file is not what was written, or not to be trusted."""
