"""Capture: the tracer, which turns one call of a function into a graph, guards and a plan.

Stage: between the evaluator (which runs the bytecode) and emit. In: a function and the values of
its parameters. Out: a `Trace`. docs/capture.md describes it.
"""

from stator.capture.trace.task import Trace
from stator.capture.trace.trace import capture
from stator.diagnostics.breaks import Break, CaptureError, Place

__all__ = ["Break", "CaptureError", "Place", "Trace", "capture"]
