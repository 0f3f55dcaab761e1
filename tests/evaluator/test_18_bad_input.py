"""What run() says when it gets something it cannot evaluate, and how it hands arguments on."""

import math
import re
import types
from typing import Any

import pytest

from stator import evaluator

from .oracle import Program, check, each


class Plain:
    pass


class Callable:
    def __call__(self) -> None:
        raise AssertionError("must not be called")


def function(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    return args, kwargs


NOT_FUNCTIONS = {
    "None": (None, "None"),
    "a number": (5, "5|int"),
    "a text": ("print('x')", "print|str"),
    "a builtin function": (len, "len"),
    "a function of a C module": (math.sqrt, "sqrt"),
    "a method of a builtin": ([].append, "append"),
    "a method descriptor": (list.append, "append"),
    "a builtin class": (int, "int"),
    "a class": (Plain, "Plain"),
    "an instance": (Plain(), "Plain"),
    "a code object": (function.__code__, "code"),
    "a module": (math, "module"),
    "a generator": ((x for x in ()), "generator"),
    "a static method": (staticmethod(function), "staticmethod"),
}


@pytest.mark.parametrize("kind", NOT_FUNCTIONS)
def test_something_that_is_no_python_function(kind: str) -> None:
    """A TypeError at once, which names what was given and what is accepted."""
    given, name = NOT_FUNCTIONS[kind]
    with pytest.raises(TypeError) as caught:
        evaluator.run(given)
    assert re.search(name, str(caught.value))
    assert "Python function" in str(caught.value)


def test_a_class_is_not_called_by_the_check() -> None:
    with pytest.raises(TypeError):
        evaluator.run(Callable)


def test_nothing_at_all() -> None:
    with pytest.raises(TypeError):
        evaluator.run()


def test_the_check_does_not_run_code_of_the_object() -> None:
    touched: list[str] = []

    class Meta(type):
        def __instancecheck__(cls, other: object) -> bool:
            touched.append("__instancecheck__")
            return True

    class Nosy(metaclass=Meta):
        def __getattribute__(self, name: str) -> Any:
            touched.append(name)
            return object.__getattribute__(self, name)

        def __call__(self) -> None:
            touched.append("__call__")

    with pytest.raises(TypeError, match="Nosy"):
        evaluator.run(Nosy())
    # The message may show the object, which asks for its __repr__, and nothing else.
    assert set(touched) <= {"__repr__", "__class__"}


def test_bad_input_leaves_the_evaluator_usable() -> None:
    for _ in range(3):
        with pytest.raises(TypeError):
            evaluator.run(None)
    assert evaluator.run(function, 1) == ((1,), {})


def test_arguments_are_handed_on() -> None:
    assert evaluator.run(function) == ((), {})
    assert evaluator.run(function, 1, 2, a=3) == ((1, 2), {"a": 3})


@pytest.mark.parametrize("name", ["fn", "function", "func", "self", "args", "kwargs", "f"])
def test_keywords_of_any_name_belong_to_the_function(name: str) -> None:
    assert evaluator.run(function, **{name: 1}) == ((), {name: 1})


def test_the_same_objects_go_in_and_come_out() -> None:
    given = object()
    (out,), named = evaluator.run(function, given, key=given)
    assert out is given
    assert named["key"] is given


def test_functions_without_source() -> None:
    """A function made of a bare code object."""
    code = compile("x = 1\ny = [x + i for i in range(2)]\n", "<nowhere>", "exec")
    namespace: dict[str, Any] = {}
    assert evaluator.run(types.FunctionType(code, namespace)) is None
    assert namespace["y"] == [1, 2]


def test_a_function_of_this_file() -> None:
    def closure(values: list[int]) -> int:
        values.append(len(values))
        return sum(values) + int(math.sqrt(16))

    check(closure, [1, 2, 3])


@each(r"""
#: main called without its argument [frames 0]
def main(a): pass

#: main called with too many arguments [frames 0]
def main(a): pass
ARGS = (1, 2)

#: main called with an unknown keyword [frames 0]
def main(a): pass
KWARGS = {"a": 1, "b": 2}

#: main called with an argument twice [frames 0]
def main(a): pass
ARGS = (1,)
KWARGS = {"a": 1}

#: main without a keyword-only argument [frames 0]
def main(*, a): pass

#: main called right, in every way
def main(a, /, b, c=3, *d, e, f=6, **g): return locals()
ARGS = (1, 2, 3, 4, 5)
KWARGS = {"e": 7, "z": 8, "a": 9}

#: main is a lambda
main = lambda x: x + 1
ARGS = (1,)

#: main is a closure
def make(n):
    def inner(x): return x + n
    return inner
main = make(10)
ARGS = (1,)

#: main is a method's function
class C:
    def method(self, x): return super().__init__() or (self.y, x)
    y = 5
main = C.method
ARGS = (C(), 2)

#: main is wrapped
import functools
def inner(x): log("inner"); return x
@functools.wraps(inner)
def main(x): log("outer"); return inner(x)
ARGS = (1,)

#: main is the body of a module
import types
main = types.FunctionType(compile("a = 1\nlog(a)\nclass C: b = a\nlog(C.b)", "m", "exec"),
                          globals())
""")
def test_calling_main(program: Program) -> None:
    program.check()
