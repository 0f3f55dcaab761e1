# mypy: ignore-errors
"""Corners of the language and its library, as CPython's own tests use them."""

import contextlib
import contextvars
import copy
import datetime
import functools
import io
import pickle
import re
import sys
import threading
import types
import warnings
import weakref
from decimal import Decimal, getcontext, localcontext

import pytest

import stator

from .harness import Program, Programs, check, t

programs = Programs()


def one():
    return (t(3),)


# --- values that have attributes


class Count(int):
    def __repr__(self):
        return f"Count({int(self)})"


class Name(str):
    __slots__ = ("note",)


class Pair(tuple):
    pass


class Tags(frozenset):
    pass


def count():
    made = Count(4)
    made.unit = "m"
    return t(3), made


@programs(count, changes={"value": lambda: (t(3), Count(5))})
def subclass_of_int_with_attributes(x, n):
    n.seen = n.unit + "!" if hasattr(n, "unit") else "?"
    return x * n, repr(n), n + 1, n == 4


@programs(lambda: (t(3), Name("a")))
def subclass_of_str_with_slots(x, name):
    name.note = name + "b"
    return x + len(name.note), {name: 1}["a"]


def pair():
    made = Pair((1, [2]))
    made.more = [3]
    return t(3), made


@programs(pair)
def subclass_of_tuple_with_attributes(x, both):
    both[1].append(5)
    both.more.append(x + 1)
    both.less = both
    return both[0], len(both[1])


@programs(lambda: (t(3), Tags({1, 2})), changes={"elements": lambda: (t(3), Tags({1, 3}))})
def subclass_of_frozenset(x, tags):
    tags.kept = tags | {7}
    return x + len(tags), 2 in tags


CODES = frozenset({Count(1), Count(2)})


@programs(one)
def frozenset_of_values_with_attributes(x):
    return x + 1, 2 in CODES, 3 in CODES


@programs(lambda: (t(3), datetime.date(2020, 1, 2)))
def dates(x, day):
    return x + day.day, (day + datetime.timedelta(1)).isoformat(), {day: 1}[day]


@programs(one)
def struct_sequences(x):
    return x + sys.float_info.mant_dig, sys.hash_info.width > 0


@programs(lambda: (t(3), bytearray(b"abc")))
def bytearray_of_the_world(x, data):
    before = data[1]
    data.append(100)
    data[:1] = b"zz"
    return x * before, bytes(data), len(data)


VIEW = types.MappingProxyType({"a": 1, "b": [2]})


@programs(one)
def read_only_view(x):
    return x * VIEW["a"], list(VIEW), VIEW.get("c", 3), "b" in VIEW


MEMBERS = {object(): 1 for _ in range(2)}
OBJECTS = set(MEMBERS)
WEAK = {weakref.ref(t) for t in (Count, Name)}


@programs(one)
def set_of_objects(x):
    return x + len(OBJECTS), all(one in MEMBERS for one in OBJECTS), len(WEAK)


# --- exceptions of the world


@programs(lambda: (t(3), ValueError("kept", 1)), changes={"args": lambda: (t(3), ValueError(2))})
def exception_is_raised_and_caught(x, error):
    try:
        raise error
    except ValueError as caught:
        same = caught is error
    error.seen = x + 1
    return same, error.args


ERRORS = ExceptionGroup("all", [ValueError(1), TypeError("two")])


@programs(one)
def group_is_split(x):
    values, rest = ERRORS.split(ValueError)
    try:
        raise ERRORS
    except* TypeError as caught:
        found = caught.exceptions[0].args
    except* ValueError:
        pass
    return x + len(values.exceptions), str(rest.exceptions[0]), found


# --- code in namespaces of its own


@programs(one)
def code_in_a_dict(x):
    space = {"x": x}
    exec("def double(v):\n    global calls\n    calls = 1\n    return v * 2\ny = double(x)", space)
    return space["y"], space["calls"], eval("calls + 1", space)


@programs(one)
def comprehension_in_a_dict(x):
    space = {}
    exec("spam = [i for i in range(3) if (last := i) >= 0]", space)
    return x + space["last"], space["spam"]


def decorated(cls):
    cls.extra = getattr(cls, "extra", 1) * 5
    return cls


@programs(one)
def class_attributes_change_while_it_is_used(x):
    @decorated
    @decorated
    class Made:
        pass

    return x * Made.extra


@programs(one)
def hooks_see_a_class_before_it_is_done(x):
    seen = []

    class Base:
        def __init_subclass__(cls):
            seen.append((cls.__name__, cls.size))
            cls.size += 1

    class Made(Base):
        size = 1

    return x * Made.size, seen


class Guarded(type):
    def __setattr__(cls, name, value):
        if name == "fixed":
            raise AttributeError("it is fixed")
        super().__setattr__(name, value)


class Holder(metaclass=Guarded):
    pass


@programs(one)
def metaclass_with_a_setter(x):
    Holder.number = 3
    try:
        Holder.fixed = 1
    except AttributeError as error:
        text = str(error)
    return x * Holder.number, text


NOTHING = None


@programs(one)
def what_is_no_function(x):
    try:
        NOTHING(x)
    except TypeError as error:
        return x + 1, str(error)


@programs(one)
def dict_and_class_are_replaced(x):
    class Box:
        pass

    class Other:
        kind = 2

    box = Box()
    box.__dict__ = {"value": x}
    box.__class__ = Other
    return box.value * box.kind


