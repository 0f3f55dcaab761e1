"""Cases that are known to fail: patterns of their names, and why. Each must fail."""

from typing import Final

OPEN: Final[dict[str, str]] = dict.fromkeys(
    (
        "groups_that_remain-graph_break-[123]",
        "groups_that_remain-store-[123]",
        "groups_that_remain-call-*",
        "groups_that_remain-instruction-*",
    ),
    "an exception group is guarded by its identity: a new one is not served by what is compiled",
)
