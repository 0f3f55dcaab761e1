# mypy: ignore-errors
"""Calls of Python functions: binding, defaults, closures, recursion, decorators, partial."""

import functools
import operator

import pytest
import torch

from .harness import Program, Programs, check, given, t

programs = Programs()


def one():
    return (t(3),)


def helper(x, by=2, *rest, sign=1, **options):
    return x * by * sign + len(rest) + sum(options.values())


@programs(one, ops=["mul", "mul", "add", "add"])
def plain_call(x):
    return helper(x)


@programs(one)
def positional_and_keyword(x):
    return helper(x, 3), helper(x, by=4), helper(by=5, x=x)


@programs(one)
def extra_positionals_and_keywords(x):
    return helper(x, 3, 4, 5, sign=-1, a=1, b=2)


@programs(one)
def unpacked_arguments(x):
    args, kwargs = (x, 3, 4), {"sign": -1, "extra": 10}
    return helper(*args, **kwargs), helper(*[x], *(1, 2), **{}, **{"z": 4})


@programs(lambda: given(t(3), 1, 2, a=3), changes={"count": lambda: given(t(3), 1, b=3, a=4)})
def star_parameters(x, *args, **kwargs):
    return x + sum(args), args, kwargs


@programs(lambda: given(t(3)), changes={"given": lambda: given(t(3), 5, flag=False)})
def own_defaults(x, by=2, *, flag=True):
    return x * by if flag else x + by


@programs(lambda: (t(3), t(3)))
def positional_only(x, y, /):
    def inner(a, b, /, c=1):
        return a * b + c

    return inner(x, y), inner(y, x, c=3)


@programs(one, raises=TypeError)
def missing_argument(x):
    return helper()


@programs(one, raises=TypeError)
def unexpected_keyword(x):
    def inner(a):
        return a

    return inner(x, b=1)


@programs(one, raises=TypeError)
def too_many_positionals(x):
    return (lambda a: a)(x, x)


def remember(x, seen=[]):  # noqa: B006
    seen.append(1)
    return x + len(seen)


@programs(one, reset=lambda: remember.__defaults__[0].clear(), world=lambda: remember.__defaults__)
def mutable_default(x):
    return remember(x) + remember(x)


@programs(one)
def default_evaluated_at_definition(x):
    n = 1

    def inner(a, by=n):
        return a + by

    n = 100
    return inner(x)


@programs(one)
def lambda_call(x):
    double = lambda a: a * 2  # noqa: E731
    return double(double(x))


@programs(one, dead=True)
def nested_function_with_closure(x):
    y = x + 1

    def inner(a):
        return a * y

    y = x + 2
    return inner(x)


@programs(one)
def nonlocal_counter(x):
    n = 0

    def step(a):
        nonlocal n
        n += 1
        return a + n

    return step(step(step(x))), n


@programs(one)
def closure_over_closure(x):
    def outer(a):
        def middle(b):
            def inner(c):
                return a + b * c

            return inner

        return middle

    return outer(x)(2)(x)


@programs(one)
def loop_closures_see_the_last_value(x):
    return [f(x) for f in [lambda a: a + i for i in range(3)]]


@programs(one)
def loop_closures_with_defaults(x):
    return [f(x) for f in [lambda a, i=i: a + i for i in range(3)]]


def make_adder(n):
    def add(x):
        return x + n

    return add


add_two = make_adder(2)


@programs(one)
def closure_of_the_world(x):
    return add_two(x)


programs.add("compiled_closure", make_adder(7), one)


@programs(one)
def returned_function(x):
    return make_adder(3), x + 1


@programs(one)
def returned_closure_over_a_result(x):
    y = x + 1

    def later(z):
        return z + y

    return later, y


def factorial(n, x):
    return x if n <= 1 else factorial(n - 1, x * n)


@programs(one, ops=["mul"] * 4)
def recursion(x):
    return factorial(5, x)


@programs(lambda: (t(2), 3), changes={"depth": lambda: (t(2), 1)})
def recursive_itself(x, n):
    return x if n == 0 else recursive_itself(x + n, n - 1)


def even(n, x):
    return x if n == 0 else odd(n - 1, x * 2)


def odd(n, x):
    return x + 1 if n == 0 else even(n - 1, x - 1)


@programs(one)
def mutual_recursion(x):
    return even(5, x)


