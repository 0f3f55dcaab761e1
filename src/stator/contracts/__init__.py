"""What C callables do: the tables that tell the tracer what may run, and with what care.

``lookup(callable)`` answers with a `Contract`, or None for what no table knows; the tracer breaks
the graph there. The page docs/contracts.md explains the words.
"""

from .contract import Argument, Contract, Depth, Reason, SymInt, Verdict
from .lookup import known_type, lookup

__all__ = [
    "Argument",
    "Contract",
    "Depth",
    "Reason",
    "SymInt",
    "Verdict",
    "known_type",
    "lookup",
]
