"""These tests need torch, which is optional: without it there is nothing to collect."""

from tests.fresh import collect_ignore_glob, nothing_compiled

__all__ = ["collect_ignore_glob", "nothing_compiled"]
