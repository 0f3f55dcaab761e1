# mypy: ignore-errors
"""Breaks in functions of all sorts: cells, methods, properties, classes, callbacks, recursion."""

import functools

import pytest
import torch

from . import kinds  # noqa: F401 - the breaks that are put in refer to it
from .harness import Constructs, check, t
from .kinds import BREAK

constructs = Constructs()


@constructs()
def cell_read(x):
    n = 2
    y = x * n

    def inner(z):
        return BREAK(z + y) * n

    return inner(x) + n


@constructs()
def cell_written_before_and_after(x):
    n = 1

    def inner(z):
        nonlocal n
        n += 1
        z = BREAK(z * n)
        n += 1
        return z * n

    n += 1
    y = inner(x)
    n += 1
    return y * n, n


@constructs()
def cell_shared(x):
    n = 1

    def add():
        nonlocal n
        n += 1

    def get():
        return n

    add()
    y = BREAK(x)
    add()
    n += 10
    add()
    return y * get(), n


@constructs()
def closures_returned(x):
    n = 1

    def add(k):
        nonlocal n
        n += k
        return n

    add(2)
    y = BREAK(x)
    add(3)
    return add, y * add(0)


@constructs(whole=True)
def cell_unbound(x):
    def inner():
        return later

    y = BREAK(x)
    try:
        inner()
    except NameError as error:
        text = str(error)
    later = 3
    return y * inner(), text


@constructs()
def cell_parameter(x):
    def outer(a, b=2):
        def inner():
            nonlocal a
            a = a + b
            return BREAK(a)

        return inner() + a

    return outer(x) * 2


@constructs()
def deep_closures(x):
    a = 1

    def one():
        b = a + 1

        def two():
            nonlocal b
            c = a + b

            def three(x):
                nonlocal b
                b += 1
                return BREAK(x * b) + c

            return three(x) * b

        return two() + b

    return one()


@constructs()
def lambdas(x):
    f = lambda y, k=2: BREAK(y * k) + 1  # noqa: E731
    return f(x) + (lambda: BREAK(x))()


@constructs()
def defaults_and_keywords(x):
    def f(a, /, b=2, *args, c=3, **kwargs):
        y = BREAK(a * b)
        return y + sum(args) + c + len(kwargs)

    return f(x, 1, 2, 3, c=4, d=5) + f(x) + f(x, d=1)


@constructs()
def recursion(x):
    def go(x, n):
        if n == 0:
            return BREAK(x)
        return go(x + n, n - 1) * 2

    return go(x, 3)


@constructs()
def recursion_that_breaks_everywhere(x):
    def go(x, n):
        x = BREAK(x)
        if n:
            x = go(x * 2, n - 1)
            x = x + n
        return x

    return go(x, 2)


