"""tuple, list, dict, set, frozenset, range, slice, views and the proxies of mappings.

Looking for an element compares it with the items, so those readers are deep. Sets iterate in an
order that may come from addresses, hence `identity`.
"""

import types

from .rows import COMPARE, Rows, Types, override

_SET_READS = "__sub__ __rsub__ __and__ __rand__ __xor__ __rxor__ __or__ __ror__"
_SET_METHODS = "difference intersection symmetric_difference union"

_SET: Rows = {
    "reads | s": "__len__",
    "reads calls | s": COMPARE,
    "reads calls identity | s": _SET_READS,
    "reads calls identity | s dhi": _SET_METHODS,
    "reads calls | s dhi": "isdisjoint issubset issuperset",
    "reads calls | s dh": "__contains__",
    "reads identity | s": "__iter__ copy",
    "reads calls identity | da": "__repr__",
    "reads calls identity | as": "__reduce__",
    "reads calls identity | dhi": "()",
}

VIEW: Rows = {
    "reads | s": "__len__ __iter__ __reversed__ mapping",
    "reads calls identity | da": "__repr__",
}
SET_VIEW: Rows = override(
    VIEW,
    {
        "reads calls | d dhi": f"{COMPARE} isdisjoint __contains__",
        "reads calls identity | dh dhi": _SET_READS,
    },
)

TYPES: Types = {
    tuple: {
        "reads | s": "__len__ __iter__ __add__ __getnewargs__",
        "reads calls | s": "__getitem__ __mul__ __rmul__",
        "reads calls | dp": COMPARE,
        "reads calls | dp dp s": "__contains__ count index",
        "reads calls identity | dh": "__hash__",
        "reads calls identity | da": "__repr__",
        "reads calls | si": "()",
        "reads calls | . si": "__new__",
    },
    list: {
        "reads | s": "__len__ __iter__ __reversed__ __add__ copy",
        "reads calls | s": "__getitem__ __mul__ __rmul__",
        "reads calls | dp": COMPARE,
        "reads calls | dp dp s": "__contains__ count index",
        "reads calls identity | da": "__repr__",
        "reads calls | si": "()",
        "pure | .": "__new__",
        "mutates | sm .": "append clear reverse",
        "mutates calls | sm s .": "insert",
        "mutates calls | sm si": "__init__ extend __iadd__",
        "mutates calls | sm s": "pop __delitem__ __imul__",
        "mutates calls | sm s si": "__setitem__",
        "mutates calls | dmp dp": "remove",
        "mutates calls | dmp sc": "sort",
    },
    dict: {
        "reads | s": "__len__ __iter__ __reversed__ keys values items",
        "reads calls | s dh .": "__contains__ __getitem__ get",
        "reads calls | dp": COMPARE,
        "reads calls | s": "__or__ __ror__ copy",
        "reads calls identity | da": "__repr__",
        "reads calls | dhi .": "()",
        "reads calls | c dhi .": "fromkeys",
        "pure | .": "__new__",
        "mutates | sm": "clear popitem",
        "mutates calls | sm dh .": "__setitem__ __delitem__ pop setdefault",
        "mutates calls | sm dhi .": "__init__ update",
        "mutates calls | sm dhi": "__ior__",
    },
    "builtins:frozendict@3.15+": {
        "reads | s": "__len__ __iter__ __reversed__ __getnewargs__ keys values items",
        "reads calls | s dh .": "__contains__ __getitem__ get",
        "reads calls | dp": COMPARE,
        "reads calls | s": "__or__ __ror__ copy",
        "reads calls identity | da": "__repr__",
        "reads calls identity | dh": "__hash__",
        "reads calls | dhi .": "()",
        "reads calls | . dhi .": "__new__",
        "reads calls | c dhi .": "fromkeys",
    },
    set: override(
        _SET,
        {
            "pure | .": "__new__",
            "mutates | sm": "clear",
            "mutates identity | sm": "pop",
            "mutates calls | sm dh": "add discard remove",
            "mutates calls | sm dhi": "__init__ update difference_update intersection_update "
            "symmetric_difference_update",
            "mutates calls | sm s": "__isub__ __iand__ __ixor__ __ior__",
        },
    ),
    frozenset: override(
        _SET,
        {
            "reads identity | s": "__iter__ copy __hash__",
            "reads calls identity | . dhi": "__new__",
        },
    ),
    range: {
        "reads calls | s": f"__len__ __iter__ __reversed__ __getitem__ __bool__ __hash__ __repr__ "
        f"__reduce__ __contains__ count index {COMPARE} () start stop step",
        "reads calls | . s": "__new__",
    },
    slice: {
        "reads | s": "__reduce__ start stop step",
        "reads calls | s": "indices",
        "reads calls | dp": COMPARE,
        "reads calls | dh": "__hash__@3.12+",
        "reads calls identity | da": "__repr__",
        "pure | .": "() __new__",
    },
    types.MappingProxyType: {
        "reads calls | s": "__len__ __iter__ __reversed__ keys values items copy",
        "reads calls | s dh .": "__contains__ __getitem__ get",
        "reads calls | dp": COMPARE,
        "reads calls | ds": "__or__ __ror__",
        "reads calls identity | da": "__repr__ __str__",
        "reads calls identity | dh": "__hash__@3.12+",
        "pure calls | .": "() __ior__",
        "pure calls | . .": "__new__",
    },
    type({}.keys()): SET_VIEW,
    type({}.items()): SET_VIEW,
    type({}.values()): VIEW,
}
