# mypy: ignore-errors
"""Every instruction that can be carried out natively, on objects that can't be looked into."""

import array
import contextlib
import io
import re
import tempfile
import xml.etree.ElementTree as ElementTree

import pytest
import torch

import stator

from . import kinds  # noqa: F401 - the breaks that are put in refer to it
from .harness import Constructs, check, t

constructs = Constructs()


def ints():
    return t(3), array.array("q", [3, 1, 2])


@constructs(ints)
def binary_operator(x, a):
    y = x * 2
    b = a + a
    return y + 1, b * 2, b


@constructs(ints)
def in_place_operator(x, a):
    y = x * 2
    b = a
    b += a
    b *= 2
    return y + 1, a is b, a


@constructs(ints)
def comparisons(x, a):
    y = x * 2
    b = a == a
    c = a < a
    d = a != a
    return y + 1, b, c, d


@constructs(ints)
def comparison_in_a_condition(x, a):
    y = x * 2
    if a >= a and not a < a:
        return y + 1
    return y - 1


@constructs(ints)
def contains(x, a):
    y = x * 2
    return y + 1, 3 in a, 4 not in a


@constructs(ints)
def truth_of(x, a):
    y = x * 2
    z = not a
    if a:
        y = y + 1
    w = a or 3
    v = a and 3
    while not a:
        y = y + 1
    return y + 1, z, w, v


@constructs(ints)
def items(x, a):
    y = x * 2
    a[0] = 5
    a[1] += 1
    z = y + a[1]
    del a[0]
    return z * 2, a


@constructs(ints)
def slices(x, a):
    y = x * 2
    b = a[1:]
    a[:2] = b
    del a[:1]
    return y + len(b), a, b


@constructs(ints)
def iteration(x, a):
    y = x * 2
    for n in a:
        y = y + n
    return y, a


@constructs(ints)
def nested_iteration(x, a):
    y = x * 2
    for n in a:
        for m in a:
            if m > n:
                continue
            y = y + m
        else:
            y = y - 1
    return y


@constructs(ints)
def unpacking(x, a):
    b, c, d = a
    e, *f = a
    return x * b + c - d, e, f


@constructs(ints)
def unpacking_too_many(x, a):
    y = x * 2
    try:
        b, c = a
    except ValueError as error:
        return str(error), y + 1


@constructs(ints)
def star_displays(x, a):
    y = x * 2
    return y + 1, [*a, 1], (*a, 2), {*a}


@constructs(ints)
def star_call(x, a):
    def f(*args):
        return sum(args)

    return x * f(*a) + max(*a)


@constructs(ints)
def comprehension(x, a):
    return x * sum([n * 2 for n in a]), {n: n for n in a}, {n for n in a}


@constructs(ints)
def attribute(x, a):
    y = x * a.itemsize
    return y + len(a.typecode)


@constructs(ints)
def missing_attribute(x, a):
    y = x * 2
    try:
        a.missing
    except AttributeError as error:
        return str(error), y + 1, getattr(a, "missing", 3), hasattr(a, "pop")


@constructs(ints)
def method_calls(x, a):
    a.append(4)
    y = x * a.pop()
    a.extend([1, 2])
    a.reverse()
    return y + a.index(1), a


@constructs(ints)
def function_calls(x, a):
    return x * len(a), sum(a), sorted(a), list(a), tuple(a), max(a), bytes(a)[:1]


@constructs(lambda: (t(3), ElementTree.Element("made")))
def attribute_store(x, e):
    y = x * 2
    e.text = "a"
    e.tail = e.text * 2
    e.text += "b"
    del e.tail
    return y + len(e.text)


@constructs(lambda: (t(3), ElementTree.Element("made")))
def failing_attribute_store(x, e):
    y = x * 2
    try:
        e.missing = 1
    except AttributeError as error:
        return str(error), y + 1


@constructs(ints, whole=True)
def formatting(x, a):
    y = x * 2
    return y + 1, f"{a}", f"{a!r:>40}", "%s" % a, "{}".format(a), str(a)


@constructs(lambda: (t(3), memoryview(bytearray(b"abc"))))
def match_sequence(x, view):
    y = x * 2
    match view:
        case [97, *rest]:
            return y + len(rest), rest
        case _:
            return y - 1


