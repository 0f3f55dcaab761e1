"""The native core: frames, windows and operations, in C.

Stage: below everything; it knows no Python package. The extension module is `_core`, its types are
described in `_core.pyi`, its design in docs/native.md.
"""
