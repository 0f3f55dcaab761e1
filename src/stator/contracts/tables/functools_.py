"""`functools`, in C: partial, reduce, cmp_to_key, and the cache that must not be filled."""

import functools

from .rows import COMPARE, Functions, Types

FUNCTIONS: Functions = {
    "_functools": {
        "pure | c": "cmp_to_key",
        "reads calls | c si .": "reduce",
    },
}

TYPES: Types = {
    "_functools:partial": {
        "reads calls | cas .": "()",
        "reads calls | . cas .": "__new__",
        "reads calls | asc .": "__call__",
        "reads | as": "__reduce__ args func keywords __vectorcalloffset__",
        "pure calls | . .": "__get__@3.13+",
        "mutates calls | am d": "__setstate__",
        "reads calls identity | da": "__repr__",
    },
    # Calling it would leave trace-time objects in the cache: evaluate __wrapped__ instead.
    "_functools:_lru_cache_wrapper": {
        "forbidden hidden_state": "__call__ cache_clear cache_info",
        "reads calls | .c as .": "()",
        "reads calls | . .c as .": "__new__",
        "pure | .": "__get__ __copy__ __deepcopy__",
        "reads | as": "__reduce__",
    },
    "_functools:_PlaceholderType@3.14+": {"pure | .": "() __new__ __repr__ __reduce__"},
    # Objects of functools.cmp_to_key(f).
    type(functools.cmp_to_key(lambda a, b: 0)): {
        "pure | .": "__call__",
        "reads calls | asc as": COMPARE,
    },
}
