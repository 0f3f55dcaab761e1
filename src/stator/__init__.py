"""stator captures PyTorch programs as graphs.

Only the public names live here, and importing them is light: no torch, no evaluator, no
extension module is loaded until something needs it.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
