# mypy: ignore-errors
"""Found by hostile programs: numbers that C code demands of special methods, exceptions that end a
loop, tracebacks of exceptions from before the call."""

import contextlib
import itertools
import math
import operator
import traceback

import pytest
import torch

import stator

from .harness import Recording
from .scenarios import Scenarios, plain, play_scenario, x

scenario = Scenarios()


@pytest.mark.parametrize(("play", "graphs"), scenario)
def test_scenario(play, graphs) -> None:
    play_scenario(play, graphs)


def differential(function, calls) -> list[Recording]:
    """Compares calls with eager, and answers with the graphs."""
    backend = Recording()
    compiled = stator.compile(function, backend=backend)
    for make in calls:
        assert plain(compiled(*make())) == plain(function(*make()))
    return backend.graphs


@stator.disable
def a_break():
    pass


# ---------------------------------------------------------------- numbers that C code demands


class Count:
    def __init__(self, value):
        self.value = value

    def __index__(self):
        return self.value


class Named:
    """The same, under names that say nothing."""

    def __init__(self, value):
        self.value = value

    def number(self):
        return self.value

    __index__ = __hash__ = number
    __float__ = lambda self: self.value + 0.5


class Amount:
    def __init__(self, value):
        self.value = value

    def __float__(self):
        return self.value

    def __int__(self):
        return int(self.value)


USES = {
    "item": lambda n: "abcdefgh"[n],
    "slice": lambda n: "abcdefgh"[n:],
    "repeat": lambda n: "ab" * n,
    "range": lambda n: list(range(n)),
    "int": int,
    "hex": hex,
    "index": operator.index,
    "islice": lambda n: list(itertools.islice("abcdefgh", n)),
    "sqrt": math.sqrt,
    "percent": lambda n: f"{n.value}" + "%x" % n,
    "insert": lambda n: operator.setitem([0] * 9, n, 1),
}


@pytest.mark.parametrize("cls", [Count, Named])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_integers(use, cls) -> None:
    """Open from the second call on, or read from a tensor."""

    def given(x, n):
        return use(n), x + 1

    def read(x, t):
        return use(cls(t.item())), x + 1

    differential(given, [lambda n=n: (x(), cls(n)) for n in (3, 4, 5)])
    differential(read, [lambda n=n: (x(), torch.tensor(n)) for n in (3, 4, 5)])


@pytest.mark.parametrize("use", [float, int, math.sin, math.isnan, lambda n: "%.1f" % n])
def test_floats(use) -> None:
    def given(x, n):
        return use(n), x + 1

    def read(x, t):
        return use(Amount(t.item())), x + 1

    differential(given, [lambda n=n: (x(), Amount(n)) for n in (1.5, 2.25, 3.75)])
    differential(read, [lambda n=n: (x(), torch.tensor(n)) for n in (1.5, 2.25, 3.75)])


