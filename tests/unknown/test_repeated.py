"""Operations of the same form, with other unknown sizes: what one has made is made for the next."""

# mypy: ignore-errors

import itertools
import warnings

import pytest
import torch

import stator
from stator.graph.unknown.kernels import Kernels
from tests.dynamic.harness import Counting, outcome

BITS = list(itertools.product([False, True], repeat=3))
MASKS = [torch.tensor(bits) for bits in BITS]
PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


def rows():
    return torch.arange(12.0).view(3, 4)


@program
def results(x, *masks):
    return [(x[m] * 2 + 1, x[m].sum(0), x[m].clamp(min=2), x[m] > 3) for m in masks]


@program
def views_that_are_changed(x, *masks):
    found = []
    for m in masks:
        y = x[m]
        column, part, turned = y[:, 1], y[..., 1::2], y.t()
        column.mul_(10)
        part[:, 0] += 1
        turned[0] = 7
        found += [y, column, part]
    return found


@program
def views_of_views(x, *masks):
    found = []
    for m in masks:
        y = x[m].reshape(-1, 2, 2)
        z = y[:, 0]
        w = z[:, 1:]
        w.zero_()
        found.append((y, z, w, y.unsqueeze(1), y.reshape(-1)))
    return found


@program
def the_same_memory_twice(x, *masks):
    return [(y + y, y + y[:], y.mul(y.t().t())) for y in (x[m] for m in masks)]


@program
def other_types(x, *masks):
    found = []
    for m, kind in zip(masks, (torch.float32, torch.float64, torch.int64), strict=True):
        y = x[m].to(kind)
        found.append((y * 2, y / 2, torch.zeros_like(y), y.to(torch.float32)))
    return found


@program
def lists_of_results(x, *masks):
    found = []
    for m in masks:
        values, order = x[m].sort(dim=0, descending=True)
        found.append((values, order, x[m].topk(2), x[m].split(2, dim=1), x[m].unbind(1)))
    return found


@program
def masks_of_a_size_that_is_known_by_another(x, *masks):
    found = []
    for m in masks:
        y = x[m]
        found.append((y.t()[:, :1], x.t()[:, m], y[:, [0, 1]], torch.where(m)[0]))
    return found


@program
def relations(x, *masks):
    found = []
    for a, b in itertools.pairwise(masks):
        y, z = x[a], x[b]
        found.append((torch.cat([y, z]), y[: z.shape[0]] * 1, torch.cat([y, y])))
    return found


@program
def with_gradients(x, *masks):
    weight = (x * 1).requires_grad_() if not x.requires_grad else x
    total = x.new_zeros(())
    for m in masks:
        y = weight[m]
        out = torch.zeros(3, 4).index_add_(0, torch.where(m)[0], y * y[:, :1])
        total = total + out.sum() + (y * 2)[:, 0].sum()
    return total.detach(), torch.autograd.grad(total, weight, allow_unused=True)


@program
def modes(x, *masks):
    found = []
    for m, grad in zip(masks, (True, False, True), strict=True):
        with torch.set_grad_enabled(grad):
            y = x[m] * 2
            found.append((y, y[:, 0], y.requires_grad))
    return found


def chosen(function):
    found = list(itertools.product(MASKS, repeat=3))
    step = 37 + len(function.__name__) % 5
    return [(rows(), *masks) for masks in found[::step]]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_as_in_eager(function, backend, dynamic):
    counting = Counting(backend)
    compiled = stator.compile(function, backend=counting, dynamic=dynamic)
    given, again = chosen(function), chosen(function)
    for call, other in zip(given, again, strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = outcome(compiled, call)
        assert found == outcome(function, other), call
    assert counting.graphs


# ---------------------------------------------------------------------- what it costs


def detections(boxes, scores, most):
    found = []
    for label in range(scores.shape[1]):
        keep = scores[:, label] > 0.5
        score, index = scores[:, label][keep], torch.where(keep)[0]
        score, order = score.topk(min(most, score.numel()))
        box = boxes[index[order]].clamp(min=0, max=0.9)
        kept = torch.where(box[:, 2] - box[:, 0] >= 0.1)[0]
        found.append((box[kept], score[kept]))
    box, score = (torch.cat(each) for each in zip(*found, strict=True))
    best = score.sort(descending=True)[1][:20]
    return box[best], score[best]


def runs_of_kernels(classes, monkeypatch):
    runs = []
    real = Kernels._result
    with monkeypatch.context() as patch:
        patch.setattr(Kernels, "_result", lambda *args: runs.append(1) or real(*args))
        counting = Counting()
        compiled = stator.compile(detections, backend=counting)
        torch.manual_seed(0)
        for _ in range(3):
            given = torch.rand(60, 4), torch.rand(60, classes), 5
            assert all(map(torch.equal, compiled(*given), detections(*given)))
    assert len(counting.graphs) == 1
    return len(runs)


def test_each_class_costs_little(monkeypatch):
    few, many = (runs_of_kernels(classes, monkeypatch) for classes in (4, 16))
    assert (many - few) / 12 <= 2  # of 12 operations: those that find sizes


# ---------------------------------------------------------------------- told as it is


def squeezed(x, mask):
    return x[mask].squeeze(0) * 2


def experts(x, mask):
    out = torch.zeros(3, 4)
    for m in (mask, ~mask):
        where = torch.where(m)[0]
        out.index_add_(0, where, x[where] * 2)
    return out


def first_two(x, mask):
    return x[mask][:2] + 1


def viewed(x, mask):
    return x[mask].view(-1, 2).t().contiguous()


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("function", [squeezed, experts, first_two, viewed])
@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_what_is_so_in_the_first_call_is_taken_for_granted(function, mask, grad):
    """No graph is compiled that does not hold for the call it is compiled for."""
    counting = Counting()
    compiled = stator.compile(function, backend=counting, fullgraph=True)
    for _ in range(3):
        x = rows().requires_grad_(grad)
        assert torch.equal(compiled(x, mask), function(x, mask))
    assert len(counting.graphs) == 1


# ---------------------------------------------------------------------- loops


def for_each(x, count):
    for _ in range(count):
        x = x + 1 if x.sum() > -1 else x - 1
    return x


def until(x, count):
    for _ in range(count):
        x = x + 1
        if x.sum() > 3 * count:
            break
    return x


def while_less(x, count):
    while x.sum() < 3 * count:
        x = x + 1
    return x


def test_a_branch_in_a_for_loop_is_unrolled_with_it():
    counting = Counting()
    compiled = stator.compile(for_each, backend=counting, fullgraph=True)
    x = torch.ones(3)
    assert torch.equal(compiled(x, 150), for_each(x, 150))
    assert len(counting.graphs) == 1


@pytest.mark.parametrize("function", [until, while_less])
def test_a_loop_that_ends_by_a_branch_is_not_unrolled_for_ever(function):
    counting = Counting()
    compiled = stator.compile(function, backend=counting)
    x = torch.ones(3)
    for _ in range(2):
        assert torch.equal(compiled(x, 150), function(x, 150))
    assert counting.graphs[0].count("+ 1") < 100