def decorated(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return wrapper


@constructs()
def decorators(x):
    @decorated
    @decorated
    def inner(y):
        return BREAK(y + 1) - 1

    return inner(x) + 1


@constructs()
def decorator_that_breaks(x):
    def decorate(function):
        y = BREAK(x)
        return lambda z: function(z) + y

    @decorate
    def inner(z):
        return z * 2

    return inner(x)


@constructs()
def partial(x):
    def f(a, b, c):
        return BREAK(a * b) + c

    return functools.partial(f, x, c=3)(2)


class Base:
    scale = 2

    def __init__(self, n):
        self.n = n

    def method(self, x):
        self.n += 1
        y = self.inner(x) * self.n
        self.n += 1
        return y

    def inner(self, x):
        return x * self.scale

    @property
    def twice(self):
        return self.n * 2

    @classmethod
    def made(cls, n):
        return cls(n)

    @staticmethod
    def plain(x):
        return x - 1


class Derived(Base):
    def method(self, x):
        y = super().method(x)
        y = BREAK(y)
        return super().inner(y) + super(Derived, self).inner(x)

    def inner(self, x):
        self.n += 1
        y = BREAK(x * self.scale)
        self.n += 1
        return y

    @property
    def value(self):
        return BREAK(torch.ones(3) * self.n) + 1

    @value.setter
    def value(self, n):
        self.n = BREAK(torch.ones(3) + n)

    @classmethod
    def made(cls, n):
        return BREAK(torch.ones(3)) * super().made(n).n

    @staticmethod
    def plain(x):
        return BREAK(x) - 1


@constructs(lambda: (t(3), Base(2), Derived(3)))
def methods(x, base, derived):
    y = BREAK(base.method(x))
    return derived.inner(y) + y, base, derived


@constructs(lambda: (t(3), Base(2)))
def bound_method(x, base):
    method = base.method
    y = BREAK(method(x))
    return method(y)


@constructs(lambda: (t(3), Base(2)))
def properties(x, base):
    y = BREAK(x * base.twice)
    base.n = 5
    return y * base.twice


@constructs(lambda: (t(3), Derived(2)), whole=True)
def property_that_breaks(x, derived):
    y = derived.value
    derived.value = 4
    return y, derived.value


@constructs(lambda: (t(3), Derived(2)))
def super_calls(x, derived):
    return derived.method(x) * 2


@constructs(lambda: (t(3), Derived(2)))
def class_and_static_methods(x, derived):
    return Derived.made(2) + derived.plain(x) + Base.made(3).plain(x)


class Holder:
    def __init__(self, x):
        self.before = x * 2
        self.broken = BREAK(x)
        self.after = self.broken + self.before


@constructs(whole=True)
def half_built_object(x):
    held = Holder(x)
    return held.before, held


class Operators:
    """Special methods that break, each reached by an instruction."""

    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        return Operators(BREAK(self.value) + other.value)

    def __iadd__(self, other):
        self.value = BREAK(self.value) + other
        return self

    def __neg__(self):
        return BREAK(self.value) * -1

    def __getitem__(self, key):
        return BREAK(self.value) * key

    def __setitem__(self, key, value):
        self.value = BREAK(self.value) + value

    def __len__(self):
        return len(BREAK(self.value))

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return BREAK(self.value) * len(name)

    def __call__(self, x):
        return BREAK(self.value) + x

    def __bool__(self):
        return len(BREAK(self.value)) > 5

    def __eq__(self, other):
        return len(BREAK(self.value)) == 3

    __hash__ = None

    def __contains__(self, item):
        return len(BREAK(self.value)) == item

    def __iter__(self):
        return iter(range(len(BREAK(self.value))))

    def __str__(self):
        return str(len(BREAK(self.value)))


def operators():
    return t(3), Operators(t(3))


@constructs(operators, whole=True)
def special_add(x, a):
    return (a + a).value * x


@constructs(operators, whole=True)
def special_in_place(x, a):
    a += x
    return a.value + 1


@constructs(operators, whole=True)
def special_negative(x, a):
    return -a + x


@constructs(operators, whole=True)
def special_items(x, a):
    a[0] = x
    return a[2] + x


@constructs(operators, whole=True)
def special_getattr(x, a):
    return a.name + x


@constructs(operators, whole=True)
def special_call(x, a):
    return a(x) + x


@constructs(operators, whole=True)
def special_truth(x, a):
    return x + 1 if a else x - 1


@constructs(operators, whole=True)
def special_length(x, a):
    return x + len(a)


@constructs(operators, whole=True)
def special_comparison(x, a):
    return x + (a == 3) + (3 in a)


@constructs(operators, whole=True)
def special_iteration(x, a):
    return x + sum([*a])


@constructs(operators, whole=True)
def special_text(x, a):
    return x + 1, str(a), f"{a}"


class Descriptor:
    def __get__(self, instance, owner):
        return BREAK(torch.ones(3) * instance.n)

    def __set__(self, instance, value):
        instance.n = BREAK(torch.ones(3) * value)


class Described:
    item = Descriptor()

    def __init__(self):
        self.n = 2


@constructs(lambda: (t(3), Described()), whole=True)
def descriptors(x, described):
    y = described.item
    described.item = 3
    return y + x, described.item


@constructs(anew=True, whole=True)
def class_body(x):
    y = x * 2

    class Holder:
        first = y + 1
        second = BREAK(first)
        third = second * 2

        def method(self):
            return self.third

    return Holder().method(), Holder.first


@constructs(anew=True, whole=True)
def local_class(x):
    class Derived(Base):
        def inner(self, x):
            return BREAK(x * self.scale)

        @classmethod
        def made(cls, n):
            return super().made(n)

    y = BREAK(x)
    return Derived.made(2).method(y)


@constructs(whole=True)
def sort_key(x):
    items = sorted([3, 1, 2], key=lambda n: (len(BREAK(x)), -n))
    return x * items[0], items


@constructs(whole=True)
def map_call(x):
    found = list(map(lambda n: BREAK(x * n), [1, 2]))
    return found[0] + found[1]


@constructs(whole=True)
def reduce_call(x):
    return functools.reduce(lambda a, b: BREAK(a * 2) + b, [x, x + 1, 3])


@constructs(whole=True)
def max_key(x):
    best = max([x, x * 2], key=lambda v: len(BREAK(v)))
    return best + 1


@constructs()
def module_level_function(x):
    return outer_function(x, lambda y: BREAK(y) + 1)


def outer_function(x, inner):
    y = x.sin()
    return inner(y) + middle_function(y, inner)


def middle_function(x, inner):
    return inner(x * 2)


@constructs(anew=True, whole=True)
def cached_function(x):
    @functools.lru_cache
    def cached(n):
        BREAK(x)
        return n * 2

    return x * cached(2) + cached(2)


@constructs(lambda: (t(3), [t(3)], {"k": t(3)}))
def arguments_given_on(x, args, kwargs):
    def inner(*args, **kwargs):
        y = BREAK(args[0])
        return outer(*args, y, **kwargs)

    def outer(*args, k):
        return sum(args) + k

    return inner(x, *args, **kwargs)


@constructs()
def returned_function_is_called(x):
    def make(n):
        y = BREAK(x * n)
        return lambda z: z + y

    return make(2)(x) + make(3)(x)


@constructs(lambda: (t(3), torch.nn.functional.relu))
def function_as_argument(x, f):
    return f(BREAK(f(x) - 1))


@pytest.mark.parametrize(("construct", "kind", "depth"), constructs.cases())
def test_functions(construct, kind, depth):
    check(construct, kind, depth)
