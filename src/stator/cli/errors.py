"""What a user of the command line did wrong."""

from typing import Final

NO_TORCH: Final = "torch is not installed here; `pip install torch` (`stator doctor` says more)"


class UsageError(Exception):
    """One line: what is wrong, and what to do. The exit status is 2."""
