"""`re`, in C. `re.compile` and its cache are Python and are evaluated."""

import re

from .rows import COMPARE, Functions, Types

FUNCTIONS: Functions = {
    "_sre": {
        "pure calls | s": "ascii_iscased ascii_tolower unicode_iscased unicode_tolower",
        "constant | .": "getcodesize",
        "reads calls | d": "compile template@3.12+",
    },
}

_SCANNER = type(re.compile("").scanner(""))  # type: ignore[attr-defined]

TYPES: Types = {
    re.Pattern: {
        "reads calls | s": "match fullmatch prefixmatch@3.15+ search findall split finditer "
        "scanner",
        "reads calls | s dhc s": "sub subn",
        "pure | s": f"{COMPARE} __hash__ __copy__ __deepcopy__ __repr__",
    },
    re.Match: {
        "reads calls | s dh": "group groups groupdict __getitem__ start end span expand",
        "reads | s": "__copy__ __deepcopy__ __repr__ regs",
    },
    _SCANNER: {"mutates | sm": "match search prefixmatch@3.15+"},
}
