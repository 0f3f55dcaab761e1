"""The driver: what happens when no entry of a compiled function fits.

Stage: between runtime and capture. In: a call that missed. Out: an entry (guards and residual
function), or the decision to run the call eagerly, which is an entry too.
"""

from stator.driver.compiler import Compiler, compiled_function
from stator.driver.errors import (
    RecompileError,
    RecompileLimitError,
    SideEffectError,
    SpecializedError,
)
from stator.driver.options import Options, checked

__all__ = [
    "Compiler",
    "Options",
    "RecompileError",
    "RecompileLimitError",
    "SideEffectError",
    "SpecializedError",
    "checked",
    "compiled_function",
]
