"""str, bytes, bytearray, memoryview, and the module behind `string.Formatter`.

bytes methods take any buffer, so they read mutable objects (bytearray); str methods do not.
"""

from .rows import COMPARE, Functions, Types, override

# What str, bytes and bytearray share. "Plain" methods take no integers, so they call nothing.
_PLAIN = (
    "capitalize isalnum isalpha isascii isdigit islower isspace istitle isupper lower lstrip "
    "partition removeprefix removesuffix rpartition rstrip strip swapcase title upper"
)
_WITH_INTEGERS = (
    "center count endswith expandtabs find index ljust replace rfind rindex rjust rsplit split "
    "splitlines startswith zfill"
)

# bytes and bytearray. A Python class may be a buffer since 3.12, hence the calls.
_BYTES = {
    "reads | s": "__len__ __iter__ __repr__",
    "reads calls | d": _WITH_INTEGERS,
    "reads calls | s": f"{_PLAIN} {COMPARE} __add__ __contains__ __getitem__ __mul__ __rmul__ hex "
    "decode translate __buffer__@3.12+",
    "reads calls identity | s da": "__mod__",
    "reads calls identity | da s": "__rmod__",
    "reads calls | s di": "join",
    "reads calls | .c s": "fromhex",
    "reads calls | s s": "maketrans",
}

TYPES: Types = {
    str: {
        "pure | s": f"{_PLAIN} __len__ __iter__ __add__ {COMPARE} __hash__ __repr__ __str__ "
        "casefold encode isdecimal isidentifier isnumeric isprintable __contains__ "
        "__getnewargs__",
        "reads calls | d": _WITH_INTEGERS,
        "pure calls | s": "__getitem__ __mul__ __rmul__ __format__",
        "reads calls identity | s da": "__mod__ format format_map",
        "reads calls identity | da s": "__rmod__",
        "reads calls identity | d s": "()",
        "reads calls | s di": "join",
        "reads calls | s d": "translate",
        "reads calls | dh s": "maketrans",
        "reads calls identity | . d s": "__new__",
    },
    bytes: override(
        _BYTES,
        {
            "reads | s": "__hash__ __str__ __bytes__ __getnewargs__",
            "reads calls | di s": "()",
            "reads calls | . di s": "__new__",
        },
    ),
    bytearray: override(
        _BYTES,
        {
            "reads | s": "__str__ copy",
            "reads calls | as s": "__reduce__ __reduce_ex__",
            "reads calls | di s": "()",
            "pure | .": "__new__",
            "mutates calls | sm di s": "__init__ extend",
            "mutates calls | sm s": "append insert pop remove __delitem__ __iadd__ __imul__ "
            "resize@3.14+ take_bytes@3.15+",
            "mutates calls | sm s di": "__setitem__",
            "mutates | sm": "clear reverse __release_buffer__@3.12+",
            "forbidden memory": "__alloc__ __sizeof__",
        },
    ),
    memoryview: {
        "reads | s": "__hash__ __iter__ __len__ tobytes tolist toreadonly __enter__",
        "reads calls | s": f"() {COMPARE} __buffer__@3.12+",
        "reads calls | s dp": "count@3.14+ index@3.14+",
        "reads calls | s d": "__getitem__ cast hex",
        "reads identity | s": "__repr__",
        "reads calls | . s": "__new__ _from_flags@3.12+",
        "mutates calls | sm s": "__setitem__ __delitem__",
        "mutates | sm .": "release __exit__ __release_buffer__@3.12+",
    },
}

FUNCTIONS: Functions = {
    "_string": {"pure | s": "formatter_field_name_split formatter_parser"},
}
