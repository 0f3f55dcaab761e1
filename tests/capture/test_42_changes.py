# mypy: ignore-errors
"""What changes between two calls is noticed, wherever it is kept: in fields of C, behind callables,
in namespaces, in classes of classes."""

import abc
import builtins
import enum
import functools
import sys
import types

import pytest

from .scenarios import Scenarios, play_scenario, x

scenario = Scenarios()


@pytest.mark.parametrize(("play", "graphs"), scenario)
def test_changes(play, graphs) -> None:
    play_scenario(play, graphs)


class Box:
    def __init__(self, **attributes):
        self.__dict__.update(attributes)


# ---------------------------------------------------------------------- functions behind callables


def scaling(k, compile):
    @compile
    def scale(x):
        return x * k

    return scale


@scenario(graphs=2)
def a_compiled_function_as_an_argument(compile):
    f = compile(lambda g, x: g(x))
    yield f(scaling(1, compile), x())
    yield f(scaling(1, compile), x())
    yield f(scaling(2, compile), x())
    yield f(scaling(1, compile), x())


@scenario(graphs=2)
def a_function_compiled_inside_of_a_call(compile):
    @compile
    def f(x, k):
        return scaling(k, compile)(x + 1)

    for k in (1, 2, 1):
        yield f(x(), k)


@scenario(graphs=1)
def the_wrapped_function_of_a_cache(compile):
    @functools.wraps(len)
    @functools.lru_cache
    def answer(n):
        return n + 1

    f = compile(lambda x: x * answer((1, 2) and 3))
    yield f(x())
    yield f(x())


def module_level(x, *, b=2):
    return x * b


@scenario(graphs=2)
def defaults_by_keyword_in_place(compile):
    f = compile(lambda x: module_level(x))
    try:
        for b in (2, 2, 3):
            module_level.__kwdefaults__["b"] = b
            yield f(x())
        del module_level.__kwdefaults__["b"]
        with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'b'"):
            f(x())
        module_level.__kwdefaults__["b"] = 4
        yield f(x())
    finally:
        module_level.__kwdefaults__ = {"b": 2}


@scenario(graphs=2)
def defaults_that_are_missing_or_too_many(compile):
    def scale(x, a=1):
        return x * a

    f = compile(lambda g, x: g(x))
    for defaults in ((1,), (1,), None, (1, 7)):
        scale.__defaults__ = defaults
        try:
            yield f(scale, x())
        except TypeError as error:
            yield str(error)


@scenario(graphs=2)
def keywords_of_a_partial_changed_inside(compile):
    def scale(x, a=1):
        return x * a

    @compile
    def f(p, keywords, x):
        keywords["a"] = 5
        return p(x)

    p = functools.partial(scale, a=2)
    yield f(p, {}, x())
    yield f(p, {}, x())
    yield f(p, p.keywords, x())
    yield p.keywords


# ---------------------------------------------------------------------- fields of C


@scenario(graphs=4)
def names_of_a_class(compile):
    class Named:
        """First."""

    f = compile(lambda o, x: (x + 1, type(o).__name__, Named.__module__, Named.__doc__))
    yield f(Named(), x())
    yield f(Named(), x())
    for name, value in {"__name__": "Other", "__module__": "m", "__doc__": "Second."}.items():
        setattr(Named, name, value)
        yield f(Named(), x())


@scenario(graphs=6)
def fields_of_a_function(compile):
    def g():
        """First."""

    f = compile(lambda x: (x + 1, g.__name__, g.__doc__, dict(g.__annotations__), g.__defaults__))
    yield f(x())
    yield f(x())
    changes = {
        "__name__": "other",
        "__doc__": "Second.",
        "__annotations__": {"a": int},
        "__defaults__": (1,),
    }
    for name, value in changes.items():
        setattr(g, name, value)
        yield f(x())
    g.__annotations__["b"] = 2
    yield f(x())


