"""Compiled programs that are kept: entries as data, in files, and made again from these.

Stage: beside backends and driver. In: what the driver has compiled (`Entry`, as data). Out: the
same, from a file, in another process, if the world there is as it was. docs/cache.md says what an
entry depends on, and why a file can be trusted.

Nothing here loads the tracer, a backend, or sympy: that is what makes the second start fast.
"""
