"""The life of one trace: what it begins with, the tracer, what its end makes of it."""
