# mypy: ignore-errors
"""Programs that ask how the results of operators lie in memory, and act on the answer."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest
import torch
import torch.nn.functional as F

import stator

SIZES: Final = (2, 4, 3, 5)


def _permuted(*order: int) -> torch.Tensor:
    inverse = [order.index(dim) for dim in range(len(order))]
    return torch.rand([SIZES[dim] for dim in order]).permute(*inverse)


LAYOUTS: Final[Mapping[str, Callable[[], torch.Tensor]]] = {
    "contiguous": lambda: torch.rand(SIZES),
    "transposed": lambda: _permuted(0, 1, 3, 2),
    "reversed": lambda: _permuted(3, 2, 1, 0),
    "channels last": lambda: _permuted(0, 2, 3, 1),
    "gaps": lambda: torch.rand(2, 4, 3, 11)[..., 1::2],
    "part of channels last": lambda: _permuted(0, 2, 3, 1)[:1].expand(2, -1, -1, -1),
    "expanded": lambda: torch.rand(2, 1, 3, 5).expand(SIZES),
    "expanded and transposed": lambda: torch.rand(1, 4, 5, 3).expand(2, -1, -1, -1).mT,
}


def _places(x: torch.Tensor) -> torch.Tensor:
    return torch.arange(x.shape[2] * x.shape[3]).view(x.shape[2:])


OPERATORS: Final[Mapping[str, Callable[[torch.Tensor], Any]]] = {
    "rpow": lambda x: 2**x,
    "pow": lambda x: x**2,
    "floor_divide": lambda x: x // torch.tensor(2.0),
    "div": lambda x: torch.div(x, torch.tensor(2.0), rounding_mode="floor"),
    "copysign": lambda x: torch.copysign(x, torch.tensor(-1.0)),
    "half": lambda x: x.half() * x.half().mean(1, keepdim=True).expand_as(x),
    "bfloat16": lambda x: torch.eq(x.bfloat16(), x[:1].bfloat16()),
    "logical_and": lambda x: torch.logical_and(x, x[:, :1]),
    "logaddexp": lambda x: torch.logaddexp(x, x.contiguous()),
    "heaviside": lambda x: torch.heaviside(x, x[0]),
    "xlogy": lambda x: torch.xlogy(x[:, :, :1], x),
    "where": lambda x: torch.where(x > 0.5, x, 0.0),
    "angle": lambda x: torch.angle(x.to(torch.complex64)),
    "batch_norm": lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4), training=True),
    "batch_norm in evaluation": lambda x: F.batch_norm(x, torch.zeros(4), torch.ones(4)),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "one_hot": lambda x: F.one_hot((x > 0.5).long(), 2),
    "max_unpool2d": lambda x: F.max_unpool2d(x, (x * 0).long() + _places(x), 2),
    "logsigmoid": F.logsigmoid,
    "log_softmax": lambda x: x.log_softmax(1),
    "layer_norm": lambda x: F.layer_norm(x, (5,)),
    "pad": lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"),
    "conv2d": lambda x: F.conv2d(x, torch.ones(2, 4, 2, 2)),
    "flip": lambda x: x.flip(1),
    "ones_like": torch.ones_like,
    "ones_like of one": lambda x: torch.ones_like(x[:1, :, :, :1]),
    "view of one": lambda x: x[:1, :, :1, :1].squeeze(0).view(-1, 1, 1),
    "empty": lambda x: torch.nan_to_num(x[:0]),
    "slice_scatter": lambda x: x.slice_scatter(x[1:], 0, 1),
    "slice_scatter again": lambda x: x.slice_scatter(x[1:], 0, 1),
    "sum": lambda x: x.sum(1),
    "matmul": lambda x: x @ x.mT,
}


# Those whose rules hold for open sizes.
OPEN: Final = ("rpow", "batch_norm", "channel_shuffle", "logsigmoid", "max_unpool2d", "one_hot")


def open_facts(x):
    found = {}
    for name in OPEN:
        y = OPERATORS[name](x)
        found[name] = y.stride(), y.is_contiguous(), y * 2 if y.stride(-1) == 1 else y + 1
    return found


def facts(x):
    """What each operator's result says of itself."""
    found = {}
    for name, operator in OPERATORS.items():
        y = operator(x)
        flat = y.view(-1) if y.is_contiguous() else y.reshape(-1)
        alike = y.is_contiguous(memory_format=torch.channels_last) if y.dim() == 4 else None
        told = tuple(y.shape), y.stride(), y.storage_offset(), y.is_contiguous(), alike, y.dtype
        found[name] = (*told, y * 2 if y.stride(-1) == 1 else y + 1, flat.sum())
    return found


def _seen(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.stride(), value.nan_to_num().tolist()
    return tuple(map(_seen, value)) if isinstance(value, tuple) else value


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_answers_are_eagers(layout: str, backend: str) -> None:
    compiled = stator.compile(facts, backend=backend, fullgraph=True, dynamic=False)
    x = LAYOUTS[layout]()
    expected, made = facts(x), compiled(x)
    assert not [name for name in OPERATORS if _seen(made[name]) != _seen(expected[name])]


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "channels last"])
def test_answers_are_eagers_where_sizes_are_open(layout: str, backend: str) -> None:
    compiled = stator.compile(open_facts, backend=backend, dynamic=True)
    x = LAYOUTS[layout]()
    for batch in (2, 3, 5):
        wide = torch.cat([x, x, x])[:batch]
        lies = torch.empty_strided(wide.shape, (wide.shape[1:].numel(), *x.stride()[1:]))
        lies.copy_(wide)
        expected, made = open_facts(lies), compiled(lies)
        assert not [name for name in OPEN if _seen(made[name]) != _seen(expected[name])]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", ["slice_scatter", "select_scatter", "diagonal_scatter", "clone"])
def test_where_a_copy_begins(name, dynamic):
    """Some copies begin where their argument does in its memory."""
    made = {
        "slice_scatter": lambda x: torch.slice_scatter(x, x[1:2], 0, 1, 2),
        "select_scatter": lambda x: torch.select_scatter(x, x[1], 0, 1),
        "diagonal_scatter": lambda x: torch.diagonal_scatter(x, torch.diagonal(x)),
        "clone": torch.clone,
    }[name]

    def program(x):
        y = made(x)
        return y[1:] * 2, y.storage_offset(), y[1:].storage_offset(), y.stride()

    compiled = stator.compile(program, backend="eager", fullgraph=True, dynamic=dynamic)
    for size, start in ((4, 0), (5, 0), (6, 1), (4, 2), (4, 0)):
        x = torch.rand(size, 12)[:, start : start + 3]
        expected, found = program(x), compiled(x)
        assert torch.equal(expected[0], found[0])
        assert expected[1:] == found[1:]