def test_other_results_stay_open() -> None:
    """What C code only passes on is not fixed."""

    def halves(x):
        sizes = list(map(lambda size: size // 2, x.shape))
        return x[: sizes[0]] + 1

    graphs = differential(halves, [lambda n=n: (torch.arange(float(n)),) for n in (4, 6, 8, 10)])
    assert len(graphs) == 2  # the second one has an open size


# ---------------------------------------------------------------- exceptions that end a loop


class Upto:
    def __init__(self, end):
        self.end, self.at = end, 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.at >= self.end:
            raise StopIteration
        self.at += 1
        return self.at


class Row:
    def __init__(self, end):
        self.end = end

    def __getitem__(self, index):
        if index >= self.end:
            raise IndexError(index)
        return index


def require(i, end):
    if i >= end:
        raise IndexError(i)
    return i


def handled_in_the_loop(x, t):
    end, i = t.item(), 0
    while True:
        try:
            if i >= end:
                raise IndexError
        except IndexError:
            return x * i
        i += 1


def handled_around_the_loop(x, t):
    end, i = t.item(), 0
    try:
        while True:
            x = x + require(i, end)
            i += 1
    except IndexError:
        return x


def suppressed(x, t):
    end, i = t.item(), 0
    with contextlib.suppress(IndexError):
        while True:
            x = x + require(i, end)
            i += 1
    return x


def handled_by_the_iteration(x, t):
    for i in Upto(t.item()):
        x = x + i
    return x


def handled_by_c(x, t):
    return x + sum(Row(t.item()))


def decided_by_a_tensor(x, t):
    i = 0
    while True:
        try:
            if (t - i).sum() <= 0:
                raise IndexError
        except IndexError:
            return x * i
        i += 1


@pytest.mark.parametrize(
    "function",
    [
        handled_in_the_loop,
        handled_around_the_loop,
        suppressed,
        handled_by_the_iteration,
        handled_by_c,
        decided_by_a_tensor,
    ],
)
def test_a_loop_that_ends_by_an_exception(function) -> None:
    """Once, it was taken for granted that the exception is not raised, again and again."""
    differential(function, [lambda n=n: (x(), torch.tensor(n)) for n in (3, 5, 3, 0)])


def test_what_nobody_handles_is_insisted_on() -> None:
    def checked(x, t):
        try:
            if t.item() < 0:
                raise ValueError("negative")
            return x + 1
        finally:
            x = x + 2

    graphs = differential(checked, [lambda n=n: (x(), torch.tensor(n)) for n in (3, 5)])
    assert len(graphs) == 1


# ---------------------------------------------------------------- tracebacks from before the call


def deep():
    raise KeyError(1)


def raised():
    try:
        deep()
    except KeyError as error:
        return error


def lines(error):
    return [(each.name, each.lineno) for each in traceback.extract_tb(error.__traceback__)]


def chain(error):
    found = []
    while error is not None:
        found.append((type(error), lines(error)))
        error = error.__cause__ or error.__context__
    return found


LOOKS = {
    "is there": lambda e: e.__traceback__ is None,
    "line": lambda e: e.__traceback__ and e.__traceback__.tb_next.tb_lineno,
    "all of it": lines,
    "text": lambda e: "".join(traceback.format_exception(e)),
    "cleared": lambda e: setattr(e, "__traceback__", None),
    "taken away": lambda e: e.with_traceback(None) is e,
    "given on": lambda e: lines(ValueError().with_traceback(e.__traceback__)),
}


@pytest.mark.parametrize("look", LOOKS.values(), ids=LOOKS)
def test_a_traceback_is_read_and_set(look) -> None:
    def play(compile):
        f = compile(lambda x, e: (x + 1, look(e)))
        for error in (raised(), raised(), KeyError(1), raised()):
            yield f(x(), error)
            yield lines(error)

    expected = list(map(plain, play(lambda fn: fn)))
    stator.reset()
    assert list(map(plain, play(lambda fn: stator.compile(fn, backend="eager")))) == expected


@scenario(graphs=1)
def an_exception_that_is_raised_again(compile):
    @compile
    def f(x, error):
        try:
            raise error
        except KeyError:
            return x + 1

    for _ in range(2):
        error = raised()
        yield f(x(), error)
        yield lines(error)


@scenario(graphs=2)
def raised_again_around_a_break(compile):
    @compile
    def f(x, error):
        try:
            raise error
        except KeyError:
            y = x + 1
            a_break()
            y = y * 2
        return y

    for _ in range(2):
        error = raised()
        yield f(x(), error)
        yield lines(error)


@scenario(graphs=0)
def a_cause_that_is_raised_before(compile):
    @compile
    def f(error):
        try:
            raise error
        except KeyError as caught:
            raise ValueError from caught

    for _ in range(2):
        try:
            f(raised())
        except ValueError as error:
            yield chain(error)


@scenario(graphs=1)
def raised_without_what_it_had(compile):
    @compile
    def f(x):
        try:
            deep()
        except KeyError as error:
            a_break()
            error.with_traceback(None)
            y = x + 1
            raise error from ValueError(y.shape[0])

    for _ in range(2):
        try:
            f(x())
        except KeyError as error:
            yield chain(error)[0]


class Raises:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        raise OSError("at the end")


@contextlib.contextmanager
def breaks_at_the_end():
    try:
        yield
    finally:
        a_break()


@scenario(graphs=0)
def a_context_manager_puts_it_back(compile):
    @compile
    def f():
        with contextlib.ExitStack() as stack:
            stack.enter_context(breaks_at_the_end())
            stack.enter_context(Raises())

    for _ in range(2):
        try:
            f()
        except OSError as error:
            yield chain(error)
