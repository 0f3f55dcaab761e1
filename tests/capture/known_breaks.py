"""Programs of the curriculum that stator does not capture as one graph yet, and why.

They must be refused cleanly: `CaptureError` under fullgraph without a trace of the attempt, eager's
results otherwise. One that is captured now fails until its line here is removed.
"""

from typing import Final

KNOWN_BREAKS: Final[dict[str, str]] = {}