@scenario(graphs=2)
def attributes_of_a_function_replaced(compile):
    def g():
        pass

    g.k = 1
    f = compile(lambda x: x * g.k)
    yield f(x())
    yield f(x())
    g.__dict__ = {"k": 9}
    yield f(x())


@scenario(graphs=3)
def bases_of_a_class(compile):
    class A:
        def m(self):
            return 1

    class B:
        def m(self):
            return 2

    class C(A):
        def m(self):
            return super().m() * 10

    @compile
    def f(o, x):
        return x * o.m(), isinstance(o, A), issubclass(C, B), C.__mro__[1] is A, C.__bases__[0] is A

    yield f(C(), x())
    yield f(C(), x())
    for bases in ((B,), (B, A)):
        C.__bases__ = bases
        yield f(C(), x())


@scenario(graphs=2)
def a_class_registered_later(compile):
    class Abstract(abc.ABC):
        pass

    class Other(abc.ABC):
        pass

    f = compile(lambda o, x: x * 2 if isinstance(o, Abstract) else x * 3)
    yield f(Box(), x())
    Other.register(Box)
    yield f(Box(), x())
    Abstract.register(Box)
    yield f(Box(), x())


@scenario(graphs=4)
def fields_of_an_enum(compile):
    class E(enum.Enum):
        A = [1]

    @compile
    def f(x):
        E.A.value.append(2)
        return x * len(E.A.value), hasattr(E.A, "more")

    yield f(x())
    yield E.A.value
    yield f(x())
    E.A._value_ = [7, 8, 9]
    yield f(x())
    E.A.more = 1
    yield f(x())
    yield E.A.value


# ---------------------------------------------------------------------- modules


@scenario(graphs=4)
def the_namespace_and_the_class_of_a_module(compile):
    m = types.ModuleType("m")
    m.k = 2

    @compile
    def f(x):
        try:
            return x * m.k
        except AttributeError:
            return x

    yield f(x())
    yield f(x())
    del m.k
    yield f(x())
    m.__getattr__ = lambda name: 7
    yield f(x())
    m.k = 2
    yield f(x())

    class Other(types.ModuleType):
        k = property(lambda self: 5)

    m.__class__ = Other
    yield f(x())
    Other.__getattribute__ = lambda self, name: 6
    yield f(x())


@scenario(graphs=2)
def a_module_loaded_anew(compile):
    @compile
    def f(x):
        import of_the_scenario

        return x * of_the_scenario.k

    try:
        for k in (1, 2):
            sys.modules["of_the_scenario"] = module = types.ModuleType("of_the_scenario")
            module.k = k
            yield f(x())
            yield f(x())
    finally:
        del sys.modules["of_the_scenario"]


@scenario(graphs=2)
def globals_as_an_argument(compile):
    space = {"k": 1, "__builtins__": builtins}
    exec("def f(d, x):\n    d['k'] = 7\n    return x * k", space)
    f = compile(space["f"])
    for given in ({}, {}, space):
        yield f(given, x())
    space["k"] = 1
    yield f({}, x())


# ---------------------------------------------------------------------- descriptors


@scenario(graphs=4)
def the_class_of_a_descriptor(compile):
    class Descriptor:
        def __get__(self, obj, cls):
            return 4

    class Holder:
        k = Descriptor()

    f = compile(lambda o, x: x * o.k)
    held = Box(k=1)
    held.__class__ = Holder
    yield f(held, x())
    yield f(held, x())
    Descriptor.__set__ = lambda self, obj, value: None
    yield f(held, x())
    del Descriptor.__set__
    yield f(held, x())
    del held.k
    yield f(held, x())
    Descriptor.__get__ = lambda self, obj, cls: 6
    yield f(held, x())


@scenario(graphs=2)
def names_in_the_namespace_of_a_class(compile):
    class Holder:
        k = 1

    f = compile(lambda x: x * Holder.__dict__["k"] + Holder.__dict__.get("more", 0))
    yield f(x())
    yield f(x())
    Holder.more = 2
    yield f(x())
