# mypy: ignore-errors
"""Members of C types: read inside and changed from outside, changed inside and seen outside.

`STATOR_C_TYPES=all` tries every member of every type (more than an hour); the normal run a few of
each type. Programs must agree with eager; whether they are captured is counted.
"""

import collections
import os

import pytest

from .c_specimens import SPECIMENS
from .c_types import cases, difference, sample

WANTED = os.environ.get("STATOR_C_TYPES", "4")
COUNTS: collections.Counter = collections.Counter()

# An exception or a partial without attributes makes its dict when somebody asks, which a trace
# does, too; whether it has one is told by these alone.
_KNOWN = frozenset(
    {
        ("ndarray", "clip"),
        ("ndarray", "dot"),  # nan times 0: BLAS says 0
        ("ndarray", "<r = iter(o)>"),
        ("WeakSet", "<r = format(o)>"),  # the order depends on addresses
        # Of a released view: CPython returns a result and an exception.
        ("memoryview", "__iter__"),
        ("memoryview", "<r = iter(o)>"),
        ("memoryview", "<r = itertools.tee(o)[0]>"),
        ("StringIO", "__getstate__"),  # tells of a dict, as below
        ("BytesIO", "__getstate__"),
    }
)
_TELL_OF_DICTS = frozenset({"__reduce__", "__reduce_ex__"})


def is_known(case) -> bool:
    """Whether a difference is expected."""
    name = case.specimen.name
    if (name, case.member) in _KNOWN:
        return True
    lazy = name == "partial" or name.endswith(("Error", "Exit", "Iteration", "Group"))
    return lazy and case.member in _TELL_OF_DICTS


@pytest.mark.parametrize("specimen", SPECIMENS, ids=lambda each: each.name)
def test_members(specimen) -> None:
    if WANTED == "all":
        chosen = cases(specimen, thorough=False)
    else:
        chosen = sample(specimen, int(WANTED))
    differing = []
    for case in chosen:
        if is_known(case):
            continue
        found, captured = difference(case)
        COUNTS["cases"] += 1
        COUNTS["captured"] += captured
        if found is not None:
            differing.append(f"{case}\n  {found}")
    assert not differing, f"{len(differing)} of {len(chosen)}\n" + "\n".join(differing[:5])


def test_most_is_captured() -> None:
    """A compiler that does nothing would agree with eager, too."""
    if COUNTS["cases"] < len(SPECIMENS):
        pytest.skip("a part of the cases only")
    assert COUNTS["captured"] > COUNTS["cases"] // 2, COUNTS
