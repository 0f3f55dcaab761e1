"""The tables, by type and module. Data only: `stator.contracts.registry` reads them."""

from . import (
    builtins,
    callables,
    collections_,
    containers,
    data,
    digests,
    functools_,
    io_,
    iterators,
    itertools_,
    math_,
    numbers_,
    objects_,
    operator_,
    re_,
    system,
    text,
    typing_,
    weakref_,
)
from .rows import Functions, Types, Unnamed

ALL_FUNCTIONS: Functions = {
    **builtins.FUNCTIONS,
    **operator_.FUNCTIONS,
    **itertools_.FUNCTIONS,
    **functools_.FUNCTIONS,
    **collections_.FUNCTIONS,
    **math_.FUNCTIONS,
    **re_.FUNCTIONS,
    **weakref_.FUNCTIONS,
    **text.FUNCTIONS,
    **data.FUNCTIONS,
    **digests.FUNCTIONS,
    **io_.FUNCTIONS,
    **system.FUNCTIONS,
}
ALL_TYPES: Types = {
    **objects_.TYPES,
    **numbers_.TYPES,
    **text.TYPES,
    **containers.TYPES,
    **iterators.TYPES,
    **callables.TYPES,
    **operator_.TYPES,
    **itertools_.TYPES,
    **functools_.TYPES,
    **collections_.TYPES,
    **re_.TYPES,
    **weakref_.TYPES,
    **typing_.TYPES,
    **data.TYPES,
    **digests.TYPES,
    **io_.TYPES,
    **system.TYPES,
}
UNNAMED: Unnamed = {
    **data.UNNAMED,
    **digests.UNNAMED,
    **system.UNNAMED,
    **weakref_.UNNAMED,
}
WHOLE_MODULES = system.WHOLE_MODULES

__all__ = ["ALL_FUNCTIONS", "ALL_TYPES", "UNNAMED", "WHOLE_MODULES"]