# --- the library


@programs(one)
def memory_files(x):
    with io.StringIO() as text:
        text.write("a\nb\n")
        print("c", 1, sep="-", end="!", file=text)
        text.seek(0)
        lines = list(text)
    data = io.BytesIO(b"xyz")
    return x + len(lines), lines, data.read(2), data.tell()


@programs(one)
def output_is_redirected(x):
    with contextlib.redirect_stdout(io.StringIO()) as text:
        print("a", "b", sep="")
    return x + 1, text.getvalue()


@programs(one)
def no_instance_dict(x):
    try:
        return vars(Slotted())
    except TypeError as error:
        return x + 1, str(error)


@programs(one)
def attributes_of_a_builtin_type(x):
    try:
        int.more = 1
    except TypeError as error:
        return x + 1, str(error)


class Plain:
    def __init__(self):
        self.parts = [1, {"k": (2.5, None)}]


@programs(one)
def pickled_and_back(x):
    made = Plain()
    results = [
        pickle.loads(pickle.dumps(made, version)).parts
        for version in range(pickle.HIGHEST_PROTOCOL + 1)
    ]
    return x + len(results), results[0], all(parts == made.parts for parts in results)


@programs(one)
def patterns(x):
    found = re.compile(r"(\w+)-(\d+)", re.IGNORECASE).match("ab-12")
    try:
        re.compile("(")
    except re.error as error:
        text = str(error)
    return x * int(found.group(2)), re.sub("[ab]", "c", "abx"), text


@programs(one)
def own_locks(x):
    lock, again = threading.Lock(), threading.RLock()
    with lock:
        held = lock.locked()
    with again, again:
        y = x + 1
    try:
        lock.release()
    except RuntimeError as error:
        return y, held, lock.locked(), str(error)


@programs(one)
def own_cache(x):
    calls = []

    @functools.lru_cache
    def scale(n):
        calls.append(n)
        return n * 2

    return x * scale(2) * scale(2), calls, scale.cache_info().hits


class Shouting(functools.partial):
    pass


@programs(one)
def subclass_of_partial(x):
    return Shouting(lambda a, b: a - b, x)(b=1)


@programs(one)
def warnings_are_caught(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("first", DeprecationWarning, stacklevel=1)
        warnings.warn(UserWarning("second"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            warnings.warn("third", FutureWarning)
        except FutureWarning as error:
            text = str(error)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("fourth")
    first = caught[0]
    return x + len(caught), first.category, str(first.message), first.filename == __file__, text


SETTING = contextvars.ContextVar("SETTING", default=7)
LOADED = contextvars.ContextVar("LOADED")
LOADED.set([1])


@programs(one)
def context_variables(x):
    return x * SETTING.get(), LOADED.get()[0], SETTING.get(8)


@programs(one)
def context_variable_is_set_and_reset(x):
    token = SETTING.set(2)
    y = x * SETTING.get()
    SETTING.reset(token)
    return y, SETTING.get(5)


RATE = Decimal("1.25")


@programs(one)
def decimals(x):
    total = Decimal("1.5") + RATE
    with localcontext() as context:
        context.prec = 3
        third = Decimal(1) / 3
    return x * int(total), total, str(third), round(RATE, 1)


class Slotted:
    __slots__ = ("a", "__b")

    def __init__(self):
        self.a, self.__b = [1], 2


@programs(one)
def copies_of_slots(x):
    made = copy.deepcopy(Slotted())
    return x + made.a[0], made._Slotted__b


@programs(one)
def lines_of_code(x):
    return x + len(list(lines_of_code.__code__.co_lines()))


@programs(one)
def nobody_traces(x):
    return x + 1, sys.gettrace(), sys.getrecursionlimit() > 10


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)


# --- a trace that is broken off leaves nothing behind

RAN: list[str] = []


@contextlib.contextmanager
def noisy():
    try:
        yield
    finally:
        RAN.append("finally")


def broken_in_a_block(x):
    with noisy():
        try:
            raise KeyError("handled")
        except KeyError:
            open("no such file")
    return x


def test_broken_trace_runs_no_finally_and_handles_no_exception() -> None:
    RAN.clear()
    with pytest.raises(RuntimeError, match="open"):
        stator.compile(broken_in_a_block, fullgraph=True, backend="eager")(t(3))
    assert RAN == []
    assert sys.exc_info() == (None, None, None)


def broken_in_a_local_context(x):
    with localcontext() as context:
        context.prec = 3
        open("no such file")
    return x


def test_a_break_in_a_local_context() -> None:
    getcontext().clear_flags()
    before = getcontext(), repr(getcontext()), SETTING.get()
    with pytest.raises(RuntimeError, match="open"):
        stator.compile(broken_in_a_local_context, fullgraph=True, backend="eager")(t(3))
    assert getcontext() is before[0]
    assert (repr(getcontext()), SETTING.get()) == before[1:]


def filters_stay_changed(x):
    warnings.simplefilter("ignore", category=BytesWarning, append=True)
    return x + 1


def test_filters_that_stay_changed_break() -> None:
    before = list(warnings.filters)
    with pytest.raises(RuntimeError, match="warning filters"):
        stator.compile(filters_stay_changed, fullgraph=True, backend="eager")(t(3))
    assert warnings.filters == before
