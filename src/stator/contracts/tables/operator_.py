"""`operator`: each function is the operator applied to its arguments, special methods included."""

from .rows import Functions, Types, override

_SETS_TOO = "add sub mul and_ or_ xor"
_NUMERIC = "floordiv truediv lshift rshift matmul pow"
_COMPARE = "eq ne lt le gt ge"
# Those that a builtin type (list, set, dict, deque, bytearray) does in place ...
_INPLACE = "iadd isub imul iand ior ixor"
# ... and those that fall back to the binary operator, unless a Python method is called.
_INPLACE_NUMERIC = "ifloordiv itruediv ilshift irshift imatmul ipow"
_GETTER = {
    "reads | .": "__text_signature__@3.13+ __vectorcalloffset__",
    "reads calls identity | da": "__repr__",
    "reads | as": "__reduce__",
}

FUNCTIONS: Functions = {
    "_operator": {
        "pure | .": "is_ is_not is_none@3.14+ is_not_none@3.14+",
        "pure calls | sp": "neg pos abs",
        "pure calls | s": "inv invert index",
        "reads calls | dp": _COMPARE,
        "reads calls identity | dhp": _SETS_TOO,
        "reads calls | sp": f"{_NUMERIC} {_INPLACE_NUMERIC}",
        "reads calls identity | da": "mod imod",
        "mutates calls identity | dhmip dhip": _INPLACE,
        "mutates calls | sm si": "iconcat",
        "reads calls | s": "concat length_hint _compare_digest",
        "reads calls | sp .": "not_ truth",
        "reads calls | dhip dh": "contains countOf indexOf",
        "reads calls | s dh": "getitem",
        "mutates calls | sm dh .": "setitem delitem",
        "pure calls | c .": "call",
    },
}

TYPES: Types = {
    "_operator:attrgetter": override(
        _GETTER,
        {
            "pure | s": "()",
            "pure | . s": "__new__",
            "reads calls | . ad": "__call__",
        },
    ),
    "_operator:itemgetter": override(
        _GETTER,
        {
            "pure | .": "()",
            "pure | . .": "__new__",
            "reads calls | dh d": "__call__",
        },
    ),
    "_operator:methodcaller": override(
        _GETTER,
        {
            "pure | s .": "()",
            "pure | . s .": "__new__",
            "reads calls | asc adc": "__call__",
        },
    ),
}
