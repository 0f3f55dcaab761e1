# mypy: ignore-errors
"""The programs of these tests: what is done with sizes, from the simple to the odd.

Each is a function of tensors; `PROGRAMS` tells how many dimensions these have. `compiles` is how
often it is compiled at most for 24 random shapes of which some sizes are 0 and 1, if all sizes are
left open from the start. `open` says that one graph serves all sizes of 2 and more; `coarse`, that
torch distinguishes more cases than need be, since a result has size 1, or may be a view.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - as everybody calls it

PROGRAMS: "list[Program]" = []


@dataclass(frozen=True)
class Program:
    function: Callable[..., Any]
    dims: tuple[int, ...]
    compiles: int
    open: bool
    coarse: bool

    def __str__(self) -> str:
        return self.function.__name__


def program(
    *dims: int, compiles: int = 7, open: bool = True, coarse: bool = False
) -> Callable[..., Any]:
    """A program of tensors with so many dimensions."""

    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        PROGRAMS.append(Program(function, dims, compiles, open, coarse))
        return function

    return add


# ---------------------------------------------------------------------- element by element


@program(2)
def elementwise(x):
    return x.relu() * 2 + x.shape[0] - x.shape[1]


@program(3, compiles=5)
def three_dimensions(x):
    return (x * 2 - 1).abs().clamp(max=3), x.dim(), x.ndim


@program(2)
def chosen(x):
    return torch.where(x > 0, x, x.shape[1]), x.masked_fill(x < 0, 0), (x > 0).sum()


@program(2)
def types(x):
    return x.to(torch.int64), x.double() * x.shape[0], x > 0, x.bool().any()


@program(1, 1, compiles=6, open=False)
def broadcast(x, y):
    return x + y, x[:, None] * y


@program(2, 1, compiles=10, open=False)
def broadcast_rows(x, y):
    return x * y + y


@program(2, 2, compiles=11, open=False)
def broadcast_both(x, y):
    return torch.maximum(x, y) - y


@program(1, 1, compiles=5)
def outer(x, y):
    return torch.outer(x, y), x[:, None] + y[None], x.shape + y.shape


@program(2)
def with_itself(x):
    return x[:, :, None] * x[:, None, :], x[None] - x[:, None]


# ---------------------------------------------------------------------- made anew


@program(2)
def new_tensors(x):
    return torch.zeros(x.shape[0], 2), x.new_ones(x.shape), torch.arange(x.shape[1] * 2)


@program(2)
def like_others(x):
    return torch.zeros_like(x), torch.full_like(x, 3), torch.ones(x.size()), x.clone()


@program(2)
def counted(x):
    rows, columns = x.shape
    return torch.arange(rows), torch.arange(1, columns + 1), torch.arange(0, 2 * rows, 2)


@program(2)
def triangles(x):
    mask = torch.ones(x.shape[0], x.shape[0], dtype=torch.bool)
    return mask.tril(), torch.triu(mask, diagonal=1), x.tril(), torch.eye(x.shape[1])


@program(2)
def concatenated(x):
    return torch.cat([x, x.new_zeros(2, x.shape[1])]), torch.stack([x, x], 1)


@program(2, 2, compiles=10, open=False)
def stacked(x, y):
    return torch.cat([x, y], 1)


@program(1, 1, compiles=5)
def one_after_the_other(x, y):
    both = torch.cat([x, y, x])
    return both, both.shape[0], len(both)


@program(2)
def padded(x):
    return F.pad(x, (0, -x.shape[1] % 4))


@program(2)
def padded_to_more(x):
    wanted = max(8, x.shape[0])
    return F.pad(x, (0, 0, 0, wanted - x.shape[0]))


@program(2)
def repeated(x):
    return x.repeat(2, 1), x.repeat_interleave(2, 0), torch.tile(x, (1, 2))


# ---------------------------------------------------------------------- another shape


@program(2, compiles=10, open=False, coarse=True)
def reshaped(x):
    return x.reshape(-1), x.view(x.shape[0], 1, x.shape[1]), x.T.reshape(x.shape)


@program(3, compiles=5)
def flattened(x):
    return x.flatten(), x.flatten(1), x.flatten(0, 1), x.reshape(x.shape[0], -1)


@program(3, compiles=5)
def permuted(x):
    y = x.permute(2, 0, 1)
    return y, y.contiguous(), x.transpose(0, 2).reshape(-1), x.mT, x.movedim(0, -1)


@program(2)
def expanded(x):
    return x[:, None].expand(-1, 3, -1) + x.unsqueeze(1)


@program(2)
def squeezed(x):
    return x[None].squeeze(0), x.unsqueeze(-1).squeeze(-1), x[..., None]


@program(3, compiles=5)
def heads(x):
    batch, length, width = x.shape
    return x.view(batch, length, 1, width).transpose(1, 2).reshape(batch, length * width)


@program(2)
def pairs(x):
    wide = torch.cat([x, x], 1)
    return wide.view(x.shape[0], 2, x.shape[1]), wide.unflatten(1, (2, -1)), wide.chunk(2, 1)


@program(2, compiles=10, open=False, coarse=True)
def split_in_the_middle(x):
    left, right = x.split([x.shape[0] // 2, x.shape[0] - x.shape[0] // 2])
    return left * 1, right * 2


@program(2, compiles=13, open=False, coarse=True)
def in_chunks(x):
    return [part * 2 for part in x.split(2)]


@program(2, compiles=19, open=False)
def one_by_one(x):
    return [row.sum() for row in x], x.unbind(1)


@program(2, compiles=10, open=False, coarse=True)
def patches(x):
    height, width = x.shape
    x = F.pad(x, (0, width % 2, 0, height % 2))
    x = x.reshape(x.shape[0] // 2, 2, x.shape[1] // 2, 2)
    return x.permute(0, 2, 1, 3).flatten(2).flatten(0, 1)


# ---------------------------------------------------------------------- parts


@program(2, compiles=10, open=False, coarse=True)
def halves(x):
    middle = x.shape[0] // 2
    return x[:middle] * 1, x[middle:] * 1, x[:, -1:] + 1


@program(2, compiles=8, open=False, coarse=True)
def slices(x):
    return x[1:], x[:-1], x[::2], x[:, 1:3], x[-2:], x[:100]


@program(2)
def indexed(x):
    return x[torch.arange(x.shape[0])], x.flip(0), x.roll(1, 0)


@program(2)
def first_and_last(x):
    if x.shape[0] == 0:
        return None
    return x[0], x[-1], x[x.shape[0] - 1], x.select(0, 0)


@program(2)
def gathered(x):
    index = torch.arange(x.shape[0])[:, None] % max(x.shape[1], 1)
    return x.gather(1, index) if x.shape[1] else x, x.index_select(0, torch.arange(x.shape[0]))


@program(2)
def sorted_rows(x):
    return x.sort(0).values, x.argsort(dim=1, stable=True), x.cumsum(0)


@program(2)
def best(x):
    return x.topk(min(2, x.shape[1])).values, x.narrow(0, 0, x.shape[0] // 2)


@program(2)
def windows(x):
    return x.unfold(0, 2, 1) if x.shape[0] >= 2 else x, x.diagonal()


# ---------------------------------------------------------------------- products and sums


@program(2)
def products(x):
    return x @ x.T, x.T @ x


@program(3, compiles=5, coarse=True)
def in_batches(x):
    return torch.bmm(x, x.mT), torch.einsum("bij,bij->bi", x, x), x @ x.mT


@program(2, 2, compiles=10, open=False)
def product(x, y):
    return x @ y


@program(2)
def reductions(x):
    return x.sum(0), x.sum(1, keepdim=True), x.sum() / (x.shape[0] + 1)


@program(2)
def means(x):
    return x.mean(1), x.sum(0) / x.shape[0] if x.shape[0] else x.sum(0), x.prod(), x.std(1)


@program(2)
def greatest(x):
    return x.amax(1), x.argmax(0), x.max(0).values


@program(2)
def normalized(x):
    return F.layer_norm(x, (x.shape[1],)), F.softmax(x, -1), F.normalize(x)


@program(2)
def attention(x):
    q = x[None, None]
    return F.scaled_dot_product_attention(q, q, q).shape


@program(3, compiles=5)
def own_attention(x):
    scores = x @ x.mT / math.sqrt(8)
    mask = torch.ones(x.shape[1], x.shape[1]).tril() == 0
    return scores.masked_fill(mask, -1e9).softmax(-1) @ x


@program(3, compiles=6, open=False, coarse=True)
def rotary(x):
    positions = torch.arange(x.shape[1]).float()
    angles = positions[:, None] * torch.arange(x.shape[2]).float()
    half = x.shape[2] // 2
    turned = torch.cat([-x[..., half:], x[..., :half]], -1)
    return x * angles.cos() + turned * angles.sin()


@program(3, compiles=5)
def convolved(x):
    y = x[:, :1].reshape(x.shape[0], 1, x.shape[2]) if x.shape[1] else x.new_zeros(1, 1, 5)
    return F.conv1d(y, torch.ones(2, 1, 3), padding=1)


@program(4, compiles=9)
def pooled(x):
    return F.adaptive_avg_pool2d(x, 1), F.interpolate(x, scale_factor=2)


@program(1, compiles=3)
def one_hot(x):
    return F.one_hot(x.long() + 3, 8), F.embedding((x + 3).long(), torch.eye(8))


# ---------------------------------------------------------------------- changed in place


@program(2)
def changed_in_place(x):
    x.add_(1)
    x[:1] = x.shape[0]
    return x


@program(2)
def changed_through_a_view(x):
    x.T.mul_(2)
    x[: x.shape[0] // 2].zero_()
    flat = x.view(-1)
    flat += 1
    return flat


@program(2)
def filled(x):
    y = x.new_zeros(x.shape[0] + 1, x.shape[1])
    y[:-1] = x
    y[-1] = x.shape[0]
    return y


@program(1, 1, compiles=6, open=False)
def changed_by_another(x, y):
    x += y
    return x


@program(2, compiles=8, open=False, coarse=True)
def given_room(x):
    out = x.new_empty(x.shape)
    torch.add(x, 1, out=out)
    return out, x.index_fill_(0, torch.arange(x.shape[0] // 2), 5)


# ---------------------------------------------------------------------- what sizes answer


@program(2)
def what_sizes_answer(x):
    return x.shape, x.size(), x.size(0), x.numel(), len(x), x.stride(), tuple(x.shape), x * 1


@program(2)
def arithmetic(x):
    n, m = x.shape
    return n + m, n * m - 1, (n + 3) // 4, (n + 3) % 4, -n, n * n // (m + 1), x * n


@program(2)
def as_numbers(x):
    n = x.shape[0]
    return x * (n + 1), x / (n + 2), x + torch.tensor(n), torch.full((2,), n)


@program(2)
def as_floats(x):
    return x * x.shape[0] ** 2 / 4, x.shape[0] / 2, float(x.shape[1]), x.shape[1] * 0.1 + 0.2


@program(2, compiles=8)
def scaled(x):
    n = x.shape[1] + 1
    return x / math.sqrt(n), x * n**-0.5, x * (1.0 / n), x * max(1.0, n / 4), x * min(n / 2, 3.0)


@program(2, compiles=8)
def rounded(x):
    n = x.shape[0] + 2
    return math.ceil(n / 2), math.floor(n / 3), int(n * 0.5), int(n / 4.0), round(n / 2), x * 1


@program(2, compiles=8, coarse=True)
def a_part(x):
    n = x.shape[0] + 3
    return x.new_zeros(math.ceil(n / 2)), x.new_zeros(int(n * 0.7) + 2), x.new_ones(int(n * 1.5))


@program(2, compiles=10, open=False)
def decided_by_floats(x):
    n = x.shape[0] + 1
    if n / 3 > 1.5:
        return x + n / 3
    return x - 1 if n * 0.7 == 0.7 * 4 else x * n


@program(2)
def in_texts(x):
    return f"{x.shape[0]} rows, {tuple(x.shape)}", x * 1


@program(2)
def shapes_as_values(x):
    shape = list(x.shape)
    shape[0] += 1
    first, *others = x.shape
    return x.new_zeros(shape), x.new_zeros(first, *others), x.shape[::-1], x.shape[1:]


@program(2)
def totals(x):
    return math.prod(x.shape), sum(x.shape), max(x.shape), min(x.shape), x.nelement(), x * 1


@program(2)
def layouts(x):
    return x.is_contiguous(), x.T.is_contiguous(), x.T.stride(), x[:, :1].stride(), x * 1


# ---------------------------------------------------------------------- decisions


@program(2, compiles=8, open=False)
def branches(x):
    if x.shape[0] > 4:
        return x + 1
    if x.shape[0] == x.shape[1]:
        return x.T
    return x - 1


@program(2, compiles=8, open=False)
def even_or_odd(x):
    return x + 1 if x.shape[0] % 2 else x - 1


@program(2, compiles=8, open=False)
def wide_or_tall(x):
    return x if x.shape[1] >= x.shape[0] else x.T


@program(1, 1, compiles=6, open=False)
def same_or_not(x, y):
    return x + y if x.shape == y.shape else x.sum() + y.sum()


@program(2, compiles=10, open=False)
def ranges(x):
    n = x.shape[0]
    if n == 5:
        return x * 4
    return x * 2 if 2 < n <= 6 else x * 3


@program(2, compiles=8, open=False)
def enough(x):
    return x[:3] if x.numel() > 12 else x.sum()


@program(2, compiles=13, open=False, coarse=True)
def row_by_row(x):
    total = x.sum()
    for i in range(x.shape[0]):
        total = total + x[i].sum() * i
    return total


@program(2, compiles=19, open=False, coarse=True)
def as_a_key(x):
    names = {2: "two", (3, 4): "three by four"}
    return names.get(x.shape[0]), names.get(tuple(x.shape), "other"), x * 1


@program(2, compiles=8, open=False)
def refused(x):
    return x @ x.new_ones(4, 1)


@program(2, compiles=8, open=False)
def insisted_on(x):
    assert x.shape[0] >= x.shape[1], f"{x.shape[0]} rows are too few"
    return x[: x.shape[1]]


@program(2, compiles=9, open=False)
def halved_until_small(x):
    while x.shape[0] > 3:
        x = x[::2] + 1
    return x
