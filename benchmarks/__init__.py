"""Measurements. Speed is always a ratio to CPython in the same run."""
