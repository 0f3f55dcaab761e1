"""Output that can't be put off until the graph has run."""

from stator.diagnostics.breaks import Break


class Output(Break):
    """print, files, log records."""

    id = "SB0039"
    title = "output can't be put off"
    what = (
        "The program prints, logs or writes in a way that can't be repeated after the graph: in a "
        "function with a cache that does other things, too, in a checkpointed function, with a "
        "logger made in the call or with methods of its own, with the whole stack."
    )
    why = (
        "Nothing is shown while tracing. `print`, `logging` and text files are put off: the same "
        "calls are made when the graph has run. That needs the same texts, once per call, and a "
        "destination that is known."
    )
    fix = "move the output out of the cached or checkpointed function; use plain print and loggers"
    example = """\
import functools
import torch

@functools.lru_cache
def scale(n):
    print("computing the scale of", n)
    return n / 2

def program(x):
    return x * scale(3)

def arguments():
    scale.cache_clear()
    return (torch.ones(3),)
"""
    fixed = """\
import functools
import torch

@functools.lru_cache
def scale(n):
    return n / 2

def program(x):
    print("the scale is", scale(3))
    return x * scale(3)

def arguments():
    return (torch.ones(3),)
"""


class WarningControl(Break):
    """Warnings, beyond issuing them."""

    id = "SB0040"
    title = "a warning can't be put off, or its filters are changed for good"
    what = (
        "The program changes the warning filters for good, issues a warning with a registry of its "
        "own or for a place that is not known, or a filter looks at a text that mentions a tensor. "
        "Or C code warns, such as `bool(NotImplemented)`."
    )
    why = (
        "Whether a warning is shown, dropped or raised is decided while tracing, from the filters "
        "(which are guarded); it is shown after the graph."
    )
    fix = "use `with warnings.catch_warnings():`, and filters by category; change others outside"
    example = """\
import warnings
import torch

def program(x):
    warnings.simplefilter("ignore", BytesWarning)
    return x + 1

def arguments():
    return (torch.ones(3),)
"""
    fixed = """\
import warnings
import torch

def program(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BytesWarning)
        return x + 1

def arguments():
    return (torch.ones(3),)
"""