def doubled(f):
    @functools.wraps(f)
    def wrapper(*args, **kwargs):
        return f(*args, **kwargs) * 2

    return wrapper


@doubled
def decorated(x, y=1):
    return x + y


@programs(one)
def decorator(x):
    return decorated(x, y=3), decorated.__name__


def repeat(n):
    def decorate(f):
        def wrapper(x):
            for _ in range(n):
                x = f(x)
            return x

        return wrapper

    return decorate


@repeat(3)
@doubled
def twice_decorated(x):
    return x + 1


@programs(one)
def decorators_with_arguments(x):
    return twice_decorated(x)


@programs(one)
def decorator_applied_inside(x):
    @doubled
    def inner(a):
        return a - 1

    return inner(x)


@programs(one)
def partial_of_python_function(x):
    f = functools.partial(helper, by=3, sign=-1)
    return f(x), functools.partial(f, x, sign=2)()


@programs(one)
def partial_of_torch_function(x):
    return functools.partial(torch.clamp, min=-0.5)(x, max=0.5)


@programs(
    lambda: (t(3), functools.partial(helper, by=3)),
    changes={"bound": lambda: (t(3), functools.partial(helper, by=4))},
)
def partial_argument(x, f):
    return f(x), f.keywords["by"]


@programs(one)
def function_in_a_table(x):
    table = {"sin": torch.sin, "double": lambda a: a * 2, "neg": operator.neg}
    return [f(x) for f in table.values()]


@programs(
    lambda: (t(3), torch.sin),
    changes={"function": lambda: (t(3), torch.cos), "python": lambda: (t(3), decorated)},
)
def function_argument(x, f):
    return f(x)


@programs(one)
def map_and_filter(x):
    return list(map(lambda n: x * n, filter(lambda n: n % 2, range(5))))


@programs(one)
def reduce_over_tensors(x):
    return functools.reduce(lambda a, b: a * b, [x, x + 1, x + 2])


@programs(one)
def reduce_with_operator(x):
    return functools.reduce(operator.add, [x, x + 1, x + 2], x)


@programs(one)
def function_attributes(x):
    def f(a):
        return a * f.factor

    f.factor = 3
    return f(x), f.__name__, f.__qualname__.split(".")[-1]


@programs(one)
def annotations_and_signature(x):
    def f(a: int, b: "str" = "q") -> float:
        return a

    return x + 1, f.__annotations__, f.__defaults__, f.__code__.co_argcount


@functools.lru_cache(maxsize=None)
def cached_size(n):
    return n * n


@programs(one, reset=lambda: cached_size.cache_clear(), hits=False)
def cached_function(x):
    return x + cached_size(4)


@functools.singledispatch
def kind(value):
    return 0


@kind.register
def _(value: int):
    return value + 1


@kind.register(list)
def _(value):
    return len(value)


@programs(one, reset=lambda: kind._clear_cache())
def single_dispatch(x):
    return x * kind(4) + kind([1, 2]) + kind("s")


@programs(one)
def immediately_called_lambda(x):
    return (lambda a, *b, c=3, **d: a + c + len(b) + len(d))(x, 1, 2, c=4, e=5)


@programs(one)
def functions_compare_by_identity(x):
    return x + 1, helper is helper, helper == decorated, add_two in [add_two]


@programs(one)
def call_through_globals(x):
    return globals()["helper"](x, 4)


@programs(one)
def locals_of_a_function(x):
    a, b = 1, 2
    return x + sum(v for k, v in locals().items() if k in ("a", "b"))


@programs(one)
def deep_call_chain(x):
    def go(n, y):
        return y if n == 0 else go(n - 1, y + 1)

    return go(30, x)


@programs(one)
def keyword_order_is_kept(x):
    def names(**kwargs):
        return list(kwargs)

    return x + 1, names(b=1, a=2, **{"z": 3, "y": 4})


@programs(one)
def compose(x):
    def compose(*fs):
        return functools.reduce(lambda f, g: lambda a: f(g(a)), fs)

    return compose(torch.sin, torch.cos, lambda a: a + 1)(x)


@programs(one)
def generator_expression_argument(x):
    return sum(x * n for n in range(1, 4))


@programs(one)
def operator_functions(x):
    get = operator.itemgetter(1, 0)
    return (
        get([x + 1, x + 2]),
        operator.methodcaller("clamp", min=0)(x),
        operator.attrgetter("mT")(x[None]),
    )


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)
