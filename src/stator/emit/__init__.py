"""From a plan to a function: what runs on every later call, as generated Python text.

Stage: after the backend. In: a `Plan`, the compiled graph, the sources of its inputs. Out: a
`Residual`. docs/emit.md has the whole path.
"""

from stator.emit.residual import Residual, residual

__all__ = ["Residual", "residual"]
