"""The object model agrees with CPython, and asks no object anything."""

import collections
import enum
import fractions
import functools
import types
from typing import Any

import pytest

from stator.objects import (
    CallKind,
    Found,
    instance_dict,
    is_subtype,
    layout_base,
    lookup,
    mro,
    plan_attribute,
    plan_call,
    slots,
)


class Refusal(BaseException):
    """Raised by everything a hostile object is asked."""


def refuse(*args: Any, **kwargs: Any) -> Any:
    raise Refusal


HOSTILE_NAMES = (
    "__getattribute__",
    "__getattr__",
    "__eq__",
    "__ne__",
    "__lt__",
    "__hash__",
    "__bool__",
    "__len__",
    "__iter__",
    "__contains__",
    "__repr__",
    "__str__",
    "__call__",
    "__get__",
    "__instancecheck__",
    "__subclasscheck__",
    "__dir__",
)


def hostile_objects() -> list[Any]:
    """Made on demand: pytest itself asks what it finds in a module."""
    attack = dict.fromkeys(HOSTILE_NAMES, refuse)
    meta = type("HostileMeta", (type,), attack)
    body = attack | {"__class__": property(refuse), "__dict__": property(refuse)}
    cls: Any = type.__new__(meta, "Hostile", (), body)
    dict_cls = type("HostileDict", (dict,), attack)
    return [object.__new__(cls), dict.__new__(dict_cls), cls]


def test_hostile_objects_are_not_asked() -> None:
    for obj in hostile_objects():
        plan_attribute(obj, "anything")
        plan_attribute(obj, "__class__")
        plan_call(obj)
        instance_dict(obj)
        layout_base(type(obj))
        slots(type(obj))
        mro(type(obj))
        is_subtype(type(obj), dict)
        lookup(type(obj), "__eq__")


class Data:
    def __get__(self, obj: Any, cls: Any = None) -> str:
        return "data"

    def __set__(self, obj: Any, value: Any) -> None:
        pass


class NonData:
    def __get__(self, obj: Any, cls: Any = None) -> str:
        return "non-data"


class Base:
    plain = 1
    both = "class"
    data = Data()
    non_data = NonData()
    hidden = NonData()

    def method(self) -> None:
        pass

    @property
    def prop(self) -> int:
        return 1

    @classmethod
    def cm(cls) -> None:
        pass

    @staticmethod
    def sm() -> None:
        pass


class Derived(Base):
    __slots__ = ("slot",)

    def __init__(self) -> None:
        self.own = 1
        self.both = "instance"
        self.__dict__["data"] = "hidden by the descriptor"
        self.__dict__["hidden"] = "hides the descriptor"


class Fallback:
    def __getattr__(self, name: str) -> str:
        return name


class Meta(type):
    meta = 1
    both = "meta"

    @property
    def meta_property(cls) -> int:
        return 1


class WithMeta(metaclass=Meta):
    both = "class"
    own = 2


@pytest.mark.parametrize(
    ("obj", "name", "found"),
    [
        (Derived(), "own", Found.INSTANCE),
        (Derived(), "both", Found.INSTANCE),
        (Derived(), "hidden", Found.INSTANCE),
        (Derived(), "data", Found.DATA_DESCRIPTOR),
        (Derived(), "prop", Found.DATA_DESCRIPTOR),
        (Derived(), "slot", Found.DATA_DESCRIPTOR),
        (Derived(), "__class__", Found.DATA_DESCRIPTOR),
        (Derived(), "non_data", Found.DESCRIPTOR),
        (Derived(), "method", Found.DESCRIPTOR),
        (Derived(), "cm", Found.DESCRIPTOR),
        (Derived(), "sm", Found.DESCRIPTOR),
        (Derived(), "plain", Found.CLASS),
        (Derived(), "nothing", Found.MISSING),
        (Fallback(), "nothing", Found.GETATTR),
        (WithMeta, "own", Found.CLASS),
        (WithMeta, "both", Found.CLASS),
        (WithMeta, "meta", Found.CLASS),
        (WithMeta, "meta_property", Found.DATA_DESCRIPTOR),
        (WithMeta, "__dict__", Found.DATA_DESCRIPTOR),
        (WithMeta, "nothing", Found.MISSING),
        (functools, "partial", Found.INSTANCE),
        (functools, "nothing", Found.MISSING),
        ([], "append", Found.DESCRIPTOR),
        (1, "real", Found.DATA_DESCRIPTOR),
        (super(Derived, Derived()), "method", Found.GETATTRIBUTE),
    ],
)
def test_where_an_attribute_is_found(obj: Any, name: str, found: Found) -> None:
    assert plan_attribute(obj, name).found is found


