"""object, type, super, None and its like, modules, namespaces, generic aliases, exceptions."""

import builtins
import types

from .rows import COMPARE, ORDER, Rows, Types, override

_SINGLETON: Rows = {
    "pure | .": f"__bool__ __repr__ __reduce__ __hash__@3.12+ {COMPARE} ()",
    "pure | . .": "__new__",
}

_EXCEPTION: Rows = {
    "reads calls | .": "()",
    "reads calls | . .": "__new__",
    "mutates calls | am .": "__init__",
    "mutates calls | am s .": "add_note",
    "mutates | am .": "with_traceback",
    "mutates calls | am dh": "__setstate__",
    "reads calls | as": "__reduce__ __getstate__@3.12+",
    "reads calls identity | da": "__repr__ __str__",
    "reads calls | dac": "derive split subgroup",
}

# errno is looked up in a dict; Unicode errors check their arguments.
_OS_ERROR = override(
    _EXCEPTION,
    {
        "reads calls | dh": "()",
        "reads calls | . dh": "__new__",
        "mutates calls | am s": "__init__",
    },
)
_UNICODE_ERROR = override(_EXCEPTION, {"reads calls | s": "()", "mutates calls | am s": "__init__"})
_SYNTAX_ERROR = override(
    _EXCEPTION, {"reads calls | di": "()", "mutates calls | am di": "__init__"}
)
_GROUP = override(_EXCEPTION, {"reads calls | si": "()", "reads calls | . si": "__new__"})


def _exception_rows(cls: type) -> Rows:
    families = {
        OSError: _OS_ERROR,
        UnicodeError: _UNICODE_ERROR,
        SyntaxError: _SYNTAX_ERROR,
        BaseExceptionGroup: _GROUP,
    }
    return next((rows for base, rows in families.items() if issubclass(cls, base)), _EXCEPTION)


TYPES: Types = {
    object: {
        "pure | .": f"() {ORDER} __init__ __init_subclass__ __subclasshook__",
        "reads calls | dp": "__eq__",  # which of them are the same
        "pure calls | .": "__new__",
        "pure identity | .": "__hash__",
        "reads identity | s": "__repr__",
        "reads calls | dap": "__ne__",
        "reads calls identity | d s": "__str__ __format__",
        "reads calls | as s": "__reduce__ __reduce_ex__ __getstate__",
        "reads calls | a": "__dir__",
        "pure | z": "__class__",
    },
    type: {
        "reads calls | z d d": "()",
        "reads calls | . z d d": "__new__",
        "pure calls | .": "__init__",
        "reads identity | s": "__repr__",
        "pure calls | s": "__or__ __ror__",
        "pure calls | c .": "__call__",
        "pure | .": "mro __prepare__",
        "reads | as": "__subclasses__",
        "pure calls | . z": "__instancecheck__ __subclasscheck__",
        "reads calls | a": "__dir__",
        "pure | s": "__name__ __qualname__ __mro__ __bases__ __base__ __flags__ __basicsize__ "
        "__itemsize__ __dictoffset__ __weakrefoffset__",
        "mutates | am": "__annotations__ __annotate__@3.14+",  # makes an empty one
    },
    super: {
        "frame | .": "()",
        "pure | .": "__new__",
        "frame | am .": "__init__",
        "reads | s": "__repr__",
        "reads calls | asc .": "__get__",
    },
    type(None): _SINGLETON,
    type(...): _SINGLETON,
    type(NotImplemented): _SINGLETON,
    "builtins:sentinel@3.15+": {
        "frame | s": "()",  # the module of its caller
        "frame | . s": "__new__",
        "pure identity | .": "__hash__",
        "pure | .": f"{COMPARE} __copy__ __deepcopy__",
        "reads | as": "__repr__ __reduce__",
        "pure calls | s": "__or__ __ror__",
    },
    types.ModuleType: {
        "pure | .": "()",
        "pure | . .": "__new__",
        "mutates calls | am .": "__init__",
        "reads calls | a": "__dir__",
        "mutates | am": "__annotations__ __annotate__@3.14+",
        "reads calls identity | as": "__repr__",
        "reads calls | azs dh": "__getattribute__",
    },
    types.SimpleNamespace: {
        "reads calls | dhi .": "()",
        "pure | .": "__new__",
        "mutates calls | am dhi .": "__init__",
        "reads calls | dap": COMPARE,
        "reads calls identity | da": "__repr__",
        "reads | as": "__reduce__",
        "reads calls | ac .": "__replace__@3.13+",
    },
    types.GenericAlias: {
        "reads calls | .": "()",
        "reads calls | . .": "__new__",
        "reads calls | dac .": "__call__",
        "reads calls | da": f"{COMPARE} __getitem__ __dir__ __iter__ __mro_entries__ __or__ "
        "__ror__ __reduce__ __instancecheck__ __subclasscheck__ __parameters__ "
        "__typing_unpacked_tuple_args__",
        "reads calls identity | dah": "__hash__",
        "reads calls identity | da": "__repr__",
    },
    types.UnionType: {
        "reads calls | da": f"{COMPARE} __getitem__ __parameters__ "
        "__instancecheck__ __subclasscheck__",
        "reads calls | dah": "__or__ __ror__",  # hashes them since 3.14
        "reads calls | . dah": "__class_getitem__@3.14+",
        "pure | .": "__mro_entries__@3.14+",
        "reads calls identity | dah": "__hash__",
        "reads calls identity | da": "__repr__",
    },
    **{
        cls: _exception_rows(cls)
        for cls in vars(builtins).values()
        if isinstance(cls, type) and issubclass(cls, BaseException)
    },
}
