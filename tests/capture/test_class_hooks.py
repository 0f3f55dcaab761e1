# mypy: ignore-errors
"""Classes whose hooks are functions of C, which C code calls: while tracing, they must not run."""

import abc
import contextlib
import functools
import io
import typing

import pytest
import torch

import stator

PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


@program
def subclass_hook(x):
    class Base:
        __init_subclass__ = print

    class Derived(Base):
        pass

    return x + 1


@program
def partial_subclass_hook(x):
    class Base:
        __init_subclass__ = staticmethod(functools.partial(print, "made"))

    type("Derived", (Base,), {})
    return x + 1


@program
def name_hook(x):
    class Value:
        __set_name__ = staticmethod(print)

    class Holder:
        value = Value()

    return x + 1


@program
def name_hook_in_a_namespace(x):
    class Value:
        __set_name__ = staticmethod(print)

    type("Holder", (), {"value": Value()})
    return x + 1


@program
def namespace_hook(x):
    class Meta(type):
        __prepare__ = print

    with contextlib.suppress(TypeError):

        class Made(metaclass=Meta):
            pass

    return x + 1


@program
def namespace_that_tells(x):
    class Told(dict):
        __setitem__ = print

    class Meta(type):
        @classmethod
        def __prepare__(cls, *args):
            return Told()

    class Made(metaclass=Meta):
        pass

    return x + 1


@program
def function_for_a_metaclass(x):
    class Made(metaclass=print):
        pass

    return x + 1


@program
def metaclass_hooks(x):
    class Meta(type):
        __init__ = print

    class Made(metaclass=Meta):
        pass

    return x + 1


@program
def order_hook(x):
    class Meta(type):
        mro = print

    with contextlib.suppress(TypeError):

        class Made(metaclass=Meta):
            pass

    return x + 1


@program
def bases_hook(x):
    class Odd:
        __mro_entries__ = print

    with contextlib.suppress(TypeError):

        class Made(Odd()):
            pass

    return x + 1


@program
def object_hook(x):
    class Made:
        __new__ = print

    Made()
    return x + 1


@program
def item_hook(x):
    class Made:
        __class_getitem__ = print

    return x + 1, Made[3]


@program
def descriptor_hook(x):
    class Value:
        __get__ = print

    class Made:
        value = Value()

    return x + 1, Made().value


@program
def names_hook(x):
    class Made:
        __dir__ = print

    with contextlib.suppress(TypeError):
        dir(Made())
    return x + 1


@program
def question_hook(x):
    class Made(abc.ABC):
        __subclasshook__ = print

    with contextlib.suppress(AssertionError):
        isinstance(3, Made)
    return x + 1


def lines(function) -> tuple[str, int]:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        result = repr(function(torch.ones(1)))
    return result, shown.getvalue().count("\n")


@pytest.mark.parametrize("name", PROGRAMS)
def test_not_while_tracing(name) -> None:
    expected = lines(PROGRAMS[name])
    assert expected[1]
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        with pytest.raises(stator.CaptureError, match="C function|C code calls print"):
            stator.compile(PROGRAMS[name], backend="eager", fullgraph=True)(torch.ones(1))
        assert not shown.getvalue()
    compiled = stator.compile(PROGRAMS[name], backend="eager")
    for _ in range(2):
        assert lines(compiled) == expected


def test_of_python() -> None:
    def whole(x):
        told = []

        class Base:
            def __init_subclass__(cls, **options):
                told.append((cls.__name__, options))

        class Value:
            def __set_name__(self, owner, name):
                told.append((owner.__name__, name))

        class Meta(type):
            @classmethod
            def __prepare__(cls, name, bases, **options):
                told.append(name)
                return {"prepared": 1}

            def __init__(cls, name, bases, namespace, **options):
                super().__init__(name, bases, namespace)

        class Made(Base, metaclass=Meta, option=2):
            value = Value()

        return x + Made.prepared, told

    compiled = stator.compile(whole, backend="eager", fullgraph=True)
    for _ in range(2):
        assert repr(compiled(torch.ones(1))) == repr(whole(torch.ones(1)))
    assert stator.testing.count(compiled) == (1, 1)


WRONG = {
    "by keyword": lambda: type(name="Made", bases=(object,), dict={}),
    "new by keyword": lambda: type.__new__(metatype=type, name="Made"),
    "without bases": lambda: type("Made", {}),
    "bases of another kind": lambda: type("Made", [object], {}),
    "no class": lambda: type.__new__(1, "Made", (), {}),
    "a number as base": lambda: type("Made", (1,), {}),
    "a namespace of another kind": lambda: type("Made", (), []),
}


@pytest.mark.parametrize("name", WRONG)
def test_of_wrong_arguments(name) -> None:
    def whole(x):
        try:
            WRONG[name]()
        except TypeError as error:
            return x + 1, str(error)
        return None

    compiled = stator.compile(whole, backend="eager", fullgraph=True)
    for _ in range(2):
        assert repr(compiled(torch.ones(1))) == repr(whole(torch.ones(1)))
    assert stator.testing.count(compiled) == (1, 1)


def test_functions_that_are_no_classes_as_bases() -> None:
    def whole(x):
        class Named(typing.NamedTuple):
            value: int = 2

        class Typed(typing.TypedDict):
            value: int

        return x + Named().value, repr(Typed(value=1))

    compiled = stator.compile(whole, backend="eager", fullgraph=True)
    for _ in range(2):
        assert repr(compiled(torch.ones(1))) == repr(whole(torch.ones(1)))
    assert stator.testing.count(compiled) == (1, 1)
