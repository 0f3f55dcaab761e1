# mypy: ignore-errors
"""What happens in a region and no result tells: random numbers, exceptions that values cause."""

import copy

import pytest
import torch

import stator

from .test_nested import Seen

region = stator.nested_compile_region
BACKENDS = ["eager", "aot_eager", "inductor"]
X = torch.randn(4, 4)


def run(function, args, seed):
    args = copy.deepcopy(args)
    torch.manual_seed(seed)
    try:
        result = function(*args)
    except (IndexError, RuntimeError) as error:
        result = (IndexError, RuntimeError).index(type(error))
    return result, args, torch.get_rng_state()


def same(program, *args, backends=BACKENDS, bodies=None):
    """As eager, and the generator is where eager leaves it."""
    seen = Seen()
    for backend in (seen, *backends):
        stator.reset()
        options = {"fallback_random": True} if backend == "inductor" else None
        compiled = stator.compile(program, backend=backend, options=options)
        for seed in range(2):
            torch.testing.assert_close(run(compiled, args, seed), run(program, args, seed))
    if bodies is not None:
        assert seen.bodies() == bodies


@region
def noise(x):
    return x + torch.rand(4, 4)


@region
def drawn_in_vain(x):
    torch.rand(4, 4)
    return x * 2


@region
def two(x):
    return x + 1, torch.rand(4, 4)


def test_a_draw_that_the_body_does_not_use():
    same(lambda x: drawn_in_vain(x) + drawn_in_vain(x + 1), X)


def test_a_result_that_is_not_used():
    def program(x):
        a, _ = two(x)
        b, _ = two(a)
        return b

    same(program, X, bodies=[[2]])


def test_a_call_that_is_not_used():
    def program(x):
        noise(x)
        return noise(x) + 1

    def neither(x):
        noise(x)
        noise(x + 1)
        return x + 1

    same(program, X, bodies=[[2]])
    same(neither, X, bodies=[[2]])


def test_seeds_between_regions():
    def between(x):
        a = noise(x)
        torch.manual_seed(5)
        return a, noise(x)

    def behind(x):
        a = noise(x) + noise(x * 2)
        torch.manual_seed(3)
        return a

    def before(x):
        torch.manual_seed(3)
        return noise(x) + noise(x * 2)

    def states(x):
        a = noise(x)
        state = torch.get_rng_state()
        b = noise(x)
        torch.set_rng_state(state)
        return a, b, noise(x)

    for program in (between, behind, before, states):
        same(program, X)


def test_numbers_drawn_into_memory_of_the_body():
    @region
    def block(x):
        made = torch.empty(4, 4)
        made.uniform_()
        return x + made

    same(lambda x: block(x) + block(x), X, bodies=[[2]])


@region
def picked(x, index):
    return x[index]


@region
def picked_in_vain(x, index):
    x[index]
    return x * 2


INSIDE = torch.tensor([0, 3])
OUTSIDE = torch.tensor([0, 9])


@pytest.mark.parametrize("index", [INSIDE, OUTSIDE])
def test_an_index_that_may_be_refused(index):
    def handled(x, index):
        a = picked(x, INSIDE)
        try:
            return a, picked(x, index)
        except IndexError:
            return a, -1

    def once(x, index):
        try:
            return picked(x, index)
        except IndexError:
            return -1

    def unused(x, index):
        picked(x, INSIDE)
        try:
            picked(x, index)
        except IndexError:
            return x + 1
        return x

    def vain(x, index):
        return picked_in_vain(x, INSIDE) + picked_in_vain(x, index)

    for program in (handled, once, unused, vain):
        same(program, X, index, backends=["eager", "aot_eager"])
