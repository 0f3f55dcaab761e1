"""Type parameters and aliases, in C since 3.12: what `class Box[T]` and `type Pair[T] = …` make.

Bounds, constraints, defaults and values are evaluated when they are first asked for, and kept:
asking is a change. `TypeVar("T")` looks for the module of its caller.
"""

from .rows import COMPARE, Rows, Types, override

_PARAMETER: Rows = {
    "frame calls | da": "()",
    "frame calls | . da": "__new__",
    "reads calls | as dah": "__or__ __ror__",
    "reads calls | as": "__repr__ __reduce__ has_default@3.13+ args kwargs",
    "reads calls | da": "__typing_subst__ __typing_prepare_subst__ __mro_entries__",
    "mutates calls | am": "__bound__ __constraints__ __default__@3.13+",
    "reads calls | a": "__iter__",
}
_ARGUMENTS: Rows = {
    "pure | .": "()",
    "pure | . .": "__new__",
    "reads calls identity | da": "__repr__",
    "reads calls | da": f"{COMPARE} __mro_entries__",
}

TYPES: Types = {
    "_typing:TypeVar@3.12+": _PARAMETER,
    "_typing:TypeVarTuple@3.12+": override(_PARAMETER, {"reads | as": "__bound__ __constraints__"}),
    "_typing:ParamSpec@3.12+": override(_PARAMETER, {"reads | as": "__bound__ __constraints__"}),
    "_typing:ParamSpecArgs@3.12+": _ARGUMENTS,
    "_typing:ParamSpecKwargs@3.12+": _ARGUMENTS,
    "_typing:TypeAliasType@3.12+": {
        "frame calls | s": "()",
        "frame calls | . s": "__new__",
        "reads | as": "__repr__ __reduce__ __iter__@3.14+ __parameters__",
        "reads calls | as da": "__getitem__",
        "reads calls | as dah": "__or__ __ror__",
        "mutates calls | am": "__value__",
    },
    "_typing:Generic@3.12+": {
        "pure calls | .": "()",  # what object does
        "reads calls | . dah": "__class_getitem__",
        "mutates calls | am": "__init_subclass__",
    },
}
