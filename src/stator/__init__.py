"""stator: graph capture for PyTorch, sound by construction.

The public names are here and nowhere else; torch is loaded when one of them is first used.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from stator.api import compile, reset
    from stator.capture import CaptureError
    from stator.evaluator import InternalError

__version__ = "0.1.0"

__all__ = ["CaptureError", "InternalError", "__version__", "compile", "reset"]

_LAZY = {
    "CaptureError": "stator.capture",
    "InternalError": "stator.evaluator",
    "compile": "stator.api",
    "reset": "stator.api",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value
