"""A compiled function looks like its function: as a method, to inspect, pickle, copy, functools."""

import abc
import copy
import functools
import inspect
import pickle
import typing
import weakref
from typing import Any

import pytest

from stator._native._core import CompiledFunction

from .dispatching import echo, entered, no_miss, wrap


def documented(a: int, b: str = "b", /, *args: float, k: bytes = b"", **kw: Any) -> list[int]:
    """What it does."""
    return [a]


documented.attribute = "set on the function"  # type: ignore[attr-defined]
by_name = documented


@entered
def pickled(x: Any) -> Any:
    return x


def test_names_and_doc() -> None:
    c = wrap(documented)
    assert c.__wrapped__ is documented
    assert (c.__name__, c.__qualname__, c.__module__) == ("documented", "documented", __name__)
    assert c.__doc__ == "What it does."
    assert c.attribute == "set on the function"  # type: ignore[attr-defined]
    assert CompiledFunction.__name__ == "CompiledFunction"
    assert CompiledFunction.__module__ == "stator._native._core"
    assert isinstance(CompiledFunction.__doc__, str)


def test_setting_names_leaves_the_function_alone() -> None:
    c = wrap(documented)
    c.__name__, c.__qualname__, c.__doc__, c.__module__ = "n", "q", "d", "m"
    assert (c.__name__, c.__qualname__, c.__doc__, c.__module__) == ("n", "q", "d", "m")
    assert documented.__name__ == documented.__qualname__ == "documented"
    del c.__name__
    assert c.__name__ == "documented"
    with pytest.raises(AttributeError, match="__name__"):
        del c.__name__


def test_attributes_are_its_own() -> None:
    c = wrap(documented)
    c.attribute = 5  # type: ignore[attr-defined]
    c.other = 6  # type: ignore[attr-defined]
    assert documented.attribute == "set on the function"  # type: ignore[attr-defined]
    assert not hasattr(documented, "other")
    assert c.__dict__ == {"attribute": 5, "other": 6}
    assert wrap(lambda: None).__dict__ == {}


def test_what_says_how_to_call_it_is_the_functions() -> None:
    def f(a: int = 1, *, k: int = 2) -> int:
        return a + k

    c = wrap(f)
    for name in (
        "__defaults__",
        "__kwdefaults__",
        "__annotations__",
        "__code__",
        "__closure__",
        "__globals__",
        "__builtins__",
        "__type_params__",
    ):
        assert getattr(c, name, None) is getattr(f, name, None)
        assert hasattr(c, name) == hasattr(f, name)
    c.__defaults__ = (10,)
    c.__kwdefaults__ = {"k": 20}
    c.__annotations__ = {}
    assert f() == 30
    assert f.__annotations__ == {}
    with pytest.raises(AttributeError):
        setattr(c, "__wrapped__", f)  # noqa: B010


def test_inspect() -> None:
    c: Any = wrap(documented)
    assert inspect.signature(c) == inspect.signature(documented)
    assert inspect.unwrap(c) is documented
    assert inspect.getdoc(c) == "What it does."
    assert inspect.getsource(c) == inspect.getsource(documented)
    assert typing.get_type_hints(c) == typing.get_type_hints(documented)
    assert callable(c)
    assert not inspect.isfunction(c)
    assert inspect.isroutine(c)  # a method descriptor, as C functions in classes are


def test_kind_of_function() -> None:
    async def coroutine() -> None: ...

    def generator() -> Any:
        yield

    async def async_generator() -> Any:
        yield

    assert inspect.iscoroutinefunction(wrap(coroutine))
    assert inspect.isgeneratorfunction(wrap(generator))
    assert inspect.isasyncgenfunction(wrap(async_generator))
    assert not inspect.iscoroutinefunction(wrap(documented))


def test_repr() -> None:
    assert repr(wrap(documented)).startswith("<compiled function documented at 0x")
    named = CompiledFunction(documented, no_miss, name="region 1")
    assert named.name == "region 1"
    assert repr(named).startswith("<compiled function region 1 at 0x")


