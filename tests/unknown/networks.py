"""What networks over graphs, boxes and experts do with sizes that depend on values.

Each is a function of tensors, and calls of it whose data give other sizes.
"""

# mypy: ignore-errors

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it
from torch.utils.checkpoint import checkpoint

PROGRAMS: list[tuple[Callable[..., Any], list[Callable[[], tuple[Any, ...]]]]] = []
NODES = 6


def program(make: Callable[[torch.Generator, int], tuple[Any, ...]], count: int = 4):
    """A program of what `make` draws: for each call the same data, however often it is made."""

    def add(function):
        def call(number):
            return lambda: make(torch.Generator().manual_seed(number), number)

        PROGRAMS.append((function, [call(number) for number in range(count)]))
        return function

    return add


def edges(draw: torch.Generator, number: int):
    """Features of nodes, and edges of which some lead from a node to itself."""
    x = torch.randn(NODES, 3, generator=draw)
    return x, torch.randint(0, NODES, (2, 8 + number), generator=draw)


def weighted(draw, number):
    return (*edges(draw, number), torch.randn(3, 3, generator=draw), torch.randn(6, generator=draw))


def boxes(draw, number):
    corners = torch.rand(10, 2, generator=draw)
    sides = torch.rand(10, 2, generator=draw)
    return torch.cat([corners, corners + sides], 1), torch.rand(10, generator=draw)


def tokens(draw, number):
    return (
        torch.randn(7, 4, generator=draw),
        torch.randn(3, 4, 4, generator=draw),
        torch.randn(4, 3, generator=draw),
    )


def batched(draw, number):
    return torch.randn(8, 3, generator=draw), torch.randint(0, 3, (8,), generator=draw).sort()[0]


def sequences(draw, number):
    return torch.randn(3, 5, 2, generator=draw), torch.randint(1, 6, (3,), generator=draw)


def with_loops(edge):
    edge = edge[:, edge[0] != edge[1]]
    loops = torch.arange(NODES)
    return torch.cat([edge, torch.stack([loops, loops])], 1)


def softmax_of_groups(values, index, count):
    top = values.new_full((count,), float("-inf")).scatter_reduce(0, index, values, "amax")
    out = (values - top.detach()[index]).exp()
    total = out.new_zeros(count).index_add(0, index, out) + 1e-16
    return out / total[index]


@program(edges)
def summed_over_edges(x, edge):
    edge = with_loops(edge)
    return torch.zeros(NODES, 3).index_add(0, edge[1], x[edge[0]])


@program(weighted)
def attention_over_edges(x, edge, weight, scores):
    edge = with_loops(edge)
    h = x @ weight
    pairs = torch.cat([h[edge[0]], h[edge[1]]], 1)
    alpha = softmax_of_groups(F.leaky_relu(pairs @ scores, 0.2), edge[1], NODES)
    return F.elu(torch.zeros_like(h).index_add(0, edge[1], alpha[:, None] * h[edge[0]]))


@program(weighted)
def two_layers_over_edges(x, edge, weight, scores):
    for _ in range(2):
        x = attention_over_edges(x, edge, weight, scores)
    return x.log_softmax(1)


@program(weighted)
def normalized_by_degree(x, edge, weight, scores):
    edge = with_loops(edge)
    degree = torch.zeros(NODES).scatter_add(0, edge[1], torch.ones(edge.shape[1]))
    scale = degree.pow(-0.5)
    scale = scale.masked_fill(scale == float("inf"), 0)
    norm = scale[edge[0]] * scale[edge[1]]
    return torch.zeros(NODES, 3).index_add(0, edge[1], norm[:, None] * (x @ weight)[edge[0]])


@program(weighted)
def the_largest_of_neighbours(x, edge, weight, scores):
    edge = with_loops(edge)
    index = edge[1][:, None].expand(-1, 3)
    found = torch.zeros(NODES, 3).scatter_reduce(
        0, index, (x @ weight)[edge[0]], "amax", include_self=False
    )
    return torch.cat([found, x], 1)


@program(weighted)
def the_best_nodes_are_kept(x, edge, weight, scores):
    score = (x @ weight).sum(1).tanh()
    kept = torch.nonzero(score > score.mean()).squeeze(1)
    place = torch.full((NODES,), -1)
    place[kept] = torch.arange(kept.shape[0])
    row, column = place[edge[0]], place[edge[1]]
    left = (row >= 0) & (column >= 0)
    inner = torch.stack([row[left], column[left]])
    pooled = x[kept] * score[kept][:, None]
    return torch.zeros_like(pooled).index_add(0, inner[1], pooled[inner[0]]), inner


