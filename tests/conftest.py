"""Failures of stator are errors in tests, unless a test is about what else becomes of them."""

import os

os.environ.setdefault("STATOR_STRICT", "1")
os.environ.setdefault("STATOR_CACHE", "0")