# ---- methods ----


class Base:
    @entered
    def method(self, x: Any = 1) -> Any:
        return None

    @classmethod
    @entered
    def of_class(cls, x: Any = 1) -> Any:
        return None

    @staticmethod
    @entered
    def static(x: Any = 1) -> Any:
        return None

    @property
    @entered
    def prop(self) -> Any:
        return None


def test_as_a_method() -> None:
    obj = Base()
    assert obj.method(5) == (obj, 5)
    assert obj.method() == obj.method(x=1) == (obj, 1)
    assert Base.method(obj, 5) == (obj, 5)
    bound = obj.method
    assert bound(5) == (obj, 5)
    assert inspect.ismethod(bound)
    assert bound.__self__ is obj
    assert bound.__func__ is Base.__dict__["method"]
    assert bound == obj.method
    assert str(inspect.signature(bound)) == "(x: Any = 1) -> Any"
    assert obj.of_class(5) == Base.of_class(5) == (Base, 5)
    assert obj.static(5) == Base.static(5) == (5,)
    assert obj.prop == (obj,)
    assert Base.__dict__["method"].__get__(None, Base) is Base.__dict__["method"]
    with pytest.raises(TypeError, match=r"Base.method\(\) takes from 1 to 2 positional arguments"):
        obj.method(1, 2)


def test_specialized_method_calls() -> None:
    """Often enough for the interpreter to specialize the instructions."""
    obj = Base()
    for i in range(200):
        assert obj.method(i) == (obj, i)


def test_super_and_overriding() -> None:
    class Derived(Base):
        @entered
        def method(self, x: Any = 1) -> Any:
            return None

        def through_super(self) -> Any:
            return super().method(7)

    obj = Derived()
    assert obj.method(1) == (obj, 1)
    assert obj.through_super() == (obj, 7)


def test_special_method() -> None:
    class Container:
        @entered
        def __getitem__(self, key: Any) -> Any:
            return None

    c = Container()
    assert c[5] == (c, 5)


def test_abstract() -> None:
    class Abstract(abc.ABC):
        @wrap
        @abc.abstractmethod
        def method(self) -> Any: ...

    made: Any = Abstract
    with pytest.raises(TypeError, match="abstract"):
        made()


# ---- functools, copy, pickle ----


def test_functools() -> None:
    c = entered(documented)

    @functools.wraps(c)
    def outer() -> None: ...

    assert outer.__name__ == "documented"
    assert inspect.unwrap(outer) is documented
    assert functools.partial(c, 1)() == echo(1, "b", b"", (), {})
    assert functools.lru_cache(entered(lambda x: None))(5) == (5,)


def test_wrapped_twice() -> None:
    @functools.wraps(documented)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        return documented(*args, **kwargs)

    c = wrap(decorated)
    assert c.__wrapped__ is decorated
    assert inspect.unwrap(c) is documented
    assert inspect.signature(c) == inspect.signature(documented)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_by_name(protocol: int) -> None:
    assert pickle.loads(pickle.dumps(pickled, protocol)) is pickled
    assert pickle.loads(pickle.dumps(Base.method, protocol)) is Base.method
    with pytest.raises(pickle.PicklingError, match="not the same object"):
        pickle.dumps(wrap(documented), protocol)


def test_copies_are_the_same_object() -> None:
    assert copy.copy(pickled) is copy.deepcopy(pickled) is pickled
    holder = {"f": wrap(lambda: None)}
    assert copy.deepcopy(holder)["f"] is holder["f"]


def test_identity() -> None:
    a, b = wrap(documented), wrap(documented)
    assert a != b
    assert len({a, b, a}) == 2
    assert weakref.ref(a)() is a


def test_final() -> None:
    with pytest.raises(TypeError):
        type("Sub", (CompiledFunction,), {})
    with pytest.raises(TypeError):
        CompiledFunction()  # type: ignore[call-arg]
