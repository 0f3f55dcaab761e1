"""How a private name of torch is taken, and what is said where there is none.

Stage: torchlib. In: where the name lies, and what it is for. Out: the object, or words.
"""

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any, Final

from .supported import WORDS
from .versions import VERSION

MISSING: Final[dict[str, str]] = {}
"""The optional names that this torch doesn't have, and what is done without them."""


class MissingNameError(ImportError):
    """This torch lacks a name that stator can't do without."""


@contextlib.contextmanager
def needed(what: str) -> Iterator[None]:
    """Around one import from torch: a name without which nothing can be captured."""
    try:
        yield
    except MissingNameError:
        raise
    except (ImportError, AttributeError) as error:
        raise MissingNameError(
            f"stator needs a part of torch that torch {VERSION} does not have ({error}): {what}. "
            f"stator works with torch {WORDS}: install one of these, or a newer stator"
        ) from error


def optional(path: str, what: str, without: str, instead: Any = None) -> Any:
    """The object of that path, or `instead`.

    `what` says what it is for, `without` what happens when it is missing; both are for the reader
    and for `stator doctor`.
    """
    try:
        return _found(path)
    except (ImportError, AttributeError):
        MISSING[path] = f"{what}: {without}"
        return instead


def _found(path: str) -> Any:
    module, _, rest = path.partition(".")
    found: Any = importlib.import_module(module)
    for name in rest.split("."):
        module = f"{module}.{name}"
        try:
            found = getattr(found, name)
        except AttributeError:
            found = importlib.import_module(module)
    return found
