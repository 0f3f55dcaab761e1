"""stator's tests. A package, so that ``python -m tests.conformance`` works from a checkout."""
