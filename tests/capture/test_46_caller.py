# mypy: ignore-errors
"""Who calls a compiled function: the exception it handles, its frame, its thread."""

import inspect
import sys
import threading

import pytest
import torch

import stator

from .harness import Recording
from .scenarios import Scenarios, plain, play_scenario, x

scenario = Scenarios()


@pytest.mark.parametrize(("play", "graphs"), scenario)
def test_scenario(play, graphs) -> None:
    play_scenario(play, graphs)


def raised(fn, *args):
    """What a call raises, with all that it came from; or its result."""
    try:
        return fn(*args)
    except Exception as error:
        found, chain = error, []
        while found is not None:
            chain.append((type(found).__name__, str(found), found.__suppress_context__))
            found = found.__context__
        return chain


def inside(fn, *args):
    try:
        raise OSError("of the caller")
    except OSError:
        return raised(fn, *args)


def inside_of_a_generator(fn, *args):
    def generate():
        yield raised(fn, *args)

    try:
        raise OSError("of the caller")
    except OSError:
        return next(generate())


def plainly(x):
    raise ValueError(x.shape[0])


def with_a_cause(x):
    try:
        raise ValueError("first")
    except ValueError as error:
        raise TypeError("second") from error


def by_c_code(x):
    return {}[x.dim()]


def asks(x):
    return x + 1, sys.exc_info()[0], sys.exception() is None


def asks_inside(x):
    try:
        raise ValueError("own")
    except ValueError as error:
        return x + 1, sys.exc_info()[0], type(error.__context__)


def again(x):
    x = x + 1
    raise


ORDERS = {
    "inside first": (inside, raised, inside, inside_of_a_generator, raised),
    "outside first": (raised, raised, inside, inside_of_a_generator, raised),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("fn", [plainly, with_a_cause, by_c_code, asks, asks_inside, again])
@pytest.mark.filterwarnings("ignore:.*can't be captured:UserWarning")
def test_the_exception_that_the_caller_handles(fn, order) -> None:
    stator.reset()
    compiled = stator.compile(fn, backend="eager")
    for call in ORDERS[order]:
        assert plain(call(compiled, x())) == plain(call(fn, x())), call


def test_it_does_not_decide_what_is_captured() -> None:
    """Calls from inside of a handler and others have entries of their own."""
    backend = Recording()
    compiled = stator.compile(asks, backend=backend)
    with pytest.warns(UserWarning, match="that the caller of the function is handling"):
        inside(compiled, x())
    assert not backend.graphs
    compiled(x())
    assert len(backend.graphs) == 1


@scenario(graphs=3)
def frames_of_callers(compile):
    def name():
        return sys._getframe(1).f_code.co_name

    own = compile(lambda x: (x + 1, name(), inspect.currentframe().f_code.co_name))
    yield own(x())
    callers = compile(lambda x: (x + 1, sys._getframe(1).f_code.co_name))
    also = compile(lambda x: (x + 1, inspect.currentframe().f_back.f_code.co_name))

    def first():
        return callers(x()), also(x())

    def second():
        return callers(x()), also(x())

    yield first()
    yield second()


@scenario(graphs=2)
def threads(compile):
    f = compile(lambda x: (x + 1, threading.current_thread().name))
    found = [f(x()), f(x())]
    thread = threading.Thread(target=lambda: found.append(f(x())), name="another")
    thread.start()
    thread.join()
    yield found
    assert torch.is_grad_enabled()
