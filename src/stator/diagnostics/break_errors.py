"""Whether graph breaks are errors where the program is, and whether anybody has ever asked for it.

Stage: run time. Most programs never set it: then `EVER` is all that their guards look at, in each
call, also where no tracer is loaded.
"""

from contextvars import ContextVar
from typing import Final

WANTED: Final[ContextVar[bool]] = ContextVar("error_on_graph_break", default=False)
EVER: Final = {"set": False}
