# mypy: ignore-errors
"""Operations of a loop with sizes that depend on values are looked at once at their corners."""

import pytest
import torch

import stator
from stator.graph.unknown.corners import Corners


def detected(boxes, scores):
    found = []
    for label in range(scores.shape[1]):
        keep = scores[:, label] > 0.5
        score, box = scores[keep, label], boxes[keep]
        score, order = score.topk(min(2, score.numel()))
        found.append((box[order] * 2, score, torch.full_like(score, label)))
    return [torch.cat(each) for each in zip(*found, strict=True)]


@pytest.fixture
def looked(monkeypatch):
    calls = []
    real = Corners._doubtful

    def counted(self, *args):
        calls.append(args)
        return real(self, *args)

    monkeypatch.setattr(Corners, "_doubtful", counted)
    return calls


def traced(classes, looked, backend="eager"):
    torch.manual_seed(1)
    given = torch.rand(20, 4), torch.rand(20, classes)
    looked.clear()
    stator.reset()
    compiled = stator.compile(detected, backend=backend)
    for _ in range(2):
        for one, other in zip(compiled(*given), detected(*given), strict=True):
            assert torch.equal(one, other)
        given = torch.rand(20, 4), torch.rand(20, classes)
    return len(looked)


def test_each_iteration_is_the_same(looked):
    operations = 13
    few, many = traced(3, looked), traced(9, looked)
    # But for numbers that are not (the label), and for what has to be checked each time.
    assert (many - few) / 6 < operations / 2


def test_symbols_have_no_names(looked):
    """What is settled for one relation between sizes is not settled for another."""

    def pairs(x, y):
        a, b = x[x > 0], y[y > 0]
        return a * a, b * b, a[: b.shape[0]] * 1

    compiled = stator.compile(pairs, backend="eager")
    for x, y in [([1.0, 2, 3], [1.0, 1]), ([1.0], [2.0, 2]), ([-1.0], [1.0]), ([1.0, 2], [-1.0])]:
        x, y = torch.tensor(x), torch.tensor(y)
        for one, other in zip(compiled(x, y), pairs(x, y), strict=True):
            assert torch.equal(one, other)
    assert looked
