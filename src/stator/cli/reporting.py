"""`stator report`: a page from the events of a run.

In: traces, as `STATOR_TRACE` has written them. Out: one HTML file.
"""

import argparse

from stator.cli import files
from stator.cli.errors import UsageError
from stator.diagnostics.journal import TraceError, read
from stator.report import build


def main(given: argparse.Namespace) -> int:
    path = files.writable(given.output)
    try:
        events = read(*given.trace)
    except TraceError as problem:
        raise UsageError(str(problem)) from None
    try:
        build(events, path, editor=given.editor)
    except OSError as error:
        raise UsageError(f"{given.output}: {error.strerror}; choose another place") from None
    print(f"{given.output}: {len(events)} events")
    return 0
