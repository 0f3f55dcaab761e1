"""What a user of the command line did wrong."""


class UsageError(Exception):
    """One line: what is wrong, and what to do. The exit status is 2."""
