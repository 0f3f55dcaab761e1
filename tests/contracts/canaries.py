"""Objects that note every use of their special methods, and a stand-in for symbolic integers."""

from collections.abc import Callable
from typing import Any

LOG: list[tuple[object, str]] = []

_BINARY = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or"


def _raise(exception: type[BaseException]) -> Any:
    raise exception


# What each special method of a canary answers: something that keeps C code going.
_ANSWERS: dict[str, Callable[..., Any]] = {
    "__repr__": lambda self: "canary",
    "__str__": lambda self: "canary",
    "__format__": lambda self, spec: "canary",
    "__bytes__": lambda self: b"canary",
    "__hash__": lambda self: 7,
    "__bool__": lambda self: True,
    "__len__": lambda self: 1,
    "__length_hint__": lambda self: 1,
    "__eq__": lambda self, other: self is other,
    "__ne__": lambda self, other: self is not other,
    "__contains__": lambda self, item: True,
    "__iter__": lambda self: iter((2001, 2002)),
    "__reversed__": lambda self: iter((2002, 2001)),
    "__next__": lambda self: _raise(StopIteration),
    "__getitem__": lambda self, key: _raise(IndexError) if type(key) is int and key > 1 else 2001,
    "__setitem__": lambda self, key, value: None,
    "__delitem__": lambda self, key: None,
    "__call__": lambda self, *args, **kwargs: 1,
    "__getattribute__": object.__getattribute__,
    "__dir__": lambda self: ["x"],
    "__enter__": lambda self: self,
    "__exit__": lambda self, *args: None,
    "__index__": lambda self: 1,
    "__int__": lambda self: 1,
    "__float__": lambda self: 1.0,
    "__complex__": lambda self: 1j,
    "__round__": lambda self, digits=None: 1,
    "__trunc__": lambda self: 1,
    "__floor__": lambda self: 1,
    "__ceil__": lambda self: 1,
    "__fspath__": lambda self: "path",
    "__copy__": lambda self: self,
    "__deepcopy__": lambda self, memo: self,
    "__reduce__": lambda self: (object, ()),
    "__reduce_ex__": lambda self, protocol: (object, ()),
    "__getstate__": lambda self: None,
    "__setstate__": lambda self, state: None,
    "__sizeof__": lambda self: 16,
    "__get__": lambda self, instance, owner=None: self,
    "__set__": lambda self, instance, value: None,
    "__delete__": lambda self, instance: None,
    "__set_name__": lambda self, owner, name: None,
    "__aiter__": lambda self: self,
    "__anext__": lambda self: self,
    "__await__": lambda self: iter(()),
    "__buffer__": lambda self, flags: memoryview(b"ab"),
    "__setattr__": object.__setattr__,
    "__delattr__": object.__delattr__,
    "__mro_entries__": lambda self, bases: (),
    "__instancecheck__": lambda self, x: True,
    "__subclasscheck__": lambda self, x: True,
    **{f"__{name}__": lambda self, other: True for name in ("lt", "le", "gt", "ge")},
    **{f"__{name}__": lambda self: self for name in ("neg", "pos", "abs", "invert")},
    **{
        f"__{prefix}{name}__": lambda self, other, *more: self
        for name in _BINARY.split()
        for prefix in ("", "r", "i")
    },
}


def _noting(name: str, answer: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: object, *args: Any, **kwargs: Any) -> Any:
        LOG.append((self, name))
        return answer(self, *args, **kwargs)

    return method


_METHODS = {name: _noting(name, answer) for name, answer in _ANSWERS.items()}

Canary = type("Canary", (), dict(_METHODS))
# A canary with the layout of a builtin type; it must keep the base's __new__ and __init__.
LAYOUTS: dict[type, type] = {
    base: type(f"Canary_{base.__name__}", (base,), dict(_METHODS))
    for base in (int, float, str, bytes, list, tuple, dict, set, frozenset, bytearray)
}

# Methods by which a symbolic integer would have to show its value.
_CONCRETE = (
    "__index__ __int__ __float__ __complex__ __hash__ __repr__ __str__ __format__ __round__ "
    "__trunc__ __floor__ __ceil__ __divmod__ __rdivmod__"
)
CONCRETE = frozenset(_CONCRETE.split())
_SYMBOLIC = "add sub mul truediv floordiv mod pow lshift rshift and xor or"
_SYMBOLIC_ONLY = "eq ne lt le gt ge bool neg pos abs"


class Symbolic:
    """Behaves as `torch.SymInt` does: arithmetic and comparison work, the value does not show."""

    value: int


def symbol(value: int) -> Symbolic:
    made = Symbolic()
    made.value = value
    return made


def _plain(value: Any) -> Any:
    return value.value if type(value) is Symbolic else value


def _arithmetic(name: str) -> Callable[..., Any]:
    def method(self: Symbolic, *others: Any) -> Any:
        result = getattr(int, name)(self.value, *map(_plain, others))
        if result is NotImplemented:
            result = getattr(float, name)(float(self.value), *map(_plain, others))
        return symbol(result) if type(result) is int else result

    return method


def _concrete(name: str) -> Callable[..., Any]:
    def method(self: Symbolic, *args: Any) -> Any:
        LOG.append((self, name))
        return _raise(TypeError)

    return method


for _name in _SYMBOLIC.split():
    setattr(Symbolic, f"__{_name}__", _arithmetic(f"__{_name}__"))
    setattr(Symbolic, f"__r{_name}__", _arithmetic(f"__r{_name}__"))
for _name in _SYMBOLIC_ONLY.split():
    setattr(Symbolic, f"__{_name}__", _arithmetic(f"__{_name}__"))
for _name in CONCRETE:
    setattr(Symbolic, _name, _concrete(_name))
