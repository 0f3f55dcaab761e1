"""What a kernel is told of an unknown size, and is wrong in the call, leaves nothing behind.

Each program is one graph, for all calls.
"""

# mypy: ignore-errors

import pytest
import torch

import stator
from stator.backends.registry import lookup
from tests.versions import sizes_of_slices

X = torch.arange(12.0).view(4, 3)


def column_times_all(x, k):
    k = k.item()
    return x[:, k : k + 1] * x


def row_plus_all(x, k):
    k = k.item()
    return x[k : k + 1] + x


def all_minus_row_in_place(x, k):
    k = k.item()
    y = x.clone()
    y -= y[k : k + 1].clone()
    return y


def where_of_a_column(x, k):
    k = k.item()
    return torch.where(x[:, k : k + 1] > 4, x, -x)


def expanded(x, k):
    k = k.item()
    return x[k : k + 1].expand(4, 3) + 1


def several(x, k):
    k = k.item()
    row, column = x[k : k + 1], x[:, k : k + 1]
    return (row * column + x).sum(0), row.shape[0], column.shape[1]


PROGRAMS = [
    *(column_times_all, row_plus_all, all_minus_row_in_place, where_of_a_column, expanded, several)
]


@sizes_of_slices
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_one_graph(program, dynamic, backend) -> None:
    graphs = []

    def counted(module, inputs):
        graphs.append(module)
        return lookup(backend)(module, inputs)

    stator.reset()
    compiled = stator.compile(program, backend=counted, dynamic=dynamic, fullgraph=True)
    for k in (1, 0, 2, 1):
        wanted = program(X, torch.tensor(k))
        assert str(compiled(X, torch.tensor(k))) == str(wanted)
    assert len(graphs) == 1
