"""Binding: a compiled function takes and refuses exactly the calls its function does.

The oracle is CPython: each call is made on the function itself, whose body returns its parameters
in co_varnames order, and on a compiled function whose target returns what it was given.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stator._native._core import CompiledFunction

from .dispatching import entered, wrap

SIGNATURES = [
    "",
    "a",
    "a, b",
    "a, b=2",
    "a=1, b=2",
    "a, /",
    "a, b=2, /",
    "a, /, b",
    "a, /, b=2",
    "*, k",
    "*, k=3",
    "*, k=3, l",
    "a, *, k",
    "a, b=2, *, k=3",
    "*args",
    "a, *args",
    "a, b=2, *args",
    "*args, k",
    "*args, k=3",
    "**kw",
    "a, **kw",
    "a, /, **kw",
    "a, b=2, /, **kw",
    "*, k=3, **kw",
    "*args, **kw",
    "a, b=2, /, c=3, *args, k, l=5, **kw",
    ", ".join(f"p{i}" for i in range(20)),
    ", ".join(f"p{i}={i}" for i in range(20)),
]
POSITIONAL = [(), (10,), (10, 20), (10, 20, 30), tuple(range(20)), tuple(range(21))]
KEYWORDS: list[dict[str, Any]] = [
    {name: name.upper() for name in names}
    for n in range(4)
    for names in itertools.permutations(("a", "b", "k", "z"), n)
] + [{"p3": "P3"}, {"p19": 1, "p0": 2}]


def returning_its_parameters(signature: str) -> Any:
    names = [part.partition("=")[0].strip() for part in signature.split(",")]
    order = [name for name in names if name and name[0] not in "*/"]
    order += [
        name.lstrip("*") for name in names if len(name.lstrip("*")) < len(name) and name != "*"
    ]
    namespace: dict[str, Any] = {}
    body = "".join(f"{name}, " for name in order)
    exec(f"def f({signature}): return ({body})", namespace)
    function = namespace["f"]
    assert list(function.__code__.co_varnames) == order
    return function


def outcome(callable_: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    try:
        value = callable_(*args, **kwargs)
    except Exception as exc:
        return type(exc), str(exc)
    return value, [list(part) for part in value if isinstance(part, dict)]  # order of **kw


def calls() -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    yield from itertools.product(POSITIONAL, KEYWORDS)


@pytest.mark.parametrize("signature", SIGNATURES)
def test_every_call(signature: str) -> None:
    function = returning_its_parameters(signature)
    compiled = entered(function)
    fitting = 0
    for args, kwargs in calls():
        expected = outcome(function, args, kwargs)
        assert outcome(compiled, args, kwargs) == expected, (args, kwargs)
        fitting += not isinstance(expected[0], type)
    assert compiled.statistics() == {"hits": fitting, "misses": 0}


def test_plain_vectorcalls() -> None:
    """The calls above go through CALL_FUNCTION_EX; these through CALL and its keyword names."""

    def f(a: Any, b: Any = 2, *rest: Any, k: Any = 3, **kw: Any) -> Any:
        return a, b, k, rest, kw

    c = entered(f)
    assert c(1) == f(1)
    assert c(1, 5) == f(1, 5)
    assert c(1, 5, 6, 7) == f(1, 5, 6, 7)
    assert c(b=1, a=2) == f(b=1, a=2)
    assert c(1, k=2, z=9) == f(1, k=2, z=9)
    more = {"k": 4, "y": 5}
    assert c(*[1, 2], **more) == f(*[1, 2], **more)


def test_errors_come_from_the_function() -> None:
    def f(a: Any, *, k: Any) -> Any:
        return a, k

    compiled = entered(f)
    with pytest.raises(TypeError) as caught:
        compiled(1)
    assert str(caught.value).endswith(
        "<locals>.f() missing 1 required keyword-only argument: 'k'",
    )
    assert len(caught.traceback) == 1  # this function, and nothing of ours


def test_keywords_equal_but_not_identical() -> None:
    compiled = entered(lambda first_parameter=0: None)
    name = "".join(["first", "_parameter"])
    assert compiled(**{name: 5}) == (5,)


def test_keywords_that_are_no_plain_strings() -> None:
    class Name(str):
        __slots__ = ()

    def f(a: Any = 0, **kw: Any) -> Any:
        return a, kw

    compiled = entered(f, target=None.__class__)  # a target that would refuse these parameters
    names: Any = {Name("a"): 5}
    assert compiled(**names) == (5, {})
    numbers: Any = {1: 2}
    with pytest.raises(TypeError, match="keywords must be strings"):
        compiled(**numbers)


def test_defaults_are_read_at_each_call() -> None:
    def f(a: Any = 1, *, k: Any = 2) -> Any:
        return a, k

    compiled = entered(f)
    assert compiled() == (1, 2)
    f.__defaults__ = (10,)
    f.__kwdefaults__ = {"k": 20}
    assert compiled() == (10, 20)
    assert f.__kwdefaults__ is not None
    f.__kwdefaults__["k"] = 30
    assert compiled() == (10, 30)
    compiled.__defaults__ = None
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'a'"):
        compiled()


def test_defaults_replaced_while_the_target_runs() -> None:
    """The bound parameters stay alive although nobody else holds them any more."""

    def f(a: Any = None, *, k: Any = None) -> Any:
        return a, k

    class Default:
        alive = 0

        def __init__(self) -> None:
            Default.alive += 1

        def __del__(self) -> None:
            Default.alive -= 1

    class Target:
        """Not a Python function: nothing copies the parameters into a frame first."""

        def __call__(self, *bound: Any) -> int:
            f.__defaults__, f.__kwdefaults__ = (None,), None
            return Default.alive

    compiled = entered(f, target=Target())
    for _ in range(100):
        f.__defaults__, f.__kwdefaults__ = (Default(),), {"k": Default()}
        assert compiled() == 2
        assert Default.alive == 0


def test_kwargs_dict_is_fresh() -> None:
    def f(**kw: Any) -> Any:
        return kw

    compiled = entered(f)
    given = {"a": 1}
    (first,) = compiled(**given)
    (second,) = compiled(**given)
    assert first == second == given
    assert first is not second
    assert first is not given


def test_miss_gets_the_bound_parameters() -> None:
    def f(a: Any, b: Any = 2, *rest: Any, k: Any = 3, **kw: Any) -> Any:
        return None

    seen = []

    def miss(compiled: CompiledFunction, bound: tuple[Any, ...]) -> Any:
        seen.append((compiled, bound))
        return "result"

    compiled = wrap(f, miss)
    assert compiled(1, 2, 3, z=4) == "result"
    assert compiled(1, 2) == "result"
    assert seen == [(compiled, (1, 2, 3, (3,), {"z": 4})), (compiled, (1, 2, 3, (), {}))]
    assert compiled.statistics() == {"hits": 0, "misses": 2}


def test_plain_function_miss_gets_the_bound_parameters() -> None:
    seen = []
    compiled = wrap(lambda a, b: None, lambda _, bound: seen.append(bound))
    compiled(1, 2)
    compiled(1, b=3)
    assert seen == [(1, 2), (1, 3)]


def test_cells_and_closures() -> None:
    outside = 5

    def f(a: Any, b: Any = 2) -> Any:
        def inner() -> Any:
            return a, outside

        return inner, b

    assert entered(f)(1) == (1, 2)
