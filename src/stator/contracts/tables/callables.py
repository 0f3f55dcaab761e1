"""Functions, methods, descriptors, cells, code, frames, tracebacks.

``__call__`` of a function, method or descriptor does what the callable does that it holds: `c`.
Python functions are evaluated when called; for C functions the contract of the function counts.
"""

import types

from .rows import COMPARE, Rows, Types, override

_DESCRIPTOR: Rows = {
    "pure | .": "__get__ __reduce__",
    "pure identity | .": "__repr__",
    "pure calls | c .": "__call__",
}
_DATA_DESCRIPTOR: Rows = {
    "reads calls | . as": "__get__",
    "mutates calls | . am .": "__set__ __delete__",
    "pure identity | .": "__repr__",
    "pure | .": "__reduce__",
}
_BOUND: Rows = {
    "reads calls | asc .": "__call__",
    "pure calls | s": COMPARE,
    "reads calls identity | s": "__hash__",
    "reads calls identity | da": "__repr__",
    "reads calls | as": "__reduce__",
    "pure | .": "__get__@3.13+",
}
# They copy the name and documentation of what they wrap.
_WRAPPER: Rows = {
    "reads calls | a": "()",
    "reads calls | . a": "__new__",
    "mutates calls | am a": "__init__",
    "reads calls identity | da": "__repr__",
    "reads calls | asc .": "__get__",
    "reads calls | asc": "__isabstractmethod__",
    "reads | as": "__func__ __wrapped__",
    "mutates calls | am": "__annotations__@3.14+ __annotate__@3.14+",  # kept there
}

TYPES: Types = {
    types.FunctionType: {
        "pure | .": "__get__",
        "reads identity | s": "__repr__",
        "pure calls | c .": "__call__",
        "reads | s": "()",
        "reads | . s": "__new__",
    },
    types.MethodType: override(
        _BOUND,
        {
            "pure | .": "() __get__@3.13+",
            "pure | . .": "__new__",
            "pure calls identity | s": "__hash__",
        },
    ),
    types.BuiltinFunctionType: override(_BOUND, {"pure | .": ""}),
    types.MethodWrapperType: override(_BOUND, {"pure | .": ""}),
    types.MethodDescriptorType: _DESCRIPTOR,
    types.WrapperDescriptorType: _DESCRIPTOR,
    types.ClassMethodDescriptorType: override(_DESCRIPTOR, {"pure | .": "__get__"}),
    types.GetSetDescriptorType: override(_DATA_DESCRIPTOR, {"pure | .": ""}),
    types.MemberDescriptorType: _DATA_DESCRIPTOR,
    types.CellType: {
        "reads calls | dp": COMPARE,
        "reads identity | s": "__repr__",
        "pure | .": "()",
        "pure | . .": "__new__",
        "reads | s": "cell_contents",
    },
    types.CodeType: {
        "pure | s": "co_lines co_positions co_branches@3.14+",
        "pure calls | s": "_varname_from_oparg",
        "pure calls | d": COMPARE,
        "pure | d": "__hash__",
        "pure identity | .": "__repr__",
        "reads calls | d": "() __new__ replace __replace__@3.13+",
    },
    types.FrameType: {
        "mutates calls | asm": "clear",
        "pure identity | .": "__repr__",
        "frame | as": "f_locals f_lineno f_lasti f_back",
    },
    types.TracebackType: {"pure | .": "__dir__", "reads | s": "()", "reads | . s": "__new__"},
    property: {
        "pure | .": "__new__",
        "reads calls | a": "()",
        "mutates calls | am a": "__init__ __set_name__",
        "reads calls | asc a": "__get__ __set__ __delete__ getter setter deleter",
        "reads calls | asc": "__isabstractmethod__",
    },
    classmethod: _WRAPPER,
    staticmethod: override(
        _WRAPPER,
        {
            "reads calls | asc .": "__get__ __call__",
        },
    ),
}
