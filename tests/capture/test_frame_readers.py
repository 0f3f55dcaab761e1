# mypy: ignore-errors
"""What looks at the variables of its caller sees the program's, also where it ends a graph."""

import inspect
import sys

import pytest
import torch

import stator

from .harness import Recording
from .scenarios import plain, x

stopped = stator.disable(lambda: None)
unknown = stator.compile(lambda x: x)  # an object that C code can't look at while tracing


def expression(x):
    y = x * 2
    return eval("(stopped(), y + 1)[1]") * 3


def unpacked(x):
    y = x * 2
    return eval(*("(stopped(), y + 1)[1]",)) * 3


def statements(x):
    y = x * 2
    exec("stopped(); y.add_(1)")
    return y * 3


def in_loop_and_handler(x):
    x = x * 2
    found = []
    for i in range(3):
        with torch.no_grad():
            try:
                found.append(eval("(stopped(), x * i)[1]"))
                1 / i
            except ZeroDivisionError:
                found.append(i)
    return found


def of_another_function(x):
    y = x * 2

    def inner(z):
        o = unknown
        return sorted(inspect.currentframe().f_back.f_locals), sorted(locals()), z + 1, o is None

    return inner(y)


def frame(x):
    y = x * 2
    here = sys._getframe()
    stopped()
    return here.f_locals["y"] + 1, here.f_code.co_name


def unknown_object(x):
    y = x * 2
    o = unknown
    names = sorted(dir()), sorted(vars()), sorted(locals()), o is None
    return y + 1, names


def debugger(x):
    y = x * 2
    seen = []
    was = sys.breakpointhook
    sys.breakpointhook = lambda: seen.append(sorted(sys._getframe(1).f_locals))
    try:
        breakpoint()
    finally:
        sys.breakpointhook = was
    return y + 1, seen


def of_a_closure():
    def names(x):
        y = x * 2
        here = locals()
        return sorted(here), y, names is None

    return names


@pytest.mark.parametrize(
    "make",
    [
        *(
            pytest.param(lambda each=each: each, id=each.__name__)
            for each in (
                expression,
                unpacked,
                statements,
                in_loop_and_handler,
                of_another_function,
                frame,
                unknown_object,
                debugger,
            )
        ),
        of_a_closure,
    ],
)
@pytest.mark.filterwarnings("ignore:.*can't be captured as one graph")
def test_variables_of_the_caller(make):
    function = make()
    backend = Recording()
    compiled = stator.compile(function, backend=backend)
    if make is of_a_closure:
        # The variable that holds the function itself is among those that are shown.
        function.__closure__[0].cell_contents = compiled
    expected = plain(function(x()))
    for _ in range(3):
        assert plain(compiled(x())) == expected
    if make is not of_a_closure:  # which goes on with that dict: it is split nowhere
        assert ["mul"] in [graph[:1] for graph in backend.graphs]
