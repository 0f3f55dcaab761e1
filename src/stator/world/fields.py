"""World objects that keep state in fields of C: immutable values, exceptions, struct sequences.

Stage: under the tracer, for `World.wrap`. In: a raw object and its layout base. Out: what a shadow
of it is made with, and functions for guards. No code of the user runs: values are read by the
layout base's own methods, fields by the base's own descriptors.
"""

from collections.abc import Callable
from types import GetSetDescriptorType, MemberDescriptorType
from typing import Any, Final

from stator import objects
from stator.guards import Callback
from stator.objects.types import module_of, qualname_of

Descriptor = MemberDescriptorType | GetSetDescriptorType

# ---------------------------------------------------------------------- immutable values

# From an instance of a subclass to the exact value it is: each copies unless it is exact already.
_EXACT: Final[dict[int, Callable[[Any], Any]]] = {
    id(int): int.__int__,
    id(float): float.__float__,
    id(str): str.__str__,
    id(bytes): lambda value: bytes.__getitem__(value, slice(None)),
    id(complex): complex.__pos__,
}


def is_value(base: type) -> bool:
    """Whether instances of a layout base are immutable values."""
    return id(base) in _EXACT


def exact(raw: Any, base: type) -> Any:
    """The value without its class."""
    return _EXACT[id(base)](raw)


def same_value(raw: Any, base: type) -> Callable[[Any], bool]:
    """Whether another instance of the same class has the same value; 0.0 is not -0.0."""
    expected = exact(raw, base)
    shown = repr(expected)

    def same(value: Any) -> bool:
        found = exact(value, base)
        return (bool(found == expected) and repr(found) == shown) or shown == repr(found) == "nan"

    return same


def same_items(raw: Any) -> Callable[[Any], bool]:
    """Whether another tuple of constants has the same items, of the same types."""
    expected = tuple(tuple.__iter__(raw))
    kinds = tuple(map(type, expected))

    def same(value: Any) -> bool:
        found = tuple(tuple.__iter__(value))
        return tuple(map(type, found)) == kinds and found == expected

    return same


# Immutable types of C that hold nothing but numbers and text, by module and name.
_PLAIN: Final = frozenset(
    {
        ("datetime", "date"),
        ("datetime", "time"),
        ("datetime", "datetime"),
        ("datetime", "timedelta"),
        ("decimal", "Decimal"),
    }
)


def is_plain_c_value(raw: Any, cls: type) -> bool:
    """Whether a C object is such a value; with a time zone it is not, that may be the user's."""
    if (module_of(cls), qualname_of(cls)) not in _PLAIN:
        return False
    zone = objects.type_dict(cls).get("tzinfo")
    return zone is None or zone.__get__(raw) is None


def same_plain(raw: Any) -> Callable[[Any], bool]:
    """Whether another one is the same; its text tells more than `==` (Decimal, NaN, fold)."""
    shown = repr(raw)
    return lambda value: repr(value) == shown


def is_struct_sequence(cls: type) -> bool:
    """`sys.flags`, `os.stat_result` and the like: all their fields are items, and immutable."""
    fields = objects.type_dict(cls)
    return "n_sequence_fields" in fields and bool(fields["n_sequence_fields"] == fields["n_fields"])


# ---------------------------------------------------------------------- exceptions

_NOT_STATE: Final = frozenset({"__dict__", "__traceback__"})
_GROUP_STATE: Final = frozenset({"message", "exceptions"})


def is_exception(base: type) -> bool:
    """Whether a layout base is one of Python's own exceptions, whose fields are known."""
    module = module_of(base)
    return module == "builtins" and objects.is_subtype(base, BaseException)


def exception_fields(base: type) -> list[Descriptor]:
    """The C fields of an exception: `args`, the chain, and what the base adds.

    The traceback is left out: a shadow gets a stand-in of it. Setting a cause also sets whether the
    context is shown, which therefore comes last.
    """
    found: dict[str, Descriptor] = {}
    for owner in reversed(objects.mro(base)):
        if owner is object:
            continue
        for name, value in objects.type_dict(owner).items():
            if type(value) in (MemberDescriptorType, GetSetDescriptorType):
                found[name] = value
    left_out = _NOT_STATE
    if objects.is_subtype(base, BaseExceptionGroup):
        left_out |= _GROUP_STATE
    names = sorted(found, key=lambda name: name == "__suppress_context__")
    return [found[name] for name in names if name not in left_out]


def read_field(descriptor: Descriptor, raw: Any) -> tuple[bool, Any]:
    """Whether a field is set, and to what."""
    try:
        return True, descriptor.__get__(raw)
    except (AttributeError, TypeError):  # UnicodeError has fields that can be empty
        return False, None


def all_constant(held: list[tuple[Descriptor, Any]], constants: objects.TypeSet) -> bool:
    """Whether the fields of an exception hold constants, and tuples of constants (`args`)."""
    for _, value in held:
        items = value if type(value) is tuple else (value,)
        if not all(constants.holds(type(item)) for item in items):
            return False
    return True


def equal_fields(held: list[tuple[Descriptor, Any]]) -> Callable[[Any], bool]:
    """Whether another exception of the class holds equal constants of the same types."""
    expected = [(descriptor, _shown(value)) for descriptor, value in held]

    def equal(raw: Any) -> bool:
        for descriptor, shown in expected:
            is_set, value = read_field(descriptor, raw)
            if not is_set or _shown(value) != shown:
                return False
        return True

    return equal


def _shown(value: Any) -> tuple[Any, ...]:
    items = value if type(value) is tuple else (value,)
    return type(value), *(
        (type(item), repr(item) if _is_exact(item) else id(item)) for item in items
    )


def _is_exact(item: Any) -> bool:
    """A constant, whose repr runs no code of the user and tells its value."""
    return type(item) in (int, float, bool, str, bytes, complex, type(None), range)


def of_group(raw: Any) -> list[tuple[MemberDescriptorType, Any]]:
    """The message and the exceptions of a group, which are fixed when it is made."""
    return [(field, field.__get__(raw)) for field in (_MESSAGE, _EXCEPTIONS)]


_MESSAGE: Final = BaseExceptionGroup.__dict__["message"]
_EXCEPTIONS: Final = BaseExceptionGroup.__dict__["exceptions"]


def same_names(cls: type) -> Callback:
    """A class has the attributes that it has now, in the same order."""
    names = tuple(objects.type_dict(cls))
    return Callback(lambda owner: tuple(objects.type_dict(owner)) == names, "the same attributes")


def same_slot(owner: type, name: str) -> Callable[[Any], bool]:
    """Whether a bound special method of C is this one, of this class."""
    return lambda method: method.__name__ == name and method.__objclass__ is owner
