"""Generated programs: hypothesis combines what the other files test one by one.

The programs of an ordinary run are always the same ones. ``STATOR_GENERATED_EXAMPLES=5000`` tries
that many new ones instead.
"""

import os

from hypothesis import HealthCheck, given, settings

from .grammar import programs
from .oracle import check_source

EXAMPLES = int(os.environ.get("STATOR_GENERATED_EXAMPLES", "0"))


@settings(
    max_examples=EXAMPLES or 150,
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
@given(programs())
def test_generated_programs(source: str) -> None:
    check_source(source, name="generated")
