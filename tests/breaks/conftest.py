"""These tests need torch, which is optional: without it there is nothing to collect."""

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["test_*.py"]
