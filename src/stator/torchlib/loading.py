"""Modules that bring torch along, or much of stator: loaded without garbage collections.

In: the name of a module. Out: the module. What a module defines stays: to look through hundreds of
thousands of new objects for garbage, again and again, is a fifth of the time that it takes to load
them. They are old when they are there, as if they had been looked through. Loads no torch itself.
"""

import gc
from importlib import import_module
from types import ModuleType


def loaded(name: str) -> ModuleType:
    """The module of that name."""
    if not gc.isenabled():
        return import_module(name)
    gc.disable()
    try:
        return import_module(name)
    finally:
        if not gc.get_freeze_count():  # what the program has frozen stays so
            gc.freeze()
            gc.unfreeze()
        gc.enable()
