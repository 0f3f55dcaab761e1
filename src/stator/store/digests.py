"""Fingerprints of code and of classes: whether what has a name is still what it was.

Stage: store. In: code objects, functions, classes of the program; nothing of them is called. Out:
digests, equal in two processes if the code is the same there, lines included: tracebacks are part
of what an entry may rebuild.
"""

import hashlib
import weakref
from collections.abc import Iterator
from types import CodeType
from typing import Any, Final

_SIZE: Final = 16


def digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=_SIZE).hexdigest()


_known: Final[dict[int, tuple["weakref.ref[CodeType]", str]]] = {}
"""By id: code objects are compared by their contents, which takes longer than this."""


def of_code(code: CodeType) -> str:
    """Of all that says how a code object runs; where its file lies does not matter."""
    key = id(code)
    found = _known.get(key)
    if found is not None and found[0]() is code:
        return found[1]
    made = digest("\0".join(_parts(code)).encode("utf-8", "surrogatepass"))
    _known[key] = weakref.ref(code, lambda _: _known.pop(key, None) and None), made
    return made


def _parts(code: CodeType) -> Iterator[str]:
    yield code.co_qualname
    for number in (
        code.co_argcount,
        code.co_posonlyargcount,
        code.co_kwonlyargcount,
        code.co_flags,
        code.co_firstlineno,
        code.co_stacksize,
    ):
        yield str(number)
    for data in (code.co_code, code.co_exceptiontable, code.co_linetable):
        yield data.hex()
    for names in (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars):
        yield repr(names)
    for constant in code.co_consts:
        yield _constant(constant)


def _constant(value: Any) -> str:
    """A constant of a code object, as text: the compiler makes no others than these."""
    kind = type(value)
    if kind is CodeType:
        return of_code(value)
    if kind is tuple:
        return f"({','.join(map(_constant, value))})"
    if kind is frozenset:
        return f"{{{','.join(sorted(map(_constant, value)))}}}"
    if kind is slice:
        return f"[{','.join(map(_constant, (value.start, value.stop, value.step)))}]"
    if kind is float or kind is complex:
        return f"{kind.__name__} {value!r}"
    return f"{kind.__name__} {value!r}"
