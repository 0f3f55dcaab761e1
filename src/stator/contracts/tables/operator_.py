"""`operator`: each function is the operator applied to its arguments, special methods included."""

from .rows import Functions, Types

_BINARY = "add sub mul and_ or_ xor"
_NUMERIC = "floordiv truediv lshift rshift matmul mod pow"
_COMPARE = "eq ne lt le gt ge"
_INPLACE = "iadd isub imul iand ior ixor ifloordiv itruediv ilshift irshift imatmul imod ipow"
_GETTER = {
    "reads | .": "__text_signature__@3.13+ __vectorcalloffset__",
    "reads calls identity | da": "__repr__",
    "reads | as": "__reduce__",
}

FUNCTIONS: Functions = {
    "_operator": {
        "pure | .": "is_ is_not",
        "pure calls | sp": "neg pos abs",
        "pure calls | s": "inv invert index",
        "reads calls | dp": _COMPARE,
        "reads calls identity | dh": f"{_BINARY} mod",
        "reads calls | sp": _NUMERIC.replace(" mod", ""),
        "mutates calls identity | dhmi dhi": _INPLACE,
        "mutates calls | sm si": "iconcat",
        "reads calls | s": "concat length_hint",
        "reads calls | sp .": "not_ truth",
        "reads calls | dhip dh": "contains countOf indexOf",
        "reads calls | s dh": "getitem",
        "mutates calls | sm dh .": "setitem delitem",
        "pure calls | c .": "call",
        "reads | s": "_compare_digest",
    },
}

TYPES: Types = {
    "_operator:attrgetter": {
        **_GETTER,
        "pure | s": "()",
        "pure | . s": "__new__",
        "reads calls | . ad": "__call__",
    },
    "_operator:itemgetter": {
        **_GETTER,
        "pure | .": "()",
        "pure | . .": "__new__",
        "reads calls | dh d": "__call__",
    },
    "_operator:methodcaller": {
        **_GETTER,
        "pure | s .": "()",
        "pure | . s .": "__new__",
        "reads calls | asc adc": "__call__",
    },
}
