"""The native core: frames, windows and operations, in C.

Stage: below everything; it knows no Python package. The extension module is `_core`, its types are
described in `_core.pyi`, its design in docs/native.md.
"""

import sys

if "t" in sys.abiflags:
    raise ImportError(
        "stator does not support free-threaded builds of CPython: use one with the global "
        "interpreter lock (python3.14, not python3.14t)"
    )
