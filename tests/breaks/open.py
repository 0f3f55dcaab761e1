"""Cases that are known to fail: patterns of their names, and why. Each must fail."""

from typing import Final

OPEN: Final[dict[str, str]] = {
    "contextmanager_function-raises-*": "the traceback through contextlib's generator differs",
    "contextmanager_and_an_error-raises-*": "the traceback through contextlib's generator differs",
    "caught_by_a_caller-raises-*": "an exception that a caller catches has no traceback",
    **dict.fromkeys(
        (
            "groups_that_remain-graph_break-*",
            "groups_that_remain-disabled-*",
            "groups_that_remain-float-*",
            "groups_that_remain-length-*",
            "groups_that_remain-store-*",
            "groups_that_remain-call-*",
            "groups_that_remain-instruction-*",
            "groups_that_remain-branch-[01]",
            "groups_that_remain-truth-[01]",
            "groups_that_remain-index-[01]",
        ),
        "the traceback of an exception group that is raised again differs",
    ),
}
