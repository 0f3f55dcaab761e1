"""The driver: what happens when no entry of a compiled function fits.

Stage: between runtime and capture. In: a call that missed. Out: an entry (guards and residual
function), or the decision to run the call eagerly, which is an entry too.

Importing this package loads none of it: what is served from the cache (`starting.py`) needs neither
the tracer nor the compiler.
"""