@pytest.mark.parametrize(
    "obj", [Derived(), WithMeta, functools, [], 1, fractions.Fraction(1), collections.Counter()]
)
def test_plans_give_what_getattr_gives(obj: Any) -> None:
    """For every attribute: carrying out the plan by hand gives the attribute."""
    for name in dir(obj):
        plan = plan_attribute(obj, name)
        try:
            expected = getattr(obj, name)
        except AttributeError:
            continue
        if plan.found in (Found.INSTANCE, Found.CLASS):
            assert plan.value is expected
        elif plan.found in (Found.DATA_DESCRIPTOR, Found.DESCRIPTOR):
            instance, owner = (None, obj) if plan.on_class else (obj, type(obj))
            bound = plan.value.__get__(instance, owner)
            assert bound == expected or type(bound) is type(expected)
        else:
            pytest.fail(f"{name}: {plan}")


class ListLike(list):  # type: ignore[type-arg]
    __slots__ = ("extra",)


class Slotted:
    __slots__ = ("a", "b")


class MoreSlots(Slotted):
    __slots__ = ("__dict__", "__weakref__", "c")


class Color(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    ("cls", "base"),
    [
        (list, list),
        (ListLike, list),
        (Derived, object),
        (Slotted, object),
        (MoreSlots, object),
        (collections.OrderedDict, collections.OrderedDict),
        (collections.Counter, dict),
        (collections.UserDict, object),
        (fractions.Fraction, object),
        (Color, object),
        (enum.IntFlag, int),
        (ValueError, ValueError),
        (type("E", (ValueError,), {}), ValueError),
        (Meta, type),
        (collections.namedtuple("P", "x y"), tuple),
        (functools.partial, functools.partial),
        (types.SimpleNamespace, types.SimpleNamespace),
    ],
)
def test_layout_base(cls: type, base: type) -> None:
    assert layout_base(cls) is base


def test_slots() -> None:
    assert set(slots(MoreSlots)) == {"a", "b", "c"}
    obj = Slotted()
    obj.a = 5  # type: ignore[attr-defined]
    assert slots(Slotted)["a"].__get__(obj) == 5
    with pytest.raises(AttributeError):
        slots(Slotted)["b"].__get__(obj)


def test_instance_dict() -> None:
    obj = Derived()
    assert instance_dict(obj) is obj.__dict__
    assert instance_dict(Slotted()) is None
    assert instance_dict(MoreSlots()) == {}
    assert instance_dict([]) is None
    assert instance_dict(functools) is functools.__dict__


def test_calls() -> None:
    obj = Derived()
    assert plan_call(obj.method) == (CallKind.FUNCTION, Base.method, (obj,))
    assert plan_call(len).kind is CallKind.NATIVE
    assert plan_call([].append).kind is CallKind.NATIVE
    assert plan_call(list.append).kind is CallKind.NATIVE
    assert plan_call(object().__eq__).kind is CallKind.NATIVE
    assert plan_call(Derived).kind is CallKind.CLASS
    assert plan_call(3).kind is CallKind.UNKNOWN
    assert plan_call(functools.partial(len)).kind is CallKind.UNKNOWN

    class Callable:
        def __call__(self) -> None:
            pass

    instance = Callable()
    assert plan_call(instance) == (CallKind.FUNCTION, Callable.__call__, (instance,))
    assert plan_call(types.MethodType(instance, 1)).prefix == (instance, 1)


def test_an_instance_dict_may_be_of_a_subclass() -> None:
    obj = Base()
    obj.__dict__ = collections.Counter(a=1)
    assert instance_dict(obj) is obj.__dict__
    assert plan_attribute(obj, "a").found is Found.INSTANCE
