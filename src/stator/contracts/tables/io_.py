"""`io.StringIO` and `io.BytesIO`: files in memory are objects like any other.

The rest of `_io` is forbidden as a whole (`system.py`). The methods of the abstract bases only call
those of the object they are given.
"""

from .rows import Functions, Types

FUNCTIONS: Functions = {
    # Texts are taken apart, no file is asked.
    "posix": {"reads calls | s": "fspath _path_normpath _path_splitroot_ex@3.13+"},
    "_io": {"reads | . s": "text_encoding"},
}

_STATE = "tell readable writable seekable isatty closed"
_CHANGES = "read readline seek truncate write close __next__ __setstate__"

TYPES: Types = {
    "_io:StringIO": {
        "reads calls | s": "()",
        "pure | . .": "__new__",
        "mutates calls | asm s": f"__init__ {_CHANGES}",
        "reads | as": f"{_STATE} getvalue line_buffering newlines",
        "reads calls | da": "__getstate__",
    },
    "_io:BytesIO": {
        "reads calls | s": "()",
        "pure | . .": "__new__",
        "mutates calls | asm s": f"__init__ {_CHANGES} read1 readlines",
        "mutates calls | asm sm": "readinto",
        "mutates calls | asm di": "writelines",
        "mutates | asm": "getbuffer flush",
        "reads | as": f"{_STATE} getvalue __iter__",
        "reads calls | da": "__getstate__",
    },
    "_io:_IOBase": {
        "mutates calls | asm s": "__enter__ __exit__ __next__ readline readlines close flush "
        "seek tell truncate fileno isatty __del__",
        "mutates calls | asm di": "writelines",
        "reads calls | as": "__iter__ closed readable writable seekable _checkClosed "
        "_checkReadable _checkSeekable _checkWritable",
        "reads calls | .": "()",
        "reads calls | . .": "__new__",
    },
    "_io:_BufferedIOBase": {
        "mutates calls | asm s": "read read1 write detach",
        "mutates calls | asm sm": "readinto readinto1",
        "reads calls | .": "()",
    },
    "_io:_TextIOBase": {
        "mutates calls | asm s": "read readline write detach",
        "reads | as": "encoding errors newlines",
        "reads calls | .": "()",
    },
}