@constructs(ints)
def match_class(x, a):
    match a:
        case array.array(itemsize=8, typecode=code):
            return x + 1, code
        case _:
            return x - 1


@constructs(lambda: (t(3), io.StringIO("one\ntwo\n")))
def files(x, stream):
    y = x * 2
    for line in stream:
        y = y + len(line)
    stream.write("three")
    return y, stream.getvalue(), stream.tell()


@constructs()
def with_a_file(x):
    y = x * 2
    with tempfile.TemporaryFile() as file:
        file.write(b"abc")
        file.seek(0)
        y = y + len(file.read())
    return y + 1, file.closed


@constructs()
def with_a_file_and_an_error(x):
    y = x * 2
    try:
        with io.BytesIO(b"abc") as file:
            y = y + len(file.read())
            raise KeyError("inside")
    except KeyError:
        return y + 1, file.closed


@constructs(lambda: (t(3), (n * 2 for n in range(3))))
def generator_of_the_world(x, numbers):
    y = x * next(numbers)
    for n in numbers:
        y = y + n
    return y, next(numbers, None)


@constructs(lambda: (t(3), iter([1, 2, 3])))
def iterator_of_the_world(x, numbers):
    y = x * next(numbers)
    for n in numbers:
        y = y + n
        break
    return y, numbers


@constructs()
def import_statement(x):
    import colorsys
    from colorsys import hls_to_rgb as convert

    y = x * 2
    return y + len(convert(0.1, 0.2, 0.3)), colorsys.__name__


@constructs()
def import_that_fails(x):
    y = x * 2
    try:
        import stator.no_such_module  # noqa: F401
    except ImportError as error:
        return y + 1, error.name


@constructs(lambda: (t(3), re.compile("a(b)")))
def patterns(x, pattern):
    found = pattern.match("ab")
    return x * found.end(), found.group(1), found[0]


@constructs(ints)
def global_state(x, a):
    y = x * 2
    z = torch.tensor(a.tolist())
    return y + z


@constructs(ints)
def operator_error(x, a):
    y = x * 2
    try:
        a + 1
    except TypeError as error:
        return str(error), y + 1


@constructs(ints)
def index_error(x, a):
    y = x * 2
    return y + a[5]


@constructs(ints)
def error_in_iteration(x, a):
    y = x * 2
    for n in a:
        y = y + 1 // (n - 1)
    return y


@constructs(ints)
def suppressed(x, a):
    with contextlib.suppress(IndexError):
        x = x * 2
        a[7] = 1
    return x + 1


@constructs(ints)
def negation(x, a):
    y = x * 2
    with contextlib.suppress(TypeError):
        -a
    with contextlib.suppress(TypeError):
        ~a
    with contextlib.suppress(TypeError):
        +a
    return y + 1


class Deleting:
    """An instance with `__del__` is opaque."""

    def __init__(self, n):
        self.n = n

    def __del__(self):
        pass

    def __add__(self, other):
        return self.n + other

    def __getitem__(self, key):
        return self.n + key

    def __call__(self, x, *, k):
        return x * self.n + k

    def __enter__(self):
        self.n += 1
        return self

    def __exit__(self, *args):
        self.n += 1


@constructs(lambda: (t(3), Deleting(2)))
def instance_with_del(x, d):
    y = x * d.n
    d.n = 4
    y = d(y, k=d[1]) + (d + 2)
    with d as same:
        y = y * 2
    return y, same is d, d.n


@stator.disable
def two(x):
    return x * 2, x * 3


@constructs()
def disabled_result_unpacked(x):
    a, b = two(x + 1)
    (c, d), e = two(a), two(b)
    return a + b + c + d, e


@constructs()
def disabled_in_every_position(x):
    y = two(x)[0] + two(x)[1]
    items = [two(y), *two(y)]
    table = {"a": two(x), **{"b": two(x)}}
    for z in two(x):
        y = y + z
    return y, items, table, f"{len(two(x))}"


@pytest.mark.parametrize("construct", constructs, ids=lambda construct: construct.name)
def test_instructions(construct):
    check(construct, "disabled", 0)
