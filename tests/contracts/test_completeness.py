"""The tables are complete for the running Python, and name nothing that does not exist."""

import builtins
import cmath
import collections
import functools
import importlib
import itertools
import math
import operator
import types
from typing import Any

import pytest

from stator.contracts import Verdict, known_type, lookup
from stator.contracts.lookup import _registry as registry
from stator.contracts.notation import parse
from stator.contracts.registry import own_members
from stator.contracts.tables import ALL_FUNCTIONS, ALL_TYPES, UNNAMED, WHOLE_MODULES
from stator.contracts.tables.rows import COMMON, present, spread

from .cases import load_all

load_all()

MODULES = (
    "builtins _operator itertools _functools _collections math cmath _sre _abc _weakref _struct "
    "_bisect _heapq _string _json sys _warnings time gc _thread posix _io _random unicodedata "
    "binascii _codecs"
)

# Methods without a contract, on purpose, by type.
UNLISTED: dict[str, set[str]] = {}


def is_c_callable(thing: Any) -> bool:
    if type(thing) is types.BuiltinFunctionType:
        return True
    # Classes written in Python are evaluated; they keep a __dict__ of Python functions.
    return isinstance(thing, type) and not any(
        isinstance(value, types.FunctionType) for value in vars(thing).values()
    )


@pytest.mark.parametrize("module", MODULES.split())
def test_every_callable_of_a_module_is_listed(module: str) -> None:
    namespace = vars(importlib.import_module(module))
    missing = {
        name
        for name, thing in namespace.items()
        if is_c_callable(thing) and lookup(thing) is None and not constructed_elsewhere(thing)
    }
    assert missing == set()


def constructed_elsewhere(thing: Any) -> bool:
    """Types that can't be called, exceptions defined by modules, and the loader."""
    if not isinstance(thing, type):
        return False
    if issubclass(thing, BaseException) or thing.__name__ == "BuiltinImporter":
        return True
    return bool(thing.__flags__ & 1 << 7)  # Py_TPFLAGS_DISALLOW_INSTANTIATION


@pytest.mark.parametrize(
    "module", [operator, itertools, functools, collections, math, cmath], ids=lambda m: m.__name__
)
def test_public_c_callables_are_listed(module: types.ModuleType) -> None:
    names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    missing = {
        name
        for name in names
        if is_c_callable(getattr(module, name)) and lookup(getattr(module, name)) is None
    }
    assert missing == set()


@pytest.mark.parametrize("cls", registry.types, ids=lambda cls: cls.__qualname__)
def test_every_method_of_a_type_is_listed(cls: type) -> None:
    missing = {name for name, member in own_members(cls).items() if lookup(member) is None}
    assert missing == UNLISTED.get(cls.__name__, set())


def test_every_builtin_type_is_known() -> None:
    unknown = {
        name
        for name, cls in vars(builtins).items()
        if isinstance(cls, type) and cls.__module__ == "builtins" and not known_type(cls)
    }
    assert unknown == set()


@pytest.mark.parametrize("module", [m for m, rows in ALL_FUNCTIONS.items() if any(spread(rows))])
def test_functions_exist(module: str) -> None:
    namespace = vars(importlib.import_module(module))
    assert [name for name, _ in spread(ALL_FUNCTIONS[module]) if name not in namespace] == []
    assert [n for n, _ in spread(ALL_FUNCTIONS[module], absent=True) if n in namespace] == []


def test_methods_exist() -> None:
    """Types share rows, so a name must belong to one of the types that list it."""
    listed: dict[str, bool] = {}
    for owner, rows in ALL_TYPES.items():
        if isinstance(owner, type):
            cls = owner
        elif not present(owner):
            continue
        else:
            module, _, name = owner.partition("@")[0].partition(":")
            loaded = importlib.import_module(module)
            find = UNNAMED.get(f"{module}:{name}")
            cls = getattr(loaded, name) if find is None else find(loaded)
        for name, _ in spread(rows):
            listed[name] = listed.get(name, False) or name in ("()", "*") or name in vars(cls)
    assert [name for name, found in listed.items() if not found] == []


def test_no_name_stands_in_two_rows() -> None:
    twice = []
    for owner, rows in [*ALL_FUNCTIONS.items(), *ALL_TYPES.items(), ("common", COMMON)]:
        names = [name for text in rows.values() for name in text.split()]
        twice += [(owner, name) for name in {*names} if names.count(name) > 1]
    assert twice == []


def test_all_notation_is_right() -> None:
    for rows in [*ALL_FUNCTIONS.values(), *ALL_TYPES.values()]:
        for contract in rows:
            parse(contract)


@pytest.mark.parametrize("module", WHOLE_MODULES)
def test_forbidden_modules_are_forbidden(module: str) -> None:
    namespace = vars(pytest.importorskip(module))
    functions = [f for f in namespace.values() if type(f) is types.BuiltinFunctionType]
    allowed = [f for f in functions if (c := lookup(f)) and c.verdict is not Verdict.FORBIDDEN]
    names = " ".join(ALL_FUNCTIONS.get(module, {}).values()).split()
    listed = [name.partition("@")[0] for name in names]
    found = [f.__name__ for f in allowed if f.__module__ == module]
    assert [name for name in found if name not in listed] == []
    assert all(lookup(f) for f in functions)
