"""Views that autograd refuses to change: how they were made, and what is done to them, inside of a
compiled function and behind it."""

# mypy: ignore-errors

import contextlib
import itertools
import os
import re

import pytest
import torch

import stator
from tests.dynamic.harness import Counting
from tests.versions import traces_inference


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient


MAKERS = {
    "split": lambda t: t.split(2)[0],
    "split_with_sizes": lambda t: t.split([1, 3])[1],
    "chunk": lambda t: t.chunk(2)[1],
    "unbind": lambda t: t.unbind()[0],
    "rows": lambda t: next(iter(t)),
    "tensor_split": lambda t: t.tensor_split(2)[0],
    "hsplit": lambda t: t.hsplit(2)[0],
    "vsplit": lambda t: t.vsplit(2)[0],
    "part of split": lambda t: t.split(2)[0][:1],
    "split of part": lambda t: t[1:].split(2)[0],
    "unpacked": lambda t: (lambda a, b, *rest: b)(*t.split(1)),
    "slice": lambda t: t[:2],
    "view": lambda t: t.view(2, -1),
    "detach": lambda t: t.detach(),
    "detached part": lambda t: t.detach()[:2],
    "data": lambda t: t.data[:2],
    "of a Function": Same.apply,
    "copy": lambda t: t.split(2)[0].clone(),
}
MODES = {
    "grad": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "inference": torch.inference_mode,
}


def changed(base, view):
    view.add_(1)
    return base * 2, view * 3


def item_set(base, view):
    view[:1] = 0.0
    return (base.sum(),)


def base_changed(base, view):
    base.mul_(2)
    return base.sum(), view * 2


def base_changed_and_returned(base, view):
    base.mul_(2)
    return base, view


def base_changed_unused(base, view):
    base.mul_(2)
    return (base.sum(),)


def returned(base, view):
    return base.sum(), view


def both_returned(base, view):
    return base, view, view[:1]


def changed_in_no_grad(base, view):
    with torch.no_grad():
        view.add_(1)
    return base.sum(), view


def refused_and_handled(base, view):
    try:
        view.add_(1)
    except RuntimeError as error:
        return base * 2, type(error).__name__
    return (base * 3,)


USES = [
    changed,
    item_set,
    base_changed,
    base_changed_and_returned,
    base_changed_unused,
    returned,
    both_returned,
    changed_in_no_grad,
    refused_and_handled,
]
_PART = 23  # of the ways to use a view, a prime
# A backend's node has another name; a view of a view is one of the base, where it is made again.
_NODE = re.compile(r"Output \d+ of \w+|A view(?= was created)|Output .* is a view of a view which")


def program(maker, use, mode, leaf):
    def run(x):
        base = x if leaf else x * 1.0
        with mode():
            view = maker(base)
        return use(base, view)

    return run


def told(function, x, later):
    """All that can be seen of a call, and of changes to its results."""
    try:
        results = function(x)
        later(results)
        found = [described(each) for each in results]
        total = sum(
            (
                each.sum()
                for each in results
                if isinstance(each, torch.Tensor) and each.requires_grad and not each.is_inference()
            ),
            torch.zeros(()),
        )
        if total.requires_grad and x.requires_grad:
            found += [str(torch.autograd.grad(total, x, allow_unused=True)[0])]
    except RuntimeError as error:
        found = [type(error), _NODE.sub("Output", str(error))]
    return [*found, described(x)]


def described(value):
    if not isinstance(value, torch.Tensor):
        return _NODE.sub("Output", str(value))
    values = value.detach().tolist()
    return values, value.shape, value.stride(), value.requires_grad, value.is_inference()


def change_last(results):
    if isinstance(results[-1], torch.Tensor):
        results[-1].add_(1)


def nothing(results):
    pass


def cases(number):
    """Ways to use a view: all of them, or another part for each maker."""
    found = list(
        itertools.product(USES, MODES, (False, True), (True, False), (nothing, change_last))
    )
    if os.environ.get("STATOR_OPERATORS") == "all":
        return found
    return found[number % _PART :: _PART]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("maker", MAKERS)
def test_as_in_eager(maker, backend):
    wrong = []
    for use, mode, leaf, requires, later in cases(list(MAKERS).index(maker)):
        if mode == "inference" and backend == "aot_eager" and not traces_inference:
            continue
        run = program(MAKERS[maker], use, MODES[mode], leaf)
        given = [torch.ones(4, 2).requires_grad_(requires) for _ in range(2)]
        wanted = told(run, given[0], later)
        stator.reset()
        found = told(stator.compile(run, backend=backend), given[1], later)
        if wanted != found:
            about = use.__name__, mode, "leaf" if leaf else "base", requires, later.__name__
            wrong.append(f"{about}\n  {wanted}\n  {found}")
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_views_of_inputs_are_made_in_their_mode(mode, backend):
    def f(x):
        with mode():
            part = x[1:]
        return x * 2, part

    if mode is torch.inference_mode and backend == "aot_eager" and not traces_inference:
        pytest.skip("AOTAutograd can't trace views in inference mode before torch 2.13")
    counting = Counting(backend)
    compiled = stator.compile(f, backend=counting, fullgraph=True)
    for x in (torch.ones(3), torch.ones(8)[:3]):
        wanted, found = (each(x.requires_grad_()) for each in (f, compiled))
        assert found[1].requires_grad is wanted[1].requires_grad
        assert found[1].is_leaf and found[1].data_ptr() == wanted[1].data_ptr()
    assert len(counting.graphs) <= 2


def test_views_that_are_returned_are_part_of_the_graph():
    counting = Counting("aot_eager")

    def f(x):
        first, second = (x * 2).chunk(2)
        return first.sin(), second

    compiled = stator.compile(f, backend=counting, fullgraph=True)
    x = torch.ones(4, requires_grad=True)
    _, second = compiled(x)
    assert len(counting.graphs) == 1
    assert second.requires_grad
    with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
        second.add_(1)
