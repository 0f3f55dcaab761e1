"""Arrays read with masks: those that are known are places, of others nobody knows how many.

Programs × backends, with other values in each call: results and kinds of the results, errors; one
graph where the mask is made of constants.
"""

# mypy: ignore-errors

import pytest
import torch

import stator

from .harness import Recording

np = pytest.importorskip("numpy")


def made_here(a):
    return (a * 2)[np.array([True, False, True, True])]


def of_a_list(a):
    return a[[False, True, True, False]] + 1


def none_of_it(a):
    return a[np.zeros(4, bool)].shape, a.sum()


def with_a_slice(a):
    b = a.reshape(2, 2)
    return b[np.array([True, False]), 1:], b[:, np.array([False, True])]


def of_two_dimensions(a):
    return a.reshape(2, 2)[np.array([[True, False], [True, True]])] * 3


def with_places(a):
    b = a.reshape(2, 2)
    return b[np.array([True, True]), np.array([1, 0])]


def of_a_tensor(a):
    return torch.from_numpy(a)[1:] + torch.from_numpy(a[np.arange(4) > 0])


def computed(a):
    keep = np.arange(4) % 2 == 0
    return a[keep], a[~keep]


def too_short(a):
    return a.sum(), a[np.array([True, False])]


KNOWN = [
    *(made_here, of_a_list, none_of_it, with_a_slice, of_two_dimensions, with_places),
    *(of_a_tensor, computed),
]


def by_values(a):
    return a[a > 1] * 2


def by_values_summed(a):
    mask = a > 1
    return a[mask].sum(), a[~mask].shape[0]


def back_to_a_tensor(a):
    return torch.from_numpy(a[a > 1]) + 1


def changed(a):
    a[a > 1] = 0
    return a * 2


def outcome(function, values):
    given = np.array(values)
    try:
        found = function(given)
    except IndexError as error:
        found = str(error)
    kinds = [type(each).__name__ for each in (found if isinstance(found, tuple) else (found,))]
    return repr(found), kinds, repr(given)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(
    "program", [*KNOWN, too_short, by_values, by_values_summed, back_to_a_tensor, changed]
)
def test_as_in_eager(program, backend) -> None:
    stator.reset()
    compiled = stator.compile(program, backend=backend)
    for values in ([0.0, 1, 2, 3], [4.0, 5, 6, 7], [0.0, 0, 0, 0], [1, 2, 3, 4], [9.0, 0, 9, 0]):
        assert outcome(compiled, values) == outcome(program, values)


@pytest.mark.parametrize("program", KNOWN)
def test_one_graph(program) -> None:
    stator.reset()
    backend = Recording()
    compiled = stator.compile(program, backend=backend, fullgraph=True)
    for values in ([0.0, 1, 2, 3], [4.0, 5, 6, 7]):
        assert outcome(compiled, values) == outcome(program, values)
    assert len(backend.graphs) == 1
