"""What the tables are made of.

A *row* is ``contract: names``: all callables that share a contract stand on one line. A name may
carry the Pythons that have it: ``sumprod@3.12+``, ``_getquickenedcount@-3.11``, or the first
and the last one: ``_clear_type_descriptors@3.14-3.14``.

In the rows of a type, ``()`` is the call of the type itself and ``*`` all members that no row
names. `override` makes rows from other rows.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

Rows = Mapping[str, str]
Functions = Mapping[str, Rows]  # module name: rows
Types = Mapping[str | type, Rows]  # the type, or "module:name" if the module may not be loaded
Unnamed = Mapping[str, Callable[[Any], type]]  # types that their module has under no name

COMPARE: Final = "__lt__ __le__ __eq__ __ne__ __gt__ __ge__"
ORDER: Final = "__lt__ __le__ __gt__ __ge__"

# Special methods that nearly every C type inherits or repeats. A type's own row wins.
COMMON: Final[Rows] = {
    "reads calls | az dh": "__getattribute__",
    "mutates calls | am dh .": "__setattr__",
    "mutates calls | am dh": "__delattr__",
    "reads calls | . s": "__class_getitem__",
    "forbidden memory": "__sizeof__",
}
# Reading an attribute that is a getset or member descriptor, and writing one.
ATTRIBUTE: Final = "reads | as"
ATTRIBUTE_SET: Final = "mutates calls | . am ."


def present(name: str) -> bool:
    """Whether a name of a table belongs to the running Python."""
    _, _, versions = name.partition("@")
    if not versions:
        return True
    first, dash, last = versions.partition("-")
    if first.endswith("+") is bool(dash):
        raise ValueError(f"{name}: say 3.12+, -3.11 or 3.12-3.14")
    running = sys.version_info[:2]
    after = not first or running >= _version(first.rstrip("+"))
    return after and (not last or running <= _version(last))


def _version(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def spread(rows: Rows, *, absent: bool = False) -> Iterator[tuple[str, str]]:
    """(name, contract) for each name that belongs (or, `absent`, does not) to this Python."""
    for contract, names in rows.items():
        for name in names.split():
            if present(name) is not absent:
                yield name.partition("@")[0], contract


def override(base: Rows, rows: Rows) -> Rows:
    """The rows of `base`, except for the names that `rows` speak of; a name stands in one row."""
    new = {name for names in rows.values() for name in names.split()}
    merged = {
        contract: [name for name in names.split() if name not in new]
        for contract, names in base.items()
    }
    for contract, names in rows.items():
        merged.setdefault(contract, []).extend(names.split())
    return {contract: " ".join(names) for contract, names in merged.items()}
