"""`_weakref`, `_abc`, `copyreg`, `contextvars`, `types`, `_typing`: support for classes."""

from collections.abc import Callable
from typing import Any

from .rows import COMPARE, Functions, Rows, Types, Unnamed

FUNCTIONS: Functions = {
    # ABC caches are hidden state too, but they only speed up: what they answer does not change.
    "_abc": {
        "reads calls | . z": "_abc_instancecheck _abc_subclasscheck",
        "mutates calls | am .": "_abc_init _abc_register",
        "constant | .": "get_cache_token",
        "forbidden hidden_state": "_get_dump _reset_caches _reset_registry",
    },
    "_weakref": {
        "pure | . c": "proxy",
        "forbidden memory": "getweakrefcount getweakrefs",
        "mutates calls | sm sh": "_remove_dead_weakref",
    },
    "_typing": {"pure | .": "_idfunc"},
    "_contextvars": {"forbidden hidden_state": "copy_context"},
}

_PROXY = (
    "__abs__ __add__ __and__ __bool__ __bytes__ __contains__ __divmod__ __float__ __floordiv__ "
    "__getattribute__ __getitem__ __iadd__ __iand__ __ifloordiv__ __ilshift__ __imatmul__ __imod__ "
    "__imul__ __index__ __int__ __invert__ __ior__ __ipow__ __irshift__ __isub__ __iter__ "
    "__itruediv__ __ixor__ __len__ __lshift__ __matmul__ __mod__ __mul__ __neg__ __next__ __or__ "
    "__pos__ __pow__ __radd__ __rand__ __rdivmod__ __repr__ __reversed__ __rfloordiv__ "
    "__rlshift__ __rmatmul__ __rmod__ __rmul__ __ror__ __rpow__ __rrshift__ __rshift__ __rsub__ "
    "__rtruediv__ __rxor__ __str__ __sub__ __truediv__ __xor__ __call__ __setattr__ __delattr__ "
    f"__setitem__ __delitem__ {COMPARE}"
)
# Whatever is done to a proxy is done to an object that is hard to see from here.
_PROXY_ROWS = {"forbidden hidden_state": _PROXY}

_WAYS = ("keys", "values", "items")  # of iterating over a context
_ITERATOR: Rows = {"reads | s": "__iter__ __len__", "mutates | sm": "__next__"}

TYPES: Types = {
    "_weakref:ReferenceType": {
        "pure | . c": "()",
        "pure | . . c": "__new__",
        "pure | .": "__init__",
        "pure | s": "__call__ __callback__",
        "reads calls | da": COMPARE,
        "reads calls identity | dah": "__hash__",
        "pure calls identity | s": "__repr__",
    },
    "_weakref:ProxyType": _PROXY_ROWS,
    "_weakref:CallableProxyType": _PROXY_ROWS,
    # What is done in the running context is another matter: see capture/library/contexts.py.
    "_contextvars:Context": {
        "pure | .": "()",
        "pure | . .": "__new__",
        "reads | s": "__iter__ __len__ copy items keys values",
        "reads calls | s h .": "__contains__ __getitem__ get",
        "reads calls | d": COMPARE,
        "forbidden hidden_state": "run",
    },
    "_contextvars:ContextVar": {
        "reads calls | sh .": "()",
        "reads calls | . sh .": "__new__",
        "forbidden hidden_state": "get reset set",
        "pure identity | .": "__hash__ __repr__",
    },
    "_contextvars:Token": {
        "pure | .": "() __new__",
        "pure identity | .": "__repr__",
        "forbidden hidden_state": "__enter__@3.14+ __exit__@3.14+",
    },
    **{f"_contextvars:{name}": _ITERATOR for name in _WAYS},
}


def _iterator(name: str) -> Callable[[Any], type]:
    return lambda module: type(getattr(module.Context(), name)())


UNNAMED: Unnamed = {f"_contextvars:{name}": _iterator(name) for name in _WAYS}