@program(batched)
def mean_of_each_group(x, group):
    count = int(group.max()) + 1
    sums = torch.zeros(count, 3).index_add(0, group, x)
    sizes = torch.zeros(count).index_add(0, group, torch.ones(8))
    return sums / sizes.clamp(min=1)[:, None]


@program(batched)
def groups_that_are_there(x, group):
    names, where, counts = torch.unique(group, return_inverse=True, return_counts=True)
    sums = torch.zeros(names.shape[0], 3).index_add(0, where, x)
    return names, sums / counts[:, None]


@program(tokens)
def experts(x, weights, router):
    chosen = (x @ router).argmax(1)
    out = torch.zeros_like(x)
    for number in range(3):
        rows = torch.where(chosen == number)[0]
        out.index_add_(0, rows, F.gelu(x[rows] @ weights[number]))
    return out


@program(tokens)
def experts_with_masks(x, weights, router):
    gates = (x @ router).softmax(1)
    best, chosen = gates.max(1)
    out = torch.zeros_like(x)
    for number in range(3):
        mask = chosen == number
        out[mask] = best[mask][:, None] * (x[mask] @ weights[number])
    return out


@program(boxes)
def boxes_of_some_size(box, score):
    wide = box[:, 2:] - box[:, :2]
    kept = box[(wide > 0.3).all(1) & (score > 0.2)]
    area = (kept[:, 2] - kept[:, 0]) * (kept[:, 3] - kept[:, 1])
    top = torch.max(kept[:, None, :2], kept[None, :, :2])
    end = torch.min(kept[:, None, 2:], kept[None, :, 2:])
    inter = (end - top).clamp(min=0).prod(2)
    return inter / (area[:, None] + area - inter)


@program(boxes)
def loss_of_what_matches(box, score):
    positive = score > 0.5
    target = box[positive].detach() * 2
    loss = F.smooth_l1_loss(box[positive], target, reduction="sum")
    return loss / positive.sum().clamp(min=1), score[~positive].sum()


@program(sequences)
def without_padding(x, lengths):
    mask = torch.arange(5)[None] < lengths[:, None]
    flat = x[mask]
    hidden = (flat @ flat.t()).softmax(1) @ flat
    return x.new_zeros(x.shape).masked_scatter(mask[..., None].expand_as(x), hidden)


@program(sequences)
def up_to_the_longest(x, lengths):
    longest = int(lengths.max())
    x = x[:, :longest]
    mask = torch.arange(longest)[None] < lengths[:, None]
    return (x * mask[..., None]).sum(1) / lengths[:, None], x.cumsum(1)


@program(sequences)
def repeated_by_length(x, lengths):
    each = x.sum(1).repeat_interleave(lengths, dim=0)
    return each * 2, each.mean(0)


@program(sequences)
def masked_language_loss(x, lengths):
    labels = torch.where(lengths[:, None] > torch.arange(5), torch.arange(5) % 2, -100)
    logits = x.reshape(-1, 2)
    kept = labels.reshape(-1) != -100
    return F.cross_entropy(logits[kept], labels.reshape(-1)[kept])


class Reversed(torch.autograd.Function):
    """A gradient that is reversed, and scaled by a number that only the graph knows."""

    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -ctx.scale * gradient, None


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, bound):
        ctx.save_for_backward(x)
        ctx.bound = bound
        return x.clamp(-bound, bound)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (x.abs() < ctx.bound) / (ctx.bound * 2 + 1), None


@program(boxes)
def reversed_by_a_value(box, score):
    return Reversed.apply(box * 2, score.detach().sum().item()) * 3


@program(boxes)
def functions_of_what_is_kept(box, score):
    kept = box[score > 0.5]
    return Clipped.apply(kept, 0.7) * 2, Reversed.apply(kept.reshape(-1), kept.shape[0] / 2) * 2


@program(boxes)
def checkpoint_of_what_is_kept(box, score):
    return checkpoint(lambda kept: (kept @ kept.t()).tanh(), box[score > 0.3], use_reentrant=False)


@program(boxes)
def checkpoint_with_a_count(box, score):
    count = int((score > 0.3).sum())
    scale = float(score.detach().max()) / 2
    return checkpoint(lambda x: (x * scale).sin()[:count] * count, box, use_reentrant=False)


@program(boxes)
def mapped_with_a_value(box, score):
    scale = score.detach().max().item()
    return torch.vmap(lambda row: (row * scale).sin() / (scale + 1))(box)


@program(tokens)
def experts_in_place(x, weights, router):
    """What is returned is a view of what the experts are added to."""
    chosen = (x @ router).argmax(1)
    out = torch.zeros_like(x)
    for number in range(3):
        (rows,) = torch.where(chosen == number)
        out.index_add_(0, rows, x[rows] @ weights[number])
    return out.view(1, *x.shape)
