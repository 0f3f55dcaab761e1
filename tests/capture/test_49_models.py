# mypy: ignore-errors
"""What models do beside computing: caches of sizes, tables by type, checks of values.

Small programs in the idiom of models and libraries that were found to break, or to be compiled
too often.
"""

import functools

import pytest
import torch

import stator
from stator import CaptureError

from .harness import t


class Counting:
    """A backend that counts graphs."""

    def __init__(self):
        self.graphs = 0

    def __call__(self, module, inputs):
        self.graphs += 1
        return module.forward


def same(function, *calls, fullgraph=True):
    """Each call as in eager; answers how many graphs were compiled."""
    counting = Counting()
    compiled = stator.compile(function, backend=counting, fullgraph=fullgraph)
    for args in calls:
        torch.manual_seed(3)
        expected = function(*args)
        torch.manual_seed(3)
        torch.testing.assert_close(compiled(*args), expected, rtol=0, atol=0)
    return counting.graphs


# ---------------------------------------------------------------------- caches of sizes


@functools.lru_cache(256)
def plan(shape, merged):
    """As einops: what to do for a shape, remembered for each shape."""
    sizes = [shape[0], shape[1] * shape[2]] if merged else list(shape)
    return sizes, {"last": shape[-1]}, (shape[0] + 1, None)


def planned(x):
    sizes, named, (more, _) = plan(tuple(x.shape), True)
    return x.reshape(sizes) * named["last"] + more


def planned_by_size(x):
    sizes, _, (more, _) = plan(x.shape, True)
    return x.reshape(sizes) + more


@pytest.mark.parametrize("function", [planned, planned_by_size])
def test_a_cache_of_sizes(function):
    """Once the size is open, no call compiles again, whatever the cache holds by then."""
    assert same(function, *((t(n, 2, 3),) for n in (2, 3, 4, 3, 7, 5))) == 2


LENGTH = torch.tensor(3)


@functools.lru_cache(None)
def length_of(_):
    return [LENGTH.item()]


def by_length(x):
    return x * length_of(len(x.shape))[0]


def test_a_cached_value_of_a_tensor_is_not_read_again():
    """The cache remembers what the tensor held: a graph that reads it would see what it holds."""
    x = t(2)
    length_of.cache_clear()
    by_length(x)
    LENGTH.fill_(5)
    try:
        compiled = stator.compile(by_length, backend="eager")
        torch.testing.assert_close(compiled(x), x * 3, rtol=0, atol=0)
        torch.testing.assert_close(compiled(x), x * 3, rtol=0, atol=0)
    finally:
        LENGTH.fill_(3)
        length_of.cache_clear()


# ---------------------------------------------------------------------- tables by type


class Registered(type):
    """A metaclass that leaves comparison alone, as that of tensors does."""


class Named(metaclass=Registered):
    pass


TABLE = {(torch.Tensor,): "one", (torch.Tensor, torch.Tensor): "two", (Named, int): "named"}
KINDS = {torch.Tensor, torch.nn.Parameter, Named}


def looked_up(x, *others):
    table = dict(TABLE)
    table.update({(int,): "other"})
    which = table[tuple(type(each) for each in (x, *others))]
    names = sorted(each.__name__ for each in KINDS)
    return x * len(which) + len(table) + len("".join(names)), type(x) in KINDS


def test_classes_in_keys():
    assert same(looked_up, (t(2),), (t(2), t(3)), (t(2),)) == 2


def test_a_table_by_type_that_changes():
    compiled = stator.compile(looked_up, backend="eager", fullgraph=True)
    x = t(2)
    torch.testing.assert_close(compiled(x), looked_up(x), rtol=0, atol=0)
    TABLE[(torch.Tensor,)] = "another"
    try:
        torch.testing.assert_close(compiled(x), looked_up(x), rtol=0, atol=0)
    finally:
        TABLE[(torch.Tensor,)] = "one"


class Odd(type):
    """A metaclass whose classes are equal: their own `__eq__` would have to be asked."""

    def __eq__(cls, other):
        return isinstance(other, Odd)

    def __hash__(cls):
        return 5


class First(metaclass=Odd):
    pass


class Second(metaclass=Odd):
    pass


ODD = {First: 2, int: 3}


def odd(x):
    table = dict(ODD)
    return x * table[Second]


def test_classes_that_compare_by_themselves():
    assert same(odd, (t(2),), (t(3),), fullgraph=False) <= 2


# ---------------------------------------------------------------------- operators


WINDOW = torch.hann_window(16)


def resynthesized(x):
    spectrum = torch.stft(x, 16, 4, window=WINDOW, return_complex=True)
    return torch.istft(spectrum * 0.5, 16, 4, window=WINDOW, length=x.shape[-1])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_istft(backend):
    x = t(2, 64)
    compiled = stator.compile(resynthesized, backend=backend, fullgraph=True)
    torch.testing.assert_close(compiled(x), resynthesized(x))


def bad_window(x):
    spectrum = torch.stft(x, 16, 4, window=WINDOW, return_complex=True)
    return torch.istft(spectrum, 16, 4, window=torch.zeros(16))


def test_istft_that_refuses():
    with pytest.raises(RuntimeError) as eager:
        bad_window(t(2, 64))
    with pytest.raises(RuntimeError) as found:
        stator.compile(bad_window, backend="eager")(t(2, 64))
    assert str(found.value).splitlines()[0] == str(eager.value).splitlines()[0]


def unused_in_try(x, mask):
    try:
        ~mask
        torch.nn.functional.normalize(x, dim=0)
        torch.nn.functional.poisson_nll_loss(x, x)
        x = x * 2
    except RuntimeError:
        x = x * 3
    return x


def test_operators_that_cannot_refuse_values():
    assert same(unused_in_try, (t(3), torch.tensor([True, False, True]))) == 1


def inverted_in_try(x):
    try:
        torch.linalg.inv(x)
        x = x * 2
    except RuntimeError:
        x = x * 3
    return x


def test_operators_that_can():
    with pytest.raises(CaptureError, match="may raise inside of `try`"):
        stator.compile(inverted_in_try, backend="eager", fullgraph=True)(torch.eye(2))
    same(inverted_in_try, (torch.eye(2),), (torch.zeros(2, 2),), fullgraph=False)
